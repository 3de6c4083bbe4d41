"""Lowering of NumPy's reductions along known axes: sum, mean, max, argmax, any ..."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arguments import Axes, Dtype
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.guards import guard_value
from mdf_loop.lower.terms import as_float
from mdf_loop.ops.build_helpers import cast, extents, ints, is_scalar, kind, scalar, sum_of


def nonnegative_axis(value: Value, axis: int, added: int = 0) -> int:
    """Return an axis number as nonnegative, for an array with `added` axes more than `value`."""
    axis_count = len(extents(value)) + added
    if not -axis_count <= axis < axis_count:
        raise OperandError(
            f"axis {axis} does not exist: {value.type} has {axis_count - added} axes",
            hint=f"axes are numbered {-axis_count} to {axis_count - 1}"
            if axis_count
            else "leave out the axis",
        )
    return axis % axis_count


def nonnegative_axes(value: Value, axis: Axes) -> tuple[int, ...]:
    """Return the axes of a reduction as non-negative integers, all axes for None."""
    if axis is None:
        return tuple(range(len(extents(value))))
    axes = tuple(
        nonnegative_axis(value, axis_number)
        for axis_number in (axis if isinstance(axis, tuple) else (axis,))
    )
    if len(set(axes)) < len(axes):
        raise OperandError(f"an axis is given twice in {axis}")
    return axes


def reduce_axes(b: ModelBuilder, op_type: str, value: Value, axis: Axes, keepdims: bool) -> Value:
    """Apply an ONNX reduction such as ReduceMax along axes."""
    if op_type == "ReduceSum":
        axes = None if axis is None else nonnegative_axes(value, axis)
        return sum_of(b, value, axes, keepdims=keepdims)
    if axis is None and (value.shape is None or keepdims is False):
        return value if is_scalar(value) else b.op(op_type, value, keepdims=int(keepdims))
    axes = nonnegative_axes(value, axis)
    if not axes:
        return value
    return b.op(op_type, value, axes=axes, keepdims=int(keepdims))


def count_reduced_elements(b: ModelBuilder, value: Value, axis: Axes) -> Value | int:
    """Return the number of elements that a reduction combines into one result, as an int if known."""
    if axis is None and value.shape is None:
        return b.op("Size", value)
    reduced_extents = [extents(value)[axis_number] for axis_number in nonnegative_axes(value, axis)]
    known_extents = [extent for extent in reduced_extents if isinstance(extent, int)]
    if len(known_extents) == len(reduced_extents):
        return int(np.prod(known_extents, dtype=np.int64))
    reduced_shape = b.op(
        "Gather", b.op("Shape", value), ints(b, *nonnegative_axes(value, axis)), axis=0
    )
    return b.op("ReduceProd", reduced_shape, keepdims=0)


# --- sums ----------------------------------------------------------------------------------------


def _widen_for_sum(b: ModelBuilder, value: Value, dtype: str | None) -> Value:
    """Return bools and integers cast to 64-bit integers, as in numpy's sums."""
    wide_dtype = {"b": "int64", "i": "int64", "u": "uint64"}.get(kind(value), value.dtype)
    return cast(b, value, dtype or wide_dtype)


@register_as("numpy.sum")
def total(
    b: ModelBuilder,
    a: Value,
    /,
    axis: Axes = None,
    dtype: Dtype | None = None,
    keepdims: bool = False,
) -> Value:
    """Return the sum of elements along axes."""
    return reduce_axes(b, "ReduceSum", _widen_for_sum(b, a, dtype), axis, keepdims)


@register_as("numpy.prod")
def product(
    b: ModelBuilder,
    a: Value,
    /,
    axis: Axes = None,
    dtype: Dtype | None = None,
    keepdims: bool = False,
) -> Value:
    """Return the product of elements along axes."""
    return reduce_axes(b, "ReduceProd", _widen_for_sum(b, a, dtype), axis, keepdims)


@register_as("numpy.mean")
def mean(
    b: ModelBuilder,
    a: Value,
    /,
    axis: Axes = None,
    dtype: Dtype | None = None,
    keepdims: bool = False,
) -> Value:
    """Return the mean along axes, which is nan without elements."""
    float_value = as_float(b, a if dtype is None else cast(b, a, dtype))
    return _divide_sums(
        b,
        reduce_axes(b, "ReduceSum", float_value, axis, keepdims),
        count_reduced_elements(b, float_value, axis),
        0,
    )


def _divide_sums(b: ModelBuilder, sums: Value, count: Value | int, less: int) -> Value:
    """Return `sums / (count - less)`, a mean with `less` degrees of freedom removed."""
    if isinstance(count, int):
        return b.op("Div", sums, scalar(b, max(count - less, 0), sums.dtype))
    degrees_of_freedom = b.op(
        "Max", b.op("Sub", count, scalar(b, less, "int64")), scalar(b, 0, "int64")
    )
    return b.op("Div", sums, cast(b, degrees_of_freedom, sums.dtype))


@register_as("numpy.var")
def variance(
    b: ModelBuilder, a: Value, /, axis: Axes = None, *, ddof: int = 0, keepdims: bool = False
) -> Value:
    """Return the variance `sum(|a - mean|**2) / (count - ddof)` along axes."""
    float_value = as_float(b, a)
    deviations = b.op("Sub", float_value, mean(b, float_value, axis, keepdims=True))
    square_sums = reduce_axes(b, "ReduceSum", b.op("Mul", deviations, deviations), axis, keepdims)
    return _divide_sums(b, square_sums, count_reduced_elements(b, float_value, axis), ddof)


@register_as("numpy.std")
def deviation(
    b: ModelBuilder, a: Value, /, axis: Axes = None, *, ddof: int = 0, keepdims: bool = False
) -> Value:
    """Return the standard deviation, the square root of the variance."""
    return b.op("Sqrt", variance(b, a, axis, ddof=ddof, keepdims=keepdims))


@register_as("numpy.average")
def average(b: ModelBuilder, a: Value, /, axis: Axes = None, weights: Value | None = None) -> Value:
    """Return the mean, weighted by `weights` of the same shape if given."""
    if weights is None:
        return mean(b, a, axis)
    if extents(weights) != extents(a):
        raise OperandError(
            f"weights are {weights.type}, but the values {a.type}", hint="give both one shape"
        )
    weighted_sums = total(b, ops.multiply(b, a, weights), axis)
    return ops.divide(b, weighted_sums, total(b, weights, axis))


@register_as("numpy.linalg.norm")
def norm(b: ModelBuilder, x: Value, /, *, axis: Axes = None, keepdims: bool = False) -> Value:
    """Return the Euclidean norm `sqrt(sum(x**2))`."""
    x = as_float(b, x)
    return b.op("Sqrt", reduce_axes(b, "ReduceSum", b.op("Mul", x, x), axis, keepdims))


@register_as("numpy.cumsum")
def cumulative_sum(b: ModelBuilder, a: Value, /, axis: int | None = None) -> Value:
    """Return the cumulative sum along one axis, or over all elements."""
    summands = _widen_for_sum(b, a, None)
    if axis is None:
        summands, axis = b.op("Reshape", summands, ints(b, -1)), 0
    return b.op("CumSum", summands, scalar(b, nonnegative_axis(summands, axis), "int64"))


# --- logic ---------------------------------------------------------------------------------------


def _count_true(b: ModelBuilder, tests: Value, axis: Axes, keepdims: bool) -> Value:
    return reduce_axes(b, "ReduceSum", cast(b, tests, "int64"), axis, keepdims)


@register_as("numpy.any")
def any_(b: ModelBuilder, a: Value, /, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """Return True where any element along the axes is true."""
    true_count = _count_true(b, ops.truths(b, a), axis, keepdims)
    return b.op("Greater", true_count, scalar(b, 0, "int64"))


@register_as("numpy.all")
def all_(b: ModelBuilder, a: Value, /, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """Return True where all elements along the axes are true."""
    false_count = _count_true(b, b.op("Not", ops.truths(b, a)), axis, keepdims)
    return b.op("Equal", false_count, scalar(b, 0, "int64"))


@register_as("numpy.count_nonzero")
def count_nonzero(
    b: ModelBuilder, a: Value, /, axis: Axes = None, *, keepdims: bool = False
) -> Value:
    """Return the number of nonzero elements."""
    return _count_true(b, ops.truths(b, a), axis, keepdims)


# --- minimum and maximum -------------------------------------------------------------------------


def _check_nonempty(b: ModelBuilder, name: str, value: Value, axis: Axes) -> Value:
    """Return a value with a check that it has an element along the axes to reduce."""
    element_count = count_reduced_elements(b, value, axis)
    if isinstance(element_count, int):
        if not element_count:
            raise OperandError(f"{name} needs at least one element, not {value.type}")
        return value
    is_nonempty = b.op("Greater", element_count, scalar(b, 0, "int64"))
    return guard_value(b, value, is_nonempty, f"{name} needs at least one element")


def _register_extreme(op_type: str, *spellings: str) -> Callable[..., Value]:
    @register_as(*spellings)
    def call(b: ModelBuilder, a: Value, /, axis: Axes = None, *, keepdims: bool = False) -> Value:
        a = _check_nonempty(b, spellings[0], a, axis)
        needs_int32 = kind(a) == "b" or a.dtype in ("int16", "uint16")
        compared_values = cast(b, a, "int32") if needs_int32 else a
        extremes = cast(b, reduce_axes(b, op_type, compared_values, axis, keepdims), a.dtype)
        if kind(a) != "f" or is_scalar(a):
            return extremes
        # ONNX Runtime's kernel ignores nan.
        has_nan = any_(b, b.op("IsNaN", a), axis, keepdims=keepdims)
        return b.op("Where", has_nan, scalar(b, np.nan, a.dtype), extremes)

    call.__doc__ = f"Return `{spellings[0]}(a)` along axes; nan if there is one."
    return call


maximum_along_axes = _register_extreme("ReduceMax", "numpy.max", "numpy.amax")
minimum_along_axes = _register_extreme("ReduceMin", "numpy.min", "numpy.amin")


@register_as("numpy.ptp")
def range_of(b: ModelBuilder, a: Value, /, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """Return the range of values `max(a) - min(a)` along axes."""
    extremes = (
        extreme(b, a, axis, keepdims=keepdims)
        for extreme in (maximum_along_axes, minimum_along_axes)
    )
    return ops.subtract(b, *extremes)


def _register_position(op_type: str, name: str) -> None:
    @register_as(name)
    def call(
        b: ModelBuilder, a: Value, /, axis: int | None = None, *, keepdims: bool = False
    ) -> Value:
        if axis is None:
            if keepdims:
                raise OperandError(f"{name} with keepdims needs an axis")
            a, axis = b.op("Reshape", a, ints(b, -1)), 0
        a = _check_nonempty(b, name, a, axis)
        axis_attributes = {"axis": nonnegative_axis(a, axis), "keepdims": int(keepdims)}
        extreme_position = b.op(
            op_type, cast(b, a, "int32") if a.dtype == "bool" else a, **axis_attributes
        )
        if kind(a) != "f":
            return extreme_position
        nan_flags = b.op("IsNaN", a)
        first_nan_position = b.op("ArgMax", cast(b, nan_flags, "int32"), **axis_attributes)
        return b.op(
            "Where",
            any_(b, nan_flags, axis, keepdims=keepdims),
            first_nan_position,
            extreme_position,
        )

    call.__doc__ = f"Return `{name}(a)`: the first of equal elements, or the first nan."


_register_position("ArgMax", "numpy.argmax")
_register_position("ArgMin", "numpy.argmin")
