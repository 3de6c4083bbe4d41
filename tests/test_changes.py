"""What each pass changes, as text."""

from __future__ import annotations

from mdf_loop.changes import changes
from mdf_loop.passes.simplify.drop_unused import drop_unused
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.passes.simplify.merge_equal import merge_equal
from tests.passes.sketch import Sketch


def test_a_line_that_moves_comes_and_goes_and_what_stays_is_one_line() -> None:
    s = Sketch()
    drive = s.body.op("Mul", s.a, s.a)
    leave = s.body.op("Add", s.x, drive)
    program = s.program(y=s.loop(leave).carried[0].final)
    assert changes(program, (merge_equal, hoist_invariants, drop_unused)).splitlines() == [
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
        "after merge_equal: nothing",
        "after hoist_invariants: 1 line moved",
        "    ...",
        "      %true: bool[] = True",
        "  +   %Mul: float64[2] = Mul(%a, %a)",
        "      loop %i < %n",
        "        carry %x: float64[2] from %x0 to %Add giving %final",
        "  -     %Mul: float64[2] = Mul(%a, %a)",
        "        %Add: float64[2] = Add(%x, %Mul)",
        "    ...",
        "after drop_unused: 4 lines gone",
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
    assert "after merge_equal: 2 lines gone, 1 new\n" in changes(program, (merge_equal,))
