"""Loops that compute positions of extremes: one loop that ends at nan, and the old loop as its replacement."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.ir import If, Loop, Op, Program, walk
from mdf_loop.ir.check import check
from mdf_loop.passes.legalize.repeat_loops_with_nan import repeat_loops_with_nan
from mdf_loop.pipeline import LEGAL, SIMPLIFY, prepare
from mdf_loop.run.interpret import interpret
from tests.onnx_engines import all_engines

ROWS = np.array([[1.0, 7.0, 2.0], [5.0, 3.0, 9.0], [0.0, -1.0, 2.0], [4.0, 5.0, 5.0]])
ITERATIONS = len(ROWS)


def search(reader: str = "next = Add (s, position)", condition: str = "") -> onnx.ModelProto:
    """Return a loop that adds the position of the largest element of each row to its state."""
    more = condition or "more = Identity (go)"
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        m (int64 n, double[t,3] rows, int64 start) => (int64 final, int64[k] positions) {{
            zero = Constant <value = int64 {{0}}> () yes = Constant <value = bool {{1}}> ()
            table = Constant <value = int64[2] {{3, 4}}> ()
            final, positions = Loop (n, yes, start) <body = b (int64 i, bool go, int64 s)
                => (bool more, int64 next, int64 copy) {{
                {more}
                row = Gather <axis = 0> (rows, i)
                position = ArgMax <axis = 0, keepdims = 0> (row)
                {reader}
                copy = Identity (position) }}> }}""")


def program_of(model: onnx.ModelProto) -> Program:
    feeds = {"n": np.array(ITERATIONS), "rows": ROWS, "start": np.array(0)}
    return prepare(mdf_loop.read(mdf_loop.from_onnx(model), feeds), (*SIMPLIFY, *LEGAL))


def feeds_with(element: float, row: int) -> dict[str, Any]:
    rows = ROWS.copy()
    rows[row, 1] = element
    return {"n": np.array(ITERATIONS), "rows": rows, "start": np.array(10)}


def loop_operators(program: Program) -> list[str]:
    """Return the operators in the loops of the main graph."""
    loops = [operation for operation in program.ops if isinstance(operation, Loop)]
    return [op.op_type for op in walk(loops) if isinstance(op, Op)]


def test_the_main_loop_has_no_branch_and_ends_at_nan() -> None:
    program = repeat_loops_with_nan(program_of(search()))
    check(program)
    loop = next(operation for operation in program.ops if isinstance(operation, Loop))
    choice = next(operation for operation in program.ops if isinstance(operation, If))
    assert choice.condition is loop.last_condition
    assert "ArgMax" in loop_operators(program)
    assert "ArgMaximum" not in loop_operators(program)
    assert "ArgMaximum" in [op.op_type for op in walk(choice.otherwise.ops) if isinstance(op, Op)]


@pytest.mark.native
@pytest.mark.parametrize("element", [np.nan, np.inf, -np.inf, 3.0])
@pytest.mark.parametrize("row", range(ITERATIONS))
def test_nan_in_any_iteration_has_the_position_of_numpy(element: float, row: int) -> None:
    feeds = feeds_with(element, row)
    expected = np.argmax(feeds["rows"], axis=1)
    for results in all_engines(search(), feeds):
        np.testing.assert_array_equal(results["positions"], expected)
        assert results["final"] == 10 + expected.sum()


def test_opposite_infinities_repeat_the_loop() -> None:
    feeds = feeds_with(np.inf, 1)
    feeds["rows"][1, 0] = -np.inf
    program = program_of(search())
    expected = interpret(program, feeds)
    both = interpret(repeat_loops_with_nan(program), feeds)
    assert expected["positions"].tolist() == both["positions"].tolist() == [1, 1, 2, 1]


@pytest.mark.native
def test_no_iterations_are_complete() -> None:
    feeds = {**feeds_with(np.nan, 0), "n": np.array(0)}
    for results in all_engines(search(), feeds):
        assert results["positions"].shape == (0,)
        assert results["final"] == 10


@pytest.mark.native
def test_a_reader_that_may_fail_keeps_the_check_in_each_iteration() -> None:
    """Keep the loop: the wrong position 2 is outside of the table, the position 1 of nan is not."""
    model = search("value = Gather <axis = 0> (table, position) next = Add (s, value)")
    program = program_of(model)
    assert repeat_loops_with_nan(program) is program
    rows = np.array([[1.0, np.nan, 7.0]] * ITERATIONS)
    for results in all_engines(model, {**feeds_with(0.0, 0), "rows": rows}):
        assert results["final"] == 10 + 4 * ITERATIONS


def test_a_loop_with_a_condition_is_unchanged() -> None:
    model = search(condition="limit = Constant <value = int64 {9}> () more = Less (s, limit)")
    program = program_of(model)
    assert repeat_loops_with_nan(program) is program


def test_a_loop_that_draws_is_unchanged() -> None:
    program = program_of(search())
    b = Builder.for_rewrite_of(program)
    drawn = Op("RandomUniform", (), (b.new("float32", (1,)),), {"shape": (1,)})
    drawing = tuple(
        with_operation(operation, drawn) if isinstance(operation, Loop) else operation
        for operation in program.ops
    )
    changed = Program(program.name, program.inputs, drawing, program.outputs)
    assert repeat_loops_with_nan(changed) is changed


def with_operation(loop: Loop, op: Op) -> Loop:
    """Return the loop with one more operation in its body."""
    return replace(loop, ops=(op, *loop.ops))


def test_native_loops_are_unchanged() -> None:
    program = program_of(search())
    loops = [operation for operation in program.ops if isinstance(operation, Loop)]
    assert repeat_loops_with_nan(program, loops) is program
