"""Reduction of a graph to selected nodes and their neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mdf_loop.drawing.view import all_nodes
from mdf_loop.errors import UnknownNameError
from mdf_loop.name_suggestions import suggest
from mdf_loop.outline import GraphOutline, NodeOutline


def check_ids(graph: GraphOutline, ids: Iterable[str]) -> None:
    """Check that a graph, or a graph nested inside, contains a node for each id in `ids`.

    Raises:
        UnknownNameError: A node does not exist. The hint has the most similar id.
    """
    node_ids = [node.id for node in all_nodes(graph)]
    for node_id in ids:
        if node_id not in node_ids:
            raise UnknownNameError(
                f"the model has no node '{node_id}'", graph.path, suggest(node_id, node_ids)
            )


def focus_graph(graph: GraphOutline, ids: frozenset[str]) -> GraphOutline:
    """Return the part of a graph with the nodes `ids`, their neighbours, and the enclosing loops."""
    focused_node_ids = {
        node.id for node in graph.nodes if node.id in ids or _contains_ids(node, ids)
    }
    neighbour_node_ids = {edge.receiver for edge in graph.edges if edge.sender in focused_node_ids}
    neighbour_node_ids |= {edge.sender for edge in graph.edges if edge.receiver in focused_node_ids}
    visible_node_ids = focused_node_ids | neighbour_node_ids
    return replace(
        graph,
        nodes=tuple(
            _focus_bodies(node, ids) for node in graph.nodes if node.id in visible_node_ids
        ),
        edges=tuple(
            edge for edge in graph.edges if {edge.sender, edge.receiver} <= visible_node_ids
        ),
        inputs=tuple(
            model_input for model_input in graph.inputs if model_input.node_id in visible_node_ids
        ),
        outputs=tuple(
            output
            if output.node_id in visible_node_ids
            else replace(output, node_id=None, port_id="")
            for output in graph.outputs
        ),
        cycles=tuple(cycle for cycle in graph.cycles if set(cycle) <= visible_node_ids),
    )


def _contains_ids(node: NodeOutline, ids: frozenset[str]) -> bool:
    """Return True if a body of the node contains a node whose id is in `ids`."""
    return any(inner_node.id in ids for body in node.bodies for inner_node in all_nodes(body))


def _focus_bodies(node: NodeOutline, ids: frozenset[str]) -> NodeOutline:
    """Reduce the graphs inside a node to the nodes `ids` and their neighbours."""
    if node.id in ids or not _contains_ids(node, ids):
        return node
    blocks = (block.with_bodies(lambda body: focus_graph(body, ids)) for block in node.blocks)
    return replace(node, blocks=tuple(blocks))
