"""The nodes of a graph in the order in which one pass visits them."""

from __future__ import annotations

from mdf_loop.outline.parts import GraphOutline, NodeOutline


def in_order(graph: GraphOutline) -> tuple[NodeOutline, ...]:
    """Layers of nodes whose senders have all run; document order within a layer and a circle."""
    places = {node.id: k for k, node in enumerate(graph.nodes)}
    follows: dict[str, set[str]] = {node.id: set() for node in graph.nodes}
    waits = dict.fromkeys(places, 0)
    for edge in graph.edges:
        known = edge.sender in places and edge.receiver in places
        if known and not edge.feedback and edge.receiver not in follows[edge.sender]:
            follows[edge.sender].add(edge.receiver)
            waits[edge.receiver] += 1
    order: list[NodeOutline] = []
    layer = [node for node in graph.nodes if not waits[node.id]]
    while layer:
        order += layer
        freed = set()
        for node in layer:
            for receiver in follows[node.id]:
                waits[receiver] -= 1
                if not waits[receiver]:
                    freed.add(places[receiver])
        layer = [graph.nodes[place] for place in sorted(freed)]
    done = {node.id for node in order}
    return (*order, *(node for node in graph.nodes if node.id not in done))
