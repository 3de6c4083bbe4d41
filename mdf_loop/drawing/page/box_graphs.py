"""Directed graphs of the boxes on a page."""

from __future__ import annotations

import networkx as nx

from mdf_loop.drawing.page.scene import Scene


def build_box_graph(scene: Scene) -> nx.DiGraph:
    """Build the directed graph of boxes, by number, and wires.

    The ends of wires outside the boxes, such as ports of the box around them, have negative numbers.
    """
    box_by_wire_end = {wire_end: box.id for box in scene.boxes for wire_end in box.ends}
    graph = nx.DiGraph()
    graph.add_nodes_from(box.id for box in scene.boxes)
    graph.add_edges_from(
        (
            box_by_wire_end.get(wire.source, -wire.source),
            box_by_wire_end.get(wire.target, -wire.target),
        )
        for wire in scene.wires
    )
    return graph


def topological_order(graph: nx.DiGraph) -> list[int]:
    """Return the nodes in topological order, with the nodes of a cycle next to each other."""
    condensed_graph = nx.condensation(graph)
    return [
        node
        for k in nx.topological_sort(condensed_graph)
        for node in sorted(condensed_graph.nodes[k]["members"])
    ]
