"""Text of the changes that each pass makes to a program, as a diff.

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
from mdf_loop.pipeline import PassOrder, run_passes_in_turn

_CONTEXT_LINES = 1
"""Number of unchanged lines that are shown before and after changed lines."""


def changes(program: Program, order: PassOrder) -> str:
    """Return the program, and a diff of the changes that each pass makes, as text.

    Raises:
        UnsupportedError: A pass refuses the program.
    """
    program_lines = str(program).splitlines()
    report_lines = ["as read", *(f"  {line}" for line in program_lines)]
    for pass_name, program_after in run_passes_in_turn(program, order):
        lines_before, program_lines = program_lines, str(program_after).splitlines()
        report_lines += _format_diff(pass_name, lines_before, program_lines)
    return "\n".join(report_lines) + "\n"


def _format_diff(name: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a diff of the program before and after one pass."""
    if before == after:
        yield f"after {name}: nothing"
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    yield f"after {name}: {_count_changes(matcher, before, after)}"
    shown_lines_end = 0
    for change_group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        if change_group[0][1] > shown_lines_end:
            yield "    ..."
        for change_kind, old_start, old_end, new_start, new_end in change_group:
            line_mark = " " if change_kind == "equal" else "-"
            yield from (f"  {line_mark} {line}" for line in before[old_start:old_end])
            if change_kind != "equal":
                yield from (f"  + {line}" for line in after[new_start:new_end])
            shown_lines_end = old_end
    if shown_lines_end < len(before):
        yield "    ..."


def _count_changes(
    matcher: SequenceMatcher[str], before: Sequence[str], after: Sequence[str]
) -> str:
    """Return the numbers of moved, removed and added lines as text."""
    removed_lines: Counter[str] = Counter()
    new_lines: Counter[str] = Counter()
    for change_kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if change_kind != "equal":
            removed_lines.update(line.strip() for line in before[old_start:old_end])
            new_lines.update(line.strip() for line in after[new_start:new_end])
    moved_lines = removed_lines & new_lines
    line_counts = {
        "moved": moved_lines.total(),
        "gone": (removed_lines - moved_lines).total(),
        "new": (new_lines - moved_lines).total(),
    }
    phrases = [
        f"{line_count} {change_word}"
        for change_word, line_count in line_counts.items()
        if line_count
    ]
    noun = "line" if phrases[0].startswith("1 ") else "lines"
    return ", ".join(phrases).replace(" ", f" {noun} ", 1)
