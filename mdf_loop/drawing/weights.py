"""Captured constants: a loop or a choice that reads more than a few has one terminal for all.

    ◇ w_1  ◇ b_1  ◇ w_2  ...        ->        ◇ 42 constants

Models of other systems capture every weight of a body. What is read from a typed constant outside
is left out of the rails, and of all rails inside of them.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.drawing.view import View
from mdf_loop.outline import Block, CaptureOutline, GraphOutline, NodeOutline

FEW = 8
"""Up to so many captured constants are shown one by one."""


def without_weights(graph: GraphOutline, view: View) -> GraphOutline:
    """The graph with many captured constants as one terminal."""
    if view.weights or not any(node.blocks for node in graph.nodes):
        return graph
    constants = {node.id for node in graph.nodes if node.constant is not None}
    fed: dict[str, set[str]] = {}
    for edge in graph.edges:
        if edge.sender in constants and edge.weight is None:
            fed.setdefault(edge.receiver, set()).add(edge.receiver_port)
    gone: set[tuple[str, str]] = set()
    nodes = []
    for node in graph.nodes:
        taken = _taken(node, fed.get(node.id, set()))
        nodes.append(_node(node, taken) if taken else node)
        gone |= {(node.id, port) for port in taken}
    if not gone:
        return graph
    kept = tuple(e for e in graph.edges if (e.receiver, e.receiver_port) not in gone)
    return replace(graph, nodes=tuple(nodes), edges=kept)


def _taken(node: NodeOutline, constant: set[str]) -> frozenset[str]:
    """The names of constants that a node's bodies capture, and nothing else of it reads."""
    captured = {c.name for block in node.blocks for c in block.captures} & constant
    read = {name for item in node.items for name in item.reads}
    read |= {str(text) for block in node.blocks for text in block.expressions}
    found = frozenset(captured - read)
    return found if len(found) > FEW else frozenset()


def _node(node: NodeOutline, names: frozenset[str]) -> NodeOutline:
    return replace(
        node,
        inputs=tuple(port for port in node.inputs if port.id not in names),
        blocks=tuple(_block(block, names) for block in node.blocks),
    )


def _block(block: Block, names: frozenset[str]) -> Block:
    """A block without captures of these names, and without what reads them inside."""
    gone = [capture for capture in block.captures if capture.name in names]
    if not gone:
        return block
    said = f"{len(gone)} constant{'s' if len(gone) > 1 else ''}"
    together = CaptureOutline(said, "constants", "", block.path)
    kept = tuple(capture for capture in block.captures if capture.name not in names)
    made = replace(block, captures=(*kept, together))
    return made.with_bodies(lambda body: _body(body, names))


def _body(body: GraphOutline, names: frozenset[str]) -> GraphOutline:
    return replace(
        body,
        inputs=tuple(i for i in body.inputs if i.source != "captured" or i.name not in names),
        nodes=tuple(
            replace(node, blocks=tuple(_block(block, names) for block in node.blocks))
            for node in body.nodes
        ),
    )
