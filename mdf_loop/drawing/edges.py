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
    sender_connections, receiver_connections = connections[edge.sender], connections[edge.receiver]
    weight_label = weight_text(edge.weight)
    if edge.is_feedback:
        label_text = f"{edge.sender_port} → {edge.receiver_port} {weight_label}".strip()
        label = label_text if view.detail.shows_bodies else ""
        canvas.add_edge(
            EdgeEnd(sender_connections.first_dot_node),
            EdgeEnd(receiver_connections.last_dot_node),
            "feedback",
            edge.path,
            label,
        )
        return
    source_end = sender_connections.outputs.get(
        edge.sender_port, EdgeEnd(sender_connections.last_dot_node)
    )
    for target in receiver_connections.inputs.get(
        edge.receiver_port, [EdgeTarget(EdgeEnd(receiver_connections.first_dot_node))]
    ):
        label = weight_label if view.detail.shows_bodies else ""
        canvas.add_edge(source_end, target.edge_end, target.line_style, edge.path, label)


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
        node_connections = connections[model_input.node_id]
        edge_targets = node_connections.inputs.get(
            model_input.port_id or "", [EdgeTarget(EdgeEnd(node_connections.first_dot_node))]
        )
        if all(target.line_style in canvas.hidden_line_styles for target in edge_targets):
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
        for target in edge_targets:
            canvas.add_edge(
                EdgeEnd(pill_name), target.edge_end, target.line_style, model_input.path
            )
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
            node_connections = connections[output.node_id]
            canvas.add_edge(
                node_connections.outputs.get(
                    output.port_id, EdgeEnd(node_connections.last_dot_node)
                ),
                EdgeEnd(pill_name),
                "data",
                output.path,
            )
