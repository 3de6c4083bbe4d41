"""A graph: its nodes, its edges, boxes around cycles; or, of a large one, its operators in bands."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.drawing.canvas import Canvas, Wires
from mdf_loop.drawing.edges import draw_edge
from mdf_loop.drawing.labels import lines, styled
from mdf_loop.drawing.nodes import draw_node
from mdf_loop.drawing.operators import draw_operators
from mdf_loop.drawing.owners import draw_owner
from mdf_loop.drawing.small import draw_small, inlined
from mdf_loop.drawing.theme import STROKES
from mdf_loop.drawing.view import View
from mdf_loop.drawing.weights import without_weights
from mdf_loop.outline import GraphOutline, NodeOutline


def draw_graph(canvas: Canvas, graph: GraphOutline, view: View) -> dict[str, Wires]:
    """Draw the nodes and edges of a graph; what it gives is by node id."""
    graph = without_weights(graph, view)
    if view.detail.operators:
        return draw_operators(canvas, graph, view, draw_graph)
    graph = inlined(graph, view)
    wires: dict[str, Wires] = {}
    fed = {edge.receiver for edge in graph.edges}
    for node in canvas.direction.stacked(graph.nodes):
        small = None if node.id in fed else draw_small(canvas, node, view)
        if small is not None:
            wires[node.id] = small
        elif node.id not in wires:
            cycle = next((group for group in graph.cycles if node.id in group), None)
            wires |= (
                _draw_cycle(canvas, graph, cycle, view) if cycle else _draw(canvas, [node], view)
            )
    for edge in graph.edges:
        if edge.sender in wires and edge.receiver in wires:
            draw_edge(canvas, edge, wires, view)
    return wires


def _draw(canvas: Canvas, nodes: Iterable[NodeOutline], view: View) -> dict[str, Wires]:
    return {
        node.id: draw_owner(canvas, node, view, draw_graph)
        if node.blocks
        else draw_node(canvas, node, view)
        for node in nodes
    }


def _draw_cycle(
    canvas: Canvas, graph: GraphOutline, group: tuple[str, ...], view: View
) -> dict[str, Wires]:
    """Nodes that feed each other, in a box: each pass of the model goes once around."""
    label = lines(
        styled("cycle: once around per pass", color=STROKES["feedback"].attributes["color"])
    )
    with canvas.cluster(
        canvas.name("cycle", *group),
        label,
        "cycle",
        graph.path,
        style="rounded,dashed",
        pencolor=STROKES["feedback"].attributes["color"],
        margin="12",
    ):
        return _draw(canvas, (node for node in graph.nodes if node.id in group), view)
