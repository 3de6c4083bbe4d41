"""Operators along axes: sums, extremes, softmax, running sums, the largest k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.lane import Lane, Operands, attribute, further, only, required, values
from mdf_loop.ops.words import ints


def reduce(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """No axes means all axes of one run; they are counted from the end."""
    if len(operands) > 1:
        return reduce_sum(lane, op, operands)
    return _reduced(lane, op, operands, attribute(op, "axes"))


def reduce_sum(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """`reduce`, with axes that are an input; an empty list of axes may mean none."""
    only(op, operands, 0)
    axes = lane.constant(op, operands, 1)
    if (axes is None or axes.size == 0) and attribute(op, "noop_with_empty_axes"):
        return (lane.b.op("Identity", required(operands).value),)
    return _reduced(lane, op, operands, () if axes is None else axes.tolist())


def _reduced(lane: Lane, op: Op, operands: Operands, axes: Any) -> Sequence[Value]:
    x = required(operands)
    value, keepdims = x.value, attribute(op, "keepdims")
    places = [further(axis) for axis in axes or range(-x.rank, 0)]
    if not x.rank:  # a number is its own sum, but not its own sum of squares
        value, places, keepdims = lane.b.op("Unsqueeze", value, ints(lane.b, 1)), [1], 0
    if op.op_type == "ReduceSum":
        return (lane.b.op(op.op_type, value, ints(lane.b, *places), keepdims=keepdims),)
    return (lane.b.op(op.op_type, value, axes=tuple(places), keepdims=keepdims),)


def along_axis(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """One axis of the first operand; the others are the same for all runs."""
    only(op, operands, 0)
    return lane.same(op, *values(operands), axis=further(attribute(op, "axis")))


def running_sum(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The axis is an input."""
    only(op, operands, 0)
    axis = lane.constant(op, operands, 1)
    assert axis is not None
    place = lane.b.constant(np.where(axis >= 0, axis + 1, axis).astype(axis.dtype))
    return lane.same(op, required(operands).value, place)
