"""A graph: its nodes, its edges, boxes around cycles, and model inputs and outputs as pills."""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.drawing.canvas import Arrival, Canvas, End, Wires
from mdf_loop.drawing.labels import lines, styled
from mdf_loop.drawing.nodes import draw_node
from mdf_loop.drawing.owners import draw_owner
from mdf_loop.drawing.small import draw_pill, draw_small, inlined
from mdf_loop.drawing.theme import STROKES
from mdf_loop.drawing.view import View
from mdf_loop.outline import EdgeOutline, GraphOutline, NodeOutline
from mdf_loop.outline.text import value_text, weight_text


def draw_graph(canvas: Canvas, graph: GraphOutline, view: View) -> dict[str, Wires]:
    """Draw the nodes and edges of a graph; what it gives is by node id."""
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
            _draw_edge(canvas, edge, wires, view)
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


def _draw_edge(canvas: Canvas, edge: EdgeOutline, wires: dict[str, Wires], view: View) -> None:
    sender, receiver = wires[edge.sender], wires[edge.receiver]
    weight = weight_text(edge.weight)
    if edge.feedback:
        said = f"{edge.sender_port} → {edge.receiver_port} {weight}".strip()
        label = said if view.detail.bodies else ""
        canvas.edge(End(sender.first), End(receiver.last), "feedback", edge.path, label)
        return
    tail = sender.outputs.get(edge.sender_port, End(sender.last))
    for entry in receiver.inputs.get(edge.receiver_port, [Arrival(End(receiver.first))]):
        label = weight if view.detail.bodies else ""
        canvas.edge(tail, entry.end, entry.kind, edge.path, label)


def draw_ends(canvas: Canvas, graph: GraphOutline, wires: dict[str, Wires], view: View) -> None:
    """Model inputs and outputs as pills."""
    if not view.detail.bodies:
        return
    shown = {node.id for node in graph.nodes if node.is_input}
    for given in graph.inputs:
        if given.node not in wires or given.node in shown:
            continue
        drawn = wires[given.node]
        entries = drawn.inputs.get(given.port or "", [Arrival(End(drawn.first))])
        if all(entry.kind in canvas.hidden for entry in entries):
            continue
        name = canvas.name("input", given.name)
        default = "" if given.default is None else f" = {value_text(given.default, 24)}"
        draw_pill(canvas, name, f"{given.name}{default}", given.type, given.path, "input", view)
        for entry in entries:
            canvas.edge(End(name), entry.end, entry.kind, given.path)
    for output in graph.outputs:
        if output.node in wires:
            name = canvas.name("output", output.node, output.name)
            draw_pill(canvas, name, output.name, output.type, output.path, "output", view)
            drawn = wires[output.node]
            canvas.edge(
                drawn.outputs.get(output.port, End(drawn.last)), End(name), "data", output.path
            )
