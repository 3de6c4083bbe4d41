"""Inputs and outputs (terminals) of a loop or conditional.

    for i in range(n): x' = f(x, a)        # M, cond, carried, captured

    key   name   reads          provides in the body
    N     n      n
    i     i                     i
    v0    x      the initial x  x                       and on the right: x', a result
    o0    a      a              a

Keys of inputs are N (trip count), i (iteration), c (condition), v (carried), s (sliced), d (delayed) and o
(captured). Keys of outputs are c, v, r (recorded or joined) and x (report). The number of the value follows
the letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, TypeAlias

from msgspec import Struct

from mdf_loop.drawing.observed import describe_terminal
from mdf_loop.drawing.theme import IMPORTED_FUNCTION_ID
from mdf_loop.drawing.view import View
from mdf_loop.outline import ArgumentOutline, Block, ConditionalOutline, LoopOutline
from mdf_loop.outline.scope import literal_value
from mdf_loop.outline.text import shorten_name, value_text
from mdf_loop.outline.words import delay_text, slice_text

RESULT_MARKS = ("leave", "recorded", "join")
"""Signs of the outputs that are results of a loop or conditional, in the order of the results."""


class Terminal(Struct, frozen=True):
    """Input or output of a loop or conditional, in a row at one side of its box.

    Attributes:
        mark_kind: Sign of the terminal in `MARKS`.
        key: Short name that is unique at its side.
        remark: Text below the name.
        expressions: Expressions from outside that an input reads.
        body_name: Name that an input provides in the body.
        ports: Output ports of the node that have the value of an output.
    """

    mark_kind: str
    key: str
    name: str
    remark: str = ""
    expressions: tuple[Any, ...] = ()
    body_name: str = ""
    ports: tuple[str, ...] = ()


Rows: TypeAlias = tuple[tuple[Terminal | None, Terminal | None], ...]
"""Input and output of each row, with None on a side without a terminal."""


def argument_text(argument: ArgumentOutline) -> str:
    """Format an argument, followed by its constant value if the value is known: `n = 10`."""
    expression = value_text(argument.expression)
    is_literal = literal_value(expression) is not None or not isinstance(argument.expression, str)
    if argument.value is None or is_literal:
        return expression
    return f"{expression} = {value_text(argument.value, 24)}"


# --- loops ------------------------------------------------------------------------------------


def _loop_rows(loop: LoopOutline, view: View) -> Rows:
    """Return the inputs and outputs of a loop, as rows (input, output).

    The order is trip count, iteration number, condition, carried values, then sliced, delayed and captured
    values beside recorded values and reports.
    """
    rows: list[tuple[Terminal | None, Terminal | None]] = [
        *((terminal, None) for terminal in _count_terminals(loop)),
        (_start_terminal(loop), _stop_terminal(loop)),
        *zip(_carried_inputs(loop, view), _carried_outputs(loop, view), strict=True),
        *zip_longest(
            (*_slice_terminals(loop), *_delay_terminals(loop), *_capture_terminals(loop, view)),
            (*_recorded_terminals(loop, view), *_report_terminals(loop, view)),
        ),
    ]
    return tuple(row for row in rows if row != (None, None)) or ((None, None),)


def _count_terminals(loop: LoopOutline) -> Iterator[Terminal]:
    """Yield the drawn inputs for a loop's trip count and iteration number."""
    if loop.trip_count is not None:
        remark = "evaluations" if loop.kind == "over time" else "iterations"
        remark += "" if loop.start_condition is None else " at most"
        expressions = (loop.trip_count.expression,)
        yield Terminal("trip_count", "N", argument_text(loop.trip_count), remark, expressions)
    if loop.iteration_name:
        yield Terminal(
            "iteration", "i", loop.iteration_name, "0, 1, 2, …", body_name=loop.iteration_name
        )


def _start_terminal(loop: LoopOutline) -> Terminal | None:
    """Return the drawn input for a loop's condition, or None if the loop has no condition.

    A condition that is always true has an input if the body reads it, or passes it on to an output.
    """
    name = loop.condition_name
    if loop.start_condition is not None:
        remark = f"← {argument_text(loop.start_condition)}"
        expressions = (loop.start_condition.expression,)
        return Terminal("start", "c", name or "condition", remark, expressions, name)
    is_shown = loop.body is not None and (
        any(body_input.role == "condition" for body_input in loop.body.inputs)
        or any(
            output.node_id is None and output.port_id == name
            for output in loop.body.outputs[0 if loop.has_mid_exit else 1 :]
        )
    )
    return (
        Terminal("start", "c", name, "always true", body_name=name) if name and is_shown else None
    )


def _stop_terminal(loop: LoopOutline) -> Terminal | None:
    """Return the drawn output for the condition a loop tests, or None if it tests none."""
    if loop.start_condition is None and not loop.has_mid_exit:
        return None
    remark = "tested in the middle" if loop.has_mid_exit else loop.condition_text
    return Terminal("stop", "c", loop.continue_name or "condition", remark)


def _carried_inputs(loop: LoopOutline, view: View) -> Iterator[Terminal]:
    """Yield the drawn inputs for the initial values of a loop's carried values."""
    for k, carried in enumerate(loop.carried_values):
        initial = carried.initial_expression
        if initial is None:
            initial_text = "?"
        elif view.detail.shows_types:
            initial_text = argument_text(ArgumentOutline(initial, carried.initial_value))
        else:
            initial_text = (
                shorten_name(initial, 28) if isinstance(initial, str) else value_text(initial, 28)
            )
        type_text = f" · {carried.type}" if view.detail.shows_types and carried.type else ""
        yield Terminal(
            "enter",
            f"v{k}",
            carried.input_name or f"carried {k}",
            f"← {initial_text}{type_text}",
            (initial,),
            carried.input_name,
        )


def _carried_outputs(loop: LoopOutline, view: View) -> Iterator[Terminal]:
    """Yield the drawn outputs for a loop's carried values."""
    for k, carried in enumerate(loop.carried_values):
        name = carried.output_name or f"carried {k}"
        remark = _output_remark(loop, view, carried.ports, carried.type)
        yield Terminal("leave", f"v{k}", name, remark, ports=carried.ports)


def _recorded_terminals(loop: LoopOutline, view: View) -> Iterator[Terminal]:
    """Yield the drawn outputs for a loop's recorded values."""
    for k, recorded in enumerate(loop.recorded_values):
        remark = _output_remark(loop, view, recorded.ports, recorded.type, recorded.remark)
        yield Terminal("recorded", f"r{k}", recorded.name, remark, ports=recorded.ports)


def _report_terminals(loop: LoopOutline, view: View) -> Iterator[Terminal]:
    """Yield the drawn outputs that report on a loop's run, such as the iteration count."""
    for k, report in enumerate(loop.reports):
        remark = _output_remark(loop, view, report.ports, "")
        name = report.name.replace("_", " ")
        yield Terminal("result", f"x{k}", name, remark, ports=report.ports)


def _output_remark(
    loop: LoopOutline, view: View, ports: tuple[str, ...], type_text: str, remark: str = ""
) -> str:
    """Format a remark on an output of a loop: its ports, options, type and observed value."""
    observed_value = describe_terminal(view.observation, loop, ports[0]) if ports else ""
    return _ports_text(ports, remark, type_text if view.detail.shows_types else "", observed_value)


def _ports_text(ports: tuple[str, ...], *remarks: str) -> str:
    """Format the output ports of a result, followed by remarks: `→ y · float64[3]`."""
    return " · ".join(text for text in (f"→ {', '.join(ports)}" if ports else "", *remarks) if text)


def _slice_terminals(loop: LoopOutline) -> Iterator[Terminal]:
    """Yield the drawn inputs for a loop's sliced inputs."""
    for k, sliced in enumerate(loop.sliced_inputs):
        remark = ", ".join(text for text in (f"= {slice_text(sliced)}", sliced.remark) if text)
        name = sliced.name or f"input {k}"
        yield Terminal("sliced", f"s{k}", name, remark, (sliced.source_expression,), sliced.name)


def _delay_terminals(loop: LoopOutline) -> Iterator[Terminal]:
    """Yield the drawn inputs for a loop's delayed values (values of earlier iterations)."""
    for k, delayed in enumerate(loop.delayed_values):
        initial_expression = delayed.initial_expression
        initial_text = (
            "" if initial_expression is None else f"← {value_text(initial_expression, 20)}, then "
        )
        remark = f"{initial_text}{delay_text(delayed)}"
        yield Terminal(
            "delayed", f"d{k}", delayed.name, remark, (initial_expression,), delayed.name
        )


def _capture_terminals(block: Block, view: View) -> Iterator[Terminal]:
    """Yield the drawn inputs for the outer values that a loop or conditional captures."""
    for k, capture in enumerate(block.captures):
        value_remark = "" if capture.value is None else f" = {value_text(capture.value, 24)}"
        yield Terminal(
            "captured",
            f"o{k}",
            f"{capture.name}{value_remark}",
            capture.type if view.detail.shows_types else "",
            (capture.name,),
            capture.name,
        )


def back_edges(loop: LoopOutline) -> Iterator[tuple[str, str, str]]:
    """Yield the output key, the input key and the label of each value that a later iteration reads."""
    for k in range(len(loop.carried_values)):
        yield f"v{k}", f"v{k}", "t+1"
    key_by_name = {carried.output_name: f"v{k}" for k, carried in enumerate(loop.carried_values)}
    key_by_name |= {recorded.name: f"r{k}" for k, recorded in enumerate(loop.recorded_values)}
    for k, delayed in enumerate(loop.delayed_values):
        if delayed.source_name in key_by_name:
            label = f"t+{value_text(delayed.iterations_back)}"
            yield key_by_name[delayed.source_name], f"d{k}", label


# --- conditionals -----------------------------------------------------------------------------


def _conditional_rows(conditional: ConditionalOutline, view: View) -> Rows:
    """Return the inputs and outputs of a conditional, as rows (input, output).

    The selector is first, then captures are beside results.
    """
    selector = Terminal(
        "choose",
        "c",
        argument_text(conditional.selector) if conditional.selector else "?",
        "condition" if conditional.kind == "if" else "number of the branch",
        tuple(conditional.expressions),
    )
    return tuple(
        zip_longest(
            (selector, *_capture_terminals(conditional, view)),
            _joined_terminals(conditional, view),
        )
    )


def _joined_terminals(conditional: ConditionalOutline, view: View) -> Iterator[Terminal]:
    """Yield the drawn outputs for the results of a conditional."""
    for k, joined in enumerate(conditional.joined_results):
        name, remark = joined.name, joined.type if view.detail.shows_types else ""
        if conditional.id == IMPORTED_FUNCTION_ID and joined.ports:
            name = ", ".join(joined.ports)
        else:
            remark = _ports_text(joined.ports, remark)
        yield Terminal("join", f"r{k}", name, remark, ports=joined.ports)


def terminal_rows(block: Block, view: View) -> Rows:
    """Return the inputs and outputs of a loop or conditional, as rows (input, output)."""
    match block:
        case LoopOutline():
            return _loop_rows(block, view)
        case ConditionalOutline():
            return _conditional_rows(block, view)
