"""Derivatives of operators that move elements; the cotangent moves the elements back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast, extents, ints, rank, scalar, sum_of
from mdf_loop.ops.decompositions.build_helpers import attribute, operand, optional
from mdf_loop.ops.derivatives.rule import (
    Changes,
    ExplicitDerivative,
    by_first,
    is_float,
    linear,
    sum_values,
)
from mdf_loop.ops.derivatives.scatter_add import scatter_add_rows, slice_list
from mdf_loop.ops.derivatives.shapes import (
    broadcast_like,
    extent,
    reshape_like,
    shape_of,
    sum_copies,
    sum_to_shape,
    with_type_of,
    zeros,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


# --- axes -------------------------------------------------------------------------------------


def _reshape_back(b: Builder, op: Op, g: Value) -> Value:
    return reshape_like(b, g, operand(op))


def _transpose_back(b: Builder, op: Op, g: Value) -> Value:
    order = attribute(op, "perm") or tuple(reversed(range(rank(operand(op)))))
    return b.op("Transpose", g, perm=tuple(int(k) for k in np.argsort(order)))


def _expand_cotangent(b: Builder, op: Op, g: Value) -> Value:
    return sum_to_shape(b, g, operand(op))


def _tile_cotangent(b: Builder, op: Op, g: Value) -> Value:
    x = operand(op)
    return reshape_like(b, sum_copies(b, g, operand(op, 1), shape_of(b, x)), x)


RESHAPED = linear(by_first(_reshape_back))
TRANSPOSE = linear(by_first(_transpose_back))
EXPAND = linear(by_first(_expand_cotangent))
TILE = linear(by_first(_tile_cotangent))


# --- Concat and Split -------------------------------------------------------------------------


def _concat_cotangent(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
    """Build the cotangent of operand k of Concat, which is a slice of the cotangent of the result."""
    (g,), axis = changes, attribute(op, "axis") % rank(operand(op))
    if g is None:
        return None
    start = _concat_offset(b, op, k, axis)
    end = b.op("Add", start, extent(b, operand(op, k), axis))
    return b.op("Slice", g, _as_list(b, start), _as_list(b, end), ints(b, axis))


def _concat_offset(b: Builder, op: Op, count: int, axis: int) -> Value:
    """Build the sum of the extents of the first `count` operands of Concat."""
    return sum_values(
        b,
        [scalar(b, 0, "int64"), *(extent(b, operand(op, k), axis) for k in range(count))],
    )


def _as_list(b: Builder, number: Value) -> Value:
    return b.op("Reshape", number, ints(b, 1))


def _split_cotangent(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
    if k != 0 or all(g is None for g in changes):
        return None
    parts = [g or zeros(b, y) for g, y in zip(changes, op.outputs, strict=True)]
    return b.op("Concat", *parts, axis=attribute(op, "axis"))


CONCAT = linear(_concat_cotangent, ())
SPLIT = linear(_split_cotangent)


# --- slices -----------------------------------------------------------------------------------


def _slice_cotangent(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of x for Slice: zeros with the elements of `g` at the sliced positions.

    If a step may differ from 1, rows are added at their indices along each axis.
    """
    x, starts, steps = operand(op), operand(op, 1), optional(op, 4)
    axes = _sliced_axes(b, op)
    known = None if steps is None else b.constant_of(steps)
    if steps is None or (known is not None and np.all(known == 1)):
        return _pad_slice(b, x, g, starts, axes)
    for k, axis in enumerate(axes):
        count = extent(b, x, axis)
        everything = b.op("Range", scalar(b, 0, "int64"), count, scalar(b, 1, "int64"))
        start, end, step = (
            cast(b, slice_list(b, operand(op, place), k, k + 1), "int64") for place in (1, 2, 4)
        )
        places = b.op("Slice", everything, start, end, ints(b, 0), step)
        g = scatter_add_rows(b, g, places, count, axis)
    return g


def _sliced_axes(b: Builder, op: Op) -> list[int]:
    axes, starts = optional(op, 3), operand(op, 1)
    if axes is None:
        (length,) = extents(starts)
        assert isinstance(length, int), "as many starts as the type of the result says"
        return list(range(length))
    known = b.constant_of(axes)
    assert known is not None, "the type of the result is told by axes that are known"
    return [int(axis) % rank(operand(op)) for axis in known]


def _pad_slice(b: Builder, x: Value, g: Value, starts: Value, axes: list[int]) -> Value:
    """Pad `g` with zeros to the shape of x for a Slice with steps of 1."""
    at = b.constant(np.array(axes, np.int64))
    extents_x, sliced = (b.op("Gather", shape_of(b, v), at, axis=0) for v in (x, g))
    zero, known, starts = scalar(b, 0, "int64"), b.constant_of(starts), cast(b, starts, "int64")
    if known is None or np.any(known < 0):
        starts = b.op("Where", b.op("Less", starts, zero), b.op("Add", starts, extents_x), starts)
    before = b.op("Min", b.op("Max", starts, zero), extents_x)
    after = b.op("Sub", b.op("Sub", extents_x, before), sliced)
    return b.op("Pad", g, _all_axis_pads(b, (before, after), axes, rank(x)))


def _all_axis_pads(b: Builder, sides: tuple[Value, Value], axes: list[int], rank: int) -> Value:
    """Build the `pads` operand of ONNX's Pad from the pads of some axes."""
    numbers = b.op("Concat", *sides, ints(b, 0), axis=0)
    place = {axis: k for k, axis in enumerate(axes)}
    order = [
        place[axis] + side * len(axes) if axis in place else 2 * len(axes)
        for side in (0, 1)
        for axis in range(rank)
    ]
    return b.op("Gather", numbers, ints(b, *order), axis=0)


SLICE = linear(by_first(_slice_cotangent))


# --- pads -------------------------------------------------------------------------------------


def _pad_cotangent(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
    """Build the cotangent of x (`g` without the pads) or of the fill value (the sum of `g` over the pads)."""
    (g,) = changes
    if g is None or k not in (0, 2):
        return None
    if k == 2:
        return _fill_value_cotangent(b, op, g)
    if attribute(op, "mode") != "constant":
        return _mirrored_pad_cotangent(b, op, g)
    axes = [] if optional(op, 3) is None else [None, optional(op, 3)]
    return b.op("Pad", g, b.op("Neg", operand(op, 1)), *axes)


def _fill_value_cotangent(b: Builder, op: Op, g: Value) -> Value | None:
    if attribute(op, "mode") != "constant":
        return None
    no, yes = (scalar(b, truth, "int64") for truth in (0, 1))
    inside = b.op("Expand", no, shape_of(b, operand(op)))
    around = cast(b, b.op("Pad", inside, operand(op, 1), yes, *op.inputs[3:]), "bool")
    return reshape_like(
        b,
        sum_of(b, b.op("Where", around, g, scalar(b, 0, g.dtype))),
        operand(op, 2),
    )


def _mirrored_pad_cotangent(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of x for modes that repeat elements: add each element of `g` at its source index.

    The source indices are the indices of an axis padded in the same mode.
    """
    x, pads, axes_operand = operand(op), operand(op, 1), optional(op, 3)
    known = None if axes_operand is None else b.constant_of(axes_operand)
    axes = range(rank(x)) if known is None else [int(axis) % rank(x) for axis in known]
    for k, axis in enumerate(axes):
        ends = b.op("Gather", pads, ints(b, k, k + len(axes)), axis=0)
        constant_ends = b.constant_of(ends)
        if constant_ends is not None and not constant_ends.any():
            continue
        count = extent(b, x, axis)
        everything = b.op("Range", scalar(b, 0, "int64"), count, scalar(b, 1, "int64"))
        places = b.op("Pad", everything, ends, mode=attribute(op, "mode"))
        g = scatter_add_rows(b, g, places, count, axis)
    return g


def _center_crop_cotangent(b: Builder, op: Op, g: Value) -> Value:
    """Build the cotangent of x for CenterCropPad, which crops or pads `g` to the shape of x.

    CenterCropPad removes as many elements at the start as the reverse operation inserts.
    """
    shape, axes = shape_of(b, operand(op)), op.attributes.get("axes")
    if axes is not None:
        shape = b.op("Gather", shape, ints(b, *axes), axis=0)
    return b.op("CenterCropPad", g, shape, **op.attributes)


PAD = linear(_pad_cotangent, (0, 2))
CENTER_CROP_PAD = linear(by_first(_center_crop_cotangent))


# --- operations that are their own transpose --------------------------------------------------


def _apply_again(b: Builder, op: Op, g: Value) -> Value:
    return b.op(op.op_type, g, *op.inputs[1:], **op.attributes)


SELF_TRANSPOSED = linear(by_first(_apply_again))


# --- Range ------------------------------------------------------------------------------------


def _range_tangents(b: Builder, op: Op, changes: Changes) -> Changes:
    """Build the tangent of Range, whose elements are `start + k * delta`."""
    start, _, delta = changes
    y = op.outputs[0]
    steps = None if delta is None else b.op("Mul", delta, _range_over_length(b, y))
    if start is not None:
        start = broadcast_like(b, start, y)
    terms = [t for t in (start, steps) if t is not None]
    return (with_type_of(b, sum_values(b, terms), y) if terms else None,)


def _range_cotangent(b: Builder, op: Op, changes: Changes, k: int) -> Value | None:
    (g,) = changes
    if g is None or k == 1 or not is_float(op.inputs[k]):
        return None
    return sum_of(b, g if k == 0 else b.op("Mul", g, _range_over_length(b, g)))


def _range_over_length(b: Builder, x: Value) -> Value:
    """Build the indices 0, 1, 2, ... of the one-dimensional value x, in the dtype of x."""
    positions = b.op("Range", scalar(b, 0, "int64"), extent(b, x, 0), scalar(b, 1, "int64"))
    return cast(b, positions, x.dtype)


RANGE = ExplicitDerivative(_range_tangents, _range_cotangent)
