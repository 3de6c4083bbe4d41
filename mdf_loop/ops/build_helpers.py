"""Helpers that build common operations and constants, and read known properties of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array, Value
from mdf_loop.ir.types import (
    element_type,
    is_tensor,
    kind_of,
    numpy_dtype,
    optional_of,
    wrong_kind_error,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def ints(b: Builder, *numbers: int) -> Value:
    """Build a constant one-dimensional int64 array, such as axes, a shape or slice bounds."""
    return b.constant(np.array(numbers, np.int64))


def scalar(b: Builder, number: float, dtype: str) -> Value:
    """Build a scalar constant of a dtype."""
    return b.constant(np.array(number, dtype))


def cast(b: Builder, value: Value, dtype: str) -> Value:
    """Cast a value to a dtype, or return the value if it already has the dtype."""
    if value.dtype == dtype:
        return value
    if not is_tensor(dtype) or not is_tensor(value.dtype):
        return _wrap_optional(b, value, dtype)
    constant_array = b.constant_of(value)
    if constant_array is not None and dtype != "string" and value.dtype != "string":
        with np.errstate(all="ignore"):
            return b.derived_constant(constant_array.astype(numpy_dtype(dtype)), (value,))
    return b.op("Cast", value, to=element_type(dtype))


def _wrap_optional(b: Builder, value: Value, dtype: str) -> Value:
    """Wrap a tensor or sequence as an ONNX optional, or raise an error if `dtype` does not match."""
    if dtype == optional_of(value.dtype):
        return b.op("Optional", value)
    if is_tensor(dtype):
        raise wrong_kind_error(value)
    raise OperandError(f"'{value.name}' must be {dtype}, but it is {value.type}")


def holds_negative_zero(array: Array) -> bool:
    """Return True if an element of a float array is -0.0."""
    return bool(np.any((array == 0) & np.signbit(array)))


def all_true(b: Builder, value: Value) -> Value:
    """Build a scalar bool that is True if all elements of a value are True."""
    if value.shape == ():
        return value
    flat_mask = cast(b, b.op("Reshape", value, ints(b, -1)), "int32")
    return cast(b, b.op("ReduceMin", flat_mask, keepdims=0), "bool")


def sum_of(
    b: Builder, value: Value, axes: Sequence[int] | None = None, *, keepdims: bool = False
) -> Value:
    """Build the sum of a value along constant axes, or along all axes for None.

    Floats are added in a fixed order (`ops.ordered_sum`); integer sums are exact in any order. If the rank of the
    value is unknown, the runtime chooses the order for axes that are not adjacent.
    """
    sorted_axes = None if axes is None else sorted({int(axis) for axis in axes})
    if kind(value) != "f" or (value.shape is None and not _are_adjacent(sorted_axes)):
        axes_operands = () if sorted_axes is None else (ints(b, *sorted_axes),)
        return b.op("ReduceSum", value, *axes_operands, keepdims=int(keepdims))
    if value.shape is None:
        axes_attribute = {} if sorted_axes is None else {"axes": tuple(sorted_axes)}
        return b.op("OrderedSum", value, **axes_attribute, keepdims=int(keepdims))
    rank = len(value.shape)
    reduced_axes = (
        tuple(range(rank)) if axes is None else tuple(sorted({axis % rank for axis in axes}))
    )
    return (
        b.op("OrderedSum", value, axes=reduced_axes, keepdims=int(keepdims))
        if reduced_axes
        else value
    )


def mean_of(
    b: Builder, value: Value, axes: Sequence[int] | None = None, *, keepdims: bool = False
) -> Value:
    """Build the mean of floats along constant axes (all axes for None), summed in a fixed order."""
    element_count = cast(b, _count_elements(b, value, axes), value.dtype)
    return b.op("Div", sum_of(b, value, axes, keepdims=keepdims), element_count)


def _count_elements(b: Builder, value: Value, axes: Sequence[int] | None) -> Value:
    """Build the number of elements along axes (all axes for None), constant if extents are known."""
    if value.shape is None and axes is None:
        return b.op("Size", value)
    counted_axes = range(rank(value)) if axes is None else axes
    counted_extents = [None if value.shape is None else value.shape[axis] for axis in counted_axes]
    known_extents = [extent for extent in counted_extents if isinstance(extent, int)]
    if len(known_extents) == len(counted_extents):
        return scalar(b, math.prod(known_extents), "int64")
    runtime_extents = b.op("Gather", b.op("Shape", value), ints(b, *counted_axes), axis=0)
    return b.op("ReduceProd", runtime_extents, keepdims=0)


def _are_adjacent(axes: Sequence[int] | None) -> bool:
    """Return True if axis numbers are adjacent for every rank, or if `axes` is None (all axes)."""
    return axes is None or (
        len(axes) > 0 and axes[-1] - axes[0] + 1 == len(axes) and axes[0] * axes[-1] >= 0
    )


def kind(value: Value) -> str:
    """Return numpy's kind letter of a tensor's dtype: `b`, `i`, `u`, `f`, `c`, or `U` for text.

    Raises:
        OperandError: the value is no tensor.
    """
    if not is_tensor(value.dtype):
        raise wrong_kind_error(value)
    return kind_of(value.dtype)


def is_scalar(value: Value) -> bool:
    """Return True if a value is known to have no axes."""
    return value.shape == ()


def rank(value: Value) -> int:
    """Return the number of axes of a value, or raise OperandError if it is unknown."""
    return len(extents(value))


def extents(value: Value) -> tuple[int | str, ...]:
    """Return the shape of a value, or raise OperandError if the number of axes is unknown."""
    if not is_tensor(value.dtype):
        raise wrong_kind_error(value)
    if value.shape is None:
        raise OperandError(
            f"the number of axes of '{value.name}' must be known here",
            hint="give the input port a shape; of what is taken from sequences that loops or branches "
            "give, no shape is known: there, carry or choose arrays",
        )
    return value.shape


def shape_between(b: Builder, x: Value, start: int, end: int | None = None) -> Value:
    """Build the extents of axes `start` to `end` of an array as a one-dimensional int64 array.

    The array is a constant if all extents are known.
    """
    known_extents = [extent for extent in (x.shape or ())[start:end] if isinstance(extent, int)]
    if x.shape is not None and len(known_extents) == len(x.shape[start:end]):
        return ints(b, *known_extents)
    shape_attributes = {"start": start, "end": end}
    return b.op(
        "Shape",
        x,
        **{
            attribute_name: attribute_value
            for attribute_name, attribute_value in shape_attributes.items()
            if attribute_value
        },
    )


def size_between(b: Builder, x: Value, start: int, end: int | None = None) -> Value:
    """Build the product of the extents of axes `start` to `end` as an int64 array of one element.

    The array is a constant if all extents are known.
    """
    shape = shape_between(b, x, start, end)
    known_extents = b.constant_of(shape)
    return (
        b.op("ReduceProd", shape, keepdims=1)
        if known_extents is None
        else ints(b, math.prod(known_extents.tolist()))
    )
