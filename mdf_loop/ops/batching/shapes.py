"""Operators that arrange elements: the axes of one run stand behind that of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.batching.lane import (
    Lane,
    Operand,
    Operands,
    attribute,
    further,
    given,
    only,
    optional,
    refusal,
    required,
    values,
)
from mdf_loop.ops.words import cast, ints, rank, scalar, size_between

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- the shape itself -------------------------------------------------------------------------


def shape(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The shape of one run, which all of them share."""
    x = required(operands)
    start, stop, _ = slice(attribute(op, "start"), attribute(op, "end")).indices(x.rank)
    known = (x.member.shape or ())[start:stop]
    if all(isinstance(extent, int) for extent in known):
        return (ints(lane.b, *(int(extent) for extent in known)),)
    return (lane.b.op("Shape", x.value, start=start + 1, end=stop + 1),)


def size(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The number of elements of one run."""
    extents = lane.b.op("Shape", required(operands).value, start=1)
    return (lane.b.op("ReduceProd", extents, keepdims=0),)


# --- axes -------------------------------------------------------------------------------------


def transpose(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Without an order the axes of one run are reversed."""
    x = required(operands)
    order = attribute(op, "perm") or tuple(reversed(range(x.rank)))
    return lane.same(op, x.value, perm=(0, *(axis + 1 for axis in order)))


def unsqueeze(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """New axes, counted one further."""
    only(op, operands, 0)
    axes = lane.constant(op, operands, 1)
    assert axes is not None
    return lane.same(op, required(operands).value, _further(lane.b, axes.tolist()))


def squeeze(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Without axes those of one run that are known to have one element."""
    only(op, operands, 0)
    x, axes = required(operands), lane.constant(op, operands, 1)
    if axes is not None:
        return lane.same(op, x.value, _further(lane.b, axes.tolist()))
    extents = x.member.shape or ()
    if any(isinstance(extent, str) for extent in extents):
        raise refusal(op, f"the shape of {x.member.type} must be known, or the axes given")
    single = [axis for axis, extent in enumerate(extents) if extent == 1]
    return lane.same(op, x.value, _further(lane.b, single)) if single else (x.value,)


def _further(b: Builder, axes: Sequence[int]) -> Value:
    return ints(b, *map(further, axes))


# --- shapes given as inputs -------------------------------------------------------------------


def reshape(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The new shape behind a 0, which keeps the first extent (unless 0 means 0).

    Of no runs an extent cannot be found out: those that are known are said.
    """
    only(op, operands, 0)
    b, made = lane.b, op.outputs[0].shape
    if is_fixed(made) and 0 not in made:
        return lane.same(op, required(operands).value, ints(b, 0, *made), allowzero=0)
    known = b.constant_of(required(operands, 1).value)
    if known is not None and -1 in known and 0 not in known:
        own = b.op("Shape", required(operands).value, start=1)
        others = ints(b, int(-np.prod(known)))
        rest = b.op("Div", b.op("ReduceProd", own, keepdims=1), others)
        parts = (rest if extent == -1 else ints(b, int(extent)) for extent in known)
        wanted = b.op("Concat", ints(b, 0), *parts, axis=0)
        return lane.same(op, required(operands).value, wanted, allowzero=0)
    front = lane.count() if attribute(op, "allowzero") else ints(b, 0)
    wanted = b.op("Concat", front, required(operands, 1).value, axis=0)
    return lane.same(op, required(operands).value, wanted)


def flatten(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Flatten every run into two axes."""
    b, x = lane.b, required(operands)
    axis = attribute(op, "axis")
    middle = 1 + (axis + x.rank if axis < 0 else axis)
    sides = size_between(b, x.value, 1, middle), size_between(b, x.value, middle)
    shape = b.op("Concat", lane.count(), *sides, axis=0)
    return (b.op("Reshape", x.value, shape, allowzero=1),)


def expand(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """`[runs, n]` to the shape `[m, n]`: `[runs, 1, n]` to `[1, m, n]`."""
    only(op, operands, 0)
    x, wanted = required(operands, 0), required(operands, 1)
    axes = max(rank(op.outputs[0]), x.rank)
    length = _length(op, wanted)
    shape = lane.b.op("Concat", ints(lane.b, *[1] * (1 + axes - length)), wanted.value, axis=0)
    return lane.same(op, lane.aligned(x, axes), shape)


def tile(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The runs once, everything else as often as it says."""
    only(op, operands, 0)
    repeats = lane.b.op("Concat", ints(lane.b, 1), required(operands, 1).value, axis=0)
    return lane.same(op, required(operands).value, repeats)


def pad(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """No padding before the first or after the last run."""
    only(op, operands, 0, 2)
    b, x, filling = lane.b, required(operands), optional(operands, 2)
    if filling is not None and filling.batched:
        return (_each_filled(lane, op, operands, filling),)
    axes, pads = lane.constant(op, operands, 3), required(operands, 1).value
    if axes is not None:
        return lane.same(op, x.value, pads, *values(operands[2:3]), _further(b, axes.tolist()))
    middle, end, none = ints(b, x.rank), ints(b, 2 * x.rank), ints(b, 0)
    before, behind = b.op("Slice", pads, none, middle), b.op("Slice", pads, middle, end)
    around = b.op("Concat", none, before, none, behind, axis=0)
    return lane.same(op, x.value, around, *values(operands[2:]))


def _each_filled(lane: Lane, op: Op, operands: Operands, filling: Operand) -> Value:
    """Each run with a number of its own around it: where one run has none of its elements."""
    b, x, (_, pads, _, *axes) = lane.b, required(operands), operands
    own = b.op("Shape", x.value, start=int(x.batched)) if x.rank else ints(b)
    inside = b.op("Expand", scalar(b, 0, "int64"), own)
    marked = b.op("Pad", inside, *values([pads]), scalar(b, 1, "int64"), *values(axes))
    zero = Operand(filling.member, scalar(b, 0, filling.value.dtype), batched=False)
    around = pad(lane, op, [x, pads, zero, *axes])[0] if x.batched else _once(lane, op, operands)
    number = lane.aligned(filling, x.rank)
    return b.op("Where", cast(b, marked, "bool"), number, around)


def _once(lane: Lane, op: Op, operands: Operands) -> Value:
    """What all runs share, with zeros around it."""
    x, pads, _, *axes = values(operands)
    return lane.same(op, x, pads, None, *axes)[0]


def center_crop_pad(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Axes are counted one further."""
    only(op, operands, 0)
    x = required(operands)
    axes = attribute(op, "axes") or range(x.rank)
    return lane.same(op, x.value, required(operands, 1).value, axes=tuple(map(further, axes)))


def slice_(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Without axes the first ones of one run."""
    only(op, operands, 0)
    starts = required(operands, 1)
    axes = lane.constant(op, operands, 3)
    places = range(_length(op, starts)) if axes is None else axes.tolist()
    moved = lane.b.constant(np.array([*map(further, places)], starts.member.dtype))
    step = optional(operands, 4)
    return lane.same(op, *values(operands[:3]), moved, *([] if step is None else [step.value]))


def _length(op: Op, x: Operand) -> int:
    """How many numbers a list has, which must be known."""
    extent = (x.member.shape or ("",))[0]
    if not isinstance(extent, int):
        raise refusal(op, f"the length of '{x.member.name}' must be known")
    return extent


# --- parts ------------------------------------------------------------------------------------


def concat(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Parts that all runs share are spread over them."""
    parts = (lane.spread(x) for x in given(operands))
    return lane.same(op, *parts, axis=further(attribute(op, "axis")))
