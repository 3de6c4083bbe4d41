"""Arrays whose extents are known only when the loop runs: the numbers of fixed ones, and the same errors."""

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

Made = Callable[[Builder, Sequence[Value]], Value]

EXTENTS = (0, 1, 3, 8, 17, 1000)


def whole(b: Builder, *numbers: int) -> Value:
    return b.constant(np.array(numbers))


def program_of(make: Made, shapes: Sequence[Shape], dtype: str) -> Program:
    """Two rows of what is made of arrays of these shapes, and of numbers that differ between iterations."""
    s = Sketch()
    given = [s.varied(s.given(dtype, shape, f"x{k}")) for k, shape in enumerate(shapes)]
    return s.program(s.record(make(s.inside, given), 2), trip_count=s.b.constant(np.array(2)))


def arrays_of(shapes: Sequence[Shape], dtype: str, names: Mapping[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    known = [tuple(names.get(e, e) for e in shape or ()) for shape in shapes]
    return [(rng.standard_normal(shape) * 9).astype(dtype) for shape in known]


def run(program: Program, arrays: Sequence[np.ndarray], *, native: bool) -> np.ndarray:
    with kernels_checked():
        session = Session(program, REQUIRED if native else STANDARD)
    made: np.ndarray = session.run({f"x{k}": array for k, array in enumerate(arrays)})["y0"]
    return made


# --- operations -----------------------------------------------------------------------------------


def added(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Add", *xs)


def turned(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Transpose", xs[0], perm=(1, 0))


def turned_deep(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Transpose", xs[0], perm=(2, 0, 1))


def backward(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Slice", xs[0], whole(b, -1), whole(b, -(2**62)), whole(b, 0), whole(b, -1))


def inner_part(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Slice", xs[0], whole(b, 1), whole(b, -1), whole(b, 0))


def every_other(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Slice", xs[0], whole(b, -7), whole(b, 2**62), whole(b, 0), whole(b, 2))


def joined(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Concat", *xs, axis=1)


def joined_in_front(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Concat", *xs, axis=0)


def flat(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Reshape", xs[0], whole(b, -1))


def other_shape(b: Builder, xs: Sequence[Value]) -> Value:
    """`[n, 6]` as `[6, n]`, by numbers that are computed."""
    six, one = whole(b, 6), b.op("Shape", xs[0], start=0, end=1)
    return b.op("Reshape", xs[0], b.op("Concat", six, one, axis=0), allowzero=1)


def one_row_each(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Squeeze", b.op("Unsqueeze", xs[0], whole(b, 1, 3)), whole(b, 1))


def halves(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Flatten", xs[0], axis=2)


def spread(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Expand", xs[0], b.op("Shape", xs[1]))


def some(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array([[2, 0], [-1, 1]])), axis=1)


def by_others(b: Builder, xs: Sequence[Value]) -> Value:
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


def running(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("CumSum", xs[0], b.constant(np.array(0)))


def running_back(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("CumSum", xs[0], b.constant(np.array(-1)), reverse=1, exclusive=1)


def place_of_largest(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ArgMax", xs[0], axis=1, keepdims=0)


def numbered(b: Builder, xs: Sequence[Value]) -> Value:
    """Every third number, down from as many as there are."""
    size, low, step = b.op("Size", xs[0]), b.constant(np.array(-2)), b.constant(np.array(-3))
    return b.op("Range", size, low, step)


def zeros(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("ConstantOfShape", b.op("Shape", xs[0]), value=np.array([7]))


def spread_and_joined(b: Builder, xs: Sequence[Value]) -> Value:
    """One number again and again, as a part of an array."""
    wide = b.op("Expand", xs[0], whole(b, 2, 3))
    return b.op("Pad", b.op("Concat", wide, wide, axis=0), whole(b, 1, 0, 0, 2))


def spread_and_turned(b: Builder, xs: Sequence[Value]) -> Value:
    wide = b.op("Expand", xs[0], b.op("Shape", xs[1]))
    return b.op("Transpose", b.op("Concat", wide, xs[1], axis=1), perm=(1, 0))


OPERATIONS: list[tuple[Made, str, tuple[Shape, ...]]] = [
    (added, "float64", (("n",), ("n",))),
    (added, "float64", (("n", 3), (3,))),
    (added, "float64", (("n", 3), ("n", 1))),
    (added, "float64", ((3, "n"), ("n",))),
    (added, "float64", (("n", "m"), (1, "m"))),
    (added, "float64", (("n", 1, 2), (4, 1))),
    (added, "float64", ((), ("n", 2))),
    (turned, "float64", (("n", 3),)),
    (turned, "int64", (("n", "m"),)),
    (turned_deep, "float64", ((2, "n", 3),)),
    (backward, "float64", (("n",),)),
    (backward, "int64", (("n", 3),)),
    (inner_part, "float64", (("n", 2),)),
    (every_other, "float64", (("n",),)),
    (joined, "float64", (("n", 2), ("n", 3))),
    (joined, "float64", ((2, "n"), (2, 3), (2, "n"))),
    (joined_in_front, "float64", (("n", 2), (1, 2))),
    (flat, "float64", (("n", 2, "m"),)),
    (other_shape, "float64", (("n", 6),)),
    (one_row_each, "float64", (("n", 2),)),
    (halves, "float64", (("n", 2, 3),)),
    (spread, "float64", ((1, 3), ("n", 3))),
    (spread, "float64", ((1,), ("n", "m"))),
    (spread_and_joined, "float64", ((),)),
    (spread_and_turned, "float64", ((), ("n", 2))),
    (spread_and_turned, "float64", ((), (4, 50))),
    (some, "float64", (("n", 3),)),
    (some, "float64", (("n", 3, 2),)),
    (by_others, "float64", ((2, 3), ("n",))),
    (size, "int64", (("n", 2),)),
    (numbered, "int64", (("n",),)),
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
    (running, "int64", (("n", 3),)),
    (running, "float64", ((4, "n"),)),
    (running_back, "int64", (("n", "m"),)),
    (running_back, "float64", ((2, "n"),)),
    (place_of_largest, "float64", (("n", 3, 2),)),
    (place_of_largest, "int64", (("n", "m"),)),
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
def test_operations(operation: tuple[Made, str, Sequence[Shape]], extent: int) -> None:
    """What ONNX Runtime gives; the very bits of a loop whose extents are known, or all of one form."""
    make, dtype, shapes = operation
    names = {"n": extent, "m": 5}
    arrays = arrays_of(shapes, dtype, names)
    made = run(program_of(make, shapes, dtype), arrays, native=True)
    expected = run(program_of(make, shapes, dtype), arrays, native=False)
    assert made.dtype == expected.dtype
    assert made.shape == expected.shape
    np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-12)
    known = [tuple(names.get(e, e) for e in shape or ()) for shape in shapes]
    fixed = run(program_of(make, known, dtype), arrays, native=True)
    assert same_bits(made, fixed)


def test_a_position_of_nothing_is_looked_at() -> None:
    """Where the extents are known, too, in which case the loop is standard."""
    with pytest.raises(UnsupportedError, match="onnx::Gather that cannot be computed"):
        run(program_of(some_columns, ((0, 3),), "float64"), [np.zeros((0, 3))], native=True)


@pytest.mark.parametrize("count", [*range(20), 64, 100])
def test_sums_have_their_order(count: int) -> None:
    """That of `ops.ordered_sum`, whether it is known how many terms there are or not."""
    arrays = arrays_of([("n",)], "float64", {"n": count})
    expected = ordered_sum(arrays[0], (0,), keepdims=False)
    for extent in ("n", count):
        made = run(program_of(summed, [(extent,)], "float64"), arrays, native=True)[0]
        assert made == expected


# --- errors ---------------------------------------------------------------------------------------


def at_seven(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array(7)), axis=0)


def at_some(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array([0, -4])), axis=0)


def some_columns(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Gather", xs[0], b.constant(np.array([0, -4])), axis=1)


def as_fives(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Reshape", xs[0], whole(b, 5, -1))


def as_six(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Reshape", xs[0], whole(b, 2, 3))


def without_axis(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Squeeze", xs[0], whole(b, 0))


ERRORS: list[tuple[Made, tuple[Shape, ...], dict[str, int], str]] = [
    (at_seven, (("n",),), {"n": 3}, "position 7 does not exist: the axis has positions -3 to 2"),
    (at_seven, (("n", 2),), {"n": 7}, "position 7 does not exist: the axis has positions -7 to 6"),
    (at_some, (("n",),), {"n": 3}, "position -4 does not exist: the axis has positions -3 to 2"),
    (at_some, (("n", "m"),), {"n": 0, "m": 1}, "position 0 does not exist"),
    (some_columns, (("n", "m"),), {"n": 2, "m": 3}, "position -4 does not exist"),
    (some_columns, (("n", "m"),), {"n": 0, "m": 3}, "position -4 does not exist"),
    (some_columns, (("n", "m"),), {"n": 0, "m": 0}, "position 0 does not exist"),
    (
        as_fives,
        (("n", 3),),
        {"n": 4},
        "an array of shape [4, 3] cannot become one of shape [5, -1]",
    ),
    (as_six, (("n", "m"),), {"n": 5, "m": 1}, "shape [5, 1] cannot become one of shape [2, 3]"),
    (joined, (("n", 2), ("m", 2)), {"n": 3, "m": 4}, "joined differ in axis 0: 3 and 4 elements"),
    (place_of_largest, ((2, "n"),), {"n": 0}, "onnx::ArgMax needs at least one element"),
    (without_axis, (("n", 2),), {"n": 2}, "axis 0 has 2 elements and cannot be left out"),
]


@pytest.mark.parametrize(("make", "shapes", "names", "sentence"), ERRORS)
def test_errors(make: Made, shapes: Sequence[Shape], names: dict[str, int], sentence: str) -> None:
    """Both ways say the same."""
    said = []
    for native in (True, False):
        with pytest.raises(LoopError) as error:
            run(
                program_of(make, shapes, "float64"),
                arrays_of(shapes, "float64", names),
                native=native,
            )
        said.append([(finding.kind, finding.what) for finding in error.value.findings])
    assert sentence in said[0][0][1]
    assert said[0] == said[1]


def test_an_array_of_another_shape_is_refused() -> None:
    """Also where it has as many elements."""
    shapes = [("n", "m"), ("m", "n")]
    program = program_of(multiplied_and_turned, shapes, "float64")
    good = [np.ones((2, 3)), np.ones((3, 2))]
    assert run(program, good, native=True).shape == (2, 2, 3)
    with pytest.raises(LoopError, match="another shape than the loop was made for"):
        run(program, [np.ones((2, 3)), np.ones((2, 3))], native=True)


def multiplied_and_turned(b: Builder, xs: Sequence[Value]) -> Value:
    return b.op("Add", xs[0], b.op("Transpose", xs[1], perm=(1, 0)))


@pytest.mark.parametrize("extents", [[2**50], [2**40, 2**40], [2**62, 4]])
def test_more_than_any_machine_has(extents: list[int]) -> None:
    """Also where the number of bytes is more than 64 bits hold."""
    s = Sketch()
    x, shape = s.given("float64", (), "x"), s.given("int64", (len(extents),), "shape")
    wide = s.inside.op("Expand", s.varied(x), shape)
    program = s.program(s.record(s.inside.op("ReduceSum", s.inside.op("Neg", wide), keepdims=0)))
    given = {"x": np.array(0.5), "shape": np.array(extents)}
    with pytest.raises(MemoryLimitError, match="there is no memory for what the model computes"):
        Session(program, REQUIRED).run(given)
