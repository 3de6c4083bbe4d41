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
    return {
        program_input.value.name: np.asarray(arrays[program_input.value.name])
        for program_input in program.inputs
    }


def run_native_and_compare(program: Program, **arrays: object) -> Mapping[str, Any]:
    """Return the outputs of the native loop, after a check that they equal the standard ones."""
    outputs, expected = (
        Session(program, placement).run(feeds(program, **arrays))
        for placement in (REQUIRED, STANDARD)
    )
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)
    return outputs


# --- rows that are scanned ------------------------------------------------------------------------


def summing(*, has_condition: bool) -> Program:
    """Return a loop whose inner loop sums the first `trip` rows, ended by a trip count or a condition."""
    sketch = Sketch()
    rows, trip_count, flag = (
        sketch.input("float64", (4,), "rows"),
        sketch.input("int64", (), "trip"),
        None,
    )
    inner_body = sketch.inside.body()
    j, condition_in = inner_body.new("int64", (), "j"), inner_body.new("bool", (), "go")
    enter_value, row = inner_body.new("float64", (), "enter"), inner_body.new("float64", (), "row")
    leave_value, final_value = (
        inner_body.op("Add", enter_value, row),
        sketch.inside.new("float64", (), "final"),
    )
    if has_condition:
        flag, one = sketch.input("bool", (), "flag"), sketch.b.constant(np.array(1))
        inner_condition_out = inner_body.op("Less", inner_body.op("Add", j, one), trip_count)
    zero = sketch.b.constant(np.array(0.0))
    sketch.inside.append(
        Loop(
            *(
                "A.g",
                None if has_condition else trip_count,
                flag,
                j,
                condition_in,
                inner_condition_out if has_condition else None,
            ),
            *((Carried(zero, enter_value, leave_value, final_value),), (), tuple(inner_body.ops)),
            scanned=(Scanned(rows, row),),
        )
    )
    return sketch.program(sketch.record(final_value))


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
    sketch = Sketch()
    row, flag = sketch.scan(sketch.input("float64", (3,), "rows")), sketch.input("bool", (), "flag")
    inner_body = sketch.inside.body()
    j, condition_in = inner_body.new("int64", (), "j"), inner_body.new("bool", (), "go")
    enter_value, final_value = (
        inner_body.new("float64", (), "enter"),
        sketch.inside.new("float64", (), "final"),
    )
    leave_value, may_continue = (
        inner_body.op("Add", enter_value, row),
        inner_body.op("Less", j, sketch.b.constant(np.array(9))),
    )
    carried_values = (
        Carried(sketch.b.constant(np.array(0.5)), enter_value, leave_value, final_value),
    )
    sketch.inside.append(
        Loop(
            "A.g",
            None,
            flag,
            j,
            condition_in,
            may_continue,
            carried_values,
            (),
            tuple(inner_body.ops),
        )
    )
    run_native_and_compare(
        sketch.program(sketch.record(final_value)), rows=np.arange(3.0), flag=True
    )


# --- rows that are recorded -----------------------------------------------------------------------


class Rows:
    """A program of a loop of `trip` iterations, whose inner loop records `rows[i]` rows.

    The rows are squares times `x`. The outer loop records the rows of all inner loops.
    """

    def __init__(
        self, shape: Shape = (), *, has_condition: bool = False, outer_has_condition: bool = False
    ) -> None:
        sketch = self.sketch = Sketch()
        self.x = sketch.input("float64", shape, "x")
        self.trip = sketch.input("int64", (), "trip")
        self.rows = sketch.scan(sketch.input("int64", (8,), "rows"))
        self.flag = (
            sketch.input("bool", (), "flag") if has_condition or outer_has_condition else None
        )
        self.stack = self.inside(has_condition=has_condition)
        self.outer_has_condition = outer_has_condition

    def inside(self, *, has_condition: bool) -> Value:
        sketch, one = self.sketch, self.sketch.b.constant(np.array(1))
        inner_body = sketch.inside.body()
        j, condition_in = inner_body.new("int64", (), "j"), inner_body.new("bool", (), "go")
        row = inner_body.op("Mul", self.x, inner_body.op("Cast", inner_body.op("Mul", j, j), to=11))
        inner_condition_out = (
            inner_body.op("Less", inner_body.op("Add", j, one), self.rows)
            if has_condition
            else None
        )
        has_rows = (
            sketch.inside.op("Greater", self.rows, sketch.b.constant(np.array(0)))
            if has_condition
            else None
        )
        stack = sketch.inside.new("float64", ("k", *(row.shape or ())), "stack")
        sketch.inside.append(
            Loop(
                *(
                    "A.g",
                    None if has_condition else self.rows,
                    has_rows,
                    j,
                    condition_in,
                    inner_condition_out,
                    (),
                ),
                *((Recorded(row, stack, "squares"),), tuple(inner_body.ops)),
                where="$.inner",
            )
        )
        return stack

    def program(self, *rows: Value) -> Program:
        sketch = self.sketch
        stacks = [sketch.record(row, "time") for row in rows or (self.stack,)]
        if not self.outer_has_condition:
            return sketch.program(*stacks, trip_count=self.trip, where="$.outer")
        condition_out = sketch.inside.op(
            "Less", sketch.inside.op("Add", sketch.i, sketch.b.constant(np.array(1))), self.trip
        )
        conditions = {"trip_count": None, "condition": self.flag, "condition_out": condition_out}
        return sketch.program(*stacks, **conditions, where="$.outer")


def squares(rows: Sequence[int], x: object = 1.5) -> dict[str, Any]:
    padded_counts = np.resize(rows, 8) if len(rows) else np.zeros(8)
    return {
        "x": np.asarray(x),
        "trip": len(rows),
        "rows": padded_counts.astype(np.int64),
        "flag": True,
    }


ROWS_BY_KIND = {
    "counted": Rows,
    "condition": partial(Rows, has_condition=True),
    "outer condition": partial(Rows, outer_has_condition=True),
    "both conditions": partial(Rows, has_condition=True, outer_has_condition=True),
}


@pytest.mark.parametrize("kind", ROWS_BY_KIND)
@pytest.mark.parametrize("count", [0, 1, 3, 8, 1000])
def test_an_inner_loop_records_one_row_per_iteration(kind: str, count: int) -> None:
    outputs = run_native_and_compare(ROWS_BY_KIND[kind]().program(), **squares([count] * 3))
    assert outputs["y0"].shape == (3, count)


@pytest.mark.parametrize("kind", ROWS_BY_KIND)
@pytest.mark.parametrize("shape", [(3,), (2, 3), ("n",), ("n", 2)])
def test_an_inner_loop_records_arrays(kind: str, shape: Shape) -> None:
    x = np.arange(1.0, 7.0)[: 3 if len(shape or ()) == 1 else 6].reshape(-1, *(shape or ())[1:])
    run_native_and_compare(ROWS_BY_KIND[kind](shape).program(), **squares([17] * 4, x))


@pytest.mark.parametrize("kind", ["counted", "condition"])
def test_no_outer_iterations_give_no_rows(kind: str) -> None:
    assert run_native_and_compare(ROWS_BY_KIND[kind]().program(), **squares([]))["y0"].shape == (
        0,
        0,
    )


@pytest.mark.parametrize("kind", ROWS_BY_KIND)
@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (0, 1), (1, 0), (4, 4, 4, 5), (9, 9, 1000)])
def test_different_numbers_of_inner_rows_are_an_error(kind: str, counts: Sequence[int]) -> None:
    """Check that the native and the standard loop report the same error."""
    program = ROWS_BY_KIND[kind]().program()
    findings = []
    for placement in (REQUIRED, STANDARD):
        with pytest.raises(RecordShapeError) as error:
            Session(program, placement).run(feeds(program, **squares(counts)))
        findings.append(error.value.findings)
    assert findings[0] == findings[1]


def test_rows_of_three_nested_loops() -> None:
    """Run three nested loops, in which each loop records the rows of the loop inside."""
    sketch = Sketch()
    rows = sketch.input("int64", (2,), "rows")
    middle_body = sketch.inside.body()
    innermost_body = middle_body.body()
    j, condition_in = middle_body.new("int64", (), "j"), middle_body.new("bool", (), "go")
    k, innermost_condition = (
        innermost_body.new("int64", (), "k"),
        innermost_body.new("bool", (), "goes"),
    )
    number = innermost_body.op(
        "Add", innermost_body.op("Mul", j, sketch.b.constant(np.array(10))), k
    )
    innermost_rows, table = (
        middle_body.new("int64", ("b",), "lines"),
        sketch.inside.new("int64", ("a", "b"), "table"),
    )
    row_counts_by_level = [
        sketch.b.op("Gather", rows, sketch.b.constant(np.array(index)), axis=0) for index in (0, 1)
    ]
    ops, innermost_recorded = tuple(innermost_body.ops), (Recorded(number, innermost_rows),)
    middle_body.append(
        Loop(
            "A.h",
            row_counts_by_level[1],
            None,
            k,
            innermost_condition,
            None,
            (),
            innermost_recorded,
            ops,
        )
    )
    middle_recorded = (Recorded(innermost_rows, table),)
    sketch.inside.append(
        Loop(
            "A.g",
            row_counts_by_level[0],
            None,
            j,
            condition_in,
            None,
            (),
            middle_recorded,
            tuple(middle_body.ops),
        )
    )
    program = sketch.program(sketch.record(table, "time"))
    for row_counts in ([3, 4], [1, 1], [0, 4], [3, 0], [100, 70]):
        run_native_and_compare(program, rows=np.array(row_counts))


def test_inner_rows_start_empty_in_each_outer_iteration() -> None:
    """Check that an inner loop starts without the rows of the previous outer iteration."""
    run_native_and_compare(Rows().program(), **squares([0, 0, 0]))
    rows = Rows()
    row_count = rows.sketch.inside.op("Identity", rows.rows)
    run_native_and_compare(rows.program(rows.stack, row_count), **squares([5, 5]))


def test_recorded_rows_leak_no_memory() -> None:
    program = Rows().program()
    session = Session(program, REQUIRED)
    valid_feeds, invalid_feeds = (
        feeds(program, **squares(counts)) for counts in ([9000] * 4, [9000] * 3 + [9001])
    )

    def runs() -> None:
        session.run(valid_feeds)
        with pytest.raises(RecordShapeError):
            session.run(invalid_feeds)

    runs()
    memory_before = resident_bytes()
    for _ in range(100):
        runs()
    assert resident_bytes() - memory_before < 4 << 20


def test_single_numbers_have_the_functions_of_the_system() -> None:
    """Check that recorded rows of single numbers do not make the loop use vectorized functions."""
    sketch = Sketch()
    count, x = sketch.input("int64", (), "count"), sketch.input("float64", (5,), "x")
    number = sketch.scan(x)
    inner_body = sketch.inside.body()
    j, condition_in = inner_body.new("int64", (), "j"), inner_body.new("bool", (), "go")
    row = inner_body.op("Exp", inner_body.op("Div", number, inner_body.op("Cast", j, to=11)))
    stack, rows = sketch.inside.new("float64", ("k",), "stack"), [inner_body.op("Tanh", row)]
    ops = tuple(inner_body.ops)
    sketch.inside.append(
        Loop("A.g", count, None, j, condition_in, None, (), (Recorded(rows[0], stack),), ops)
    )
    five = sketch.b.constant(np.array(5))
    program = sketch.program(sketch.record(stack, "time"), trip_count=five)
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
    parameters = {"M": "m", "v_initial": "(zero,)", "body": {"b": body}}
    squares_node = {
        "input_ports": {"m": {}},
        "functions": {"f": {"function": "onnx::Loop", "args": parameters}},
        "parameters": {"zero": {"value": 0.5}},
        "output_ports": {"sum": {"value": "f[0]"}, "rows": {"value": "f[1]"}},
    }
    clock_node = {
        "parameters": {
            "k": {"value": "k + 1", "default_initial_value": 0},
            "count": {"value": count},
        },
        "output_ports": {"count": {"value": "count"}},
    }
    edge = {"sender": "c", "receiver": "s", "sender_port": "count", "receiver_port": "m"}
    graph = {"nodes": {"c": clock_node, "s": squares_node}, "edges": {"e": edge}}
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": graph}}}


@pytest.mark.parametrize("count", ["5", "3 + (k > 10)", "k % 3", "0 * k", "1 + (k > 1) + (k > 30)"])
def test_rows_of_a_model_over_time(count: str) -> None:
    """Compare native and standard rows whose number changes between steps of a model over time."""
    results, expected = (
        mdf_loop.compile(counting(count), device="cpu", native=native_option).run(
            steps=50, dt=0.1, progress=False
        )
        for native_option in ("require", "off")
    )
    assert set(results.native.values()) == {"native"}
    assert list(results) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(results[name], expected[name], strict=True)
    assert list(results.lengths) == list(expected.lengths)
    for name, row_counts in expected.lengths.items():
        np.testing.assert_array_equal(results.lengths[name], row_counts)
