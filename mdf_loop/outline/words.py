"""One-line descriptions of loops and conditionals, and short texts of their values."""

from __future__ import annotations

from mdf_loop.outline.parts import Block, ConditionalOutline, LoopOutline
from mdf_loop.outline.text import shorten_name, value_text
from mdf_loop.outline.values import ArgumentOutline, DelayOutline, SliceOutline

_MAX_NAMED_CASES = 4
"""Maximum number of cases that a line lists one by one. For more cases, it has the first and the last number."""


def headline(block: Block) -> str:
    """Describe a loop or conditional in one line, such as `for i in range(M=10) while keepgoing`."""
    match block:
        case LoopOutline():
            return _loop_headline(block)
        case ConditionalOutline():
            return _conditional_headline(block)


def closed_headline(block: Block) -> str:
    """Describe a loop or conditional without its graphs in one line, such as `if hot (2 branches)`."""
    match block:
        case LoopOutline():
            return _loop_headline(block)
        case ConditionalOutline():
            return _closed_conditional_headline(block)


def _loop_headline(loop: LoopOutline) -> str:
    """Describe a loop in one line."""
    if loop.has_mid_exit:
        return f"{_mid_exit_head(loop)} while {_condition_name(loop)}, tested in the middle"
    match loop.kind:
        case "for":
            return _for_text(loop)
        case "for-while":
            return f"{_for_text(loop)} while {_condition_text(loop)}"
        case "while":
            return f"while {_condition_text(loop)}"
        case "do-while":
            return f"do … while {_condition_name(loop)}"
        case "sliced":
            return f"for each row of {slice_sources(loop)}"
        case "sliced-while":
            return f"for each row of {slice_sources(loop)} while {_condition_text(loop)}"
        case "scan":
            return f"scan over {slice_sources(loop)}"
        case "map":
            return f"for each element of {slice_sources(loop)}"
        case "over time":
            return "for each time step"
        case _:
            return "loop forever"


def _mid_exit_head(loop: LoopOutline) -> str:
    """Describe in one line a loop whose condition is tested in the middle of its body."""
    if loop.trip_count is not None:
        return _for_text(loop)
    return f"for each row of {slice_sources(loop)}" if loop.sliced_inputs else "loop"


def _condition_name(loop: LoopOutline) -> str:
    """Return the name of the condition that a loop's body computes."""
    return loop.continue_name or "condition"


def slice_sources(loop: LoopOutline) -> str:
    """Return the names of the arrays or sequences that a loop iterates over, such as `x, y`."""
    source_names = dict.fromkeys(
        _slice_source(sliced_input) for sliced_input in loop.sliced_inputs if sliced_input.indices
    )
    return ", ".join(source_names) or "?"


def _slice_source(sliced_input: SliceOutline) -> str:
    """Return the name of the array that a sliced input reads."""
    if isinstance(sliced_input.source_expression, str):
        return shorten_name(sliced_input.source_expression, 32)
    return (
        "?"
        if sliced_input.source_expression is None
        else value_text(sliced_input.source_expression, 32)
    )


def _for_text(loop: LoopOutline) -> str:
    """Describe the trip count of a loop, such as `for i in range(M=10)`."""
    trip_count_text = "?" if loop.trip_count is None else _argument_text(loop.trip_count)
    return f"for {loop.iteration_name or 'i'} in range(M={trip_count_text})"


def _argument_text(argument: ArgumentOutline) -> str:
    """Format the value of an argument, or its expression if the value is unknown."""
    value_or_expression = argument.value if argument.value is not None else argument.expression
    return value_text(value_or_expression, 32)


def _condition_text(loop: LoopOutline) -> str:
    """Return the name or expression of a loop's start condition.

    The name of the body's condition replaces a literal, or a constant from another node.
    """
    if loop.start_condition is None:
        return loop.continue_name
    expression = loop.start_condition.expression
    is_expression = isinstance(expression, str) and expression.strip() not in ("True", "true")
    if is_expression and not (
        loop.start_condition.comes_from_edge and loop.start_condition.value is True
    ):
        return value_text(expression, 40)
    return loop.continue_name or value_text(expression, 40)


# --- conditionals ----------------------------------------------------------------------------------


def _conditional_headline(conditional: ConditionalOutline) -> str:
    """Describe a conditional with its cases in one line."""
    if conditional.kind == "if":
        return f"if {selector_text(conditional)} … else …"
    case_count = _case_count(conditional)
    case_numbers = [str(k) for k in range(case_count)]
    if case_count > _MAX_NAMED_CASES:
        case_numbers = [f"{case_numbers[0]} … {case_numbers[-1]}"]
    case_texts = [*case_numbers, *(["else"] if len(conditional.branches) > case_count else [])]
    return f"case of {selector_text(conditional)}: {', '.join(case_texts)}"


def _closed_conditional_headline(conditional: ConditionalOutline) -> str:
    """Describe a conditional with its number of branches in one line."""
    kind_text = "if" if conditional.kind == "if" else "case of"
    branch_count = len(conditional.branches)
    return f"{kind_text} {selector_text(conditional)} ({branch_count} {'branch' if branch_count == 1 else 'branches'})"


def selector_text(conditional: ConditionalOutline) -> str:
    """Return the expression of the condition or number that selects a conditional's branch."""
    return "?" if conditional.selector is None else value_text(conditional.selector.expression, 40)


def _case_count(conditional: ConditionalOutline) -> int:
    """Return the number of a conditional's branches without the default branch."""
    return sum(branch.title != "else" for branch in conditional.branches)


# --- values -----------------------------------------------------------------------------------


def slice_text(sliced_input: SliceOutline) -> str:
    """Return the expression of a sliced input in iteration i, such as `x[:, i]`."""
    return (
        f"{_slice_source(sliced_input)}[{sliced_input.indices}]"
        if sliced_input.indices
        else _slice_source(sliced_input)
    )


def delay_text(delayed_value: DelayOutline) -> str:
    """Describe a delayed value, such as `v_out, 2 iterations ago`."""
    count_text = value_text(delayed_value.iterations_back)
    return f"{delayed_value.source_name}, {count_text} {'iteration' if count_text == '1' else 'iterations'} ago"
