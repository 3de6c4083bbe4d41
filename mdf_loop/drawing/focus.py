"""A part of a model: some nodes and their neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mdf_loop.drawing.view import all_nodes
from mdf_loop.errors import UnknownNameError
from mdf_loop.outline import GraphOutline, NodeOutline
from mdf_loop.suggestion import suggestion


def check_ids(graph: GraphOutline, ids: Iterable[str]) -> None:
    """Refuse ids that no node has.

    Raises:
        UnknownNameError: with the nearest id.
    """
    known = [node.id for node in all_nodes(graph)]
    for name in ids:
        if name not in known:
            raise UnknownNameError(
                f"the model has no node '{name}'", graph.path, suggestion(name, known)
            )


def focused(graph: GraphOutline, ids: frozenset[str]) -> GraphOutline:
    """The nodes with these ids, the nodes beside them, and the loops around them."""
    chosen = {node.id for node in graph.nodes if node.id in ids or _holds(node, ids)}
    beside = {e.receiver for e in graph.edges if e.sender in chosen}
    beside |= {e.sender for e in graph.edges if e.receiver in chosen}
    kept = chosen | beside
    return replace(
        graph,
        nodes=tuple(_inside(n, ids) for n in graph.nodes if n.id in kept),
        edges=tuple(e for e in graph.edges if {e.sender, e.receiver} <= kept),
        inputs=tuple(i for i in graph.inputs if i.node in kept),
        outputs=tuple(
            o if o.node in kept else replace(o, node=None, port="") for o in graph.outputs
        ),
        cycles=tuple(group for group in graph.cycles if set(group) <= kept),
    )


def _holds(node: NodeOutline, ids: frozenset[str]) -> bool:
    return any(inner.id in ids for body in node.bodies for inner in all_nodes(body))


def _inside(node: NodeOutline, ids: frozenset[str]) -> NodeOutline:
    """The node with its bodies narrowed too, if that is where the chosen nodes are."""
    if node.id in ids or not _holds(node, ids):
        return node
    blocks = (block.with_bodies(lambda body: focused(body, ids)) for block in node.blocks)
    return replace(node, blocks=tuple(blocks))
