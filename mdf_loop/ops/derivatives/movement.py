"""Derivatives of what arranges elements: they are linear, and a cotangent goes the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import attribute, operand, optional
from mdf_loop.ops.derivatives.places import part, put_back
from mdf_loop.ops.derivatives.rule import (
    Changes,
    General,
    by_first,
    is_float,
    linear,
    summed,
)
from mdf_loop.ops.derivatives.shapes import (
    extent,
    fitted,
    over_copies,
    reshaped,
    shape_of,
    spread,
    typed,
    zeros,
)
from mdf_loop.ops.words import cast, extents, ints, rank, scalar, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


# --- axes -------------------------------------------------------------------------------------


def _as_before(b: Builder, op: Op, g: Value) -> Value:
    return reshaped(b, g, operand(op))


def _turned_back(b: Builder, op: Op, g: Value) -> Value:
    order = attribute(op, "perm") or tuple(reversed(range(rank(operand(op)))))
    return b.op("Transpose", g, perm=tuple(int(k) for k in np.argsort(order)))


def _once(b: Builder, op: Op, g: Value) -> Value:
    return fitted(b, g, operand(op))


def _untiled(b: Builder, op: Op, g: Value) -> Value:
    x = operand(op)
    return reshaped(b, over_copies(b, g, operand(op, 1), shape_of(b, x)), x)


RESHAPED = linear(by_first(_as_before))
TRANSPOSE = linear(by_first(_turned_back))
EXPAND = linear(by_first(_once))
TILE = linear(by_first(_untiled))


# --- parts ------------------------------------------------------------------------------------


def _part_of(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    """The slice of the operand."""
    (g,), axis = given, attribute(op, "axis") % rank(operand(op))
    if g is None:
        return None
    start = _end(b, op, k, axis)
    end = b.op("Add", start, extent(b, operand(op, k), axis))
    return b.op("Slice", g, _listed(b, start), _listed(b, end), ints(b, axis))


def _end(b: Builder, op: Op, count: int, axis: int) -> Value:
    """Where the first operands end together."""
    return summed(
        b,
        [scalar(b, 0, "int64"), *(extent(b, operand(op, k), axis) for k in range(count))],
    )


def _listed(b: Builder, number: Value) -> Value:
    return b.op("Reshape", number, ints(b, 1))


def _joined(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    if k != 0 or all(g is None for g in given):
        return None
    parts = [g or zeros(b, y) for g, y in zip(given, op.outputs, strict=True)]
    return b.op("Concat", *parts, axis=attribute(op, "axis"))


CONCAT = linear(_part_of, ())
SPLIT = linear(_joined)


# --- slices -----------------------------------------------------------------------------------


def _unsliced(b: Builder, op: Op, g: Value) -> Value:
    """Zeros around it; where a step is not known to be 1, each row goes back to its place."""
    x, starts, steps = operand(op), operand(op, 1), optional(op, 4)
    axes = _sliced_axes(b, op)
    known = None if steps is None else b.constant_of(steps)
    if steps is None or (known is not None and np.all(known == 1)):
        return _zeros_around(b, x, g, starts, axes)
    for k, axis in enumerate(axes):
        count = extent(b, x, axis)
        everything = b.op("Range", scalar(b, 0, "int64"), count, scalar(b, 1, "int64"))
        start, end, step = (
            cast(b, part(b, operand(op, place), k, k + 1), "int64") for place in (1, 2, 4)
        )
        places = b.op("Slice", everything, start, end, ints(b, 0), step)
        g = put_back(b, g, places, count, axis)
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


def _zeros_around(b: Builder, x: Value, g: Value, starts: Value, axes: list[int]) -> Value:
    """A slice of neighbours, whose ends may be known only when it runs."""
    at = b.constant(np.array(axes, np.int64))
    whole, taken = (b.op("Gather", shape_of(b, v), at, axis=0) for v in (x, g))
    zero, known, starts = scalar(b, 0, "int64"), b.constant_of(starts), cast(b, starts, "int64")
    if known is None or np.any(known < 0):
        starts = b.op("Where", b.op("Less", starts, zero), b.op("Add", starts, whole), starts)
    before = b.op("Min", b.op("Max", starts, zero), whole)
    after = b.op("Sub", b.op("Sub", whole, before), taken)
    return b.op("Pad", g, _on_axes(b, (before, after), axes, rank(x)))


def _on_axes(b: Builder, sides: tuple[Value, Value], axes: list[int], rank: int) -> Value:
    """Numbers for some axes as pads of all axes: first those before, then those after."""
    numbers = b.op("Concat", *sides, ints(b, 0), axis=0)
    place = {axis: k for k, axis in enumerate(axes)}
    order = [
        place[axis] + side * len(axes) if axis in place else 2 * len(axes)
        for side in (0, 1)
        for axis in range(rank)
    ]
    return b.op("Gather", numbers, ints(b, *order), axis=0)


SLICE = linear(by_first(_unsliced))


# --- pads -------------------------------------------------------------------------------------


def _unpadded(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    """What was padded is cut off, and what was cut off is zeros; the filling gets the rest."""
    (g,) = given
    if g is None or k not in (0, 2):
        return None
    if k == 2:
        return _filling(b, op, g)
    if attribute(op, "mode") != "constant":
        return _mirrored_back(b, op, g)
    axes = [] if optional(op, 3) is None else [None, optional(op, 3)]
    return b.op("Pad", g, b.op("Neg", operand(op, 1)), *axes)


def _filling(b: Builder, op: Op, g: Value) -> Value | None:
    if attribute(op, "mode") != "constant":
        return None
    no, yes = (scalar(b, truth, "int64") for truth in (0, 1))
    inside = b.op("Expand", no, shape_of(b, operand(op)))
    around = cast(b, b.op("Pad", inside, operand(op, 1), yes, *op.inputs[3:]), "bool")
    return reshaped(
        b,
        sum_of(b, b.op("Where", around, g, scalar(b, 0, g.dtype))),
        operand(op, 2),
    )


def _mirrored_back(b: Builder, op: Op, g: Value) -> Value:
    """Along each axis the padding shows elements at places that the pads of its places tell."""
    x, pads, said = operand(op), operand(op, 1), optional(op, 3)
    known = None if said is None else b.constant_of(said)
    axes = range(rank(x)) if known is None else [int(axis) % rank(x) for axis in known]
    for k, axis in enumerate(axes):
        ends = b.op("Gather", pads, ints(b, k, k + len(axes)), axis=0)
        still = b.constant_of(ends)
        if still is not None and not still.any():
            continue
        count = extent(b, x, axis)
        everything = b.op("Range", scalar(b, 0, "int64"), count, scalar(b, 1, "int64"))
        places = b.op("Pad", everything, ends, mode=attribute(op, "mode"))
        g = put_back(b, g, places, count, axis)
    return g


def _centred_back(b: Builder, op: Op, g: Value) -> Value:
    """It cuts off as many before as it would pad."""
    shape, axes = shape_of(b, operand(op)), op.attributes.get("axes")
    if axes is not None:
        shape = b.op("Gather", shape, ints(b, *axes), axis=0)
    return b.op("CenterCropPad", g, shape, **op.attributes)


PAD = linear(_unpadded, (0, 2))
CENTER_CROP_PAD = linear(by_first(_centred_back))


# --- what is its own transpose ----------------------------------------------------------------


def _again(b: Builder, op: Op, g: Value) -> Value:
    return b.op(op.op_type, g, *op.inputs[1:], **op.attributes)


ITSELF = linear(by_first(_again))


# --- what is made -----------------------------------------------------------------------------


def _range_tangents(b: Builder, op: Op, given: Changes) -> Changes:
    """`start + k * delta` has so many elements as before."""
    start, _, delta = given
    y = op.outputs[0]
    steps = None if delta is None else b.op("Mul", delta, _counted(b, y))
    if start is not None:
        start = spread(b, start, y)
    both = [t for t in (start, steps) if t is not None]
    return (typed(b, summed(b, both), y) if both else None,)


def _range_cotangent(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
    (g,) = given
    if g is None or k == 1 or not is_float(op.inputs[k]):
        return None
    return sum_of(b, g if k == 0 else b.op("Mul", g, _counted(b, g)))


def _counted(b: Builder, x: Value) -> Value:
    """0, 1, 2, ... as many as a list has."""
    whole = b.op("Range", scalar(b, 0, "int64"), extent(b, x, 0), scalar(b, 1, "int64"))
    return cast(b, whole, x.dtype)


RANGE = General(_range_tangents, _range_cotangent)
