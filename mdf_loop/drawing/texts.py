"""Texts about nodes, loops and conditionals that all renderers show."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from mdf_loop.drawing.theme import IMPORTED_FUNCTION_ID, MARKS
from mdf_loop.outline import Block, DefinitionOutline, LoopOutline, NodeOutline
from mdf_loop.outline.text import call_text, formula_lines, shorten_name

MAX_COUNTED_EVENTS_LINE_LENGTH = 90
"""Maximum number of characters in a line about the scheduler's counted events."""


def wrap_text(text: str, width: int) -> list[str]:
    """Break a long formula at spaces into several lines."""
    return textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False) or [""]


def node_remarks(node: NodeOutline) -> Iterator[tuple[str, str]]:
    """Yield remarks about a node, such as its scheduler condition, each with its kind in `MARKS`."""
    if node.scheduler_condition:
        yield "schedule", f"{MARKS['schedule'].sign} {node.scheduler_condition}"
    if node.is_random:
        yield "noise", f"{MARKS['noise'].sign} draws random numbers"
    if node.is_before_test:
        yield "before_test", f"{MARKS['before_test'].sign} before the test"


def definition_formulas(
    definition: DefinitionOutline, max_name_length: int | None = None
) -> Iterator[str]:
    """Yield the formulas of a parameter or function, such as `↻ V(0) = -1`.

    The operator of an imported node is a call, `Add(A=x, B=y)`, with names of at most `max_name_length`.
    """
    state_sign = f"{MARKS['state'].sign} " if definition.is_stateful else ""
    if definition.function and definition.id == IMPORTED_FUNCTION_ID:
        arguments = tuple(
            (key, shorten_name(value, max_name_length or len(value)))
            if isinstance(value, str)
            else (key, value)
            for key, value in definition.arguments
        )
        yield state_sign + call_text(definition.function.removeprefix("onnx::"), arguments)
    else:
        yield from (state_sign + text for text in formula_lines(definition))


def block_name(block: Block) -> str:
    """Return the displayed name of a loop or conditional: `node · function`, or only the node."""
    is_unnamed = block.id in (block.owner_id, IMPORTED_FUNCTION_ID)
    return shorten_name(block.owner_id, 60) if is_unnamed else f"{block.owner_id} · {block.id}"


def describe_schedule(loop: LoopOutline) -> list[str]:
    """Describe when an evaluation of a scheduled model ends, and which events the scheduler counts."""
    body = loop.body
    if body is None or loop.kind != "over time" or not body.is_scheduled:
        return []
    termination_texts = [text.removeprefix("each evaluation ") for text in body.termination]
    schedule_lines = [
        f"an evaluation {text}" for text in termination_texts or ["ends when all nodes have run"]
    ]
    if body.counted_events:
        schedule_lines += wrap_text(
            f"counted: {', '.join(body.counted_events)}", MAX_COUNTED_EVENTS_LINE_LENGTH
        )
    return schedule_lines
