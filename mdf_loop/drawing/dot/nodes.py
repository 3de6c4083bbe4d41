"""Drawing of nodes without loops, as boxes or as tables of ports, formulas and constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from mdf_loop.drawing.dot.canvas import Canvas
from mdf_loop.drawing.dot.labels import (
    bold_text,
    cell,
    row,
    small_text,
    stack_lines,
    style_text,
    table,
)
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.observed import describe_value
from mdf_loop.drawing.scene.elements import Box
from mdf_loop.drawing.texts import definition_formulas, node_remarks, wrap_text
from mdf_loop.drawing.theme import (
    HEADER_COLOR,
    IMPORTED_FUNCTION_ID,
    LINE_COLOR,
    NORMAL_FONT_SIZE,
    PAPER_COLOR,
    REMARK_COLOR,
    SMALL_FONT_SIZE,
    TEXT_COLOR,
    Detail,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import Block, DefinitionOutline, NodeOutline, PortOutline
from mdf_loop.outline.text import shorten, shorten_name, value_text
from mdf_loop.outline.words import closed_headline

MAX_CONDITION_LINE_LENGTH = 56
"""Maximum number of characters in a line of a scheduler condition."""
MAX_TITLE_LENGTH = 44
"""Maximum number of characters of a node's id."""
MAX_PORT_LENGTH = 24
"""Maximum number of characters of a port's id."""


def title_lines(node: NodeOutline, canvas: Canvas) -> list[str]:
    """Return the lines of a node's title: the node id and remarks, such as a scheduler condition."""
    remarks: list[str] = []
    for kind, text in node_remarks(node):
        canvas.mark_kinds.add(kind)
        remarks += wrap_text(text, MAX_CONDITION_LINE_LENGTH) if kind == "schedule" else [text]
    return [
        bold_text(shorten_name(node.id, MAX_TITLE_LENGTH)),
        *(style_text(line, size=SMALL_FONT_SIZE, color=TEXT_COLOR, tag="I") for line in remarks),
    ]


def draw_closed_node(picture: Picture, box: Box, view: View) -> None:
    """Draw a node as one box with its title, and two lines for each loop and conditional."""
    node, canvas = box.outline, picture.canvas
    box_name = canvas.unused_name(node.id)
    canvas.add_node(
        box_name,
        stack_lines(*title_lines(node, canvas), *map(_closed_block_lines, node.blocks)),
        next((block.block_type for block in node.blocks), "node"),
        node.path,
        shape="box",
        style="rounded,filled",
        fillcolor=PAPER_COLOR,
    )
    picture.place_box(box, box_name, box_name)


def _closed_block_lines(block: Block) -> str:
    """Describe a closed loop or conditional in two lines: its headline, and its inputs and outputs."""
    source_text = ", ".join(value_text(expression, 24) for expression in block.source_expressions)
    result_text = ", ".join(port for result_ports in block.result_ports for port in result_ports)
    return stack_lines(
        style_text(closed_headline(block), size=NORMAL_FONT_SIZE),
        style_text(shorten(f"({source_text}) → ({result_text})", 80)),
    )


def draw_node(picture: Picture, box: Box, view: View) -> None:
    """Draw a node as a table with its ports and formulas."""
    node, canvas = box.outline, picture.canvas
    table_name = canvas.unused_name(node.id)
    node_cells = _NodeCells(
        header_cell=cell(
            stack_lines(*title_lines(node, canvas)),
            PORT="head",
            BGCOLOR=HEADER_COLOR,
            CELLPADDING=4,
        ),
        input_cells=[
            cell(_input_text(port, view.detail), PORT=f"in{k}", ALIGN="LEFT")
            for k, port in enumerate(node.inputs)
        ],
        formula_cells=_formula_cells(canvas, node, view.detail),
        output_cells=[
            cell(_output_text(node, port, view), PORT=f"out{k}", ALIGN="RIGHT", BALIGN="RIGHT")
            for k, port in enumerate(node.outputs)
        ],
        constants_text=_format_constants(node.definitions, view.detail),
    )
    direction = canvas.direction
    arrange_rows = _sideways_rows if direction.is_sideways else _downward_rows
    table_label = table(
        (row([row_cell]) for row_cell in arrange_rows(node_cells)),
        BORDER=1,
        COLOR=LINE_COLOR,
        BGCOLOR=PAPER_COLOR,
        CELLPADDING=0,
    )
    canvas.add_node(table_name, table_label, "node", node.path)
    picture.place_box(box, table_name, table_name)
    if direction.is_sideways:
        picture.place_port(box.id, table_name, "head", "head")
    for side, ports in (("in", box.left_ports), ("out", box.right_ports)):
        for k, port in enumerate(ports):
            if port is not None:
                picture.place_port(port.id, table_name, f"{side}{k}", f"{side}{k}")


class _NodeCells(Struct, frozen=True):
    """Table cells of a drawn node: header, input ports, formulas, output ports and constants."""

    header_cell: str
    input_cells: list[str]
    formula_cells: list[str]
    output_cells: list[str]
    constants_text: str


_COLUMN_LINE: dict[str, str | int] = {"BORDER": 1, "SIDES": "L", "COLOR": HEADER_COLOR}
"""Attributes of the thin line between columns."""


def _sideways_rows(cells: _NodeCells) -> Iterator[str]:
    """Yield the table rows of a node in a left-to-right picture: ports beside the formulas."""
    yield cells.header_cell
    nonempty_columns = [
        column for column in (cells.input_cells, cells.formula_cells, cells.output_cells) if column
    ]
    columns = [
        cell(
            table((row([column_cell]) for column_cell in column), CELLPADDING=4), **line_attributes
        )
        for column, line_attributes in zip(
            nonempty_columns, ({}, *[_COLUMN_LINE] * 2), strict=False
        )
    ]
    if columns:
        yield cell(table([row(columns)], CELLPADDING=0))
    if cells.constants_text:
        yield cell(cells.constants_text, ALIGN="LEFT", CELLPADDING=5)


def _downward_rows(cells: _NodeCells) -> Iterator[str]:
    """Yield the table rows of a node in a top-down picture: ports above and below formulas."""
    if cells.input_cells:
        yield cell(table([row(cells.input_cells)], CELLPADDING=4))
    yield cells.header_cell
    if cells.formula_cells:
        yield cell(table((row([cell_text]) for cell_text in cells.formula_cells), CELLPADDING=4))
    if cells.constants_text:
        yield cell(cells.constants_text, ALIGN="LEFT", CELLPADDING=5)
    if cells.output_cells:
        yield cell(table([row(cells.output_cells)], CELLPADDING=4))


# --- texts ------------------------------------------------------------------------------------


def _input_text(port: PortOutline, detail: Detail) -> str:
    """Return the label of an input port with its default and type."""
    default_text = "" if port.default is None else f" = {value_text(port.default, 24)}"
    # The text of a large constant ends with its type.
    is_type_shown = not port.type or default_text.endswith(port.type)
    type_text = f"  {port.type}" if detail.shows_types and not is_type_shown else ""
    return style_text(f"▸ {shorten_name(port.id, MAX_PORT_LENGTH)}{default_text}") + (
        small_text(type_text) if type_text else ""
    )


def _output_text(node: NodeOutline, port: PortOutline, view: View) -> str:
    """Return the label of an output port with its formula, type and observed value."""
    detail = view.detail
    expression = value_text(port.value, 400) if port.value is not None else port.id
    expression = port.id if expression.partition("[")[0] == IMPORTED_FUNCTION_ID else expression
    formula = (
        shorten_name(port.id, MAX_PORT_LENGTH)
        if expression == port.id
        else f"{port.id} = {expression}"
    )
    type_text = small_text(f"{port.type}  ") if detail.shows_types and port.type else ""
    observed_value = describe_value(view.observation, node.id, port.id)
    value_remark = small_text(f"  {observed_value}") if observed_value else ""
    return type_text + fit_formula(formula, detail, "RIGHT") + value_remark + style_text(" ▸")


def fit_formula(text: str, detail: Detail, align: str) -> str:
    """Wrap a formula into lines, or shorten it to one line if the level of detail is low."""
    if not detail.shows_types:
        return style_text(shorten(text, detail.line_width))
    return f'<BR ALIGN="{align}"/>'.join(
        style_text(line) for line in wrap_text(text, detail.line_width)
    )


def _formula_cells(canvas: Canvas, node: NodeOutline, detail: Detail) -> list[str]:
    """Return table cells with the first `detail.max_formulas` formulas of a node."""
    cells: list[str] = []
    names_typed_at_port = {port.value for port in node.outputs if isinstance(port.value, str)}
    for definition in node.definitions:
        if definition.is_constant:
            continue
        type_text = "" if definition.id in names_typed_at_port else definition.type
        if definition.is_stateful:
            canvas.mark_kinds.add("state")
        formula_texts = list(definition_formulas(definition, MAX_PORT_LENGTH))
        cells += [
            formula_cell(text, type_text if text == formula_texts[-1] else "", detail)
            for text in formula_texts
        ]
    if len(cells) > detail.max_formulas:
        omitted_formula_count = len(cells) - detail.max_formulas + 1
        cells = [
            *cells[: detail.max_formulas - 1],
            cell(small_text(f"… {omitted_formula_count} more"), ALIGN="LEFT"),
        ]
    return cells


def formula_cell(formula: str, type_text: str, detail: Detail, port: str = "") -> str:
    """Build a table cell with a formula, and with its type at the highest level of detail."""
    type_remark = small_text(f"  {type_text}") if detail.shows_types and type_text else ""
    cell_attributes: dict[str, str | int] = {"ALIGN": "LEFT", "BALIGN": "LEFT"}
    if port:
        cell_attributes["PORT"] = port
    return cell(fit_formula(formula, detail, "LEFT") + type_remark, **cell_attributes)


def _format_constants(definitions: Iterable[DefinitionOutline], detail: Detail) -> str:
    """Format the constants of a node in a small grey font: `a = 0.5, tau = 10`."""
    constant_texts = [
        f"{definition.id} = {value_text(definition.value, 28)}"
        for definition in definitions
        if definition.is_constant
    ]
    constant_lines = _join_texts(constant_texts, detail.line_width)
    if not detail.shows_types and len(constant_lines) > 2:
        constant_lines = [*constant_lines[:2], "…"]
    return stack_lines(
        *(style_text(line, size=SMALL_FONT_SIZE, color=REMARK_COLOR) for line in constant_lines),
        align="LEFT",
    )


def _join_texts(texts: list[str], width: int) -> list[str]:
    """Join texts by commas into lines of about `width` characters."""
    joined_lines: list[str] = []
    for k, text in enumerate(texts):
        text_with_comma = text + ("," if k < len(texts) - 1 else "")
        if joined_lines and len(joined_lines[-1]) + len(text_with_comma) < width:
            joined_lines[-1] += f" {text_with_comma}"
        else:
            joined_lines.append(text_with_comma)
    return joined_lines
