"""Boxes of nodes that contain loops or conditionals on a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mdf_loop.drawing.formulas import OwnFormula, own_formulas
from mdf_loop.drawing.page.ends import BoxPorts, NodeEnds, Numbering, WireEnd
from mdf_loop.drawing.page.frames import FrameBuilder, GraphBuilder
from mdf_loop.drawing.page.nodes import (
    MAX_FORMULA_LENGTH,
    MAX_PORT_LENGTH,
    MAX_TITLE_LENGTH,
    node_details,
    node_remarks,
)
from mdf_loop.drawing.page.scene import Box, Port, Scene, Wire
from mdf_loop.lower import names_in
from mdf_loop.outline import NodeOutline
from mdf_loop.outline.loops import result_positions
from mdf_loop.outline.text import shorten, shorten_name

ExpressionReader = tuple[int, str, tuple[Any, ...]]
"""Target of wires that reads expressions: its number, its line style and the expressions."""


def build_owner_box(
    node: NodeOutline,
    outer: frozenset[str],
    numbering: Numbering,
    build_graph: GraphBuilder,
) -> tuple[Box, NodeEnds]:
    """Build the box of a node that contains loops or conditionals.

    `outer` are the names that the node reads from outside its graph.
    """
    formulas = own_formulas(node)
    frame_builders = {block.id: FrameBuilder(block, numbering) for block in node.blocks}
    if len(frame_builders) == 1 and not formulas and not node.scheduler_condition:
        (frame,) = frame_builders.values()
        return _build_single_frame_box(node, frame, build_graph)
    known_names = outer | {port.id for port in node.inputs}
    return _build_box_around_frames(
        node, frame_builders, formulas, known_names, numbering, build_graph
    )


def _build_single_frame_box(
    node: NodeOutline, frame: FrameBuilder, build_graph: GraphBuilder
) -> tuple[Box, NodeEnds]:
    """Build the box of a node whose only content is one loop or conditional."""
    box = frame.box(build_graph)
    box = replace(box, details=(*box.details, *_details_without_id(node)))
    node_ends = NodeEnds(box.id, outputs=_port_ends(frame))
    input_names = {port.id for port in node.inputs}
    for reader_number, line_style, expressions in _frame_readers(frame):
        for name in _sorted_names(expressions):
            ends_by_name = node_ends.inputs if name in input_names else node_ends.targets_by_name
            ends_by_name.setdefault(name, []).append((reader_number, line_style))
    return box, node_ends


def _details_without_id(node: NodeOutline) -> Iterator[tuple[str, str]]:
    """Return the (title, text) pairs of a node's details, except for the node's id."""
    return (detail for detail in node_details(node) if detail[0] != "id")


def _build_box_around_frames(
    node: NodeOutline,
    frames: dict[str, FrameBuilder],
    formulas: list[OwnFormula],
    known_names: frozenset[str],
    numbering: Numbering,
    build_graph: GraphBuilder,
) -> tuple[Box, NodeEnds]:
    """Build a box that contains the loops, conditionals and formulas of a node."""
    formula_boxes = {formula.id: _build_formula_box(formula, numbering) for formula in formulas}
    expression_readers: list[ExpressionReader] = [
        (formula_boxes[formula.id].id, "data", formula.expressions) for formula in formulas
    ]
    for frame in frames.values():
        expression_readers += _frame_readers(frame)
    wires, ends_by_outer_name = _build_inner_wires(node, frames, formula_boxes, expression_readers)
    box_ports, node_ends = BoxPorts(numbering), NodeEnds(numbering.next())
    input_names = {port.id for port in node.inputs}
    for name in (name for name in ends_by_outer_name if name in known_names):
        entry_port = box_ports.entry_port(
            name, ends_by_outer_name[name], Port(0, shorten_name(name, MAX_PORT_LENGTH))
        )
        (node_ends.inputs if name in input_names else node_ends.targets_by_name)[name] = [
            entry_port
        ]
    for port, source_number in _source_numbers(node, frames, formulas, formula_boxes).items():
        node_ends.outputs[port] = box_ports.exit_port(
            port, source_number, Port(0, shorten_name(port, MAX_PORT_LENGTH))
        )
    inner_boxes = (*formula_boxes.values(), *(frame.box(build_graph) for frame in frames.values()))
    box = Box(
        id=node_ends.box_id,
        kind="owner",
        title=shorten_name(node.id, MAX_TITLE_LENGTH),
        remark=node_remarks(node),
        inner_scene=Scene(inner_boxes, (*wires, *box_ports.wires)),
        details=tuple(node_details(node)),
        path=node.path,
        left_ports=tuple(box_ports.left_ports.values()),
        right_ports=tuple(box_ports.right_ports.values()),
    )
    return box, node_ends


def _build_formula_box(formula: OwnFormula, numbering: Numbering) -> Box:
    """Build the box of a formula that a node computes outside of its loops and conditionals."""
    type_text = formula.definition.type
    return Box(
        id=numbering.next(),
        kind="formula",
        title=formula.id,
        lines=tuple(shorten(text, MAX_FORMULA_LENGTH) for text in formula.formula_texts),
        details=(
            *(("", text) for text in formula.formula_texts),
            *((("type", type_text),) if type_text else ()),
        ),
        path=formula.definition.path,
    )


def _frame_readers(frame: FrameBuilder) -> list[ExpressionReader]:
    """Return the input ports of a loop or conditional, with the expressions that each port reads."""
    return [
        (frame.left_ports[terminal.key].id, terminal.line_style, terminal.expressions)
        for terminal in frame.terminals.input_terminals
        if terminal.key in frame.left_ports
    ]


def _sorted_names(expressions: tuple[Any, ...]) -> list[str]:
    """Return the names that expressions read, in alphabetical order."""
    return sorted({name for expression in expressions for name in names_in(expression)})


def _build_inner_wires(
    node: NodeOutline,
    frames: dict[str, FrameBuilder],
    boxes: dict[str, Box],
    expression_readers: list[ExpressionReader],
) -> tuple[list[Wire], dict[str, list[WireEnd]]]:
    """Return the wires inside a node, and where wires with values from outside must end."""
    wires: list[Wire] = []
    ends_by_outer_name: dict[str, list[WireEnd]] = {}
    input_names = {port.id for port in node.inputs}
    for reader_number, line_style, expressions in expression_readers:
        for name in _sorted_names(expressions):
            if name in boxes and name not in input_names and boxes[name].id != reader_number:
                wires.append(Wire(boxes[name].id, reader_number, line_style))
            elif name not in frames:
                ends_by_outer_name.setdefault(name, []).append((reader_number, line_style))
        for block_id, frame in frames.items():
            result_indices = {
                k for expression in expressions for k in result_positions(expression, block_id)
            }
            wires += [
                Wire(end, reader_number, line_style) for end in _result_ends(frame, result_indices)
            ]
    return wires, ends_by_outer_name


def _result_ends(frame: FrameBuilder, positions: set[int | None]) -> list[int]:
    """Return the ids of the ports for the results of a loop or conditional at `positions`.

    The position None stands for all results.
    """
    result_keys = frame.terminals.result_keys
    selected_keys = (
        result_keys
        if None in positions
        else [result_keys[k] for k in positions if k and k < len(result_keys)]
    )
    if None not in positions and 0 in positions and result_keys:
        selected_keys = [result_keys[0], *selected_keys]
    return [frame.right_ports[key].id for key in selected_keys if key in frame.right_ports]


def _port_ends(frame: FrameBuilder) -> dict[str, int]:
    """Map a node's output ports to the ids of the loop or conditional ports that feed them."""
    port_keys = frame.terminals.key_by_output_port.items()
    return {port: frame.right_ports[key].id for port, key in port_keys if key in frame.right_ports}


def _source_numbers(
    node: NodeOutline,
    frames: dict[str, FrameBuilder],
    formulas: list[OwnFormula],
    boxes: dict[str, Box],
) -> dict[str, int]:
    """Map each output port of a node to the id of the box or port that provides the value."""
    source_numbers = {formula.id: boxes[formula.id].id for formula in formulas if formula.is_port}
    for frame in frames.values():
        source_numbers |= _port_ends(frame)
    for port in node.outputs:
        expression = port.value.strip() if isinstance(port.value, str) else ""
        if port.id not in source_numbers and expression in boxes:
            source_numbers[port.id] = boxes[expression].id
    return source_numbers
