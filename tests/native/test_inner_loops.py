"""Inner loops of native loops: the rows that they scan and the rows that they record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, RecordShapeError, RunError
from mdf_loop.ir import Carried, Loop, Program, Recorded, Scanned, Shape, Value
from mdf_loop.memory_limit import resident_bytes
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.placements import REQUIRED, STANDARD


def feeds(program: Program, **arrays: object) -> dict[str, np.ndarray]:
    return {e.value.name: np.asarray(arrays[e.value.name]) for e in program.inputs}


def run_native_and_compare(program: Program, **arrays: object) -> Mapping[str, Any]:
    """Return the outputs of the native loop, after a check that they equal the standard ones."""
    outputs, expected = (
        Session(program, where).run(feeds(program, **arrays)) for where in (REQUIRED, STANDARD)
    )
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)
    return outputs


# --- rows that are scanned ------------------------------------------------------------------------


def summing(*, has_condition: bool) -> Program:
    """Return a loop whose inner loop sums the first `trip` rows, ended by a trip count or a condition."""
    s = Sketch()
    rows, trip, flag = s.input("float64", (4,), "rows"), s.input("int64", (), "trip"), None
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    enter, row = inner.new("float64", (), "enter"), inner.new("float64", (), "row")
    leave, final = inner.op("Add", enter, row), s.inside.new("float64", (), "final")
    if has_condition:
        flag, one = s.input("bool", (), "flag"), s.b.constant(np.array(1))
        increased = inner.op("Less", inner.op("Add", j, one), trip)
    zero = s.b.constant(np.array(0.0))
    s.inside.append(
        Loop(
            *(
                "A.g",
                None if has_condition else trip,
                flag,
                j,
                go,
                increased if has_condition else None,
            ),
            *((Carried(zero, enter, leave, final),), (), tuple(inner.ops)),
            scanned=(Scanned(rows, row),),
        )
    )
    return s.program(s.record(final))


@pytest.mark.parametrize("has_condition", [False, True])
@pytest.mark.parametrize("trip", [1, 3, 4, 5, 2**62])
def test_more_iterations_than_scanned_rows_are_an_error(has_condition: bool, trip: int) -> None:
    program = summing(has_condition=has_condition)
    arrays = {"rows": np.arange(1.0, 5.0), "trip": trip, "flag": True}
    if trip <= 4:
        run_native_and_compare(program, **arrays)
        return
    with pytest.raises(RunError, match="the loop has more iterations than 'rows' has rows"):
        Session(program, REQUIRED).run(feeds(program, **arrays))
    with pytest.raises(LoopError):
        Session(program, STANDARD).run(feeds(program, **arrays))


def test_an_inner_loop_may_outlast_the_rows_of_the_outer_loop() -> None:
    """Run an inner loop with more iterations than the outer loop has rows."""
    s = Sketch()
    row, flag = s.scan(s.input("float64", (3,), "rows")), s.input("bool", (), "flag")
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    enter, final = inner.new("float64", (), "enter"), s.inside.new("float64", (), "final")
    leave, may_continue = (
        inner.op("Add", enter, row),
        inner.op("Less", j, s.b.constant(np.array(9))),
    )
    carried = (Carried(s.b.constant(np.array(0.5)), enter, leave, final),)
    s.inside.append(Loop("A.g", None, flag, j, go, may_continue, carried, (), tuple(inner.ops)))
    run_native_and_compare(s.program(s.record(final)), rows=np.arange(3.0), flag=True)


# --- rows that are recorded -----------------------------------------------------------------------


class Rows:
    """A program of a loop of `trip` iterations, whose inner loop records `rows[i]` rows.

    The rows are squares times `x`. The outer loop records the rows of all inner loops.
    """

    def __init__(
        self, shape: Shape = (), *, has_condition: bool = False, outer_has_condition: bool = False
    ) -> None:
        s = self.sketch = Sketch()
        self.x = s.input("float64", shape, "x")
        self.trip = s.input("int64", (), "trip")
        self.rows = s.scan(s.input("int64", (8,), "rows"))
        self.flag = s.input("bool", (), "flag") if has_condition or outer_has_condition else None
        self.stack = self.inside(has_condition=has_condition)
        self.outer_has_condition = outer_has_condition

    def inside(self, *, has_condition: bool) -> Value:
        s, one = self.sketch, self.sketch.b.constant(np.array(1))
        inner = s.inside.body()
        j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
        row = inner.op("Mul", self.x, inner.op("Cast", inner.op("Mul", j, j), to=11))
        more = inner.op("Less", inner.op("Add", j, one), self.rows) if has_condition else None
        begins = (
            s.inside.op("Greater", self.rows, s.b.constant(np.array(0))) if has_condition else None
        )
        stack = s.inside.new("float64", ("k", *(row.shape or ())), "stack")
        s.inside.append(
            Loop(
                *("A.g", None if has_condition else self.rows, begins, j, go, more, ()),
                *((Recorded(row, stack, "squares"),), tuple(inner.ops)),
                where="$.inner",
            )
        )
        return stack

    def program(self, *rows: Value) -> Program:
        s = self.sketch
        stacks = [s.record(row, "time") for row in rows or (self.stack,)]
        if not self.outer_has_condition:
            return s.program(*stacks, trip_count=self.trip, where="$.outer")
        more = s.inside.op("Less", s.inside.op("Add", s.i, s.b.constant(np.array(1))), self.trip)
        conditions = {"trip_count": None, "condition": self.flag, "condition_out": more}
        return s.program(*stacks, **conditions, where="$.outer")


def squares(rows: Sequence[int], x: object = 1.5) -> dict[str, Any]:
    padded = np.resize(rows, 8) if len(rows) else np.zeros(8)
    return {"x": np.asarray(x), "trip": len(rows), "rows": padded.astype(np.int64), "flag": True}


KINDS = {
    "counted": Rows,
    "condition": partial(Rows, has_condition=True),
    "outer condition": partial(Rows, outer_has_condition=True),
    "both conditions": partial(Rows, has_condition=True, outer_has_condition=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 3, 8, 1000])
def test_an_inner_loop_records_one_row_per_iteration(kind: str, count: int) -> None:
    outputs = run_native_and_compare(KINDS[kind]().program(), **squares([count] * 3))
    assert outputs["y0"].shape == (3, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3,), (2, 3), ("n",), ("n", 2)])
def test_an_inner_loop_records_arrays(kind: str, shape: Shape) -> None:
    x = np.arange(1.0, 7.0)[: 3 if len(shape or ()) == 1 else 6].reshape(-1, *(shape or ())[1:])
    run_native_and_compare(KINDS[kind](shape).program(), **squares([17] * 4, x))


@pytest.mark.parametrize("kind", ["counted", "condition"])
def test_no_outer_iterations_give_no_rows(kind: str) -> None:
    assert run_native_and_compare(KINDS[kind]().program(), **squares([]))["y0"].shape == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (0, 1), (1, 0), (4, 4, 4, 5), (9, 9, 1000)])
def test_different_numbers_of_inner_rows_are_an_error(kind: str, counts: Sequence[int]) -> None:
    """Check that the native and the standard loop report the same error."""
    program = KINDS[kind]().program()
    findings = []
    for where in (REQUIRED, STANDARD):
        with pytest.raises(RecordShapeError) as error:
            Session(program, where).run(feeds(program, **squares(counts)))
        findings.append(error.value.findings)
    assert findings[0] == findings[1]


def test_rows_of_three_nested_loops() -> None:
    """Run three nested loops, in which each loop records the rows of the loop inside."""
    s = Sketch()
    rows = s.input("int64", (2,), "rows")
    deep = s.inside.body()
    deepest = deep.body()
    j, go = deep.new("int64", (), "j"), deep.new("bool", (), "go")
    k, deepest_go = deepest.new("int64", (), "k"), deepest.new("bool", (), "goes")
    number = deepest.op("Add", deepest.op("Mul", j, s.b.constant(np.array(10))), k)
    lines, table = deep.new("int64", ("b",), "lines"), s.inside.new("int64", ("a", "b"), "table")
    counts = [s.b.op("Gather", rows, s.b.constant(np.array(place)), axis=0) for place in (0, 1)]
    ops, inner = tuple(deepest.ops), (Recorded(number, lines),)
    deep.append(Loop("A.h", counts[1], None, k, deepest_go, None, (), inner, ops))
    outer = (Recorded(lines, table),)
    s.inside.append(Loop("A.g", counts[0], None, j, go, None, (), outer, tuple(deep.ops)))
    program = s.program(s.record(table, "time"))
    for row_counts in ([3, 4], [1, 1], [0, 4], [3, 0], [100, 70]):
        run_native_and_compare(program, rows=np.array(row_counts))


def test_inner_rows_start_empty_in_each_outer_iteration() -> None:
    """Check that an inner loop starts without the rows of the previous outer iteration."""
    run_native_and_compare(Rows().program(), **squares([0, 0, 0]))
    rows = Rows()
    total = rows.sketch.inside.op("Identity", rows.rows)
    run_native_and_compare(rows.program(rows.stack, total), **squares([5, 5]))


def test_recorded_rows_leak_no_memory() -> None:
    program = Rows().program()
    session = Session(program, REQUIRED)
    good, bad = (feeds(program, **squares(counts)) for counts in ([9000] * 4, [9000] * 3 + [9001]))

    def runs() -> None:
        session.run(good)
        with pytest.raises(RecordShapeError):
            session.run(bad)

    runs()
    memory_before = resident_bytes()
    for _ in range(100):
        runs()
    assert resident_bytes() - memory_before < 4 << 20


def test_single_numbers_have_the_functions_of_the_system() -> None:
    """Check that recorded rows of single numbers do not make the loop use vectorized functions."""
    s = Sketch()
    count, x = s.input("int64", (), "count"), s.input("float64", (5,), "x")
    number = s.scan(x)
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    row = inner.op("Exp", inner.op("Div", number, inner.op("Cast", j, to=11)))
    stack, rows = s.inside.new("float64", ("k",), "stack"), [inner.op("Tanh", row)]
    ops = tuple(inner.ops)
    s.inside.append(Loop("A.g", count, None, j, go, None, (), (Recorded(rows[0], stack),), ops))
    five = s.b.constant(np.array(5))
    program = s.program(s.record(stack, "time"), trip_count=five)
    run_native_and_compare(program, count=20, x=np.random.default_rng(3).standard_normal(5))


# --- models over time -----------------------------------------------------------------------------


def counting(count: str) -> dict[str, Any]:
    """Return a model over time whose loop records `count` squares in each step."""
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
def test_rows_of_a_model_over_time(count: str) -> None:
    """Compare native and standard rows whose number changes between steps of a model over time."""
    results, expected = (
        mdf_loop.compile(counting(count), device="cpu", native=native).run(
            steps=50, dt=0.1, progress=False
        )
        for native in ("require", "off")
    )
    assert set(results.native.values()) == {"native"}
    assert list(results) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(results[name], expected[name], strict=True)
    assert list(results.lengths) == list(expected.lengths)
    for name, lengths in expected.lengths.items():
        np.testing.assert_array_equal(results.lengths[name], lengths)
