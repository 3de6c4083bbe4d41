"""Operators that work element by element and broadcast their operands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.lane import (
    Lane,
    Operand,
    Operands,
    given,
    optional,
    required,
    values,
)
from mdf_loop.ops.compositions.words import number
from mdf_loop.ops.words import kind

NARROW = 16
"""Up to this many elements in a run, repeating costs more than calculating (measured)."""


def elementwise(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """`[runs, n]` beside `[m, n]` becomes `[runs, 1, n]`."""
    shape = _common(given(operands))
    return lane.same(op, *(_fitted(lane, x, shape) for x in given(operands)))


def _common(operands: Sequence[Operand]) -> tuple[int | str, ...]:
    """The shape of the result of one run, as far as it matters here."""
    rank = max(x.rank for x in operands)
    padded = [(1,) * (rank - x.rank) + (x.member.shape or ()) for x in operands]
    return tuple(next((d for d in dims if d != 1), 1) for dims in zip(*padded, strict=True))


def _fitted(lane: Lane, x: Operand, shape: tuple[int | str, ...]) -> Value:
    """The operand, broadcast in the way that is cheapest.

    ONNX Runtime takes 10 ns for every piece that it repeats: a run of few elements is repeated
    before the loop, or once for all operations that need it.
    """
    extents = x.member.shape or ()
    if not x.batched and all(extent == 1 for extent in extents):
        return lane.single(x, len(shape))
    known = tuple(extent for extent in shape if isinstance(extent, int))
    narrow = len(known) == len(shape) and math.prod(known) <= NARROW
    if narrow and (not x.batched or (extents != shape and lane.is_outside(x))):
        return lane.filled(x, known)
    return lane.aligned(x, len(shape))


def clip(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Choose between x and its ends if runs have ends of their own, which Clip does not take.

        below = Where(x < low, low, x)      ->      Where(high < below, high, below)

    An end that is left out is the last finite number of the dtype; nan bounds nothing.
    """
    x = required(operands)
    if not any(end.batched for end in given(operands[1:])):
        return lane.same(op, *values(operands))
    shape = x.member.shape or ()
    result = x.value
    for op_type, position, limit in (("Less", 1, "min"), ("Greater", 2, "max")):
        end = optional(operands, position)
        if end is not None:
            bound = _fitted(lane, end, shape)
        elif kind(result) == "f":
            bound = number(lane.b, getattr(np.finfo(result.dtype), limit), result)
        else:
            continue
        result = lane.b.op("Where", lane.b.op(op_type, result, bound), bound, result)
    return (result,)


def prelu(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Only the slope is broadcast, so x has the axis of the runs always."""
    x, slope = required(operands, 0), required(operands, 1)
    return lane.same(op, lane.spread(x), lane.aligned(slope, x.rank))


def cast_like(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The second operand says nothing but a dtype."""
    return lane.same(op, lane.spread(required(operands, 0)), required(operands, 1).value)
