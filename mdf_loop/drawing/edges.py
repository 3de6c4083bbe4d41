"""What leads from node to node, into the model and out of it."""

from __future__ import annotations

from mdf_loop.drawing.canvas import Arrival, Canvas, End, Wires
from mdf_loop.drawing.observed import value_words
from mdf_loop.drawing.small import draw_pill
from mdf_loop.drawing.view import View
from mdf_loop.outline import EdgeOutline, GraphOutline
from mdf_loop.outline.text import value_text, weight_text


def draw_edge(canvas: Canvas, edge: EdgeOutline, wires: dict[str, Wires], view: View) -> None:
    """Draw an edge between the ports of two drawn nodes."""
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
    """Inputs and outputs of the model as pills, as far as `wires` has their nodes."""
    if not view.detail.bodies:
        return
    shown = {node.id for node in graph.nodes if node.id in wires and node.is_input}
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
            seen = value_words(view.observation, output.node, output.port)
            draw_pill(canvas, name, output.name, output.type, output.path, "output", view, seen)
            drawn = wires[output.node]
            canvas.edge(
                drawn.outputs.get(output.port, End(drawn.last)), End(name), "data", output.path
            )
