"""Decomposition of `OrderedSum` into ONNX operations whose order of additions does not depend on addresses.

    few terms         last element of a CumSum: one after the other
    rows              ReduceSum along the first axis: each row is added to the sums before it
    a vector          its rows of eight are added, then these eight parts in pairs
    several vectors   the same, with the terms transposed to the first axis

ONNX Runtime's ReduceSum along the last axis depends on the address of each row. Along a middle axis it is a
matrix product, with another order from some hundred rows on. Along the first axis it adds row by row. A Reshape
that merges axes stands before it, because the runtime moves a Transpose through a sum. That sum would then be
along another axis (tests/traps/test_order_of_sums.py).

-0.0 is the neutral element: x + -0.0 is x, whatever its sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Shape, Value
from mdf_loop.ops.build_helpers import cast, extents, ints, scalar
from mdf_loop.ops.decompositions.build_helpers import attribute, constant_like, operand
from mdf_loop.ops.ordered_sum import MIN_TERMS_IN_PARTS, PARTS, is_together

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def ordered_sum(b: Builder, op: Op) -> Value:
    """Build the ONNX operations of an `OrderedSum`, in the order that `ops.ordered_sum` defines."""
    x = operand(op)
    if x.shape is None:
        return _sum_of_unknown_rank(b, op)
    shape, rank = extents(x), len(extents(x))
    axes = op.attributes.get("axes", range(rank))
    reduced_axes = sorted({int(axis) % rank for axis in axes})
    count = _product([shape[axis] for axis in reduced_axes])
    if count == 1:
        return x if attribute(op, "keepdims") else b.op("Squeeze", x, ints(b, *reduced_axes))
    if 0 in shape:  # There are no terms.
        return b.op("ReduceSum", x, ints(b, *reduced_axes), keepdims=attribute(op, "keepdims"))
    along = reduced_axes
    if not is_together(reduced_axes):
        other_axes = [axis for axis in range(rank) if axis not in reduced_axes]
        x = b.op("Transpose", x, perm=(*other_axes, *reduced_axes))
        along = [*range(len(other_axes), rank)]
    total = _sum_adjacent_axes(b, x, along, count)
    return b.op("Unsqueeze", total, ints(b, *reduced_axes)) if attribute(op, "keepdims") else total


def _sum_adjacent_axes(b: Builder, x: Value, axes: Sequence[int], count: int | None) -> Value:
    """Build the ordered sum along adjacent axes."""
    shape, begin, end = extents(x), axes[0], axes[-1] + 1
    front, tail = shape[:begin], shape[end:]
    if count is not None and count < MIN_TERMS_IN_PARTS:
        return _sum_sequentially(b, x, begin, end, count)
    if not tail:
        return _sum_in_parts(b, x, front, count)
    if count is not None and _is_several((*front, *tail)):
        return _sum_rows(b, x, begin, end, count)
    return _sum_sequentially(b, x, begin, end, count)


def _product(shape: Sequence[int | str]) -> int | None:
    """Return the number of elements of an array of this shape, or None if it is unknown."""
    known = [extent for extent in shape if isinstance(extent, int)]
    return math.prod(known) if len(known) == len(shape) or 0 in known else None


def _is_several(shape: Sequence[int | str]) -> bool:
    """Return True if the number of elements of an array of this shape is known not to be 1."""
    return any(isinstance(extent, int) and extent != 1 for extent in shape)


# --- sequential sums ----------------------------------------------------------------------------


def _sum_sequentially(b: Builder, x: Value, begin: int, end: int, count: int | None) -> Value:
    """Build the sum along axes `begin` to `end` as the last element of the cumulative sum."""
    shape = extents(x)
    if end - begin > 1:
        x = _reshape_to_axes(b, x, [*range(begin), None, *range(end, len(shape))], count)
    if count is None:  # The axis may be empty, with the sum 0.
        zeros = np.zeros((2, len(extents(x))), np.int64)
        zeros[0, begin] = 1
        x = b.op("Pad", x, b.constant(zeros.ravel()), _neutral_unless_empty(b, x, begin))
    sums = b.op("CumSum", x, scalar(b, begin, "int64"))
    last = scalar(b, -1 if count is None else count - 1, "int64")
    return b.op("Gather", sums, last, axis=begin)


def _neutral_unless_empty(b: Builder, x: Value, axis: int) -> Value:
    """Build the neutral element -0.0, or 0.0 if an axis is empty."""
    return _neutral(b, x, b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0))


def _neutral(b: Builder, x: Value, count: Value) -> Value:
    """Build the neutral element -0.0, or 0.0 if `count` is 0, by Gather, because Where would lose the sign."""
    is_empty = cast(b, b.op("Equal", count, scalar(b, 0, "int64")), "int64")
    return b.op("Gather", b.constant(np.array([-0.0, 0.0], x.dtype)), is_empty, axis=0)


def _sum_rows(b: Builder, x: Value, begin: int, end: int, count: int) -> Value:
    """Build the sum along axes `begin` to `end` before the last axis, by adding rows of several elements."""
    shape = extents(x)
    other_axes = [*range(begin), *range(end, len(shape))]
    # All extents are known. The runtime would remove a Reshape that changes nothing.
    if len(shape) == 2:
        rows = b.op("Expand", x, ints(b, 1, *(int(extent) for extent in shape)))
        return b.op("ReduceSum", rows, ints(b, 0, 1), keepdims=0)
    rows_first = b.op("Transpose", x, perm=(*range(begin, end), *other_axes)) if begin else x
    sums = b.op(
        "ReduceSum", b.op("Reshape", rows_first, ints(b, count, -1)), ints(b, 0), keepdims=0
    )
    return (
        sums
        if len(other_axes) == 1
        else b.op("Reshape", sums, _target_shape(b, x, other_axes, None))
    )


# --- sums in eight parts ------------------------------------------------------------------------


def _sum_in_parts(b: Builder, x: Value, front: Sequence[int | str], count: int | None) -> Value:
    """Build the sums along all axes behind the axes `front`, with the terms of each vector added in eight parts."""
    vectors = _product(front)
    if count is None:
        return _restore_front_axes(
            b, _sum_part_pairs(b, _parts_of_unknown_length(b, x, len(front))), x, front
        )
    more = -count % PARTS
    if vectors == 1:
        x = b.op("Reshape", x, ints(b, -1)) if more and len(extents(x)) > 1 else x
        x = _pad_last_axis(b, x, more)
        rows = b.op("Reshape", x, ints(b, (count + more) // PARTS, PARTS))
        parts = b.op("ReduceSum", rows, ints(b, 0), keepdims=0)
        # The runtime allocates these 64 bytes itself, which fixes their alignment.
        total = b.op("ReduceSum", parts, keepdims=0)
        return b.op("Reshape", total, ints(b, *(1,) * len(front))) if front else total
    table = x if len(front) == 1 == len(extents(x)) - 1 else b.op("Reshape", x, ints(b, -1, count))
    terms_first = b.op("Transpose", _pad_last_axis(b, table, more), perm=(1, 0))
    rows = b.op("Reshape", terms_first, ints(b, (count + more) // PARTS, -1))
    parts = b.op("ReduceSum", rows, ints(b, 0), keepdims=0)
    return _restore_front_axes(b, _sum_part_pairs(b, parts), x, front)


def _pad_last_axis(b: Builder, x: Value, more: int) -> Value:
    """Append `more` elements -0.0 to the last axis."""
    if not more:
        return x
    rank = len(extents(x))
    return b.op("Pad", x, ints(b, *(0,) * (2 * rank - 1), more), constant_like(b, -0.0, x))


def _sum_part_pairs(b: Builder, parts: Value) -> Value:
    """Build the sum of the eight partial sums of each vector by adding pairs."""
    for _ in range(PARTS.bit_length() - 1):
        pairs = b.op("Reshape", parts, ints(b, 2, -1))
        parts = b.op("ReduceSum", pairs, ints(b, 0), keepdims=0)
    return parts


def _restore_front_axes(b: Builder, sums: Value, x: Value, front: Sequence[int | str]) -> Value:
    """Reshape the sums of all vectors to the front axes of x."""
    if len(front) == 1:
        return sums
    if not front:
        return b.op("Reshape", sums, b.constant(np.zeros(0, np.int64)))
    return b.op("Reshape", sums, _target_shape(b, x, list(range(len(front))), None))


def _parts_of_unknown_length(b: Builder, x: Value, front: int) -> Value:
    """Build the eight partial sums of vectors whose number of terms is known only at run time.

    Fewer than 16 terms form one part, and the other seven parts are -0.0.
    """
    one, zero, eight = (scalar(b, k, "int64") for k in (1, 0, PARTS))
    shape = b.op("Shape", x)
    behind = b.op("Slice", shape, ints(b, front), ints(b, len(extents(x))))
    count = b.op("ReduceProd", behind, keepdims=0)
    ahead = b.op("Slice", shape, ints(b, 0), ints(b, front))
    vectors = b.op("ReduceProd", ahead, keepdims=0) if front else one
    width = b.op("Where", b.op("Less", count, scalar(b, MIN_TERMS_IN_PARTS, "int64")), one, eight)
    rows = b.op("Div", b.op("Add", count, b.op("Sub", width, one)), width)
    # A sum of one row would lose the sign of zeros.
    rows = b.op("Max", rows, scalar(b, 2, "int64"))
    more = b.op("Sub", b.op("Mul", rows, width), count)
    table = b.op("Reshape", x, _concatenate_extents(b, vectors, count), allowzero=1)
    longer = b.op(
        "Pad", table, _concatenate_extents(b, zero, zero, zero, more), _neutral(b, x, count)
    )
    terms_first = b.op("Transpose", longer, perm=(1, 0))
    apart = b.op("Reshape", terms_first, _concatenate_extents(b, rows, width, vectors), allowzero=1)
    missing = b.op("Sub", eight, width)
    full = b.op(
        "Pad",
        apart,
        _concatenate_extents(b, zero, zero, zero, zero, missing, zero),
        constant_like(b, -0.0, x),
    )
    flat = b.op(
        "Reshape", full, _concatenate_extents(b, rows, b.op("Mul", eight, vectors)), allowzero=1
    )
    return b.op("ReduceSum", flat, ints(b, 0), keepdims=0)


def _sum_of_unknown_rank(b: Builder, op: Op) -> Value:
    """Build the ordered sum along all axes, or along adjacent axes, of an array of unknown rank."""
    x, keeps = operand(op), attribute(op, "keepdims")
    axes, shape = op.attributes.get("axes"), b.op("Shape", x)
    if axes is None:
        total = _sum_in_parts(b, b.op("Reshape", x, ints(b, -1)), (), None)
        ones = b.op("ConstantOfShape", b.op("Shape", shape), value=np.array([1]))
        return b.op("Reshape", total, ones) if keeps else total
    begin, end, far = min(axes), max(axes) + 1, int(np.iinfo(np.int64).max)
    front = b.op("Slice", shape, ints(b, 0), ints(b, begin))
    middle = b.op("Slice", shape, ints(b, begin), ints(b, end or far))
    tail = b.op("Slice", shape, ints(b, end), ints(b, far)) if end else ints(b)
    parts = [b.op("ReduceProd", part, keepdims=1) for part in (front, middle, tail)]
    table = b.op("Reshape", x, b.op("Concat", *parts[: 2 + bool(end)], axis=0), allowzero=1)
    if end:
        total = _sum_sequentially(b, table, 1, 2, None)
    else:  # The last axis is reduced.
        total = _sum_in_parts(b, table, extents(table)[:1], None)
    ones = ints(b, *(1,) * len(axes)) if keeps else ints(b)
    return b.op("Reshape", total, b.op("Concat", front, ones, tail, axis=0), allowzero=1)


# --- shapes -------------------------------------------------------------------------------------


def _concatenate_extents(b: Builder, *numbers: Value) -> Value:
    """Concatenate scalar integers to one int64[n] value."""
    return b.op("Concat", *(b.op("Unsqueeze", n, ints(b, 0)) for n in numbers), axis=0)


def _reshape_to_axes(b: Builder, x: Value, axes: Sequence[int | None], count: int | None) -> Value:
    """Reshape an array to a list of its axes.

    None stands for an axis of `count` elements, or of all remaining elements.
    """
    return b.op("Reshape", x, _target_shape(b, x, axes, count))


def _target_shape(b: Builder, x: Value, axes: Sequence[int | None], count: int | None) -> Value:
    """Build the target shape of a Reshape, which can infer at most one extent."""
    shape: Shape = x.shape
    assert shape is not None
    target_extents = [count if axis is None else shape[axis] for axis in axes]
    if all(isinstance(extent, int) for extent in target_extents):
        return ints(b, *(extent for extent in target_extents if isinstance(extent, int)))
    unknown = [k for k, extent in enumerate(target_extents) if not isinstance(extent, int)]
    if len(unknown) == 1 and 0 not in target_extents:
        return ints(b, *(extent if isinstance(extent, int) else -1 for extent in target_extents))
    own = b.op("Shape", x)
    parts = [
        ints(b, extent)
        if isinstance(extent, int)
        else ints(b, -1)
        if axis is None
        else b.op("Slice", own, ints(b, axis), ints(b, axis + 1))
        for axis, extent in zip(axes, target_extents, strict=True)
    ]
    return b.op("Concat", *parts, axis=0)
