"""Cycles of a graph: which nodes feed each other, and which edges bring old values.

An edge into a port with a default_value makes no one wait: if its receiver runs first, it is
feedback. If a cycle has no such port, the edge that closes it in document order is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mdf_loop.reading.graph import layers_of, waiting_for


def cycle_groups(graph: Any) -> tuple[tuple[str, ...], ...]:
    """Groups of nodes that feed each other, in document order."""
    import networkx

    ids = {node.id: place for place, node in enumerate(graph.nodes)}
    pairs = [(e.sender, e.receiver) for e in graph.edges if e.sender in ids and e.receiver in ids]
    themselves = {sender for sender, receiver in pairs if sender == receiver}
    groups = [
        tuple(sorted(component, key=ids.__getitem__))
        for component in networkx.strongly_connected_components(networkx.DiGraph(pairs))
        if len(component) > 1 or component & themselves
    ]
    return tuple(sorted(groups, key=lambda group: ids[group[0]]))


def feedback_edges(graph: Any, groups: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """Ids of the edges that bring an older value: their sender runs after their receiver."""
    usable = usable_edges(graph)
    waits = waiting_for(graph, usable)
    closing: set[str] = set()
    for group in groups:
        inside = [e for e in usable if e.sender in group and e.receiver in group]
        closing.update(_closing([e for e in inside if e.sender in waits[e.receiver]], group))
    going = [e for e in usable if e.id not in closing]
    layers = layers_of(graph, waiting_for(graph, going), "")
    order = {node: place for place, node in enumerate(node for layer in layers for node in layer)}
    late = {e.id for e in going if order[e.sender] >= order[e.receiver]}
    return frozenset(closing | late)


def usable_edges(graph: Any) -> list[Any]:
    """The edges whose ends are in the graph."""
    nodes = {node.id for node in graph.nodes}
    ports = {(node.id, port.id) for node in graph.nodes for port in node.input_ports}
    return [e for e in graph.edges if e.sender in nodes and (e.receiver, e.receiver_port) in ports]


def _closing(edges: list[Any], order: tuple[str, ...]) -> Iterable[str]:
    """Edges to a node that is being visited, going depth first in document order."""
    done: set[str] = set()
    under_way: list[str] = []
    closing: list[str] = []

    def visit(node: str) -> None:
        under_way.append(node)
        for edge in (e for e in edges if e.sender == node):
            if edge.receiver in under_way:
                closing.append(edge.id)
            elif edge.receiver not in done:
                visit(edge.receiver)
        under_way.pop()
        done.add(node)

    for node in order:
        if node not in done:
            visit(node)
    return closing
