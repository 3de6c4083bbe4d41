"""Lowering of NumPy's sorting functions: sort, argsort, median, searchsorted.

As in numpy, nan is last.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.reductions import any_, nonnegative_axis
from mdf_loop.lower.shapes import positions, ravel, size
from mdf_loop.lower.terms import as_float
from mdf_loop.ops.build_helpers import cast, extents, ints, kind, rank, scalar


def _sort_ascending(b: ModelBuilder, value: Value, axis: int) -> tuple[Value, Value]:
    """Return an array sorted stably in ascending order along an axis, and the indices."""
    element_count = b.op("Reshape", cast(b, size(b, value, axis), "int64"), ints(b, 1))
    sorted_values, sorted_indices = b.multi(
        "TopK", value, element_count, output_count=2, axis=axis, largest=0, sorted=1
    )
    return sorted_values, sorted_indices


def _sort_key(b: ModelBuilder, value: Value) -> Value:
    """Return the numbers to sort, with infinity in place of nan."""
    if kind(value) != "f":
        return cast(b, value, "int64")
    return b.op("Where", b.op("IsNaN", value), scalar(b, np.inf, value.dtype), value)


def _flatten_if_axis_is_none(b: ModelBuilder, a: Value, axis: int | None) -> tuple[Value, int]:
    return (ravel(b, a), 0) if axis is None else (a, nonnegative_axis(a, axis))


@register_as("numpy.sort")
def sort(b: ModelBuilder, a: Value, /, axis: int | None = -1) -> Value:
    """Return an array sorted in ascending order along an axis.

    Elements that are nan are sorted as infinity. Then the last elements, as many as the input has nan, become
    nan.
    """
    a, axis = _flatten_if_axis_is_none(b, a, axis)
    sorted_values, _ = _sort_ascending(b, _sort_key(b, a), axis)
    if kind(a) != "f":
        return cast(b, sorted_values, a.dtype)
    nan_flags = cast(b, b.op("IsNaN", a), "int64")
    nan_count = b.op("ReduceSum", nan_flags, ints(b, axis), keepdims=1)
    first_nan_position = b.op("Sub", cast(b, size(b, a, axis), "int64"), nan_count)
    positions_shape = [1] * rank(a)
    positions_shape[axis] = -1
    element_positions = b.op("Reshape", positions(b, a, axis), ints(b, *positions_shape))
    is_nan = b.op("GreaterOrEqual", element_positions, first_nan_position)
    return b.op("Where", is_nan, scalar(b, np.nan, a.dtype), sorted_values)


@register_as("numpy.argsort")
def argsort(b: ModelBuilder, a: Value, /, axis: int | None = -1) -> Value:
    """Return the indices that sort an array stably in ascending order."""
    a, axis = _flatten_if_axis_is_none(b, a, axis)
    _, sorted_indices = _sort_ascending(b, _sort_key(b, a), axis)
    if kind(a) != "f":
        return sorted_indices
    nan_flags = cast(b, b.op("IsNaN", a), "int64")
    _, nan_last_order = _sort_ascending(
        b, b.op("GatherElements", nan_flags, sorted_indices, axis=axis), axis
    )
    return b.op("GatherElements", sorted_indices, nan_last_order, axis=axis)


@register_as("numpy.median")
def median(b: ModelBuilder, a: Value, /, axis: int | None = None) -> Value:
    """Return the median: the middle element in sorted order, or the mean of both middle ones."""
    a, axis = _flatten_if_axis_is_none(b, as_float(b, a), axis)
    element_count = extents(a)[axis]
    if not isinstance(element_count, int) or element_count == 0:
        raise OperandError(f"numpy.median needs a known number of elements, not {a.type}")
    sorted_values = sort(b, a, axis)
    lower_middle_element, upper_middle_element = (
        b.op("Gather", sorted_values, b.constant(np.array(k)), axis=axis)
        for k in ((element_count - 1) // 2, element_count // 2)
    )
    middle_element = lower_middle_element
    if element_count % 2 == 0:
        middle_element = b.op(
            "Mul", b.op("Add", lower_middle_element, upper_middle_element), scalar(b, 0.5, a.dtype)
        )
    return b.op(
        "Where", any_(b, b.op("IsNaN", a), axis), scalar(b, np.nan, a.dtype), middle_element
    )


@register_as("numpy.searchsorted")
def searchsorted(b: ModelBuilder, a: Value, v: Value, /, side: str = "left") -> Value:
    """Return the positions at which `v` would be inserted in the sorted array `a`."""
    if rank(a) != 1:
        raise OperandError(f"numpy.searchsorted needs a list, not {a.type}")
    compare = {"left": ops.less, "right": ops.less_equal}.get(side)
    if compare is None:
        raise OperandError(f"the side of numpy.searchsorted is 'left' or 'right', not '{side}'")
    precedes_value = compare(b, a, b.op("Unsqueeze", v, ints(b, -1)))
    return b.op("ReduceSum", cast(b, precedes_value, "int64"), ints(b, -1), keepdims=0)
