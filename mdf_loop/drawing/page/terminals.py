"""Inputs and outputs (terminals) of a loop or conditional on a page, with their connections.

    for i in range(n): x' = f(x, a)        # M, cond, carried, captured

    input_terminals  N: n    v0: the initial x    o0: a
    terminal_by_name i: i    x: v0                a: o0
    output_keys      v0 <- x'
    back_edges       v0 -> v0

Keys of inputs are N (trip count), i (iteration), c (condition), v (carried), s (sliced), d (delayed) and o
(captured). Keys of outputs are r (recorded) and x (report). The number of the value follows the letter.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mdf_loop.drawing.terminal_tables import (
    Rows,
    conditional_terminal_rows,
    loop_terminal_rows,
    tests_condition,
)
from mdf_loop.drawing.theme import DETAIL_LEVELS
from mdf_loop.drawing.view import View
from mdf_loop.outline import Block, CaptureOutline, ConditionalOutline, LoopOutline
from mdf_loop.outline.text import value_text

FULL_VIEW = View(DETAIL_LEVELS[-1])
"""View of the highest level, because a page has the whole content of a model."""


class InputTerminal(Struct, frozen=True):
    """Drawn input of a loop or conditional, with the expressions from outside that it reads."""

    key: str
    expressions: tuple[Any, ...]
    line_style: str = "data"


class Terminals(Struct, frozen=True):
    """Inputs and outputs (terminals) of a loop or conditional, and their connections on both sides.

    Attributes:
        rows: Left and right terminals of each row.
        input_terminals: Left terminals, with the expressions that each terminal reads.
        key_by_port: Key of the right terminal of each output port.
        result_keys: Keys of the right terminals by position of the result.
        terminal_by_name: Key of the left terminal and line style of each name in the body.
        output_keys: Keys of the right terminals in the order of the body's outputs.
        back_edges: Right key, left key and label of each value that a later iteration reads.
    """

    rows: Rows
    input_terminals: tuple[InputTerminal, ...]
    key_by_output_port: dict[str, str]
    result_keys: tuple[str, ...]
    terminal_by_name: dict[str, tuple[str, str]]
    output_keys: tuple[str, ...] = ()
    back_edges: tuple[tuple[str, str, str], ...] = ()


def build_terminals(block: Block) -> Terminals:
    """Return the inputs and outputs (terminals) of a loop or conditional, and their connections."""
    match block:
        case LoopOutline():
            return _build_loop_terminals(block)
        case ConditionalOutline():
            return _build_conditional_terminals(block)


def _build_loop_terminals(loop: LoopOutline) -> Terminals:
    """Return the inputs and outputs (terminals) of a loop, and their connections."""
    carried_terminal_keys = tuple(f"v{k}" for k in range(len(loop.carried_values)))
    recorded_keys = tuple(f"r{k}" for k in range(len(loop.recorded_values)))
    loop_arguments = (("N", loop.trip_count), ("c", loop.start_condition))
    input_terminals = [
        InputTerminal(terminal_key, (argument.expression,))
        for terminal_key, argument in loop_arguments
        if argument is not None
    ]
    input_terminals += [
        InputTerminal(f"v{k}", (carried_value.initial_expression,))
        for k, carried_value in enumerate(loop.carried_values)
    ]
    input_terminals += [
        InputTerminal(f"s{k}", (sliced_input.source_expression,))
        for k, sliced_input in enumerate(loop.sliced_inputs)
    ]
    input_terminals += [
        InputTerminal(f"d{k}", (delayed_value.initial_expression,))
        for k, delayed_value in enumerate(loop.delayed_values)
    ]
    terminal_by_name = _capture_keys(loop.captures)
    terminal_by_name |= {
        carried_value.input_name: (f"v{k}", "data")
        for k, carried_value in enumerate(loop.carried_values)
    }
    terminal_by_name |= {
        sliced_input.name: (f"s{k}", "data") for k, sliced_input in enumerate(loop.sliced_inputs)
    }
    terminal_by_name |= {
        delayed_value.name: (f"d{k}", "data") for k, delayed_value in enumerate(loop.delayed_values)
    }
    terminal_by_name |= {loop.iteration_name: ("i", "data"), loop.condition_name: ("c", "data")}
    terminal_by_name.pop("", None)
    result_keys = (*carried_terminal_keys, *recorded_keys)
    key_by_output_port = dict(_keys_by_port(zip(loop.result_ports, result_keys, strict=True)))
    key_by_output_port |= dict(
        _keys_by_port((report.ports, f"x{k}") for k, report in enumerate(loop.reports))
    )
    return Terminals(
        rows=loop_terminal_rows(loop, FULL_VIEW),
        input_terminals=(*input_terminals, *_capture_terminals(loop.captures)),
        key_by_output_port=key_by_output_port,
        result_keys=result_keys,
        terminal_by_name=terminal_by_name,
        output_keys=("c" if tests_condition(loop) else "", *result_keys),
        back_edges=(*((key, key, "t+1") for key in carried_terminal_keys), *_delay_edges(loop)),
    )


def _delay_edges(loop: LoopOutline) -> list[tuple[str, str, str]]:
    """Return the output terminal, input terminal and label of the back edge of each delayed value."""
    terminal_key_by_name = {
        carried_value.output_name: f"v{k}" for k, carried_value in enumerate(loop.carried_values)
    }
    terminal_key_by_name |= {
        recorded_value.name: f"r{k}" for k, recorded_value in enumerate(loop.recorded_values)
    }
    return [
        (
            terminal_key_by_name[delayed_value.source_name],
            f"d{k}",
            f"t+{value_text(delayed_value.iterations_back)}",
        )
        for k, delayed_value in enumerate(loop.delayed_values)
        if delayed_value.source_name in terminal_key_by_name
    ]


def _build_conditional_terminals(conditional: ConditionalOutline) -> Terminals:
    """Return the inputs and outputs (terminals) of a conditional, and their connections."""
    result_keys = tuple(f"r{k}" for k in range(len(conditional.joined_results)))
    return Terminals(
        rows=conditional_terminal_rows(conditional, FULL_VIEW.detail, FULL_VIEW.shows_captures),
        input_terminals=(
            InputTerminal("c", tuple(conditional.expressions)),
            *_capture_terminals(conditional.captures),
        ),
        key_by_output_port=dict(
            _keys_by_port(zip(conditional.result_ports, result_keys, strict=True))
        ),
        result_keys=result_keys,
        terminal_by_name=_capture_keys(conditional.captures),
        output_keys=result_keys,
    )


def _capture_terminals(captures: tuple[CaptureOutline, ...]) -> list[InputTerminal]:
    """Return the input terminals for the captured values of a loop or conditional."""
    return [
        InputTerminal(f"o{k}", (capture.name,), "capture") for k, capture in enumerate(captures)
    ]


def _capture_keys(captures: tuple[CaptureOutline, ...]) -> dict[str, tuple[str, str]]:
    """Map each captured name to the key of its input terminal and the style of its wires."""
    return {capture.name: (f"o{k}", "capture") for k, capture in enumerate(captures)}


def _keys_by_port(pairs: Any) -> list[tuple[str, str]]:
    """Expand pairs (output ports, key of a drawn output) to one pair per output port."""
    return [(port, terminal_key) for ports, terminal_key in pairs for port in ports]
