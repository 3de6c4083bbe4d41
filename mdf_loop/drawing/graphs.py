"""Drawing of a graph: nodes, edges and cycles, or only the operators of a large graph."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.drawing.canvas import Canvas, NodeConnections
from mdf_loop.drawing.edges import draw_edge
from mdf_loop.drawing.labels import stack_lines, style_text
from mdf_loop.drawing.nodes import draw_node
from mdf_loop.drawing.operators import draw_operators
from mdf_loop.drawing.owners import draw_owner
from mdf_loop.drawing.scene.captures import merge_captured_constants
from mdf_loop.drawing.scene.constants import inline_constants
from mdf_loop.drawing.small import draw_small
from mdf_loop.drawing.theme import LINE_STYLES
from mdf_loop.drawing.view import View
from mdf_loop.outline import GraphOutline, NodeOutline


def draw_graph(canvas: Canvas, graph: GraphOutline, view: View) -> dict[str, NodeConnections]:
    """Draw the nodes and edges of a graph, and return the connections of each node by id."""
    graph = merge_captured_constants(graph, view)
    if view.detail.shows_only_operators:
        return draw_operators(canvas, graph, view, draw_graph)
    graph = inline_constants(graph, view)
    connections: dict[str, NodeConnections] = {}
    receiving_node_ids = {edge.receiver for edge in graph.edges}
    for node in canvas.direction.stacking_order(graph.nodes):
        small_node_connections = (
            None if node.id in receiving_node_ids else draw_small(canvas, node, view)
        )
        if small_node_connections is not None:
            connections[node.id] = small_node_connections
        elif node.id not in connections:
            cycle_of_node = next((cycle for cycle in graph.cycles if node.id in cycle), None)
            connections |= (
                _draw_cycle(canvas, graph, cycle_of_node, view)
                if cycle_of_node
                else _draw_nodes(canvas, [node], view)
            )
    for edge in graph.edges:
        if edge.sender in connections and edge.receiver in connections:
            draw_edge(canvas, edge, connections, view)
    return connections


def _draw_nodes(
    canvas: Canvas, nodes: Iterable[NodeOutline], view: View
) -> dict[str, NodeConnections]:
    """Draw nodes, and return their connections by id."""
    return {
        node.id: draw_owner(canvas, node, view, draw_graph)
        if node.blocks
        else draw_node(canvas, node, view)
        for node in nodes
    }


def _draw_cycle(
    canvas: Canvas, graph: GraphOutline, group: tuple[str, ...], view: View
) -> dict[str, NodeConnections]:
    """Draw a frame around nodes that form a cycle."""
    label = stack_lines(
        style_text("cycle: once around per pass", color=LINE_STYLES["feedback"].attributes["color"])
    )
    with canvas.cluster(
        canvas.unused_name("cycle", *group),
        label,
        "cycle",
        graph.path,
        style="rounded,dashed",
        pencolor=LINE_STYLES["feedback"].attributes["color"],
        margin="12",
    ):
        return _draw_nodes(canvas, (node for node in graph.nodes if node.id in group), view)
