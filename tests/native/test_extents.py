"""Arrays whose extents are known only at run time: the results of fixed extents, and the same errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import LoopError, MemoryLimitError, UnsupportedError
from mdf_loop.ir import Program, Shape, Value
from mdf_loop.ops.ordered_sum import ordered_sum
from mdf_loop.run.onnxruntime.session import Session
from tests import soak
from tests.native.one_loop import Sketch
from tests.placements import REQUIRED, STANDARD, kernels_checked
from tests.strategies.native_operations import same_bits

BuildOperation = Callable[[Builder, Sequence[Value]], Value]

EXTENTS = (0, 1, 3, 8, 17, 1000)


def whole(b: Builder, *numbers: int) -> Value:
    return b.constant(np.array(numbers))


def program_of(make: BuildOperation, shapes: Sequence[Shape], dtype: str) -> Program:
    """Return a loop that records two rows of `make` applied to inputs of these shapes."""
    sketch = Sketch()
    operands = [
        sketch.varied(sketch.input(dtype, shape, f"x{k}")) for k, shape in enumerate(shapes)
    ]
    return sketch.program(
        sketch.record(make(sketch.inside, operands), 2), trip_count=sketch.b.constant(np.array(2))
    )


def arrays_of(shapes: Sequence[Shape], dtype: str, names: Mapping[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    fixed_shapes = [tuple(names.get(extent, extent) for extent in shape or ()) for shape in shapes]
    return [(rng.standard_normal(shape) * 9).astype(dtype) for shape in fixed_shapes]


def run(program: Program, arrays: Sequence[np.ndarray], *, native: bool) -> np.ndarray:
    with kernels_checked():
        session = Session(program, REQUIRED if native else STANDARD)
    rows: np.ndarray = session.run({f"x{k}": array for k, array in enumerate(arrays)})["y0"]
    return rows


# --- operations -----------------------------------------------------------------------------------


def added(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Add", *xs)


def transposed(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Transpose", xs[0], perm=(1, 0))


def transposed_three_axes(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Transpose", xs[0], perm=(2, 0, 1))


def backward(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Slice", xs[0], whole(b, -1), whole(b, -(2**62)), whole(b, 0), whole(b, -1))


def inner_part(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Slice", xs[0], whole(b, 1), whole(b, -1), whole(b, 0))


def every_second(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Slice", xs[0], whole(b, -7), whole(b, 2**62), whole(b, 0), whole(b, 2))


def concatenated(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Concat", *xs, axis=1)


def concatenated_first_axis(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Concat", *xs, axis=0)


def flat(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Reshape", xs[0], whole(b, -1))


def reshaped_by_computed_shape(b: Builder, xs: Sequence[Value]) -> Value:
    """Reshape `[n, 6]` to `[6, n]` with a target shape that is computed."""
    six, first_extent = whole(b, 6), b.op("Shape", xs[0], start=0, end=1)
    return b.op("Reshape", xs[0], b.op("Concat", six, first_extent, axis=0), allowzero=1)


def unsqueezed(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Squeeze", b.op("Unsqueeze", xs[0], whole(b, 1, 3)), whole(b, 1))


def flattened(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Flatten", xs[0], axis=2)


def expanded(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Expand", xs[0], b.op("Shape", xs[1]))


def gathered(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array([[2, 0], [-1, 1]])), axis=1)


def gathered_by_computed_indices(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.op("Mod", b.op("Cast", xs[1], to=7), whole(b, 3)), axis=1)


def size(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Mul", b.op("Shape", xs[0]), b.op("Size", xs[0]))


def summed(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceSum", xs[0], keepdims=0)


def summed_first(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceSum", xs[0], whole(b, 0), keepdims=0)


def summed_middle(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceSum", xs[0], whole(b, 1), keepdims=1)


def summed_last(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceSum", xs[0], whole(b, -1), keepdims=0)


def largest(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceMax", xs[0], axes=(0,), keepdims=0)


def smallest(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceMin", xs[0], keepdims=0)


def mean(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ReduceMean", xs[0], axes=(0,), keepdims=0)


def multiplied(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("MatMul", *xs)


def cumulative_sum(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("CumSum", xs[0], b.constant(np.array(0)))


def reverse_cumulative_sum(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("CumSum", xs[0], b.constant(np.array(-1)), reverse=1, exclusive=1)


def argmax(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ArgMax", xs[0], axis=1, keepdims=0)


def counting_down(b: Builder, xs: Sequence[Value]) -> Value:
    """Return every third integer, counting down from the size of the array."""
    size, lower_end, step = b.op("Size", xs[0]), b.constant(np.array(-2)), b.constant(np.array(-3))
    return b.op("Range", size, lower_end, step)


def zeros(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ConstantOfShape", b.op("Shape", xs[0]), value=np.array([7]))


def expanded_and_concatenated(b: Builder, xs: Sequence[Value]) -> Value:
    """Expand one number to a matrix, concatenate the matrix with itself, and pad."""
    matrix = b.op("Expand", xs[0], whole(b, 2, 3))
    return b.op("Pad", b.op("Concat", matrix, matrix, axis=0), whole(b, 1, 0, 0, 2))


def expanded_and_transposed(b: Builder, xs: Sequence[Value]) -> Value:
    matrix = b.op("Expand", xs[0], b.op("Shape", xs[1]))
    return b.op("Transpose", b.op("Concat", matrix, xs[1], axis=1), perm=(1, 0))


OPERATIONS: list[tuple[BuildOperation, str, tuple[Shape, ...]]] = [
    (added, "float64", (("n",), ("n",))),
    (added, "float64", (("n", 3), (3,))),
    (added, "float64", (("n", 3), ("n", 1))),
    (added, "float64", ((3, "n"), ("n",))),
    (added, "float64", (("n", "m"), (1, "m"))),
    (added, "float64", (("n", 1, 2), (4, 1))),
    (added, "float64", ((), ("n", 2))),
    (transposed, "float64", (("n", 3),)),
    (transposed, "int64", (("n", "m"),)),
    (transposed_three_axes, "float64", ((2, "n", 3),)),
    (backward, "float64", (("n",),)),
    (backward, "int64", (("n", 3),)),
    (inner_part, "float64", (("n", 2),)),
    (every_second, "float64", (("n",),)),
    (concatenated, "float64", (("n", 2), ("n", 3))),
    (concatenated, "float64", ((2, "n"), (2, 3), (2, "n"))),
    (concatenated_first_axis, "float64", (("n", 2), (1, 2))),
    (flat, "float64", (("n", 2, "m"),)),
    (reshaped_by_computed_shape, "float64", (("n", 6),)),
    (unsqueezed, "float64", (("n", 2),)),
    (flattened, "float64", (("n", 2, 3),)),
    (expanded, "float64", ((1, 3), ("n", 3))),
    (expanded, "float64", ((1,), ("n", "m"))),
    (expanded_and_concatenated, "float64", ((),)),
    (expanded_and_transposed, "float64", ((), ("n", 2))),
    (expanded_and_transposed, "float64", ((), (4, 50))),
    (gathered, "float64", (("n", 3),)),
    (gathered, "float64", (("n", 3, 2),)),
    (gathered_by_computed_indices, "float64", ((2, 3), ("n",))),
    (size, "int64", (("n", 2),)),
    (counting_down, "int64", (("n",),)),
    (zeros, "int64", (("n", 2),)),
    (summed, "int64", (("n", 3),)),
    (summed, "float64", (("n",),)),
    (summed_first, "float64", (("n", 3),)),
    (summed_first, "float64", ((3, "n"),)),
    (summed_middle, "float64", (("n", 3, 2),)),
    (summed_middle, "float64", ((2, "n", "m"),)),
    (summed_last, "float64", ((3, "n"),)),
    (summed_last, "float64", (("n", 9),)),
    (largest, "float64", (("n", 2),)),
    (largest, "int64", (("n",),)),
    (smallest, "int64", (("n", "m"),)),
    (mean, "float64", (("n", 2),)),
    (cumulative_sum, "int64", (("n", 3),)),
    (cumulative_sum, "float64", ((4, "n"),)),
    (reverse_cumulative_sum, "int64", (("n", "m"),)),
    (reverse_cumulative_sum, "float64", ((2, "n"),)),
    (argmax, "float64", (("n", 3, 2),)),
    (argmax, "int64", (("n", "m"),)),
    (multiplied, "float64", (("n", 3), (3, 9))),
    (multiplied, "float64", (("n", 9), (9,))),
    (multiplied, "float64", ((9,), ("n", 9, 5))),
    (multiplied, "int64", (("n", 2, 3), ("n", 3, 4))),
    (multiplied, "float64", (("n", 2, 3), (3, 4))),
    (multiplied, "float64", ((5, 3), ("n", 3, 4))),
    (multiplied, "float64", (("n", 5, 5), ("n", 5, 1))),
]


@pytest.mark.soak
@pytest.mark.parametrize(("operation", "extent"), soak.some(product(OPERATIONS, EXTENTS), 2))
def test_results_equal_standard_and_fixed_extents(
    operation: tuple[BuildOperation, str, Sequence[Shape]], extent: int
) -> None:
    """Compare with ONNX Runtime within a tolerance, and with a native loop of fixed extents bit by bit."""
    build, dtype, shapes = operation
    extent_by_name = {"n": extent, "m": 5}
    arrays = arrays_of(shapes, dtype, extent_by_name)
    rows = run(program_of(build, shapes, dtype), arrays, native=True)
    expected = run(program_of(build, shapes, dtype), arrays, native=False)
    assert rows.dtype == expected.dtype
    assert rows.shape == expected.shape
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-12)
    fixed_shapes = [
        tuple(extent_by_name.get(extent, extent) for extent in shape or ()) for shape in shapes
    ]
    rows_of_fixed_extents = run(program_of(build, fixed_shapes, dtype), arrays, native=True)
    assert same_bits(rows, rows_of_fixed_extents)


def test_an_invalid_index_of_an_empty_array_is_checked() -> None:
    """Check that a loop with an invalid constant index of an empty array is standard."""
    with pytest.raises(UnsupportedError, match="onnx::Gather that cannot be computed"):
        run(
            program_of(gather_columns_0_and_minus_4, ((0, 3),), "float64"),
            [np.zeros((0, 3))],
            native=True,
        )


@pytest.mark.parametrize("count", [*range(20), 64, 100])
def test_sums_have_the_order_of_ordered_sum(count: int) -> None:
    """Check that sums have the order of `ops.ordered_sum` for known and unknown numbers of terms."""
    arrays = arrays_of([("n",)], "float64", {"n": count})
    expected = ordered_sum(arrays[0], (0,), keepdims=False)
    for extent in ("n", count):
        native_sum = run(program_of(summed, [(extent,)], "float64"), arrays, native=True)[0]
        assert native_sum == expected


# --- errors ---------------------------------------------------------------------------------------


def gather_index_7(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array(7)), axis=0)


def gather_indices_0_and_minus_4(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array([0, -4])), axis=0)


def gather_columns_0_and_minus_4(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array([0, -4])), axis=1)


def reshape_to_rows_of_5(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Reshape", xs[0], whole(b, 5, -1))


def reshape_to_2_by_3(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Reshape", xs[0], whole(b, 2, 3))


def squeeze_first_axis(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Squeeze", xs[0], whole(b, 0))


ERRORS: list[tuple[BuildOperation, tuple[Shape, ...], dict[str, int], str]] = [
    (
        gather_index_7,
        (("n",),),
        {"n": 3},
        "position 7 does not exist: the axis has positions -3 to 2",
    ),
    (
        gather_index_7,
        (("n", 2),),
        {"n": 7},
        "position 7 does not exist: the axis has positions -7 to 6",
    ),
    (
        gather_indices_0_and_minus_4,
        (("n",),),
        {"n": 3},
        "position -4 does not exist: the axis has positions -3 to 2",
    ),
    (gather_indices_0_and_minus_4, (("n", "m"),), {"n": 0, "m": 1}, "position 0 does not exist"),
    (gather_columns_0_and_minus_4, (("n", "m"),), {"n": 2, "m": 3}, "position -4 does not exist"),
    (gather_columns_0_and_minus_4, (("n", "m"),), {"n": 0, "m": 3}, "position -4 does not exist"),
    (gather_columns_0_and_minus_4, (("n", "m"),), {"n": 0, "m": 0}, "position 0 does not exist"),
    (
        reshape_to_rows_of_5,
        (("n", 3),),
        {"n": 4},
        "an array of shape [4, 3] cannot become one of shape [5, -1]",
    ),
    (
        reshape_to_2_by_3,
        (("n", "m"),),
        {"n": 5, "m": 1},
        "shape [5, 1] cannot become one of shape [2, 3]",
    ),
    (
        concatenated,
        (("n", 2), ("m", 2)),
        {"n": 3, "m": 4},
        "joined differ in axis 0: 3 and 4 elements",
    ),
    (argmax, ((2, "n"),), {"n": 0}, "onnx::ArgMax needs at least one element"),
    (squeeze_first_axis, (("n", 2),), {"n": 2}, "axis 0 has 2 elements and cannot be left out"),
]


@pytest.mark.parametrize(("make", "shapes", "names", "sentence"), ERRORS)
def test_native_and_standard_errors_are_equal(
    make: BuildOperation, shapes: Sequence[Shape], names: dict[str, int], sentence: str
) -> None:
    """Check that the native and the standard loop report the same findings."""
    reports = []
    for is_native in (True, False):
        with pytest.raises(LoopError) as error:
            run(
                program_of(make, shapes, "float64"),
                arrays_of(shapes, "float64", names),
                native=is_native,
            )
        reports.append([(finding.kind, finding.what) for finding in error.value.findings])
    assert sentence in reports[0][0][1]
    assert reports[0] == reports[1]


def test_an_array_of_another_shape_is_refused() -> None:
    """Check that arrays with the same number of elements but another shape are refused."""
    shapes = [("n", "m"), ("m", "n")]
    program = program_of(add_transposed, shapes, "float64")
    valid_arrays = [np.ones((2, 3)), np.ones((3, 2))]
    assert run(program, valid_arrays, native=True).shape == (2, 2, 3)
    with pytest.raises(LoopError, match="another shape than the loop was made for"):
        run(program, [np.ones((2, 3)), np.ones((2, 3))], native=True)


def add_transposed(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Add", xs[0], b.op("Transpose", xs[1], perm=(1, 0)))


@pytest.mark.parametrize("extents", [[2**50], [2**40, 2**40], [2**62, 4]])
def test_arrays_larger_than_any_memory_are_refused(extents: list[int]) -> None:
    """Check the error for shapes that no machine can hold, including byte counts beyond 64 bits."""
    sketch = Sketch()
    x, shape = sketch.input("float64", (), "x"), sketch.input("int64", (len(extents),), "shape")
    large_array = sketch.inside.op("Expand", sketch.varied(x), shape)
    program = sketch.program(
        sketch.record(
            sketch.inside.op("ReduceSum", sketch.inside.op("Neg", large_array), keepdims=0)
        )
    )
    inputs = {"x": np.array(0.5), "shape": np.array(extents)}
    with pytest.raises(MemoryLimitError, match="there is no memory for what the model computes"):
        Session(program, REQUIRED).run(inputs)
