"""The small words that operations are written in: constants, casts, what is known of a value."""

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
    """Whole numbers as one axis, the way ONNX takes axes, shapes and ends of slices."""
    return b.constant(np.array(numbers, np.int64))


def scalar(b: Builder, number: float, dtype: str) -> Value:
    """One typed number."""
    return b.constant(np.array(number, dtype))


def cast(b: Builder, value: Value, dtype: str) -> Value:
    """The value in another dtype; itself if it has it already."""
    if value.dtype == dtype:
        return value
    if not is_tensor(dtype) or not is_tensor(value.dtype):
        return _wrapped(b, value, dtype)
    array = b.constant_of(value)
    if array is not None and dtype != "string" and value.dtype != "string":
        with np.errstate(all="ignore"):
            return b.derived(array.astype(numpy_dtype(dtype)), (value,))
    return b.op("Cast", value, to=element_type(dtype))


def _wrapped(b: Builder, value: Value, dtype: str) -> Value:
    """The value as one that may be absent; all else that is no tensor stays what it is."""
    if dtype == optional_of(value.dtype):
        return b.op("Optional", value)
    if is_tensor(dtype):
        raise wrong_kind_error(value)
    raise OperandError(f"'{value.name}' must be {dtype}, but it is {value.type}")


def holds_negative_zero(array: Array) -> bool:
    """Return True if an element of an array of floats is -0.0."""
    return bool(np.any((array == 0) & np.signbit(array)))


def all_true(b: Builder, value: Value) -> Value:
    """Whether all of some truths hold, as one."""
    if value.shape == ():
        return value
    flat = cast(b, b.op("Reshape", value, ints(b, -1)), "int32")
    return cast(b, b.op("ReduceMin", flat, keepdims=0), "bool")


def sum_of(
    b: Builder, value: Value, axes: Sequence[int] | None = None, *, keepdims: bool = False
) -> Value:
    """Return the sum along known axes (None: all); of floats in a fixed order (`ops.ordered_sum`).

    Whole numbers are exact in any order. Of a value whose rank is unknown, axes that do not follow each
    other are left to the runtime.
    """
    listed = None if axes is None else sorted({int(axis) for axis in axes})
    if kind(value) != "f" or (value.shape is None and not _is_run(listed)):
        operands = () if listed is None else (ints(b, *listed),)
        return b.op("ReduceSum", value, *operands, keepdims=int(keepdims))
    if value.shape is None:
        how = {} if listed is None else {"axes": tuple(listed)}
        return b.op("OrderedSum", value, **how, keepdims=int(keepdims))
    rank = len(value.shape)
    gone = tuple(range(rank)) if axes is None else tuple(sorted({axis % rank for axis in axes}))
    return b.op("OrderedSum", value, axes=gone, keepdims=int(keepdims)) if gone else value


def mean_of(
    b: Builder, value: Value, axes: Sequence[int] | None = None, *, keepdims: bool = False
) -> Value:
    """Return the mean of floats along known axes (None: all), of a sum in a fixed order."""
    count = cast(b, _count_along(b, value, axes), value.dtype)
    return b.op("Div", sum_of(b, value, axes, keepdims=keepdims), count)


def _count_along(b: Builder, value: Value, axes: Sequence[int] | None) -> Value:
    """Return the number of elements along axes (None: all); a constant if it is known."""
    if value.shape is None and axes is None:
        return b.op("Size", value)
    along = range(rank(value)) if axes is None else axes
    lengths = [None if value.shape is None else value.shape[axis] for axis in along]
    known = [length for length in lengths if isinstance(length, int)]
    if len(known) == len(lengths):
        return scalar(b, math.prod(known), "int64")
    shape = b.op("Gather", b.op("Shape", value), ints(b, *along), axis=0)
    return b.op("ReduceProd", shape, keepdims=0)


def _is_run(axes: Sequence[int] | None) -> bool:
    """Return True for all axes, or for axes that follow each other in an array of any rank."""
    return axes is None or (
        len(axes) > 0 and axes[-1] - axes[0] + 1 == len(axes) and axes[0] * axes[-1] >= 0
    )


def kind(value: Value) -> str:
    """`b`, `i`, `u`, `f` as numpy calls the kinds of dtypes; `U` for text.

    Raises:
        OperandError: the value is no tensor.
    """
    if not is_tensor(value.dtype):
        raise wrong_kind_error(value)
    return kind_of(value.dtype)


def is_scalar(value: Value) -> bool:
    """Whether the value is known to have no axes."""
    return value.shape == ()


def rank(value: Value) -> int:
    """The number of axes, which must be known."""
    return len(extents(value))


def extents(value: Value) -> tuple[int | str, ...]:
    """The extent of every axis; how many there are must be known."""
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
    """Return the extents of the axes from `start` to `end` as int64[n]; a constant if they are known."""
    known = [d for d in (x.shape or ())[start:end] if isinstance(d, int)]
    if x.shape is not None and len(known) == len(x.shape[start:end]):
        return ints(b, *known)
    ends = {"start": start, "end": end}
    return b.op("Shape", x, **{key: place for key, place in ends.items() if place})


def size_between(b: Builder, x: Value, start: int, end: int | None = None) -> Value:
    """Return the product of the extents from `start` to `end` as int64[1]; a constant if it is known."""
    shape = shape_between(b, x, start, end)
    known = b.constant_of(shape)
    return (
        b.op("ReduceProd", shape, keepdims=1)
        if known is None
        else ints(b, math.prod(known.tolist()))
    )
