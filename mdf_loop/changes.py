"""Text of the changes of a program by each pass, as a diff.

    as read
      program(%x: float64[2])
        ...
    after eliminate_dead_code: nothing
    after hoist_invariants: 1 line moved
      +   %Mul: float64[2] = Mul(%a, %a)
          loop %i < %n
            carry %x: float64[2] from %x0 to %Add giving %final
      -     %Mul: float64[2] = Mul(%a, %a)
            %Add: float64[2] = Add(%x, %Mul)
        ...
    after sink_into_branches: nothing

The lines are those of `print(program)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from mdf_loop.ir import Program
from mdf_loop.pipeline import Order, run_passes_in_turn

_CONTEXT_LINES = 1
"""Number of unchanged lines that are shown before and after changed lines."""


def changes(program: Program, order: Order) -> str:
    """Return the program, and the changes of each pass of an order, as text.

    Raises:
        UnsupportedError: A pass refuses the program.
    """
    lines = str(program).splitlines()
    lines_of_changes = ["as read", *(f"  {line}" for line in lines)]
    for name, after in run_passes_in_turn(program, order):
        before, lines = lines, str(after).splitlines()
        lines_of_changes += _format_diff(name, before, lines)
    return "\n".join(lines_of_changes) + "\n"


def _format_diff(name: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a diff of the program before and after one pass."""
    if before == after:
        yield f"after {name}: nothing"
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    yield f"after {name}: {_count_changes(matcher, before, after)}"
    last_shown = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] > last_shown:
            yield "    ..."
        for tag, first, last, new_first, new_last in group:
            mark = " " if tag == "equal" else "-"
            yield from (f"  {mark} {line}" for line in before[first:last])
            if tag != "equal":
                yield from (f"  + {line}" for line in after[new_first:new_last])
            last_shown = last
    if last_shown < len(before):
        yield "    ..."


def _count_changes(
    matcher: SequenceMatcher[str], before: Sequence[str], after: Sequence[str]
) -> str:
    """Return a text with the numbers of lines that were moved (also between bodies), removed and added."""
    removed: Counter[str] = Counter()
    new: Counter[str] = Counter()
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag != "equal":
            removed.update(line.strip() for line in before[first:last])
            new.update(line.strip() for line in after[new_first:new_last])
    moved = removed & new
    counts = {
        "moved": moved.total(),
        "gone": (removed - moved).total(),
        "new": (new - moved).total(),
    }
    phrases = [f"{many} {word}" for word, many in counts.items() if many]
    noun = "line" if phrases[0].startswith("1 ") else "lines"
    return ", ".join(phrases).replace(" ", f" {noun} ", 1)
