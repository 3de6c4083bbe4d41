"""Drawing of edges between nodes, and of inputs and outputs of the model."""

from __future__ import annotations

from mdf_loop.drawing.canvas import Canvas, EdgeTarget, End, NodeConnections
from mdf_loop.drawing.observed import describe_value
from mdf_loop.drawing.small import draw_pill
from mdf_loop.drawing.view import View
from mdf_loop.outline import EdgeOutline, GraphOutline
from mdf_loop.outline.text import value_text, weight_text


def draw_edge(
    canvas: Canvas, edge: EdgeOutline, connections: dict[str, NodeConnections], view: View
) -> None:
    """Draw an edge between the ports of two drawn nodes."""
    sender_ends, receiver_ends = connections[edge.sender], connections[edge.receiver]
    weight_label = weight_text(edge.weight)
    if edge.is_feedback:
        label_text = f"{edge.sender_port} → {edge.receiver_port} {weight_label}".strip()
        label = label_text if view.detail.shows_bodies else ""
        canvas.edge(
            End(sender_ends.first_name), End(receiver_ends.last_name), "feedback", edge.path, label
        )
        return
    source_end = sender_ends.outputs.get(edge.sender_port, End(sender_ends.last_name))
    for target in receiver_ends.inputs.get(
        edge.receiver_port, [EdgeTarget(End(receiver_ends.first_name))]
    ):
        label = weight_label if view.detail.shows_bodies else ""
        canvas.edge(source_end, target.end, target.stroke, edge.path, label)


def draw_ends(
    canvas: Canvas, graph: GraphOutline, connections: dict[str, NodeConnections], view: View
) -> None:
    """Draw inputs and outputs of the model as pill-shaped nodes with edges to `connections`."""
    if not view.detail.shows_bodies:
        return
    drawn_input_ids = {node.id for node in graph.nodes if node.id in connections and node.is_input}
    for model_input in graph.inputs:
        if model_input.node not in connections or model_input.node in drawn_input_ids:
            continue
        node_ends = connections[model_input.node]
        targets = node_ends.inputs.get(
            model_input.port or "", [EdgeTarget(End(node_ends.first_name))]
        )
        if all(target.stroke in canvas.hidden_strokes for target in targets):
            continue
        pill_name = canvas.name("input", model_input.name)
        default_text = (
            "" if model_input.default is None else f" = {value_text(model_input.default, 24)}"
        )
        draw_pill(
            canvas,
            pill_name,
            f"{model_input.name}{default_text}",
            model_input.type,
            model_input.path,
            "input",
            view,
        )
        for target in targets:
            canvas.edge(End(pill_name), target.end, target.stroke, model_input.path)
    for output in graph.outputs:
        if output.node in connections:
            pill_name = canvas.name("output", output.node, output.name)
            observed_value = describe_value(view.observation, output.node, output.port)
            draw_pill(
                canvas,
                pill_name,
                output.name,
                output.type,
                output.path,
                "output",
                view,
                observed_value,
            )
            node_ends = connections[output.node]
            canvas.edge(
                node_ends.outputs.get(output.port, End(node_ends.last_name)),
                End(pill_name),
                "data",
                output.path,
            )
