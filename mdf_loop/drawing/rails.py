"""The two rails of a loop frame: terminals in, terminals out, carried pairs in one row.

A rail is one table, so its rows cannot be reordered by the layout; both rails have the same
number of rows of the same height, so a pair stands on one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from msgspec import Struct

from mdf_loop.drawing.canvas import Canvas, End
from mdf_loop.drawing.labels import badge, bold, cell, lines, row, small, styled, table
from mdf_loop.drawing.observed import terminal_words
from mdf_loop.drawing.theme import BADGE, CHIP_LINE, IMPORTED, PAPER, ROW, Detail
from mdf_loop.drawing.view import View
from mdf_loop.outline import (
    ArgumentOutline,
    Block,
    CaptureOutline,
    ChoiceOutline,
    LoopOutline,
    Observation,
)
from mdf_loop.outline.scope import literal_value
from mdf_loop.outline.text import shorten, shorten_name, value_text
from mdf_loop.outline.words import delay_text, slice_text


class Terminal(Struct, frozen=True):
    """A row of a rail: its kind, a key for its ports, a name, and what is said below it."""

    kind: str
    key: str
    name: str
    below: str = ""


BELOW = 64
"""Letters below the name of a terminal."""
_LETTER = 7.2
"""Width of a letter of a rail."""

Rows = tuple[tuple[Terminal | None, Terminal | None], ...]
"""Left and right terminal of each row; None where a side has none."""


def rail_rows(loop: LoopOutline, view: View) -> Rows:
    """Trip count, iteration, condition, carried pairs; then captures beside recorded values."""
    detail, captures, told = view.detail, view.captures, view.observation
    rows: list[tuple[Terminal | None, Terminal | None]] = []
    if loop.trip_count is not None:
        text = assigned(loop.trip_count)
        often = "evaluations" if loop.kind == "over time" else "iterations"
        often += "" if loop.start is None else " at most"
        rows.append((Terminal("trip_count", "N", text, often), None))
    if loop.iteration:
        rows.append((Terminal("iteration", "i", loop.iteration, "0, 1, 2, …"), None))
    rows.append((_start(loop), _stop(loop)))
    rows += [
        (_enter(loop, k, detail), _leave(loop, k, detail, told)) for k in range(len(loop.carried))
    ]
    left = [*_sliced(loop), *_delayed(loop)]
    left += _captures(loop.captures, detail) if captures else []
    right = [*_recorded(loop, detail, told), *_results(loop, told)]
    rows += zip_longest(left, right)
    return tuple(pair for pair in rows if pair != (None, None)) or ((None, None),)


def choice_rows(choice: ChoiceOutline, detail: Detail, captures: bool) -> Rows:
    """What chooses, then captures; beside them the results."""
    left = [_selector(choice), *(_captures(choice.captures, detail) if captures else [])]
    right = [_join(choice, k, detail) for k in range(len(choice.joins))]
    return tuple(zip_longest(left, right))


def _selector(choice: ChoiceOutline) -> Terminal:
    below = "condition" if choice.kind == "if" else "number of the branch"
    return Terminal("choose", "c", assigned(choice.selector) if choice.selector else "?", below)


def _join(choice: ChoiceOutline, k: int, detail: Detail) -> Terminal:
    join = choice.joins[k]
    kind = join.type if detail.types else ""
    if choice.id == IMPORTED and join.ports:
        return Terminal("join", f"r{k}", ", ".join(join.ports), kind)
    return Terminal("join", f"r{k}", join.name, _taken(join.ports, kind))


def tested(loop: LoopOutline) -> bool:
    """Whether the body's condition is looked at."""
    return loop.start is not None or loop.has_mid_exit


def assigned(argument: ArgumentOutline) -> str:
    """`n = 10`: an expression, and its value where that is fixed."""
    written = value_text(argument.expression)
    is_literal = literal_value(written) is not None or not isinstance(argument.expression, str)
    if argument.value is None or is_literal:
        return written
    return f"{written} = {value_text(argument.value, 24)}"


def _start(loop: LoopOutline) -> Terminal | None:
    if loop.start is not None:
        below = f"← {assigned(loop.start)}"
        return Terminal("start", "c", loop.condition_in or "condition", below)
    is_read = loop.body is not None and any(i.source == "condition" for i in loop.body.inputs)
    return Terminal("start", "c", loop.condition_in, "always true") if is_read else None


def _stop(loop: LoopOutline) -> Terminal | None:
    if not tested(loop):
        return None
    said = "tested in the middle" if loop.has_mid_exit else loop.condition_text
    return Terminal("stop", "c", loop.continue_name or "condition", said)


def _enter(loop: LoopOutline, k: int, detail: Detail) -> Terminal:
    pair = loop.carried[k]
    said = "?" if pair.initial is None else _said(pair.initial)
    if detail.types and pair.initial is not None:
        said = assigned(ArgumentOutline(pair.initial, pair.initial_value))
    kind = f" · {pair.type}" if detail.types and pair.type else ""
    return Terminal("enter", f"v{k}", pair.enter or f"carried {k}", f"← {said}{kind}")


def _said(expression: object) -> str:
    return (
        shorten_name(expression, 28) if isinstance(expression, str) else value_text(expression, 28)
    )


def _leave(loop: LoopOutline, k: int, detail: Detail, told: Observation | None) -> Terminal:
    pair = loop.carried[k]
    kind = pair.type if detail.types else ""
    said = _taken(pair.ports, kind, _observed(told, loop, pair.ports))
    return Terminal("leave", f"v{k}", pair.leave or f"carried {k}", said)


def _recorded(loop: LoopOutline, detail: Detail, told: Observation | None) -> Iterable[Terminal]:
    for k, recorded in enumerate(loop.recorded):
        kind = recorded.type if detail.types else ""
        seen = _observed(told, loop, recorded.ports)
        said = _taken(recorded.ports, recorded.how, kind, seen)
        yield Terminal("recorded", f"r{k}", recorded.name, said)


def _results(loop: LoopOutline, told: Observation | None) -> Iterable[Terminal]:
    for k, result in enumerate(loop.results):
        said = _taken(result.ports, _observed(told, loop, result.ports))
        yield Terminal("result", f"x{k}", result.name.replace("_", " "), said)


def _observed(told: Observation | None, loop: LoopOutline, ports: tuple[str, ...]) -> str:
    """What a run says of the first port that takes a result."""
    return terminal_words(told, loop, ports[0]) if ports else ""


def _taken(ports: tuple[str, ...], *said: str) -> str:
    return " · ".join(part for part in (f"→ {', '.join(ports)}" if ports else "", *said) if part)


def _sliced(loop: LoopOutline) -> Iterable[Terminal]:
    for k, part in enumerate(loop.slices):
        below = ", ".join(said for said in (f"= {slice_text(part)}", part.how) if said)
        yield Terminal("sliced", f"s{k}", part.name or f"input {k}", below)


def _delayed(loop: LoopOutline) -> Iterable[Terminal]:
    for k, delay in enumerate(loop.delays):
        first = "" if delay.initial is None else f"← {value_text(delay.initial, 20)}, then "
        yield Terminal("delayed", f"d{k}", delay.name, f"{first}{delay_text(delay)}")


def _captures(found: Iterable[CaptureOutline], detail: Detail) -> Iterable[Terminal]:
    for k, capture in enumerate(found):
        value = "" if capture.value is None else f" = {value_text(capture.value, 24)}"
        below = capture.type if detail.types else ""
        yield Terminal("captured", f"o{k}", f"{capture.name}{value}", below)


# --- drawing ----------------------------------------------------------------------------------


class Rail(Struct, frozen=True):
    """A drawn rail; terminals are reached by kind and key from outside and from inside."""

    name: str
    outer_side: str
    inner_side: str

    def outer(self, key: str) -> End:
        """The end outside the frame."""
        return End(self.name, f"{key}_o", self.outer_side)

    def inner(self, key: str, side: str = "") -> End:
        """The end inside the frame."""
        return End(self.name, f"{key}_i", side or self.inner_side)


def draw_rails(
    canvas: Canvas, block: Block, rows: Rows, title: tuple[list[str], list[str]]
) -> tuple[Rail, Rail]:
    """Draw both rails of a loop or a choice; a title stands in front of rails that are lines.

    There no edge comes, while edges from above would cross it in the frame's corner.
    """
    direction = canvas.direction
    canvas.kinds.update(t.kind for pair in rows for t in pair if t is not None)
    rails = []
    for side, word in enumerate(("in", "out")):
        name = canvas.name(block.owner, block.id, word)
        terminals = [pair[side] for pair in rows]
        if direction.sideways:
            made = list(_column(terminals, side))
        else:
            made = _with_title(list(_line(terminals, side, _widths(rows))), side, *title)
        content = table((row(cells) for cells in made), CELLSPACING=3)
        canvas.node(name, content, "terminals", block.path)
        outer, inner = direction.enter, direction.leave
        rails.append(Rail(name, outer, inner) if side == 0 else Rail(name, inner, outer))
    return rails[0], rails[1]


def _column(terminals: list[Terminal | None], side: int) -> Iterable[list[str]]:
    """A rail for left to right: one row per terminal, its sign towards the body."""
    for terminal in terminals:
        if terminal is None:
            yield [cell("", HEIGHT=ROW), cell("", WIDTH=BADGE, HEIGHT=ROW)][:: 1 - 2 * side]
            continue
        align = "RIGHT" if side == 0 else "LEFT"
        text = _chip(terminal, align, HEIGHT=ROW)
        sign = badge(terminal.kind, 12, BADGE, ROW, PORT=f"{terminal.key}_i")
        yield [text, sign][:: 1 - 2 * side]


def _line(terminals: list[Terminal | None], side: int, widths: list[int]) -> list[list[str]]:
    """A rail for top to bottom: one column per terminal."""
    texts, signs = [], []
    for terminal, width in zip(terminals, widths, strict=True):
        if terminal is None:
            texts.append(cell("", WIDTH=width, HEIGHT=ROW))
            signs.append(cell("", HEIGHT=BADGE))
            continue
        texts.append(_chip(terminal, "CENTER", WIDTH=width, HEIGHT=ROW))
        signs.append(badge(terminal.kind, 12, width, BADGE, PORT=f"{terminal.key}_i"))
    return [texts, signs][:: 1 - 2 * side]


def _with_title(
    made: list[list[str]], side: int, head: list[str], below: list[str]
) -> list[list[str]]:
    """The title before the first rail, as much room before the other."""
    widths = [_LETTER * len(line) for line in head] + [5.0 * len(line) for line in below]
    if not widths:
        return made
    words = lines(*map(bold, head), *map(small, below), align="LEFT") if side == 0 else ""
    first = cell(words, ROWSPAN=2, WIDTH=int(max(widths)) + 12, ALIGN="LEFT", BALIGN="LEFT")
    return [[first, *made[0]], *made[1:]]


def _chip(terminal: Terminal, align: str, **size: int) -> str:
    content = lines(
        styled(shorten_name(terminal.name, 40)),
        small(shorten(terminal.below, BELOW)) if terminal.below else "",
        align=align,
    )
    return cell(
        content,
        PORT=f"{terminal.key}_o",
        ALIGN=align,
        BGCOLOR=PAPER,
        BORDER=1,
        COLOR=CHIP_LINE,
        **size,
    )


def _widths(rows: Rows) -> list[int]:
    """The width of each column, equal in both rails."""

    def needed(terminal: Terminal | None) -> int:
        if terminal is None:
            return BADGE
        return int(max(_LETTER * len(terminal.name), 5.8 * min(len(terminal.below), BELOW))) + 14

    return [max(needed(left), needed(right)) for left, right in rows]
