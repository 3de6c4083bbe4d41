"""Tables of a frame's inputs and outputs (terminals), drawn at two sides of the frame.

Each carried value has a row with two terminals.

Each side has one table, so that the layout cannot reorder its rows. Both tables have the same number of rows of
equal height, so that both terminals of a carried value are on one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from msgspec import Struct

from mdf_loop.drawing.canvas import Canvas, EdgeEnd
from mdf_loop.drawing.labels import (
    badge,
    bold_text,
    cell,
    row,
    small_text,
    stack_lines,
    style_text,
    table,
)
from mdf_loop.drawing.observed import describe_terminal
from mdf_loop.drawing.theme import (
    BADGE_SIZE,
    IMPORTED_FUNCTION_ID,
    PAPER_COLOR,
    ROW_HEIGHT,
    TERMINAL_BORDER_COLOR,
    Detail,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import (
    ArgumentOutline,
    Block,
    CaptureOutline,
    ConditionalOutline,
    LoopOutline,
    Observation,
)
from mdf_loop.outline.scope import literal_value
from mdf_loop.outline.text import shorten, shorten_name, value_text
from mdf_loop.outline.words import delay_text, slice_text


class Terminal(Struct, frozen=True):
    """Input or output of a loop or conditional, drawn as a labelled row at one side of its frame.

    `key` identifies the ports of the row in Graphviz. `remark` is a text below the name.
    """

    mark_kind: str
    key: str
    name: str
    remark: str = ""


MAX_REMARK_LENGTH = 64
"""Maximum number of characters of a remark below the name of a terminal."""
_LETTER_WIDTH = 7.2
"""Width of a letter in a terminal's name, in points."""

Rows = tuple[tuple[Terminal | None, Terminal | None], ...]
"""Input and output terminal of each row, with None on a side without a terminal."""


def loop_terminal_rows(loop: LoopOutline, view: View) -> Rows:
    """Return the inputs and outputs of a loop's frame, as rows (input terminal, output terminal).

    The order is trip count, iteration number, condition, carried values, then captures with recorded values.
    """
    detail, shows_captures, observation = view.detail, view.shows_captures, view.observation
    rows: list[tuple[Terminal | None, Terminal | None]] = []
    if loop.trip_count is not None:
        trip_count_text = argument_text(loop.trip_count)
        count_remark = "evaluations" if loop.kind == "over time" else "iterations"
        count_remark += "" if loop.start_condition is None else " at most"
        rows.append((Terminal("trip_count", "N", trip_count_text, count_remark), None))
    if loop.iteration_name:
        rows.append((Terminal("iteration", "i", loop.iteration_name, "0, 1, 2, …"), None))
    rows.append((_start_terminal(loop), _stop_terminal(loop)))
    rows += [
        (
            _carried_input_terminal(loop, k, detail),
            _carried_output_terminal(loop, k, detail, observation),
        )
        for k in range(len(loop.carried_values))
    ]
    input_terminals = [*_slice_terminals(loop), *_delay_terminals(loop)]
    input_terminals += _capture_terminals(loop.captures, detail) if shows_captures else []
    output_terminals = [
        *_recording_terminals(loop, detail, observation),
        *_report_terminals(loop, observation),
    ]
    rows += zip_longest(input_terminals, output_terminals)
    return tuple(terminal_pair for terminal_pair in rows if terminal_pair != (None, None)) or (
        (None, None),
    )


def conditional_terminal_rows(
    conditional: ConditionalOutline, detail: Detail, captures: bool
) -> Rows:
    """Return the inputs and outputs of a conditional's frame, as rows (input, output).

    The selector is first, then captures are beside results.
    """
    input_terminals = [
        _selector_terminal(conditional),
        *(_capture_terminals(conditional.captures, detail) if captures else []),
    ]
    output_terminals = [
        _joined_result_terminal(conditional, k, detail)
        for k in range(len(conditional.joined_results))
    ]
    return tuple(zip_longest(input_terminals, output_terminals))


def _selector_terminal(conditional: ConditionalOutline) -> Terminal:
    """Return the drawn input for a conditional's selector: a condition or a branch number."""
    selector_remark = "condition" if conditional.kind == "if" else "number of the branch"
    return Terminal(
        "choose",
        "c",
        argument_text(conditional.selector) if conditional.selector else "?",
        selector_remark,
    )


def _joined_result_terminal(conditional: ConditionalOutline, k: int, detail: Detail) -> Terminal:
    """Return the drawn output for the `k`-th result of a conditional."""
    joined_result = conditional.joined_results[k]
    type_text = joined_result.type if detail.shows_types else ""
    if conditional.id == IMPORTED_FUNCTION_ID and joined_result.ports:
        return Terminal("join", f"r{k}", ", ".join(joined_result.ports), type_text)
    return Terminal(
        "join", f"r{k}", joined_result.name, _ports_text(joined_result.ports, type_text)
    )


def tests_condition(loop: LoopOutline) -> bool:
    """Return True if a loop tests the condition that its body computes."""
    return loop.start_condition is not None or loop.has_mid_exit


def argument_text(argument: ArgumentOutline) -> str:
    """Format an argument, followed by its constant value if the value is known: `n = 10`."""
    expression = value_text(argument.expression)
    is_literal = literal_value(expression) is not None or not isinstance(argument.expression, str)
    if argument.value is None or is_literal:
        return expression
    return f"{expression} = {value_text(argument.value, 24)}"


def _start_terminal(loop: LoopOutline) -> Terminal | None:
    """Return the drawn input for a loop's condition, or None if the loop has no condition."""
    if loop.start_condition is not None:
        condition_remark = f"← {argument_text(loop.start_condition)}"
        return Terminal("start", "c", loop.condition_name or "condition", condition_remark)
    is_condition_read = loop.body is not None and any(
        body_input.role == "condition" for body_input in loop.body.inputs
    )
    return Terminal("start", "c", loop.condition_name, "always true") if is_condition_read else None


def _stop_terminal(loop: LoopOutline) -> Terminal | None:
    """Return the drawn output for the condition a loop tests, or None if it tests none."""
    if not tests_condition(loop):
        return None
    condition_remark = "tested in the middle" if loop.has_mid_exit else loop.condition_text
    return Terminal("stop", "c", loop.continue_name or "condition", condition_remark)


def _carried_input_terminal(loop: LoopOutline, k: int, detail: Detail) -> Terminal:
    """Return the drawn input for the initial value of a loop's `k`-th carried value."""
    carried_value = loop.carried_values[k]
    initial_text = (
        "?"
        if carried_value.initial_expression is None
        else _initial_text(carried_value.initial_expression)
    )
    if detail.shows_types and carried_value.initial_expression is not None:
        initial_text = argument_text(
            ArgumentOutline(carried_value.initial_expression, carried_value.initial_value)
        )
    type_text = f" · {carried_value.type}" if detail.shows_types and carried_value.type else ""
    return Terminal(
        "enter", f"v{k}", carried_value.input_name or f"carried {k}", f"← {initial_text}{type_text}"
    )


def _initial_text(expression: object) -> str:
    """Format the initial value of a carried value as a short text."""
    return (
        shorten_name(expression, 28) if isinstance(expression, str) else value_text(expression, 28)
    )


def _carried_output_terminal(
    loop: LoopOutline, k: int, detail: Detail, observation: Observation | None
) -> Terminal:
    """Return the drawn output for a loop's `k`-th carried value."""
    carried_value = loop.carried_values[k]
    type_text = carried_value.type if detail.shows_types else ""
    ports_remark = _ports_text(
        carried_value.ports, type_text, _observed_value(observation, loop, carried_value.ports)
    )
    return Terminal("leave", f"v{k}", carried_value.output_name or f"carried {k}", ports_remark)


def _recording_terminals(
    loop: LoopOutline, detail: Detail, observation: Observation | None
) -> Iterable[Terminal]:
    """Yield the drawn outputs for a loop's recorded values."""
    for k, recorded_value in enumerate(loop.recorded_values):
        type_text = recorded_value.type if detail.shows_types else ""
        observed_value = _observed_value(observation, loop, recorded_value.ports)
        ports_remark = _ports_text(
            recorded_value.ports, recorded_value.remark, type_text, observed_value
        )
        yield Terminal("recorded", f"r{k}", recorded_value.name, ports_remark)


def _report_terminals(loop: LoopOutline, observation: Observation | None) -> Iterable[Terminal]:
    """Yield the drawn outputs that report on a loop's run, such as the iteration count."""
    for k, report in enumerate(loop.reports):
        ports_remark = _ports_text(report.ports, _observed_value(observation, loop, report.ports))
        yield Terminal("result", f"x{k}", report.name.replace("_", " "), ports_remark)


def _observed_value(
    observation: Observation | None, loop: LoopOutline, ports: tuple[str, ...]
) -> str:
    """Format the value that a run recorded for the first output port in `ports`."""
    return describe_terminal(observation, loop, ports[0]) if ports else ""


def _ports_text(ports: tuple[str, ...], *remarks: str) -> str:
    """Format the output ports of a result, followed by remarks: `→ y · float64[3]`."""
    return " · ".join(text for text in (f"→ {', '.join(ports)}" if ports else "", *remarks) if text)


def _slice_terminals(loop: LoopOutline) -> Iterable[Terminal]:
    """Yield the drawn inputs for a loop's sliced inputs."""
    for k, sliced_input in enumerate(loop.sliced_inputs):
        slice_remark = ", ".join(
            text for text in (f"= {slice_text(sliced_input)}", sliced_input.remark) if text
        )
        yield Terminal("sliced", f"s{k}", sliced_input.name or f"input {k}", slice_remark)


def _delay_terminals(loop: LoopOutline) -> Iterable[Terminal]:
    """Yield the drawn inputs for a loop's delayed values (values of earlier iterations)."""
    for k, delayed_value in enumerate(loop.delayed_values):
        initial_text = (
            ""
            if delayed_value.initial_expression is None
            else f"← {value_text(delayed_value.initial_expression, 20)}, then "
        )
        yield Terminal(
            "delayed", f"d{k}", delayed_value.name, f"{initial_text}{delay_text(delayed_value)}"
        )


def _capture_terminals(captures: Iterable[CaptureOutline], detail: Detail) -> Iterable[Terminal]:
    """Yield the drawn inputs for the outer values that a loop or conditional captures."""
    for k, capture in enumerate(captures):
        value_remark = "" if capture.value is None else f" = {value_text(capture.value, 24)}"
        type_remark = capture.type if detail.shows_types else ""
        yield Terminal("captured", f"o{k}", f"{capture.name}{value_remark}", type_remark)


# --- drawing ----------------------------------------------------------------------------------


class TerminalTable(Struct, frozen=True):
    """Drawn table of a frame's inputs or outputs, with the points at which edges connect."""

    name: str
    outer_side: str
    inner_side: str

    def outer_end(self, key: str) -> EdgeEnd:
        """Return the point at the input or output `key` where edges outside the frame attach."""
        return EdgeEnd(self.name, f"{key}_o", self.outer_side)

    def inner_end(self, key: str, side: str = "") -> EdgeEnd:
        """Return the point at the input or output `key` where edges inside the frame attach."""
        return EdgeEnd(self.name, f"{key}_i", side or self.inner_side)


def draw_terminal_tables(
    canvas: Canvas, block: Block, rows: Rows, title: tuple[list[str], list[str]]
) -> tuple[TerminalTable, TerminalTable]:
    """Draw the tables of inputs and outputs at two sides of a loop's or conditional's frame.

    A horizontal table begins with the title, where no edge crosses the title. Edges from above would cross a
    title in the corner of the frame.
    """
    direction = canvas.direction
    canvas.mark_kinds.update(
        terminal.mark_kind
        for terminal_pair in rows
        for terminal in terminal_pair
        if terminal is not None
    )
    terminal_tables = []
    for side_index, name_suffix in enumerate(("in", "out")):
        table_name = canvas.unused_name(block.owner_id, block.id, name_suffix)
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
        canvas.add_node(table_name, table_label, "terminals", block.path)
        enter_side, leave_side = direction.enter_side, direction.leave_side
        terminal_tables.append(
            TerminalTable(table_name, enter_side, leave_side)
            if side_index == 0
            else TerminalTable(table_name, leave_side, enter_side)
        )
    return terminal_tables[0], terminal_tables[1]


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
        sign_cell = badge(terminal.mark_kind, 12, BADGE_SIZE, ROW_HEIGHT, PORT=f"{terminal.key}_i")
        yield [name_cell, sign_cell][:: 1 - 2 * side]


def _horizontal_table_rows(
    terminals: list[Terminal | None], side: int, widths: list[int]
) -> list[list[str]]:
    """Return table rows with one column per input or output, for flow from top to bottom."""
    name_cells, sign_cells = [], []
    for terminal, width in zip(terminals, widths, strict=True):
        if terminal is None:
            name_cells.append(cell("", WIDTH=width, HEIGHT=ROW_HEIGHT))
            sign_cells.append(cell("", HEIGHT=BADGE_SIZE))
            continue
        name_cells.append(_name_cell(terminal, "CENTER", WIDTH=width, HEIGHT=ROW_HEIGHT))
        sign_cells.append(
            badge(terminal.mark_kind, 12, width, BADGE_SIZE, PORT=f"{terminal.key}_i")
        )
    return [name_cells, sign_cells][:: 1 - 2 * side]


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
