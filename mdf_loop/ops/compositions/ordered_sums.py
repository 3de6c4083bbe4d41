"""`OrderedSum` of ONNX operations that add in a known order, wherever their operands lie in memory.

    few terms         CumSum, of which the last is taken: one after the other
    rows              ReduceSum along the first axis: each row is added to the sums before it
    a vector          its rows of eight are added, then these eight parts in pairs
    several vectors   the same, with the terms turned to the first axis

ONNX Runtime's ReduceSum along the last axis depends on the address of each row; along a middle axis
it is a product of matrices, which adds in another order from some hundred rows on. Along the first
axis it adds row by row. A Reshape that merges axes stands before it: the runtime moves a Transpose
through a sum, which is then one along another axis (tests/traps/test_order_of_sums.py).

-0.0 is what may be added to any number: x + -0.0 is x, whatever its sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Shape, Value
from mdf_loop.ops.compositions.words import attribute, number, operand
from mdf_loop.ops.ordered_sum import FEW, PARTS, is_together
from mdf_loop.ops.words import cast, extents, ints, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def ordered_sum(b: Builder, op: Op) -> Value:
    """Return the sum along axes in the order of `ops.ordered_sum`."""
    x = operand(op)
    if x.shape is None:
        return _of_unknown_rank(b, op)
    shape, rank = extents(x), len(extents(x))
    axes = op.attributes.get("axes", range(rank))
    gone = sorted({int(axis) % rank for axis in axes})
    count = _product([shape[axis] for axis in gone])
    if count == 1:
        return x if attribute(op, "keepdims") else b.op("Squeeze", x, ints(b, *gone))
    if 0 in shape:  # nothing to put in order
        return b.op("ReduceSum", x, ints(b, *gone), keepdims=attribute(op, "keepdims"))
    along = gone
    if not is_together(gone):
        kept = [axis for axis in range(rank) if axis not in gone]
        x = b.op("Transpose", x, perm=(*kept, *gone))
        along = [*range(len(kept), rank)]
    total = _along(b, x, along, count)
    return b.op("Unsqueeze", total, ints(b, *gone)) if attribute(op, "keepdims") else total


def _along(b: Builder, x: Value, gone: Sequence[int], count: int | None) -> Value:
    """Return the sum along axes that follow each other."""
    shape, begin, end = extents(x), gone[0], gone[-1] + 1
    front, tail = shape[:begin], shape[end:]
    if count is not None and count < FEW:
        return _one_by_one(b, x, begin, end, count)
    if not tail:
        return _in_parts(b, x, front, count)
    if count is not None and _is_several((*front, *tail)):
        return _rows(b, x, begin, end, count)
    return _one_by_one(b, x, begin, end, count)


def _product(shape: Sequence[int | str]) -> int | None:
    """Return the number of elements of a shape; None if it is not known."""
    known = [extent for extent in shape if isinstance(extent, int)]
    return math.prod(known) if len(known) == len(shape) or 0 in known else None


def _is_several(shape: Sequence[int | str]) -> bool:
    """Return True if an array of this shape surely has several elements, or none."""
    return any(isinstance(extent, int) and extent != 1 for extent in shape)


# --- one after the other ------------------------------------------------------------------------


def _one_by_one(b: Builder, x: Value, begin: int, end: int, count: int | None) -> Value:
    """Return the last of the running sums along axes."""
    shape = extents(x)
    if end - begin > 1:
        x = _reshaped(b, x, [*range(begin), None, *range(end, len(shape))], count)
    if count is None:  # there may be nothing, of which the sum is 0
        zeros = np.zeros((2, len(extents(x))), np.int64)
        zeros[0, begin] = 1
        x = b.op("Pad", x, b.constant(zeros.ravel()), _neutral_unless_empty(b, x, begin))
    sums = b.op("CumSum", x, scalar(b, begin, "int64"))
    last = scalar(b, -1 if count is None else count - 1, "int64")
    return b.op("Gather", sums, last, axis=begin)


def _neutral_unless_empty(b: Builder, x: Value, axis: int) -> Value:
    """Return -0.0, or 0.0 if there is nothing along an axis."""
    return _neutral(b, x, b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0))


def _neutral(b: Builder, x: Value, count: Value) -> Value:
    """Return -0.0, or 0.0 for a count of 0; a Where of the runtime would lose the sign."""
    is_empty = cast(b, b.op("Equal", count, scalar(b, 0, "int64")), "int64")
    return b.op("Gather", b.constant(np.array([-0.0, 0.0], x.dtype)), is_empty, axis=0)


def _rows(b: Builder, x: Value, begin: int, end: int, count: int) -> Value:
    """Return the sum of rows, each of several elements, along axes that are not the last."""
    shape = extents(x)
    kept = [*range(begin), *range(end, len(shape))]
    if len(shape) == 2:  # all extents are known; a Reshape that changes nothing would be left out
        rows = b.op("Expand", x, ints(b, 1, *(int(extent) for extent in shape)))
        return b.op("ReduceSum", rows, ints(b, 0, 1), keepdims=0)
    turned = b.op("Transpose", x, perm=(*range(begin, end), *kept)) if begin else x
    sums = b.op("ReduceSum", b.op("Reshape", turned, ints(b, count, -1)), ints(b, 0), keepdims=0)
    return sums if len(kept) == 1 else b.op("Reshape", sums, _shape_of(b, x, kept, None))


# --- in parts -----------------------------------------------------------------------------------


def _in_parts(b: Builder, x: Value, front: Sequence[int | str], count: int | None) -> Value:
    """Return the sums along all axes behind those in front."""
    vectors = _product(front)
    if count is None:
        return _shaped(b, _halved(b, _parts_when_run(b, x, len(front))), x, front)
    more = -count % PARTS
    if vectors == 1:
        x = b.op("Reshape", x, ints(b, -1)) if more and len(extents(x)) > 1 else x
        x = _padded(b, x, more)
        rows = b.op("Reshape", x, ints(b, (count + more) // PARTS, PARTS))
        parts = b.op("ReduceSum", rows, ints(b, 0), keepdims=0)
        total = b.op("ReduceSum", parts, keepdims=0)  # of 64 bytes of the runtime's own
        return b.op("Reshape", total, ints(b, *(1,) * len(front))) if front else total
    table = x if len(front) == 1 == len(extents(x)) - 1 else b.op("Reshape", x, ints(b, -1, count))
    turned = b.op("Transpose", _padded(b, table, more), perm=(1, 0))
    rows = b.op("Reshape", turned, ints(b, (count + more) // PARTS, -1))
    parts = b.op("ReduceSum", rows, ints(b, 0), keepdims=0)
    return _shaped(b, _halved(b, parts), x, front)


def _padded(b: Builder, x: Value, more: int) -> Value:
    """Return the array with so many -0.0 behind its last axis."""
    if not more:
        return x
    rank = len(extents(x))
    return b.op("Pad", x, ints(b, *(0,) * (2 * rank - 1), more), number(b, -0.0, x))


def _halved(b: Builder, parts: Value) -> Value:
    """Return the sum of eight parts of each vector, which lie behind each other: in pairs."""
    for _ in range(PARTS.bit_length() - 1):
        pairs = b.op("Reshape", parts, ints(b, 2, -1))
        parts = b.op("ReduceSum", pairs, ints(b, 0), keepdims=0)
    return parts


def _shaped(b: Builder, sums: Value, x: Value, front: Sequence[int | str]) -> Value:
    """Return one number for each vector, with the axes that the vectors had in front."""
    if len(front) == 1:
        return sums
    if not front:
        return b.op("Reshape", sums, b.constant(np.zeros(0, np.int64)))
    return b.op("Reshape", sums, _shape_of(b, x, list(range(len(front))), None))


def _parts_when_run(b: Builder, x: Value, front: int) -> Value:
    """Return eight parts of each vector, whose number of terms is known only when it runs.

    Fewer than 16 terms are one part; the other seven are -0.0.
    """
    one, zero, eight = (scalar(b, k, "int64") for k in (1, 0, PARTS))
    shape = b.op("Shape", x)
    behind = b.op("Slice", shape, ints(b, front), ints(b, len(extents(x))))
    count = b.op("ReduceProd", behind, keepdims=0)
    ahead = b.op("Slice", shape, ints(b, 0), ints(b, front))
    vectors = b.op("ReduceProd", ahead, keepdims=0) if front else one
    width = b.op("Where", b.op("Less", count, scalar(b, FEW, "int64")), one, eight)
    rows = b.op("Div", b.op("Add", count, b.op("Sub", width, one)), width)
    rows = b.op("Max", rows, scalar(b, 2, "int64"))  # of one row the sign of zeros is lost
    more = b.op("Sub", b.op("Mul", rows, width), count)
    table = b.op("Reshape", x, _vector(b, vectors, count), allowzero=1)
    longer = b.op("Pad", table, _vector(b, zero, zero, zero, more), _neutral(b, x, count))
    turned = b.op("Transpose", longer, perm=(1, 0))
    apart = b.op("Reshape", turned, _vector(b, rows, width, vectors), allowzero=1)
    missing = b.op("Sub", eight, width)
    full = b.op("Pad", apart, _vector(b, zero, zero, zero, zero, missing, zero), number(b, -0.0, x))
    flat = b.op("Reshape", full, _vector(b, rows, b.op("Mul", eight, vectors)), allowzero=1)
    return b.op("ReduceSum", flat, ints(b, 0), keepdims=0)


def _of_unknown_rank(b: Builder, op: Op) -> Value:
    """Return the sum along all axes, or along axes that follow each other, of any array."""
    x, keeps = operand(op), attribute(op, "keepdims")
    axes, shape = op.attributes.get("axes"), b.op("Shape", x)
    if axes is None:
        total = _in_parts(b, b.op("Reshape", x, ints(b, -1)), (), None)
        ones = b.op("ConstantOfShape", b.op("Shape", shape), value=np.array([1]))
        return b.op("Reshape", total, ones) if keeps else total
    begin, end, far = min(axes), max(axes) + 1, int(np.iinfo(np.int64).max)
    front = b.op("Slice", shape, ints(b, 0), ints(b, begin))
    middle = b.op("Slice", shape, ints(b, begin), ints(b, end or far))
    tail = b.op("Slice", shape, ints(b, end), ints(b, far)) if end else ints(b)
    parts = [b.op("ReduceProd", part, keepdims=1) for part in (front, middle, tail)]
    table = b.op("Reshape", x, b.op("Concat", *parts[: 2 + bool(end)], axis=0), allowzero=1)
    if end:
        total = _one_by_one(b, table, 1, 2, None)
    else:  # the last axis is among them
        total = _in_parts(b, table, extents(table)[:1], None)
    ones = ints(b, *(1,) * len(axes)) if keeps else ints(b)
    return b.op("Reshape", total, b.op("Concat", front, ones, tail, axis=0), allowzero=1)


# --- shapes -------------------------------------------------------------------------------------


def _vector(b: Builder, *numbers: Value) -> Value:
    """Return whole numbers as one axis."""
    return b.op("Concat", *(b.op("Unsqueeze", n, ints(b, 0)) for n in numbers), axis=0)


def _reshaped(b: Builder, x: Value, axes: Sequence[int | None], count: int | None) -> Value:
    """Return the elements with the axes named; None is an axis of `count`, or of all that is left."""
    return b.op("Reshape", x, _shape_of(b, x, axes, count))


def _shape_of(b: Builder, x: Value, axes: Sequence[int | None], count: int | None) -> Value:
    """Return extents as Reshape takes them; at most one that is not known is left to it."""
    shape: Shape = x.shape
    assert shape is not None
    wanted = [count if axis is None else shape[axis] for axis in axes]
    if all(isinstance(extent, int) for extent in wanted):
        return ints(b, *(extent for extent in wanted if isinstance(extent, int)))
    unknown = [k for k, extent in enumerate(wanted) if not isinstance(extent, int)]
    if len(unknown) == 1 and 0 not in wanted:
        return ints(b, *(extent if isinstance(extent, int) else -1 for extent in wanted))
    own = b.op("Shape", x)
    parts = [
        ints(b, extent)
        if isinstance(extent, int)
        else ints(b, -1)
        if axis is None
        else b.op("Slice", own, ints(b, axis), ints(b, axis + 1))
        for axis, extent in zip(axes, wanted, strict=True)
    ]
    return b.op("Concat", *parts, axis=0)
