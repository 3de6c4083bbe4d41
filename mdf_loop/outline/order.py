"""Topological order of the nodes of a graph."""

from __future__ import annotations

from mdf_loop.outline.parts import GraphOutline, NodeOutline


def order_nodes(graph: GraphOutline) -> tuple[NodeOutline, ...]:
    """Return the nodes of a graph in topological order, layer by layer.

    Document order applies within layers and cycles.
    """
    document_positions = {node.id: position for position, node in enumerate(graph.nodes)}
    receivers: dict[str, set[str]] = {node.id: set() for node in graph.nodes}
    unvisited_sender_counts = dict.fromkeys(document_positions, 0)
    for edge in graph.edges:
        is_inside_graph = edge.sender in document_positions and edge.receiver in document_positions
        if is_inside_graph and not edge.is_feedback and edge.receiver not in receivers[edge.sender]:
            receivers[edge.sender].add(edge.receiver)
            unvisited_sender_counts[edge.receiver] += 1
    ordered_nodes: list[NodeOutline] = []
    current_layer = [node for node in graph.nodes if not unvisited_sender_counts[node.id]]
    while current_layer:
        ordered_nodes += current_layer
        next_positions = set()
        for node in current_layer:
            for receiver in receivers[node.id]:
                unvisited_sender_counts[receiver] -= 1
                if not unvisited_sender_counts[receiver]:
                    next_positions.add(document_positions[receiver])
        current_layer = [graph.nodes[position] for position in sorted(next_positions)]
    ordered_ids = {node.id for node in ordered_nodes}
    return (*ordered_nodes, *(node for node in graph.nodes if node.id not in ordered_ids))
