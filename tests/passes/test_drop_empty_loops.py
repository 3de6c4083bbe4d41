"""Removal of loops that never run, and loops that are kept."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mdf_loop
from mdf_loop.ir import Carried, Loop, Program, Recorded
from mdf_loop.passes.simplify.drop_empty_loops import drop_empty_loops
from tests.passes.sketch import Sketch, same_bits, text

INPUTS = {"n": np.array(3), "x0": np.array([1.0, -0.0]), "a": np.array([2.0, np.nan])}


def empty(**fields: object) -> tuple[Sketch, Loop]:
    """Build a loop that adds and records, with the trip count 0 by default."""
    s = Sketch()
    total = s.body.op("Add", s.x, s.a)
    if "trip_count" not in fields:
        fields["trip_count"] = s.b.constant(np.array(0), name="zero")
    return s, s.loop(total, total, **fields)


def program_of_results(s: Sketch, loop: Loop) -> Program:
    """Return a program whose outputs are all results of the loop."""
    final, rows = loop.carried[0].final, loop.recorded[0].stack
    return s.program(y=final, rows=rows, count=loop.iteration_count, last=loop.last_condition)


def test_results_of_an_empty_loop_become_constants() -> None:
    program = program_of_results(*empty())
    assert any(line.startswith("  loop") for line in text(program))
    assert text(drop_empty_loops(program)) == [
        "program(%n: int64[], %x0: float64[2], %a: float64[2])",
        "  %true: bool[] = True",
        "  %zero: int64[] = 0",
        "  %trace0: float64[t, 2] = []",
        "  %count: int64[] = 0",
        "  %last: bool[] = True",
        "  output y = %x0",
        "  output rows = %trace0",
        "  output count = %count",
        "  output last = %last",
    ]
    same_bits(drop_empty_loops, program, **INPUTS)


def test_a_condition_that_is_false_at_the_start() -> None:
    s = Sketch()
    false = s.b.constant(np.array(False), name="false")
    total = s.body.op("Add", s.x, s.a)
    program = program_of_results(s, s.loop(total, total, trip_count=None, condition=false))
    transformed = drop_empty_loops(program)
    assert text(transformed)[-4:] == [
        "  output y = %x0",
        "  output rows = %trace0",
        "  output count = %count",
        "  output last = %false",
    ]
    same_bits(drop_empty_loops, program, **INPUTS)


def test_an_empty_loop_inside_another_loop() -> None:
    s = Sketch()
    b = s.body
    body = b.body()
    enter = body.new("float64", (2,), "v")
    leave = body.op("Add", enter, s.x)
    carried = Carried(s.x, enter, leave, b.new("float64", (2,), "inner"))
    inner = Loop(
        name="B.f",
        trip_count=s.b.constant(np.array(-2), name="none"),
        condition=None,
        iteration=body.new("int64", (), "k"),
        condition_in=body.new("bool", (), "on"),
        condition_out=s.true,
        carried=(carried,),
        recorded=(),
        ops=tuple(body.ops),
    )
    b.append(inner)
    program = s.program(y=s.loop(b.op("Mul", carried.final, s.a)).carried[0].final)
    transformed = str(drop_empty_loops(program))
    assert (str(program).count("loop "), transformed.count("loop ")) == (2, 1)
    assert "Mul(%x, %a)" in transformed
    same_bits(drop_empty_loops, program, **INPUTS)


def test_loops_that_may_run_or_have_rows_of_unknown_shape_are_kept() -> None:
    s = Sketch()
    may_run = s.program(y=s.loop(s.body.op("Add", s.x, s.a)).carried[0].final)
    assert drop_empty_loops(may_run) is may_run
    s, loop = empty()
    stack = replace(loop.recorded[0].stack, shape=("t", "k"))
    open_rows = replace(loop, recorded=(Recorded(loop.recorded[0].row, stack),))
    program = replace(program_of_results(s, loop), ops=(*s.b.ops[:-1], open_rows))
    assert drop_empty_loops(program) is program


@pytest.mark.parametrize("limits", [{"M": 0}, {"cond": False}, {"M": 3, "cond": False}])
def test_results_still_report_the_empty_loop(limits: dict[str, object]) -> None:
    body = {
        "metadata": {"inputs": ["i", "c", "x"], "outputs": ["go", "y", "y"]},
        "nodes": {
            "n": {
                "input_ports": {"x": {}},
                "output_ports": {"go": {"value": "x < 5"}, "y": {"value": "x + 1"}},
            }
        },
    }
    call = {
        "function": "onnx::Loop",
        "args": {**limits, "v_initial": "(1.5,)", "body": {"b": body}},
    }
    ports = {"final": {"value": "f[0]"}, "rows": {"value": "f[1]"}}
    model = {"g": {"nodes": {"A": {"functions": {"f": call}, "output_ports": ports}}}}
    results = mdf_loop.compile(model).run()
    assert results["A.final"] == 1.5
    assert results["A.rows"].shape == (0,)
    assert results.loops["A.f"].iterations == 0
