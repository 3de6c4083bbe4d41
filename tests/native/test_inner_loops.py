"""Loops inside of native ones: the rows that they are given, and those that they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import Carried, Loop, Program, Scanned
from mdf_loop.run.onnxruntime.session import Session
from tests.native.test_support import Sketch
from tests.placements import REQUIRED, STANDARD


def feeds(program: Program, **given: object) -> dict[str, np.ndarray]:
    return {e.value.name: np.asarray(given[e.value.name]) for e in program.inputs}


def same(program: Program, **given: object) -> Mapping[str, Any]:
    """What both ways give."""
    made, expected = (
        Session(program, where).run(feeds(program, **given)) for where in (REQUIRED, STANDARD)
    )
    for name, array in expected.items():
        np.testing.assert_array_equal(made[name], array, strict=True)
    return made


# --- rows that are scanned ------------------------------------------------------------------------


def summing(*, waits: bool) -> Program:
    """The sum of the first rows, inside of a loop: as many as a number or a condition says."""
    s = Sketch()
    rows, trip, flag = s.given("float64", (4,), "rows"), s.given("int64", (), "trip"), None
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    enter, row = inner.new("float64", (), "enter"), inner.new("float64", (), "row")
    leave, final = inner.op("Add", enter, row), s.inside.new("float64", (), "final")
    if waits:
        flag, one = s.given("bool", (), "flag"), s.b.constant(np.array(1))
        more = inner.op("Less", inner.op("Add", j, one), trip)
    zero = s.b.constant(np.array(0.0))
    s.inside.append(
        Loop(
            *("A.g", None if waits else trip, flag, j, go, more if waits else None),
            *((Carried(zero, enter, leave, final),), (), tuple(inner.ops)),
            scanned=(Scanned(rows, row),),
        )
    )
    return s.program(s.record(final))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("trip", [1, 3, 4, 5, 2**62])
def test_as_many_rows_as_there_are(waits: bool, trip: int) -> None:
    program = summing(waits=waits)
    given = {"rows": np.arange(1.0, 5.0), "trip": trip, "flag": True}
    if trip <= 4:
        same(program, **given)
        return
    with pytest.raises(RunError, match="the loop has more iterations than 'rows' has rows"):
        Session(program, REQUIRED).run(feeds(program, **given))
    with pytest.raises(LoopError):
        Session(program, STANDARD).run(feeds(program, **given))


def test_rows_around_are_no_concern_of_a_loop_inside() -> None:
    """It may have more iterations than the loop around it has rows."""
    s = Sketch()
    row, flag = s.scan(s.given("float64", (3,), "rows")), s.given("bool", (), "flag")
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    enter, final = inner.new("float64", (), "enter"), s.inside.new("float64", (), "final")
    leave, more = inner.op("Add", enter, row), inner.op("Less", j, s.b.constant(np.array(9)))
    carried = (Carried(s.b.constant(np.array(0.5)), enter, leave, final),)
    s.inside.append(Loop("A.g", None, flag, j, go, more, carried, (), tuple(inner.ops)))
    same(s.program(s.record(final)), rows=np.arange(3.0), flag=True)
