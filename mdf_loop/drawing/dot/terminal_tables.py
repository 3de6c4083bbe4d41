"""Tables of a frame's inputs and outputs (terminals), drawn at two sides of the frame.

Each carried value has a row with two terminals.

Each side has one table, so that the layout cannot reorder its rows. Both tables have the same number of rows of
equal height, so that both terminals of a carried value are on one line.
"""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.drawing.dot.labels import (
    badge,
    bold_text,
    cell,
    row,
    small_text,
    stack_lines,
    style_text,
    table,
)
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.scene.elements import Box
from mdf_loop.drawing.scene.terminals import Rows, Terminal
from mdf_loop.drawing.theme import BADGE_SIZE, PAPER_COLOR, ROW_HEIGHT, TERMINAL_BORDER_COLOR
from mdf_loop.drawing.view import View
from mdf_loop.outline.text import shorten, shorten_name

MAX_REMARK_LENGTH = 64
"""Maximum number of characters of a remark below the name of a terminal."""
_LETTER_WIDTH = 7.2
"""Width of a letter in a terminal's name, in points."""


def _shown_rows(box: Box, shows_captures: bool) -> Rows:
    """Return the inputs and outputs of a loop or conditional that a picture shows, as rows."""
    rows = [
        (None if left is None else left.terminal, None if right is None else right.terminal)
        for left, right in zip(box.left_ports, box.right_ports, strict=True)
    ]
    if not shows_captures:
        rows = [
            (None if left and left.mark_kind == "captured" else left, right) for left, right in rows
        ]
    return tuple(row for row in rows if row != (None, None)) or ((None, None),)


def draw_terminal_tables(
    picture: Picture, box: Box, view: View, title: tuple[list[str], list[str]]
) -> None:
    """Draw the tables of inputs and outputs at two sides of a loop's or conditional's frame.

    A horizontal table begins with the title, where no edge crosses the title. Edges from above would cross a
    title in the corner of the frame.
    """
    canvas, block, rows = picture.canvas, box.outline, _shown_rows(box, view.shows_captures)
    direction = canvas.direction
    canvas.mark_kinds.update(
        terminal.mark_kind
        for terminal_pair in rows
        for terminal in terminal_pair
        if terminal is not None
    )
    table_names = []
    for side_index, name_suffix in enumerate(("in", "out")):
        table_names.append(canvas.unused_name(block.owner_id, block.id, name_suffix))
        terminals = [terminal_pair[side_index] for terminal_pair in rows]
        if direction.is_sideways:
            table_rows = list(_vertical_table_rows(terminals, side_index))
        else:
            table_rows = _prepend_title(
                list(_horizontal_table_rows(terminals, side_index, _column_widths(rows))),
                side_index,
                *title,
            )
        table_label = table((row(cells) for cells in table_rows), CELLSPACING=3)
        canvas.add_node(table_names[-1], table_label, "terminals", block.path)
    picture.place_box(box, *table_names)
    for table_name, ports, source, target in (
        (table_names[0], box.left_ports, "i", "o"),
        (table_names[1], box.right_ports, "o", "i"),
    ):
        for port in ports:
            if port is not None and port.terminal is not None:
                key = port.terminal.key
                picture.place_port(port.id, table_name, f"{key}_{source}", f"{key}_{target}")


def _vertical_table_rows(terminals: list[Terminal | None], side: int) -> Iterable[list[str]]:
    """Yield one table row per input or output of a frame, for flow from left to right."""
    for terminal in terminals:
        if terminal is None:
            yield [cell("", HEIGHT=ROW_HEIGHT), cell("", WIDTH=BADGE_SIZE, HEIGHT=ROW_HEIGHT)][
                :: 1 - 2 * side
            ]
            continue
        alignment = "RIGHT" if side == 0 else "LEFT"
        name_cell = _name_cell(terminal, alignment, HEIGHT=ROW_HEIGHT)
        badge_cell = badge(terminal.mark_kind, 12, BADGE_SIZE, ROW_HEIGHT, PORT=f"{terminal.key}_i")
        yield [name_cell, badge_cell][:: 1 - 2 * side]


def _horizontal_table_rows(
    terminals: list[Terminal | None], side: int, widths: list[int]
) -> list[list[str]]:
    """Return table rows with one column per input or output, for flow from top to bottom."""
    name_cells, badge_cells = [], []
    for terminal, width in zip(terminals, widths, strict=True):
        if terminal is None:
            name_cells.append(cell("", WIDTH=width, HEIGHT=ROW_HEIGHT))
            badge_cells.append(cell("", HEIGHT=BADGE_SIZE))
            continue
        name_cells.append(_name_cell(terminal, "CENTER", WIDTH=width, HEIGHT=ROW_HEIGHT))
        badge_cells.append(
            badge(terminal.mark_kind, 12, width, BADGE_SIZE, PORT=f"{terminal.key}_i")
        )
    return [name_cells, badge_cells][:: 1 - 2 * side]


def _prepend_title(
    table_rows: list[list[str]], side: int, headline_lines: list[str], text_lines: list[str]
) -> list[list[str]]:
    """Prepend a title cell to a table of inputs, or an empty cell to a table of outputs."""
    line_widths = [_LETTER_WIDTH * len(line) for line in headline_lines] + [
        5.0 * len(line) for line in text_lines
    ]
    if not line_widths:
        return table_rows
    title_label = (
        stack_lines(*map(bold_text, headline_lines), *map(small_text, text_lines), align="LEFT")
        if side == 0
        else ""
    )
    title_cell = cell(
        title_label, ROWSPAN=2, WIDTH=int(max(line_widths)) + 12, ALIGN="LEFT", BALIGN="LEFT"
    )
    return [[title_cell, *table_rows[0]], *table_rows[1:]]


def _name_cell(terminal: Terminal, align: str, **size: int) -> str:
    """Build a table cell with the name and the remark of an input or output of a frame."""
    name_label = stack_lines(
        style_text(shorten_name(terminal.name, 40)),
        small_text(shorten(terminal.remark, MAX_REMARK_LENGTH)) if terminal.remark else "",
        align=align,
    )
    return cell(
        name_label,
        PORT=f"{terminal.key}_o",
        ALIGN=align,
        BGCOLOR=PAPER_COLOR,
        BORDER=1,
        COLOR=TERMINAL_BORDER_COLOR,
        **size,
    )


def _column_widths(rows: Rows) -> list[int]:
    """Return column widths that fit both the inputs and the outputs of a frame."""

    def needed_width(terminal: Terminal | None) -> int:
        if terminal is None:
            return BADGE_SIZE
        return (
            int(
                max(
                    _LETTER_WIDTH * len(terminal.name),
                    5.8 * min(len(terminal.remark), MAX_REMARK_LENGTH),
                )
            )
            + 14
        )

    return [
        max(needed_width(input_terminal), needed_width(output_terminal))
        for input_terminal, output_terminal in rows
    ]
