"""A loop as one line of pseudo-code."""

from __future__ import annotations

from mdf_loop.outline.parts import ArgumentOutline, LoopOutline
from mdf_loop.outline.text import value_text


def headline(loop: LoopOutline) -> str:
    """`for i in range(M=10) while keepgoing`, `do … while keepgoing_out`, and so on."""
    match loop.kind:
        case "for":
            return _for(loop)
        case "for-while":
            return f"{_for(loop)} while {_condition(loop)}"
        case "while":
            return f"while {_condition(loop)}"
        case "do-while":
            return f"do … while {loop.continue_name or 'condition'}"
        case "over time":
            return "for each time step"
        case _:
            return "loop forever"


def _for(loop: LoopOutline) -> str:
    trips = "?" if loop.trip_count is None else _shown(loop.trip_count)
    return f"for {loop.iteration or 'i'} in range(M={trips})"


def _shown(argument: ArgumentOutline) -> str:
    known = argument.value if argument.value is not None else argument.expression
    return value_text(known, 32)


def _condition(loop: LoopOutline) -> str:
    """The start condition's name; where that is no name, the body's."""
    written = loop.start.expression if loop.start is not None else ""
    is_name = isinstance(written, str) and written.strip() not in ("True", "true")
    return value_text(written, 40) if is_name else loop.continue_name or value_text(written, 40)
