"""Drawing of small nodes that only provide or receive a value: model inputs, model outputs and constants."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.drawing.dot.labels import small_text, stack_lines, style_text
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.observed import describe_value
from mdf_loop.drawing.scene.elements import Box, Wire
from mdf_loop.drawing.theme import HEADER_COLOR, PAPER_COLOR, REMARK_COLOR
from mdf_loop.drawing.view import View
from mdf_loop.outline import NodeOutline
from mdf_loop.outline.text import shorten_name, value_text

MAX_NAME_LENGTH = 36
"""Maximum number of characters of a name in a pill."""


def draw_pills(picture: Picture, pills: Sequence[Box], wires: Sequence[Wire], view: View) -> None:
    """Draw inputs and outputs of the model with their wires, without inputs of only hidden wires."""
    wires_by_pill: dict[int, list[Wire]] = {pill.id: [] for pill in pills}
    for wire in wires:
        for end in (wire.source, wire.target):
            if end in wires_by_pill:
                wires_by_pill[end].append(wire)
    for pill in pills:
        own_wires = wires_by_pill[pill.id]
        if pill.kind == "output" or any(map(picture.shows_wire, own_wires)):
            picture.draw_box(pill, view)
            picture.draw_wires(own_wires)


def draw_constant(picture: Picture, box: Box, view: View) -> None:
    """Draw a node that is a constant."""
    node = box.outline
    node_name = picture.canvas.unused_name("", node.id)
    port_name = shorten_name(node.outputs[0].id, MAX_NAME_LENGTH)
    picture.canvas.add_node(
        node_name,
        small_text(f"{port_name} = {value_text(node.constant, 24)}"),
        "constant",
        node.path,
        shape="box",
        style="filled",
        fillcolor=HEADER_COLOR,
        color=HEADER_COLOR,
        margin="0.08,0.03",
        height="0.2",
    )
    picture.place_box(box, node_name, node_name)


def draw_input(picture: Picture, box: Box, view: View) -> None:
    """Draw an input of the model, which is an open port or a node that only passes on a value."""
    outline = box.outline
    if isinstance(outline, NodeOutline):
        name, text, type_text = outline.id, outline.id, outline.inputs[0].type
    else:
        name, type_text = outline.name, outline.type
        text = name if outline.default is None else f"{name} = {value_text(outline.default, 24)}"
    _draw_pill(picture, box, picture.canvas.unused_name("input", name), text, type_text, view)


def draw_output(picture: Picture, box: Box, view: View) -> None:
    """Draw an output of the model, with its observed value."""
    output = box.outline
    pill_name = picture.canvas.unused_name("output", output.node_id, output.name)
    observed_value = describe_value(view.observation, output.node_id, output.port_id)
    _draw_pill(picture, box, pill_name, output.name, output.type, view, observed_value)


def _draw_pill(
    picture: Picture,
    box: Box,
    name: str,
    text: str,
    type_text: str,
    view: View,
    observed_value: str = "",
) -> None:
    """Draw a model input or output as a pill-shaped node, with its observed value."""
    picture.canvas.mark_kinds.add(box.kind)
    label = stack_lines(
        style_text(shorten_name(text, MAX_NAME_LENGTH), tag="I"),
        small_text(type_text) if view.detail.shows_types and type_text else "",
        small_text(observed_value) if observed_value else "",
    )
    add_pill(picture, box, name, label, margin="0.12,0.05")


def add_pill(picture: Picture, box: Box, name: str, label: str, margin: str) -> None:
    """Add a node with rounded corners for a value that enters or leaves a graph unchanged."""
    picture.canvas.add_node(
        name,
        label,
        box.kind,
        box.path,
        shape="box",
        style="rounded,filled",
        fillcolor=PAPER_COLOR,
        color=REMARK_COLOR,
        margin=margin,
        height="0.3",
    )
    picture.place_box(box, name, name)
