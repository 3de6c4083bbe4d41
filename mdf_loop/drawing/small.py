"""Drawing of nodes that only provide a value: model inputs and constants."""

from __future__ import annotations

from mdf_loop.drawing.canvas import Canvas, EdgeEnd, EdgeTarget, NodeConnections
from mdf_loop.drawing.labels import small_text, stack_lines, style_text
from mdf_loop.drawing.theme import HEADER_COLOR, PAPER_COLOR, REMARK_COLOR
from mdf_loop.drawing.view import View
from mdf_loop.outline import NodeOutline
from mdf_loop.outline.text import shorten_name, value_text

MAX_NAME_LENGTH = 36
"""Maximum number of characters of a name in a pill."""


def draw_small(canvas: Canvas, node: NodeOutline, view: View) -> NodeConnections | None:
    """Draw a node that is a model input or a constant, or return None for any other node."""
    constant = node.constant
    if constant is None and not node.is_input:
        return None
    node_name = canvas.unused_name("input" if constant is None else "", node.id)
    if constant is None:
        draw_pill(canvas, node_name, node.id, node.inputs[0].type, node.path, "input", view)
    else:
        constant_label = (
            f"{shorten_name(node.outputs[0].id, MAX_NAME_LENGTH)} = {value_text(constant, 24)}"
        )
        canvas.add_node(
            node_name,
            small_text(constant_label),
            "constant",
            node.path,
            shape="box",
            style="filled",
            fillcolor=HEADER_COLOR,
            color=HEADER_COLOR,
            margin="0.08,0.03",
            height="0.2",
        )
    node_end = EdgeEnd(node_name)
    return NodeConnections(
        first_dot_node=node_name,
        last_dot_node=node_name,
        inputs={port.id: [EdgeTarget(node_end)] for port in node.inputs},
        outputs={port.id: node_end for port in node.outputs},
    )


def draw_pill(
    canvas: Canvas,
    name: str,
    text: str,
    type_text: str,
    path: str,
    role: str,
    view: View,
    observed_value: str = "",
) -> None:
    """Draw a model input or output as a pill-shaped node, with its observed value."""
    canvas.mark_kinds.add(role)
    type_line = small_text(type_text) if view.detail.shows_types and type_text else ""
    canvas.add_node(
        name,
        stack_lines(
            style_text(shorten_name(text, MAX_NAME_LENGTH), tag="I"),
            type_line,
            small_text(observed_value) if observed_value else "",
        ),
        role,
        path,
        shape="box",
        style="rounded,filled",
        fillcolor=PAPER_COLOR,
        color=REMARK_COLOR,
        margin="0.12,0.05",
        height="0.3",
    )
