"""Drawing of nodes that only provide a value: model inputs and constants.

Models from other systems have one node for every input and every constant. A constant is shown in the port
that reads the constant (`B = 2`). A constant has its own node if a loop or a conditional reads it, if it is a
result, or if several nodes share a large constant.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from mdf_loop.drawing.canvas import Canvas, EdgeEnd, EdgeTarget, NodeConnections
from mdf_loop.drawing.labels import small_text, stack_lines, style_text
from mdf_loop.drawing.theme import HEADER_COLOR, PAPER_COLOR, REMARK_COLOR
from mdf_loop.drawing.view import View
from mdf_loop.ir import Array
from mdf_loop.outline import GraphOutline, NodeOutline
from mdf_loop.outline.text import shorten_name, value_text

_MAX_REPEATED_NUMBERS = 16
"""Maximum number of elements of a shared constant that is shown at each reader."""
MAX_NAME_LENGTH = 36
"""Maximum number of characters of a name in a pill."""


def inline_constants(graph: GraphOutline, view: View) -> GraphOutline:
    """Replace constant nodes by default values of the ports that read the constants."""
    constant_by_node_id = {
        node.id: node.constant for node in graph.nodes if node.constant is not None
    }
    ids_without_blocks = {node.id for node in graph.nodes if not node.blocks}
    reader_counts = Counter(edge.sender for edge in graph.edges)
    separate_node_ids = {output.node_id for output in graph.outputs} | view.collapsed_ids
    separate_node_ids |= {
        edge.sender
        for edge in graph.edges
        if edge.receiver not in ids_without_blocks or edge.weight is not None
    }
    separate_node_ids |= {
        node_id
        for node_id, constant in constant_by_node_id.items()
        if reader_counts[node_id] != 1 and constant.size > _MAX_REPEATED_NUMBERS
    }
    inlined_node_ids = (
        {node_id for node_id in constant_by_node_id if node_id not in separate_node_ids}
        if graph.edges
        else set()
    )
    default_by_port = {
        (edge.receiver, edge.receiver_port): constant_by_node_id[edge.sender]
        for edge in graph.edges
        if edge.sender in inlined_node_ids
    }
    return replace(
        graph,
        nodes=tuple(
            _with_defaults(node, default_by_port)
            for node in graph.nodes
            if node.id not in inlined_node_ids
        ),
        edges=tuple(edge for edge in graph.edges if edge.sender not in inlined_node_ids),
    )


def _with_defaults(node: NodeOutline, default_by_port: dict[tuple[str, str], Array]) -> NodeOutline:
    """Return a node with constants as default values of its input ports."""
    return replace(
        node,
        inputs=tuple(
            replace(port, default=default_by_port.get((node.id, port.id), port.default))
            for port in node.inputs
        ),
    )


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
