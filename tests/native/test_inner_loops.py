"""Loops inside of native ones: the rows that they are given, and those that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, RecordShapeError, RunError
from mdf_loop.ir import Carried, Loop, Program, Recorded, Scanned, Shape, Value
from mdf_loop.memory_limit import resident
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
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


# --- rows that are recorded -----------------------------------------------------------------------


class Rows:
    """A program of a loop of `trip` iterations, in which another one records `rows[i]` rows.

    They are squares, of the shape of `x`; the outer loop gives all of them on.
    """

    def __init__(
        self, shape: Shape = (), *, waits: bool = False, outer_waits: bool = False
    ) -> None:
        s = self.sketch = Sketch()
        self.x = s.given("float64", shape, "x")
        self.trip = s.given("int64", (), "trip")
        self.rows = s.scan(s.given("int64", (8,), "rows"))
        self.flag = s.given("bool", (), "flag") if waits or outer_waits else None
        self.stack = self.inside(waits=waits)
        self.outer_waits = outer_waits

    def inside(self, *, waits: bool) -> Value:
        s, one = self.sketch, self.sketch.b.constant(np.array(1))
        inner = s.inside.body()
        j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
        row = inner.op("Mul", self.x, inner.op("Cast", inner.op("Mul", j, j), to=11))
        more = inner.op("Less", inner.op("Add", j, one), self.rows) if waits else None
        begins = s.inside.op("Greater", self.rows, s.b.constant(np.array(0))) if waits else None
        stack = s.inside.new("float64", ("k", *(row.shape or ())), "stack")
        s.inside.append(
            Loop(
                *("A.g", None if waits else self.rows, begins, j, go, more, ()),
                *((Recorded(row, stack, "squares"),), tuple(inner.ops)),
                where="$.inner",
            )
        )
        return stack

    def program(self, *rows: Value) -> Program:
        s = self.sketch
        stacks = [s.record(row, "time") for row in rows or (self.stack,)]
        if not self.outer_waits:
            return s.program(*stacks, trip_count=self.trip, where="$.outer")
        more = s.inside.op("Less", s.inside.op("Add", s.i, s.b.constant(np.array(1))), self.trip)
        waits = {"trip_count": None, "condition": self.flag, "condition_out": more}
        return s.program(*stacks, **waits, where="$.outer")


def squares(rows: Sequence[int], x: object = 1.5) -> dict[str, Any]:
    padded = np.resize(rows, 8) if len(rows) else np.zeros(8)
    return {"x": np.asarray(x), "trip": len(rows), "rows": padded.astype(np.int64), "flag": True}


KINDS = {
    "counted": Rows,
    "waits": partial(Rows, waits=True),
    "outer waits": partial(Rows, outer_waits=True),
    "both wait": partial(Rows, waits=True, outer_waits=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 3, 8, 1000])
def test_as_many_rows_as_it_has_iterations(kind: str, count: int) -> None:
    made = same(KINDS[kind]().program(), **squares([count] * 3))
    assert made["y0"].shape == (3, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3,), (2, 3), ("n",), ("n", 2)])
def test_rows_that_are_arrays(kind: str, shape: Shape) -> None:
    x = np.arange(1.0, 7.0)[: 3 if len(shape or ()) == 1 else 6].reshape(-1, *(shape or ())[1:])
    same(KINDS[kind](shape).program(), **squares([17] * 4, x))


@pytest.mark.parametrize("kind", ["counted", "waits"])
def test_no_iterations_give_no_rows(kind: str) -> None:
    assert same(KINDS[kind]().program(), **squares([]))["y0"].shape == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (0, 1), (1, 0), (4, 4, 4, 5), (9, 9, 1000)])
def test_rows_that_differ_in_number(kind: str, counts: Sequence[int]) -> None:
    """Both ways say the same."""
    program = KINDS[kind]().program()
    said = []
    for where in (REQUIRED, STANDARD):
        with pytest.raises(RecordShapeError) as error:
            Session(program, where).run(feeds(program, **squares(counts)))
        said.append(error.value.findings)
    assert said[0] == said[1]


def test_rows_in_rows() -> None:
    """A loop that records what one inside of it has recorded."""
    s = Sketch()
    rows = s.given("int64", (2,), "rows")
    deep = s.inside.body()
    deepest = deep.body()
    j, go = deep.new("int64", (), "j"), deep.new("bool", (), "go")
    k, goes = deepest.new("int64", (), "k"), deepest.new("bool", (), "goes")
    number = deepest.op("Add", deepest.op("Mul", j, s.b.constant(np.array(10))), k)
    lines, table = deep.new("int64", ("b",), "lines"), s.inside.new("int64", ("a", "b"), "table")
    counts = [s.b.op("Gather", rows, s.b.constant(np.array(place)), axis=0) for place in (0, 1)]
    ops, inner = tuple(deepest.ops), (Recorded(number, lines),)
    deep.append(Loop("A.h", counts[1], None, k, goes, None, (), inner, ops))
    outer = (Recorded(lines, table),)
    s.inside.append(Loop("A.g", counts[0], None, j, go, None, (), outer, tuple(deep.ops)))
    program = s.program(s.record(table, "time"))
    for given in ([3, 4], [1, 1], [0, 4], [3, 0], [100, 70]):
        same(program, rows=np.array(given))


def test_rows_are_counted_anew_each_time() -> None:
    """What one iteration has recorded is no part of what the next one has."""
    same(Rows().program(), **squares([0, 0, 0]))
    rows = Rows()
    total = rows.sketch.inside.op("Identity", rows.rows)
    same(rows.program(rows.stack, total), **squares([5, 5]))


def test_what_is_recorded_takes_no_memory_that_stays() -> None:
    program = Rows().program()
    session = Session(program, REQUIRED)
    good, bad = (feeds(program, **squares(counts)) for counts in ([9000] * 4, [9000] * 3 + [9001]))

    def runs() -> None:
        session.run(good)
        with pytest.raises(RecordShapeError):
            session.run(bad)

    runs()
    before = resident()
    for _ in range(100):
        runs()
    assert resident() - before < 4 << 20


def test_single_numbers_have_the_functions_of_the_system() -> None:
    """Rows that are only given on are no arrays that are computed with."""
    s = Sketch()
    count, x = s.given("int64", (), "count"), s.given("float64", (5,), "x")
    number = s.scan(x)
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    row = inner.op("Exp", inner.op("Div", number, inner.op("Cast", j, to=11)))
    stack, rows = s.inside.new("float64", ("k",), "stack"), [inner.op("Tanh", row)]
    ops = tuple(inner.ops)
    s.inside.append(Loop("A.g", count, None, j, go, None, (), (Recorded(rows[0], stack),), ops))
    five = s.b.constant(np.array(5))
    program = s.program(s.record(stack, "time"), trip_count=five)
    same(program, count=20, x=np.random.default_rng(3).standard_normal(5))


# --- models over time -----------------------------------------------------------------------------


def counting(count: str) -> dict[str, Any]:
    """Squares of so many numbers in each step, and the first of them."""
    body = {
        "metadata": {"inputs": ["i", "go", "z"], "outputs": ["goes_on", "more", "square"]},
        "nodes": {
            "n": {
                "parameters": {
                    "goes_on": {"value": "True"},
                    "more": {"value": "z + i"},
                    "square": {"value": "i * i * 0.5"},
                },
                "output_ports": {name: {"value": name} for name in ("goes_on", "more", "square")},
            }
        },
    }
    args = {"M": "m", "v_initial": "(zero,)", "body": {"b": body}}
    squares = {
        "input_ports": {"m": {}},
        "functions": {"f": {"function": "onnx::Loop", "args": args}},
        "parameters": {"zero": {"value": 0.5}},
        "output_ports": {"sum": {"value": "f[0]"}, "rows": {"value": "f[1]"}},
    }
    clock = {
        "parameters": {
            "k": {"value": "k + 1", "default_initial_value": 0},
            "count": {"value": count},
        },
        "output_ports": {"count": {"value": "count"}},
    }
    edge = {"sender": "c", "receiver": "s", "sender_port": "count", "receiver_port": "m"}
    graph = {"nodes": {"c": clock, "s": squares}, "edges": {"e": edge}}
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": graph}}}


@pytest.mark.parametrize("count", ["5", "3 + (k > 10)", "k % 3", "0 * k", "1 + (k > 1) + (k > 30)"])
def test_rows_over_time(count: str) -> None:
    """Those that differ in number are alike for some steps, or in one only."""
    made, expected = (
        mdf_loop.compile(counting(count), device="cpu", native=native).run(
            steps=50, dt=0.1, progress=False
        )
        for native in ("require", "off")
    )
    assert set(made.native.values()) == {"native"}
    assert list(made) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(made[name], expected[name], strict=True)
    assert list(made.lengths) == list(expected.lengths)
    for name, lengths in expected.lengths.items():
        np.testing.assert_array_equal(made.lengths[name], lengths)
