"""A loop or a choice as one line of pseudo-code, and its values as short texts."""

from __future__ import annotations

from mdf_loop.outline.parts import Block, ChoiceOutline, LoopOutline
from mdf_loop.outline.text import named, value_text
from mdf_loop.outline.values import ArgumentOutline, DelayOutline, SliceOutline

_NAMED_CASES = 4
"""Up to so many branches are named one by one."""


def headline(block: Block) -> str:
    """`for i in range(M=10) while keepgoing`, `scan over x`, `if hot … else …`, and so on."""
    match block:
        case LoopOutline():
            return _loop(block)
        case ChoiceOutline():
            return _choice(block)


def closed(block: Block) -> str:
    """A block whose graphs are not shown: as its headline, but `if hot (2 branches)`."""
    match block:
        case LoopOutline():
            return _loop(block)
        case ChoiceOutline():
            return _closed_choice(block)


def _loop(loop: LoopOutline) -> str:
    if loop.in_the_middle:
        return f"{_middle(loop)} while {_next(loop)}, tested in the middle"
    match loop.kind:
        case "for":
            return _for(loop)
        case "for-while":
            return f"{_for(loop)} while {_condition(loop)}"
        case "while":
            return f"while {_condition(loop)}"
        case "do-while":
            return f"do … while {_next(loop)}"
        case "sliced":
            return f"for each row of {sources(loop)}"
        case "sliced-while":
            return f"for each row of {sources(loop)} while {_condition(loop)}"
        case "scan":
            return f"scan over {sources(loop)}"
        case "map":
            return f"for each element of {sources(loop)}"
        case "over time":
            return "for each time step"
        case _:
            return "loop forever"


def _middle(loop: LoopOutline) -> str:
    if loop.trip_count is not None:
        return _for(loop)
    return f"for each row of {sources(loop)}" if loop.slices else "loop"


def _next(loop: LoopOutline) -> str:
    return loop.continue_name or "condition"


def sources(loop: LoopOutline) -> str:
    """What a loop goes along: `x, y`."""
    found = dict.fromkeys(_source(part) for part in loop.slices if part.indices)
    return ", ".join(found) or "?"


def _source(part: SliceOutline) -> str:
    if isinstance(part.source, str):
        return named(part.source, 32)
    return "?" if part.source is None else value_text(part.source, 32)


def _for(loop: LoopOutline) -> str:
    trips = "?" if loop.trip_count is None else _shown(loop.trip_count)
    return f"for {loop.iteration or 'i'} in range(M={trips})"


def _shown(argument: ArgumentOutline) -> str:
    known = argument.value if argument.value is not None else argument.expression
    return value_text(known, 32)


def _condition(loop: LoopOutline) -> str:
    """The start condition's name; the body's where that is no name, or one of a constant elsewhere."""
    if loop.start is None:
        return loop.continue_name
    written = loop.start.expression
    is_name = isinstance(written, str) and written.strip() not in ("True", "true")
    if is_name and not (loop.start.brought and loop.start.value is True):
        return value_text(written, 40)
    return loop.continue_name or value_text(written, 40)


# --- choices ----------------------------------------------------------------------------------


def _choice(choice: ChoiceOutline) -> str:
    if choice.kind == "if":
        return f"if {selector_text(choice)} … else …"
    count = _cases(choice)
    numbers = [str(k) for k in range(count)]
    if count > _NAMED_CASES:
        numbers = [f"{numbers[0]} … {numbers[-1]}"]
    said = [*numbers, *(["else"] if len(choice.branches) > count else [])]
    return f"case of {selector_text(choice)}: {', '.join(said)}"


def _closed_choice(choice: ChoiceOutline) -> str:
    word = "if" if choice.kind == "if" else "case of"
    count = len(choice.branches)
    return f"{word} {selector_text(choice)} ({count} {'branch' if count == 1 else 'branches'})"


def selector_text(choice: ChoiceOutline) -> str:
    """The condition or the number that chooses."""
    return "?" if choice.selector is None else value_text(choice.selector.expression, 40)


def _cases(choice: ChoiceOutline) -> int:
    return sum(branch.title != "else" for branch in choice.branches)


# --- values -----------------------------------------------------------------------------------


def slice_text(part: SliceOutline) -> str:
    """`x[:, i]`: what a sliced value is in iteration i."""
    return f"{_source(part)}[{part.indices}]" if part.indices else _source(part)


def delay_text(delay: DelayOutline) -> str:
    """`v_out, 2 iterations ago`."""
    back = value_text(delay.back)
    return f"{delay.of}, {back} {'iteration' if back == '1' else 'iterations'} ago"
