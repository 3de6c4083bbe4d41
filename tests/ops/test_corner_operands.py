"""The interpreter, ONNX Runtime and machine code agree on empty arrays, nan and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Input, Loop, Output, Program, Recorded
from mdf_loop.passes.batching.batch import batch
from mdf_loop.pipeline import prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.interpret import interpret
from tests.ops.op_running import program_of, run
from tests.placements import NATIVE, STANDARD
from tests.random_programs.agreement import same_bits
from tests.random_programs.single_operations import one_operation

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0, 5e-324]


def assert_all_forms_equal(
    op_type: str, operands: list[Any], expected: Any = None, **attributes: Any
) -> Any:
    """Return the interpreter's results of an operation in a loop, after a bitwise comparison of all forms."""
    program = one_operation(op_type, operands, attributes)
    feeds = {f"x{k}": np.asarray(a)[np.newaxis] for k, a in enumerate(operands)}
    feeds = {entry.value.name: feeds[entry.value.name] for entry in program.inputs}
    meaning = interpret(program, feeds)["y"]
    backend = PROGRAM_BACKENDS["onnxruntime"]
    prepared = prepare(program, backend.pass_order)
    for placement in (STANDARD, NATIVE):
        result = np.asarray(backend.load(prepared, placement).run(feeds)["y"])
        assert same_bits(result, meaning), (placement.native, result, meaning)
    return meaning[0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("low", [None, -np.inf, np.inf, np.nan, -0.0, 1.0])
@pytest.mark.parametrize("high", [None, -np.inf, np.inf, np.nan, 1.0])
def test_clip(low: float | None, high: float | None, dtype: str) -> None:
    """Check that a missing bound is the last finite number, and that a bound of nan has no effect."""
    x, limits = np.array(SPECIAL, dtype), np.finfo(dtype)
    least = limits.min if low is None else np.array(low, dtype)
    most = limits.max if high is None else np.array(high, dtype)
    ends = [] if low is None and high is None else [least] if high is None else [least, most]
    expected = np.where(x < least, least, x)
    expected = np.where(expected > most, most, expected)
    assert same_bits(assert_all_forms_equal("Clip", [x, *ends]), expected)


@pytest.mark.parametrize("low", [None, "a number"])
def test_clip_by_bounds_of_members(low: str | None) -> None:
    """Check that each member equals its single run."""
    b = Builder()
    x, high = b.new("float64", (len(SPECIAL),), "x"), b.new("float64", (), "high")
    least = None if low is None else b.constant(np.array(-0.5))
    result = b.op("Clip", x, least, high)
    single = Program("p", (Input(x), Input(high)), tuple(b.ops), (Output("y", result),))
    highs = np.array([np.inf, -np.inf, np.nan, 1.0])
    backend = PROGRAM_BACKENDS["onnxruntime"]
    swept = backend.load(prepare(batch(single, ("high",)), backend.pass_order), STANDARD)
    rows = swept.run({"x": np.array(SPECIAL), "high": highs})["y"]
    for row, number in zip(rows, highs, strict=True):
        feeds = {"x": np.array(SPECIAL), "high": np.array(number)}
        single_run = backend.load(prepare(single, backend.pass_order), STANDARD).run(feeds)["y"]
        assert same_bits(row, single_run)
        assert same_bits(interpret(single, feeds)["y"], single_run)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((0,), (0,)), ((0, 3), (0,)), ((0, 3), (1,)), ((3, 0), (0, 1)), ((0,), None)],
)
@pytest.mark.parametrize(
    ("op_type", "number"), [("ReduceMaximum", -np.inf), ("ReduceMinimum", np.inf)]
)
def test_the_extreme_of_an_empty_axis_is_infinite(
    op_type: str, number: float, shape: tuple[int, ...], axes: Any, keepdims: int, dtype: str
) -> None:
    options = {"keepdims": keepdims} | ({"axes": axes} if axes else {})
    extreme = assert_all_forms_equal(op_type, [np.zeros(shape, dtype)], **options)
    assert np.all(extreme == number)
    assert extreme.shape == np.sum(np.zeros(shape), axes, keepdims=bool(keepdims)).shape


@pytest.mark.parametrize("op_type", ["ArgMin", "ArgMax", "ArgMinimum", "ArgMaximum"])
@pytest.mark.parametrize(("keepdims", "expected"), [(0, (0, 5)), (1, (0, 1, 5))])
def test_argmax_of_an_array_without_rows(
    op_type: str, keepdims: int, expected: tuple[int, ...]
) -> None:
    x = np.zeros((0, 0, 5))
    program = program_of(op_type, [x], axis=1, keepdims=keepdims)
    (position,) = run(program, [x])
    assert position.shape == expected
    if "imum" in op_type:
        assert assert_all_forms_equal(op_type, [x], axis=1, keepdims=keepdims).shape == expected


@pytest.mark.parametrize("op_type", ["ArgMin", "ArgMax", "ArgMinimum", "ArgMaximum"])
@pytest.mark.parametrize("extent", [0, "n"])
def test_argmax_of_an_empty_axis_without_iterations(op_type: str, extent: int | str) -> None:
    """Check that `ArgMax` of an empty axis in a loop without iterations is no error."""
    b = Builder()
    body = b.body()
    x, trips = b.new("float64", (extent,), "x"), b.new("int64", (), "trips")
    iteration, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    position = body.op(op_type, x, axis=0, keepdims=0)
    stack = b.new("int64", ("rows",), "stack")
    parts = ((), (Recorded(position, stack),), tuple(body.ops), ())
    b.append(Loop("loop", trips, None, iteration, go, None, *parts))
    program = Program("p", (Input(x), Input(trips)), tuple(b.ops), (Output("y", stack),))
    backend = PROGRAM_BACKENDS["onnxruntime"]
    prepared = prepare(program, backend.pass_order)
    feeds = {"x": np.zeros(0), "trips": np.array(0)}
    for placement in (STANDARD, NATIVE):
        session = backend.load(prepared, placement)
        assert session.run(feeds)["y"].shape == interpret(program, feeds)["y"].shape == (0,)
        with pytest.raises(RunError, match="at least one element"):
            session.run({**feeds, "trips": np.array(1)})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 4)])
def test_hardmax_has_its_one_at_the_first_nan(
    shape: tuple[int, int], axis: int, dtype: str
) -> None:
    x = np.resize([1.0, np.nan, 2.0, np.nan, 3.0, 3.0, np.inf, -np.inf], shape).astype(dtype)
    expected = np.zeros(shape, dtype)
    if x.size:
        places = np.expand_dims(np.argmax(x, axis), axis)
        np.put_along_axis(expected, places, 1, axis)
    assert same_bits(assert_all_forms_equal("Hardmax", [x], axis=axis), expected)


@pytest.mark.parametrize("extents", [(0,), (3,)])
def test_hardmax_of_computed_extents(extents: tuple[int, ...]) -> None:
    x = np.arange(*extents, dtype=np.float64)
    b = Builder()
    operand = b.new("float64", ("n",), "x")
    result = b.op("Hardmax", operand, axis=0)
    program = Program("p", (Input(operand),), tuple(b.ops), (Output("y", result),))
    backend = PROGRAM_BACKENDS["onnxruntime"]
    numbers = backend.load(prepare(program, backend.pass_order), STANDARD).run({"x": x})["y"]
    assert same_bits(numbers, interpret(program, {"x": x})["y"])


@pytest.mark.parametrize(
    "row", [[1000.0, 0.0], [1e30, 2.5], [-np.inf, 1.0], [np.inf, 1.0], [np.nan, 1.0]]
)
def test_the_logarithm_of_a_softmax_that_underflows_is_finite(row: list[float]) -> None:
    x = np.array(row)
    with np.errstate(all="ignore"):
        less = x - x.max()
        expected = less - np.log(np.sum(np.exp(less)))
    assert same_bits(assert_all_forms_equal("LogSoftmax", [x], axis=0), expected)


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (3, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_index_out_of_range_of_an_empty_array_is_an_error(
    shape: tuple[int, int], axis: int
) -> None:
    program = one_operation("Gather", [np.zeros(shape), np.array([5])], {"axis": axis})
    feeds = {"x0": np.zeros((1, *shape)), "x1": np.array([[5]])}
    feeds = {entry.value.name: feeds[entry.value.name] for entry in program.inputs}
    backend = PROGRAM_BACKENDS["onnxruntime"]
    prepared = prepare(program, backend.pass_order)
    with pytest.raises(RunError):
        interpret(program, feeds)
    for placement in (STANDARD, NATIVE):
        session = backend.load(prepared, placement)
        with pytest.raises(RunError, match="position 5 does not exist"):
            session.run(feeds)
