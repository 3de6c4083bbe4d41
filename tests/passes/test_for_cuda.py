"""Programs rewritten for CUDA: they give the same results, and fail for the same inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import RunError
from mdf_loop.ir import Carried, Guard, Loop, Op, Program, Scanned, body_outputs, walk
from mdf_loop.ir.check import check
from mdf_loop.ir.types import element_type
from mdf_loop.ops.cuda_replacements import DIVISION_BY_ZERO_MESSAGE, INDEX_OUT_OF_RANGE_MESSAGE
from mdf_loop.passes.legalize.for_cuda import for_cuda
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.op_running import program_of
from tests.passes.sketch import Sketch
from tests.placements import STANDARD, written_for_cuda

ROWS = np.arange(6.0).reshape(2, 3)


def guards(program: Program) -> list[str]:
    return [op.message for op in walk(for_cuda(program).ops) if isinstance(op, Guard)]


def assert_same_or_both_fail(program: Program, arrays: dict[str, Any], sentence: str = "") -> None:
    """Check that the rewritten program has equal results, or that both programs fail, with `sentence` as the error."""
    transformed = for_cuda(program)
    assert not check(transformed)
    with written_for_cuda():
        session = Session(program, STANDARD)
    if not sentence:
        expected = interpret(program, arrays)
        for ready in (interpret(transformed, arrays), session.run(arrays)):
            for name, array in expected.items():
                np.testing.assert_array_equal(ready[name], array)
        return
    with pytest.raises(RunError):
        Session(program, STANDARD).run(arrays)
    for run in (lambda: interpret(transformed, arrays), lambda: session.run(arrays)):
        with pytest.raises(RunError) as caught:
            run()
        assert caught.value.findings[0].what == sentence


CASES: dict[str, tuple[str, list[Any], list[Any], dict[str, Any]]] = {
    "rows": ("Gather", [ROWS, np.array([1, -2])], [np.array([-3, 1]), np.array([0, 2])], {}),
    "one row": ("Gather", [ROWS, np.array(0)], [np.array(2), np.array(-3)], {}),
    "columns": ("Gather", [ROWS, np.array([[2], [-3]])], [np.array([[3], [0]])], {"axis": -1}),
    "32 bits": ("Gather", [ROWS, np.array([2], np.int32)], [np.array([3], np.int32)], {"axis": 1}),
    "no positions": ("Gather", [ROWS, np.zeros(0, np.int64)], [], {}),
    "elements": (
        "GatherElements",
        [ROWS, np.array([[1, -2, 0]])],
        [np.array([[1, 2, 0]]), np.array([[1, -3, 0]])],
        {"axis": 0},
    ),
    "tuples": (
        "GatherND",
        [ROWS, np.array([[1, 2], [-2, -3]])],
        [np.array([[1, 3], [0, 0]]), np.array([[2, 0], [0, 0]])],
        {},
    ),
    "tuples of each": (
        "GatherND",
        [ROWS, np.array([[2], [-3]])],
        [np.array([[0], [3]])],
        {"batch_dims": 1},
    ),
    "written elements": (
        "ScatterElements",
        [ROWS, np.array([[1, -2, 0]]), np.ones((1, 3))],
        [np.array([[1, 2, 0]])],
        {"axis": 0},
    ),
    "written tuples": (
        "ScatterND",
        [ROWS, np.array([[1], [0]]), np.ones((2, 3))],
        [np.array([[2], [0]])],
        {},
    ),
    "quotients": ("Div", [np.array([7, -7]), np.array([2, -3])], [np.array([1, 0])], {}),
    "rests": ("Mod", [np.array([7, -7]), np.array(2)], [np.array(0)], {}),
}


@pytest.mark.parametrize("extents", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_guard_fails_where_the_cpu_kernel_fails(name: str, extents: bool) -> None:
    op_type, arrays, wrong, attributes = CASES[name]
    shapes = (
        None
        if extents
        else [tuple(f"d{k}{j}" for j in range(a.ndim)) for k, a in enumerate(arrays)]
    )
    if op_type == "GatherND" and shapes is not None:
        shapes[1] = (*shapes[1][:-1], arrays[1].shape[-1])
    program = program_of(op_type, arrays, shapes=shapes, **attributes)
    sentence = DIVISION_BY_ZERO_MESSAGE if op_type in ("Div", "Mod") else INDEX_OUT_OF_RANGE_MESSAGE
    assert guards(program) == [sentence]
    assert_same_or_both_fail(program, {f"x{k}": a for k, a in enumerate(arrays)})
    for second in wrong:
        arrays = [arrays[0], second, *arrays[2:]]
        assert_same_or_both_fail(program, {f"x{k}": a for k, a in enumerate(arrays)}, sentence)


def test_checks_that_always_hold_are_omitted() -> None:
    known = program_of("Gather", [ROWS, np.array([1, -2])], constant=(1,))
    assert for_cuda(known).ops == known.ops
    assert not guards(program_of("Div", [np.array([7]), np.array([2])], constant=(1,)))
    assert not guards(program_of("Div", [np.array([7.0]), np.array([0.0])]))
    assert guards(program_of("Div", [np.array([7]), np.array([2, 0])], constant=(1,)))


EDGES = np.array(
    [0.5, -0.0, -1.5, np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**63, -1e300, 7.9]
)


@np.errstate(over="ignore")
def edges(dtype: str) -> np.ndarray:
    return EDGES.astype(dtype)


WRITTEN: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    **{
        f"{dtype} as {target}": ("Cast", [edges(dtype)], {"to": element_type(target)})
        for dtype in ("float64", "float32", "float16")
        for target in ("int64", "int32")
    },
    "signs": ("Sign", [EDGES], {}),
    "a sum of nothing": ("ReduceSum", [np.zeros((3, 0))], {"keepdims": 0}),
    "sums of nothing": ("ReduceSum", [np.zeros((3, 0)), np.array([1])], {"keepdims": 0}),
    "no sums": ("ReduceSum", [np.zeros((0, 3)), np.array([-1])], {"keepdims": 1}),
    "sums": ("ReduceSum", [ROWS, np.array([-1])], {"keepdims": 0}),
    "a product of nothing": ("ReduceProd", [np.zeros((0, 2))], {"keepdims": 0}),
    "products": ("ReduceProd", [ROWS], {"axes": (0,), "keepdims": 1}),
    "a norm of nothing": ("ReduceL2", [np.zeros((0, 2))], {"keepdims": 0, "axes": (0, 1)}),
    "a bell": ("Gelu", [np.array(0.75, np.float32)], {}),
    "shares": ("Softmax", [ROWS], {"axis": -1}),
    "their logarithms": ("LogSoftmax", [ROWS], {"axis": 0}),
}


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_rewritten_operations_give_the_same_results(name: str, open_: bool) -> None:
    op_type, arrays, attributes = WRITTEN[name]
    shapes = [("n", "m")[: arrays[0].ndim], *(a.shape for a in arrays[1:])] if open_ else None
    constant = (1,) if len(arrays) > 1 else ()
    program = program_of(op_type, arrays, shapes=shapes, constant=constant, **attributes)
    transformed = for_cuda(program)
    assert not check(transformed)
    feeds = {"x0": arrays[0]}
    expected = Session(program, STANDARD).run(feeds)["y0"]
    with written_for_cuda():
        rewritten_y = Session(program, STANDARD).run(feeds)["y0"]
    for outputs in (interpret(transformed, feeds)["y0"], rewritten_y):
        assert (outputs.dtype, outputs.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(outputs, expected, rtol=0 if "int" in name else 1e-14)


@pytest.mark.parametrize("array", [np.zeros((2, 0)), ROWS], ids=["nothing", "rows"])
def test_a_sum_of_arrays_of_any_rank(array: np.ndarray) -> None:
    program = program_of("ReduceSum", [array], shapes=[None], keepdims=0)
    assert interpret(for_cuda(program), {"x0": array})["y0"] == array.sum()
    assert "Pad" in {op.op_type for op in for_cuda(program).ops if isinstance(op, Op)}


@pytest.mark.parametrize("name", ["float64 as int64", "signs", "a sum of nothing", "shares"])
def test_each_operation_is_rewritten(name: str) -> None:
    op_type, arrays, attributes = WRITTEN[name]
    program = program_of(op_type, arrays, **attributes)
    assert len(for_cuda(program).ops) > len(program.ops)


def test_values_that_pass_through_a_loop_are_copied() -> None:
    s = Sketch()
    u = s.body.new("float64", (2,), "u")
    leave = s.body.op("Add", s.x, s.a)
    delay = Carried(s.a, u, s.x, s.b.new("float64", (2,), "u_final"))
    loop = s.loop(leave, u, s.x, more=[delay])
    program = s.program(x=loop.carried[0].final, u=loop.carried[1].final, us=loop.recorded[0].stack)
    transformed = for_cuda(program)
    (copied,) = (op for op in transformed.ops if isinstance(op, Loop))
    entering = {carried.body_input for carried in copied.carried}
    assert entering.isdisjoint(body_outputs(copied))
    arrays = {"n": np.array(3), "x0": np.zeros(2), "a": np.ones(2)}
    for name, array in interpret(program, arrays).items():
        np.testing.assert_array_equal(interpret(transformed, arrays)[name], array)


def scanning(
    *, trips: int | None = None, is_conditional: bool = False, backward: bool = False
) -> Program:
    """Build x' = x + row, with rows of an input or of a constant; if `is_conditional`, while x < 10."""
    s = Sketch()
    shape = ("k", 2) if trips is None else (trips, 2)
    rows, row = s.b.new("float64", shape, "rows"), s.body.new("float64", (2,), "row")
    leave = s.body.op("Add", s.x, row)
    fields: dict[str, Any] = {"scanned": (Scanned(rows, row, is_backward=backward),)}
    if is_conditional:
        largest = s.body.op("ReduceMax", leave, keepdims=0)
        fields["condition"] = s.b.constant(np.array(True))
        fields["condition_out"] = s.body.op("Less", largest, s.b.constant(np.array(10.0)))
    if trips is not None:
        fields["trip_count"] = s.b.constant(np.array(trips))
    loop = s.loop(leave, **fields)
    return s.program(rows, x=loop.carried[0].final)


def scan_inputs(count: int, rows: int) -> dict[str, np.ndarray]:
    numbers = np.arange(2.0 * rows).reshape(rows, 2)
    return {"n": np.array(count), "x0": np.zeros(2), "a": np.ones(2), "rows": numbers}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("is_conditional", [False, True])
def test_scanned_rows_of_a_loop_are_checked(is_conditional: bool, backward: bool) -> None:
    program = scanning(is_conditional=is_conditional, backward=backward)
    assert guards(program) == [INDEX_OUT_OF_RANGE_MESSAGE]
    for count, rows in ((3, 3), (2, 3), (0, 0), (-1, 0)):
        assert_same_or_both_fail(program, scan_inputs(count, rows))
    # In a conditional program, an operation that reads the row can fail before the guard.
    if not is_conditional:
        assert_same_or_both_fail(program, scan_inputs(4, 3), INDEX_OUT_OF_RANGE_MESSAGE)


def test_rows_after_the_last_iteration_may_be_missing() -> None:
    assert_same_or_both_fail(scanning(is_conditional=True), scan_inputs(100, 6))
    assert_same_or_both_fail(
        scanning(is_conditional=False), scan_inputs(100, 6), INDEX_OUT_OF_RANGE_MESSAGE
    )


def test_rows_that_always_exist_are_not_checked() -> None:
    assert not guards(scanning(trips=4))
