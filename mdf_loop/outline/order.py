"""The nodes of a graph in the order in which one pass visits them."""

from __future__ import annotations

from mdf_loop.outline.parts import GraphOutline, NodeOutline


def in_order(graph: GraphOutline) -> tuple[NodeOutline, ...]:
    """Layers of nodes whose senders have all run; document order within a layer and a circle."""
    ids = {node.id for node in graph.nodes}
    waits: dict[str, set[str]] = {node.id: set() for node in graph.nodes}
    for edge in graph.edges:
        if not edge.feedback and edge.sender in ids and edge.receiver in ids:
            waits[edge.receiver].add(edge.sender)
    order: list[NodeOutline] = []
    left = list(graph.nodes)
    while left:
        waiting = {node.id for node in left}
        layer = [node for node in left if not waits[node.id] & waiting] or left
        order += layer
        waiting -= {node.id for node in layer}
        left = [node for node in left if node.id in waiting]
    return tuple(order)
