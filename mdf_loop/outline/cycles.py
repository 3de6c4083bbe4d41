"""Cycles of a graph, and the feedback edges that close them.

A node does not wait for an edge into a port with a default_value. If the receiver runs before the sender,
the edge is feedback. In a cycle without such a port, the edge that closes it in document order is feedback.
"""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.document.parts import Edge, Graph
from mdf_loop.reading.graph import find_required_senders, sort_into_layers


def cycle_groups(graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Return the groups of node ids that form cycles, in document order."""
    import networkx

    document_positions = {node.id: position for position, node in enumerate(graph.nodes)}
    edge_pairs = [
        (edge.sender, edge.receiver)
        for edge in graph.edges
        if edge.sender in document_positions and edge.receiver in document_positions
    ]
    self_loop_ids = {sender for sender, receiver in edge_pairs if sender == receiver}
    node_groups = [
        tuple(sorted(component, key=document_positions.__getitem__))
        for component in networkx.strongly_connected_components(networkx.DiGraph(edge_pairs))
        if len(component) > 1 or component & self_loop_ids
    ]
    return tuple(sorted(node_groups, key=lambda group: document_positions[group[0]]))


def feedback_edges(graph: Graph, groups: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """Return the ids of feedback edges, whose senders run after their receivers.

    Such an edge carries the value of an earlier pass over the graph.
    """
    valid_edges = usable_edges(graph)
    required_senders = find_required_senders(graph, valid_edges)
    closing_edge_ids: set[str] = set()
    for group in groups:
        group_edges = [
            edge for edge in valid_edges if edge.sender in group and edge.receiver in group
        ]
        closing_edge_ids.update(
            _closing_edges(
                [edge for edge in group_edges if edge.sender in required_senders[edge.receiver]],
                group,
            )
        )
    forward_edges = [edge for edge in valid_edges if edge.id not in closing_edge_ids]
    node_layers = sort_into_layers(graph, find_required_senders(graph, forward_edges), "")
    position_by_node = {
        node: position
        for position, node in enumerate(node for layer in node_layers for node in layer)
    }
    backward_edge_ids = {
        edge.id
        for edge in forward_edges
        if position_by_node[edge.sender] >= position_by_node[edge.receiver]
    }
    return frozenset(closing_edge_ids | backward_edge_ids)


def usable_edges(graph: Graph) -> list[Edge]:
    """Return the edges of a graph whose sender node and receiver port exist."""
    node_ids = {node.id for node in graph.nodes}
    input_port_ids = {(node.id, port.id) for node in graph.nodes for port in node.input_ports}
    return [
        edge
        for edge in graph.edges
        if edge.sender in node_ids and (edge.receiver, edge.receiver_port) in input_port_ids
    ]


def _closing_edges(edges: list[Edge], order: tuple[str, ...]) -> Iterable[str]:
    """Return the ids of edges that close a cycle, found by depth-first search."""
    visited_nodes: set[str] = set()
    current_path: list[str] = []
    closing_edge_ids: list[str] = []

    def visit(node: str) -> None:
        current_path.append(node)
        for edge in (outgoing_edge for outgoing_edge in edges if outgoing_edge.sender == node):
            if edge.receiver in current_path:
                closing_edge_ids.append(edge.id)
            elif edge.receiver not in visited_nodes:
                visit(edge.receiver)
        current_path.pop()
        visited_nodes.add(node)

    for node in order:
        if node not in visited_nodes:
            visit(node)
    return closing_edge_ids
