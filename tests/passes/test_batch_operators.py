"""Batching of every operator: each run equals the single run, or the operator is refused by name."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import OperandError, UnsupportedError
from mdf_loop.ops import random_streams, row_of
from mdf_loop.ops.registry import qualified_name, rows
from mdf_loop.passes.batching.batch import batch
from mdf_loop.pipeline import LEGAL, ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from tests.ops.op_running import program_of
from tests.ops.operator_samples import NOT_TENSORS, SAMPLES, F
from tests.passes.batch_running import RUNS, assert_same, on_runtime
from tests.soak import some
from tests.strategies.same_operands import OPERATORS, sample_calls

RULES = {row.name for row in rows() if row.batching_rule is not None}

WEIGHTS = np.array([1.0, -0.5, 0.25])


def array_per_run(array: np.ndarray) -> np.ndarray:
    """Return an array for each run; the first one is the given array."""
    if array.dtype.kind == "f":
        return np.stack([array * (1 - 0.11 * run) for run in range(RUNS)])
    return np.stack([np.roll(array, run) for run in range(RUNS)])


NOT_IN_REFERENCE = frozenset({"GlobalLpPool", "LRN", "MaxPool", "OneHot"})
"""Operators that the onnx reference lacks, or computes incorrectly for these operands."""


def check_rows(
    op_type: str, arrays: Any, batched: Any, *, exact: bool = False, **rest: Any
) -> None:
    arrays = [np.asarray(a) if a is not None else None for a in arrays]
    program = program_of(op_type, arrays, **rest)
    feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None}
    names = {f"x{k}" for k in batched}
    batched_feeds = {k: array_per_run(a) if k in names else a for k, a in feeds.items()}
    interpreted = op_type not in NOT_IN_REFERENCE
    assert_same(program, batched_feeds, names, exact=exact, interpreted=interpreted)


def subsets(*places: int) -> list[tuple[int, ...]]:
    """Return all ways to batch at least one of the operands."""
    return list(chain.from_iterable(combinations(places, n) for n in range(1, len(places) + 1)))


# --- every operator -----------------------------------------------------------------------------

DTYPES = {
    **dict.fromkeys(("Celu", "MaxRoiPool", "QuantizeLinear", "RoiAlign"), "float32"),
    "BitShift": "uint64",
}
"""What ONNX asks of operators that do not take float64."""


def arrays_of(op_type: str) -> list[Any]:
    """Return the operands of the sample."""
    dtype = DTYPES.get(op_type, "float64")
    return [v.array(dtype) if isinstance(v, F) else v for v in SAMPLES[op_type].inputs]


WITH_RULE = sorted(
    name for name, s in SAMPLES.items() if name in RULES and s.inputs and isinstance(s.inputs[0], F)
)


@pytest.mark.parametrize("op_type", WITH_RULE)
def test_an_operator_with_a_rule_equals_single_runs(op_type: str) -> None:
    sample = SAMPLES[op_type]
    arrays = arrays_of(op_type)
    fixed = [k for k, v in enumerate(sample.inputs) if not isinstance(v, F) and v is not None]
    check_rows(
        op_type, arrays, (0,), output_count=sample.output_count, constant=fixed, **sample.attributes
    )


@pytest.mark.parametrize("op_type", WITH_RULE)
def test_an_operator_with_a_rule_accepts_zero_runs(op_type: str) -> None:
    sample, arrays = SAMPLES[op_type], arrays_of(op_type)
    fixed = [k for k, v in enumerate(sample.inputs) if not isinstance(v, F) and v is not None]
    program = program_of(op_type, arrays, sample.output_count, constant=fixed, **sample.attributes)
    feeds = {
        f"x{k}": np.asarray(a) for k, a in enumerate(arrays) if a is not None and k not in fixed
    }
    alone = on_runtime(prepare(program, LEGAL), feeds)
    batched = prepare(batch(program, ["x0"]), ONNXRUNTIME)
    together = on_runtime(batched, {**feeds, "x0": feeds["x0"][None][:0]})
    for output in batched.outputs:
        axis = output.member_axis
        if axis is not None:
            assert np.moveaxis(together[output.name], axis, 0).shape == (
                0,
                *alone[output.name].shape,
            )


def test_every_rule_has_a_row() -> None:
    boolean_operators = {"And", "BitCast", "BitShift", "Not", "Or", "Where", "Xor"}
    boolean_operators |= {f"Bitwise{name}" for name in ("And", "Not", "Or", "Xor")}
    boolean_operators |= {row.name for row in random_streams.OPERATOR_ROWS}
    assert set(WITH_RULE) | boolean_operators >= RULES


@pytest.mark.parametrize("op_type", sorted(set(SAMPLES) - RULES - NOT_TENSORS))
def test_an_operator_without_a_rule_is_refused_by_name(op_type: str) -> None:
    sample = SAMPLES[op_type]
    if not sample.inputs or row_of(op_type).undecomposed_reason or op_type == "Range":
        pytest.skip("it reads nothing, or is refused anyway")
    arrays = arrays_of(op_type)
    fixed = [k for k, v in enumerate(arrays) if k and v is not None]
    program = program_of(op_type, arrays, sample.output_count, constant=fixed, **sample.attributes)
    with pytest.raises(UnsupportedError) as caught:
        batch(program, ["x0"])
    sentence = str(caught.value)
    assert f"{qualified_name(op_type)} cannot be computed for many values at once" in sentence
    assert "at $.here" in sentence
    assert "hint: run the values one after the other" in sentence


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("op_type", some(sorted(RULES & set(OPERATORS)), 4))
def test_one_value_as_several_operands(op_type: str) -> None:
    for dtype in ("float64", "int64", "bool"):
        for call in sample_calls(op_type, dtype):
            program, rows = call.program(), array_per_run(call.shared)
            try:
                single_results = [interpret(program, {"x0": row}) for row in rows]
                [on_runtime(prepare(program, LEGAL), {"x0": row}) for row in rows]
            except Exception:  # noqa: BLE001 - ONNX Runtime raises anything
                continue  # another run has numbers that it does not take
            if (
                len(
                    {tuple(array.shape for array in outputs.values()) for outputs in single_results}
                )
                > 1
            ):
                continue
            with suppress(UnsupportedError, OperandError):
                assert_same(program, {"x0": rows}, {"x0"})


# --- element by element ---------------------------------------------------------------------------

SHAPES = [((), ()), ((), (3,)), ((3,), ()), ((3,), (2, 3)), ((2, 1), (3,)), ((2, 3), (2, 3))]
SHAPES += [((1,), ()), ((1,), (1, 1)), ((20, 3), (3,)), ((4, 1, 2), (3, 1))]


@pytest.mark.parametrize("batched", subsets(0, 1))
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcasting(shapes: Any, batched: Any) -> None:
    arrays = [np.arange(1.0, 1 + np.prod(s, dtype=int)).reshape(s) / 7 for s in shapes]
    for op_type in ("Sub", "Less", "Div", "Max"):
        check_rows(op_type, arrays, batched, exact=True)
    check_rows("Pow", arrays, batched)


@pytest.mark.parametrize("batched", subsets(0, 1))
def test_broadcasting_of_unknown_extents(batched: Any) -> None:
    arrays = [np.ones((2, 3)) / 3, WEIGHTS]
    check_rows("Mul", arrays, batched, shapes=[("m", "n"), ("n",)])


@pytest.mark.parametrize("batched", subsets(0, 1, 2))
def test_where(batched: Any) -> None:
    arrays = [np.array([True, False, True]), np.ones((2, 1)) / 3, np.array(0.7)]
    check_rows("Where", arrays, batched)


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_booleans(op_type: str) -> None:
    for batched in subsets(0, 1):
        check_rows(op_type, [np.array([True, False, True]), np.array(True)], batched)
    check_rows("Not", [np.array([True, False])], (0,))


@pytest.mark.parametrize("batched", subsets(0, 1, 2))
def test_clip_to_bounds_of_each_run(batched: Any) -> None:
    arrays = [np.array([[-1.0, 0.2, 3.0], [np.nan, 1.0, 0.1]]), np.array(0.1), np.array(0.9)]
    check_rows("Clip", arrays, batched)
    if 1 not in batched:
        check_rows("Clip", [arrays[0], None, arrays[2]], batched)


def test_prelu_and_cast_like() -> None:
    for batched in subsets(0, 1):
        check_rows("PRelu", [-np.ones((2, 3)), WEIGHTS], batched)
        check_rows("CastLike", [WEIGHTS, np.array([1, 2])], batched)


# --- products -----------------------------------------------------------------------------------

VECTOR, MATRIX = np.array([0.5, -1.0, 2.0]), np.arange(9.0).reshape(3, 3) / 7
STACK = np.arange(18.0).reshape(2, 3, 3) / 11
DEEP = np.arange(36.0).reshape(2, 2, 3, 3) / 13


@pytest.mark.parametrize("batched", subsets(0, 1))
@pytest.mark.parametrize("left", [VECTOR, MATRIX, STACK, DEEP], ids=lambda a: f"{a.ndim}d")
@pytest.mark.parametrize("right", [VECTOR, MATRIX, STACK, DEEP], ids=lambda a: f"{a.ndim}d")
def test_matrix_products_of_all_ranks(left: Any, right: Any, batched: Any) -> None:
    check_rows("MatMul", [left, right], batched)


def test_products_of_whole_numbers() -> None:
    whole = np.array([1, 2**60 + 1, 3])
    for batched in subsets(0, 1):
        check_rows("MatMul", [whole, np.array([3, 1, -1])], batched)


@pytest.mark.parametrize("batched", subsets(0, 1, 2))
@pytest.mark.parametrize("c", [np.array(2.0), VECTOR, MATRIX], ids=lambda a: f"{a.ndim}d")
def test_gemm(c: Any, batched: Any) -> None:
    check_rows("Gemm", [MATRIX, MATRIX + 1, c], batched, transA=1, alpha=0.1, beta=3.0)
    check_rows("Gemm", [MATRIX, MATRIX + 1, c], batched, transB=1)
    if 2 not in batched:
        check_rows("Gemm", [MATRIX, MATRIX], batched)


@pytest.mark.parametrize("equation", ["ij,j->i", "ij,j", "...j, j->...", "ab,b->"])
@pytest.mark.parametrize("batched", subsets(0, 1))
def test_einsum(equation: str, batched: Any) -> None:
    check_rows("Einsum", [MATRIX, VECTOR], batched, equation=equation)


def test_det_and_trilu() -> None:
    check_rows("Det", [STACK + np.eye(3)], (0,))
    check_rows("Trilu", [MATRIX, np.array(1)], (0,), upper=0)


# --- along axes ---------------------------------------------------------------------------------

REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin")
REDUCTIONS += ("ReduceProd", "ReduceSumSquare")


@pytest.mark.parametrize("axes", [None, (0,), (-1,), (0, 2), (1, -1)], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(axes: Any, keepdims: int) -> None:
    for op_type in REDUCTIONS:
        axes_input = {} if axes is None else {"axes": axes}
        check_rows(op_type, [STACK + 0.1], (0,), keepdims=keepdims, **axes_input)
    arrays = [STACK] if axes is None else [STACK, np.array(axes)]
    check_rows("ReduceSum", arrays, (0,), constant=(1,), keepdims=keepdims)


def test_reductions_of_a_number() -> None:
    for op_type in (*REDUCTIONS, "ReduceSum", "ReduceLogSum"):
        if op_type == "ReduceLogSumExp":
            continue  # onnx's reference cannot do it
        check_rows(op_type, [np.array(1.7)], (0,), keepdims=0)
        check_rows(op_type, [np.array(1.7)], (0,))


def test_empty_axes_with_noop_reduce_nothing() -> None:
    none = np.array([], np.int64)
    for noop in (0, 1):
        check_rows("ReduceSum", [MATRIX, none], (0,), constant=(1,), noop_with_empty_axes=noop)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_negative_and_positive_axes(axis: int) -> None:
    for op_type in ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin"):
        check_rows(op_type, [STACK], (0,), axis=axis)
    check_rows("TopK", [STACK, np.array([1])], (0,), output_count=2, axis=axis)
    check_rows("Split", [np.arange(48.0).reshape(4, 2, 6)], (0,), output_count=2, axis=axis)
    check_rows("CumSum", [STACK, np.array(axis)], (0,), constant=(1,))
    check_rows("OneHot", [np.array([[0, 1]]), np.array(3), np.array([0.0, 2.5])], (0,), axis=-1)
    check_rows("GatherElements", [STACK, np.ones((2, 3, 3), int)], (0,), axis=axis)
    check_rows("Compress", [STACK, np.array([True, False])], (0,), axis=axis)
    for batched in subsets(0, 1):
        check_rows("Concat", [STACK, STACK + 1], batched, axis=axis)


def test_default_axes() -> None:
    check_rows("ArgMax", [STACK], (0,))
    check_rows("Compress", [STACK, np.array([True, False, True])], (0,))
    check_rows("LayerNormalization", [STACK, VECTOR, VECTOR], (0,))


# --- shapes --------------------------------------------------------------------------------------


def test_shape_and_size_are_those_of_one_run() -> None:
    for shapes in (None, [("m", 3)], [("m", "n")]):
        check_rows("Shape", [MATRIX[:2]], (0,), shapes=shapes)
        check_rows("Shape", [MATRIX[:2]], (0,), shapes=shapes, start=-1)
        check_rows("Shape", [MATRIX[:2]], (0,), shapes=shapes, start=0, end=1)
        check_rows("Size", [MATRIX[:2]], (0,), shapes=shapes)


@pytest.mark.parametrize(
    ("op_type", "operand", "attributes"),
    [
        ("Reshape", [3, 6], {}),
        ("Reshape", [-1], {}),
        ("Reshape", [0, -1], {}),
        ("Reshape", [2, 9], {"allowzero": 1}),
        ("Expand", [3, 3], {}),
        ("Expand", [2, 2, 1, 3], {}),
        ("Expand", [1], {}),
        ("Tile", [1, 2, 1], {}),
        ("Pad", [0, 1, 0, 1, 0, 2], {"mode": "edge"}),
        ("Unsqueeze", [0, -1], {}),
    ],
)
def test_shapes_given_as_lists(op_type: str, operand: Any, attributes: Any) -> None:
    data = np.arange(18.0).reshape(2, 3, 3)
    known = [(1,)] if op_type == "Unsqueeze" else [(1,), ()]
    for constant in known:
        check_rows(op_type, [data, np.array(operand)], (0,), constant=constant, **attributes)


def test_squeeze_transpose_flatten() -> None:
    data = np.arange(6.0).reshape(1, 2, 1, 3)
    check_rows("Squeeze", [data], (0,))
    check_rows("Squeeze", [MATRIX], (0,))
    check_rows("Squeeze", [data, np.array([-2])], (0,), constant=(1,))
    check_rows("Transpose", [STACK], (0,))
    check_rows("Transpose", [STACK], (0,), perm=(1, 0, 2))
    check_rows("Transpose", [np.array(1.0)], (0,))
    for axis in (0, 1, 2, -1):
        check_rows("Flatten", [data], (0,), axis=axis)
        check_rows("Flatten", [STACK], (0,), axis=axis, shapes=[("m", 3, 3)])


def test_slices() -> None:
    for axes in ([0], [-1], [1, 0]):
        n = len(axes)
        arrays = [STACK, np.array([0] * n), np.array([2] * n), np.array(axes), np.array([1] * n)]
        check_rows("Slice", arrays, (0,), constant=(3,))
    check_rows("Slice", [STACK, np.array([0, 1]), np.array([1, 3])], (0,))


# --- choice --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", subsets(0, 1))
@pytest.mark.parametrize("places", [np.array(1), np.array([1, 0, -1]), np.array([[1, 0], [0, 1]])])
def test_gather(places: Any, batched: Any) -> None:
    for axis in (0, 1, 2, -1):
        check_rows("Gather", [STACK, places % 2], batched, axis=axis)
    check_rows("Gather", [VECTOR, places.astype(np.int32)], batched)


@pytest.mark.parametrize("batched", subsets(0, 1))
def test_gather_nd_and_elements(batched: Any) -> None:
    check_rows("GatherND", [MATRIX, np.array([[0, 1], [1, 2]])], batched)
    check_rows("GatherND", [STACK, np.array([[1], [2]])], batched, batch_dims=1)
    check_rows("GatherElements", [MATRIX, np.array([[0, 1, 2]])], batched)


@pytest.mark.parametrize("batched", subsets(0, 1, 2))
def test_scatter_elements(batched: Any) -> None:
    arrays = [MATRIX, np.array([[0, 1, 2]]), np.array([[10.0, 11.0, 12.0]])]
    check_rows("ScatterElements", arrays, batched, axis=1)


@pytest.mark.parametrize("batched", subsets(0, 1, 2))
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_nd(batched: Any, reduction: str) -> None:
    places = np.array([[0, 1], [1, 2]])
    check_rows("ScatterND", [MATRIX, places, np.array([5.0, 6.0])], batched, reduction=reduction)
    rows = [MATRIX, np.array([[1]]), np.array([[5.0, 6.0, 7.0]])]
    check_rows("ScatterND", rows, batched, reduction=reduction)


@pytest.mark.parametrize("batched", subsets(0, 2))
def test_pad_with_a_constant_of_each_run(batched: Any) -> None:
    pads, number = np.array([0, 1, 1, -1]), np.array(0.5)
    check_rows("Pad", [MATRIX, pads, number], batched, constant=[1])
    check_rows("Pad", [MATRIX, pads, number], batched)
    check_rows("Pad", [MATRIX, np.array([2, 1]), number, np.array([-1])], batched, constant=[1, 3])
    check_rows("Pad", [VECTOR, np.array([2, -1]), number], batched)


def test_center_crop_pad() -> None:
    check_rows("CenterCropPad", [MATRIX, np.array([3, 1])], (0,), constant=[1])
    check_rows("CenterCropPad", [MATRIX, np.array([5])], (0,), constant=[1], axes=(-1,))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op_type", "arrays", "batched", "sentence"),
    [
        ("Range", [0.0, 3.0, 1.0], 1, "the shape of its result would differ from value to value"),
        ("NonZero", [VECTOR], 0, "the shape of its result would differ from value to value"),
        ("TopK", [VECTOR, np.array([1])], 1, "each of them has its own 'K'"),
        ("Reshape", [VECTOR, np.array([3, 1])], 1, "each of them has its own 'shape'"),
        ("Slice", [VECTOR, np.array([0]), np.array([2])], 2, "each of them has its own 'ends'"),
        ("Compress", [VECTOR, np.array([True])], 1, "each of them has its own 'condition'"),
        ("Trilu", [MATRIX, np.array(0)], 1, "each of them has its own diagonal"),
        ("CumSum", [VECTOR, np.array(0)], 0, "its 'axis' must be known when it is compiled"),
        ("Bernoulli", [VECTOR], 0, "each of them would draw other random numbers"),
    ],
)
def test_refused_operands_are_named(op_type: str, arrays: Any, batched: int, sentence: str) -> None:
    arrays = [np.asarray(a) for a in arrays]
    outputs = 2 if op_type == "TopK" else 1
    with pytest.raises(UnsupportedError, match=sentence):
        batch(program_of(op_type, arrays, outputs), [f"x{batched}"])


def test_an_unknown_number_of_axes_is_refused() -> None:
    program = program_of("Add", [VECTOR, VECTOR], shapes=[(3,), None])
    with pytest.raises(Exception, match="the number of axes of 'x1' must be known here"):
        batch(program, ["x0"])
    with pytest.raises(Exception, match="the number of axes of 'x1' must be known here"):
        batch(program, ["x1"])
