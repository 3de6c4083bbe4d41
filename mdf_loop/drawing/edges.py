"""Drawing of edges between nodes, and of the model's inputs and outputs."""

from __future__ import annotations

from mdf_loop.drawing.canvas import Canvas, EdgeEnd, EdgeTarget, NodeConnections
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
        canvas.add_edge(
            EdgeEnd(sender_ends.first_dot_node),
            EdgeEnd(receiver_ends.last_dot_node),
            "feedback",
            edge.path,
            label,
        )
        return
    source_end = sender_ends.outputs.get(edge.sender_port, EdgeEnd(sender_ends.last_dot_node))
    for target in receiver_ends.inputs.get(
        edge.receiver_port, [EdgeTarget(EdgeEnd(receiver_ends.first_dot_node))]
    ):
        label = weight_label if view.detail.shows_bodies else ""
        canvas.add_edge(source_end, target.end, target.stroke, edge.path, label)


def draw_inputs_and_outputs(
    canvas: Canvas, graph: GraphOutline, connections: dict[str, NodeConnections], view: View
) -> None:
    """Draw the model's inputs and outputs as pill-shaped nodes, with edges to the connected nodes."""
    if not view.detail.shows_bodies:
        return
    drawn_input_ids = {node.id for node in graph.nodes if node.id in connections and node.is_input}
    for model_input in graph.inputs:
        if model_input.node_id not in connections or model_input.node_id in drawn_input_ids:
            continue
        node_ends = connections[model_input.node_id]
        targets = node_ends.inputs.get(
            model_input.port_id or "", [EdgeTarget(EdgeEnd(node_ends.first_dot_node))]
        )
        if all(target.stroke in canvas.hidden_strokes for target in targets):
            continue
        pill_name = canvas.unused_name("input", model_input.name)
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
            canvas.add_edge(EdgeEnd(pill_name), target.end, target.stroke, model_input.path)
    for output in graph.outputs:
        if output.node_id in connections:
            pill_name = canvas.unused_name("output", output.node_id, output.name)
            observed_value = describe_value(view.observation, output.node_id, output.port_id)
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
            node_ends = connections[output.node_id]
            canvas.add_edge(
                node_ends.outputs.get(output.port_id, EdgeEnd(node_ends.last_dot_node)),
                EdgeEnd(pill_name),
                "data",
                output.path,
            )
