"""Text output of the changes that each pass makes."""

from __future__ import annotations

from mdf_loop.changes import changes
from mdf_loop.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from tests.passes.sketch import Sketch


def test_a_moved_line_is_removed_and_added_and_unchanged_lines_are_omitted() -> None:
    s = Sketch()
    drive = s.body.op("Mul", s.a, s.a)
    leave = s.body.op("Add", s.x, drive)
    program = s.program(y=s.loop(leave).carried[0].final)
    assert changes(
        program, (eliminate_common_subexpressions, hoist_invariants, eliminate_dead_code)
    ).splitlines() == [
        "as read",
        "  program(%n: int64[], %x0: float64[2], %a: float64[2])",
        "    %true: bool[] = True",
        "    loop %i < %n",
        "      carry %x: float64[2] from %x0 to %Add giving %final",
        "      %Mul: float64[2] = Mul(%a, %a)",
        "      %Add: float64[2] = Add(%x, %Mul)",
        "      continue if %true",
        "      count giving %count",
        "      last condition giving %last",
        "    output y = %final",
        "after eliminate_common_subexpressions: nothing",
        "after hoist_invariants: 1 line moved",
        "    ...",
        "      %true: bool[] = True",
        "  +   %Mul: float64[2] = Mul(%a, %a)",
        "      loop %i < %n",
        "        carry %x: float64[2] from %x0 to %Add giving %final",
        "  -     %Mul: float64[2] = Mul(%a, %a)",
        "        %Add: float64[2] = Add(%x, %Mul)",
        "    ...",
        "after eliminate_dead_code: 4 lines gone",
        "    program(%n: int64[], %x0: float64[2], %a: float64[2])",
        "  -   %true: bool[] = True",
        "      %Mul: float64[2] = Mul(%a, %a)",
        "    ...",
        "        %Add: float64[2] = Add(%x, %Mul)",
        "  -     continue if %true",
        "  -     count giving %count",
        "  -     last condition giving %last",
        "      output y = %final",
    ]


def test_several_kinds_of_changes_are_counted() -> None:
    s = Sketch()
    first, second = s.b.op("Mul", s.a, s.a), s.b.op("Mul", s.a, s.a)
    program = s.program(y=s.b.op("Add", first, second))
    assert "after eliminate_common_subexpressions: 2 lines gone, 1 new\n" in changes(
        program, (eliminate_common_subexpressions,)
    )
