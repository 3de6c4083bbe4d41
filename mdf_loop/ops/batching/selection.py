"""Operators that choose elements by their places."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.lane import (
    Lane,
    Operand,
    Operands,
    attribute,
    further,
    given,
    only,
    required,
)
from mdf_loop.ops.words import cast, ints, scalar, size_between


def gather(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """All runs from the same places, or each from its own."""
    data, places = required(operands, 0), required(operands, 1)
    axis = attribute(op, "axis")
    if not places.batched:
        return lane.same(op, data.value, places.value, axis=further(axis))
    axis %= data.rank
    if data.batched:
        return (_each_from_its_own(lane, data, places, axis),)
    found = lane.b.op("Gather", data.value, places.value, axis=axis)
    return (_moved(lane, found, axis, data.rank + places.rank, 0),)


def _each_from_its_own(lane: Lane, data: Operand, places: Operand, axis: int) -> Value:
    """`data[run, ..., places[run], ...]`, taken with the axis in front and moved back."""
    b = lane.b
    first = _moved(lane, data.value, axis + 1, data.rank + 1, 1)
    index = b.op("Unsqueeze", cast(b, places.value, "int64"), ints(b, -1))
    found = b.op("GatherND", first, index, batch_dims=1)  # [runs, *places, *data without axis]
    rank, taken = data.rank + places.rank, range(1, 1 + places.rank)
    rest = range(1 + places.rank, rank)
    order = (0, *rest[:axis], *taken, *rest[axis:])
    return found if order == tuple(range(rank)) else b.op("Transpose", found, perm=order)


def _moved(lane: Lane, x: Value, axis: int, rank: int, to: int) -> Value:
    """The array with one of its axes elsewhere."""
    order = [k for k in range(rank) if k != axis]
    order.insert(to, axis)
    return x if axis == to else lane.b.op("Transpose", x, perm=tuple(order))


def gather_nd(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """One more axis that data and places share, unless all runs choose from the same data."""
    data, places = required(operands, 0), required(operands, 1)
    shared = attribute(op, "batch_dims")
    if not data.batched and not shared:
        return lane.same(op, data.value, places.value)
    return lane.same(op, lane.spread(data), lane.spread(places), batch_dims=shared + 1)


def scatter_nd(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The number of the run in front of every tuple of places."""
    data, places, updates = (lane.spread(x) for x in given(operands))
    b, ones = lane.b, (1,) * required(operands, 1).rank
    count = b.op("Reshape", lane.count(), ints(b))
    runs = b.op("Range", scalar(b, 0, "int64"), count, scalar(b, 1, "int64"))
    column = b.op("Reshape", runs, ints(b, -1, *ones))
    tuples = b.op("Shape", places, end=-1)
    wide = b.op("Expand", column, b.op("Concat", tuples, ints(b, 1), axis=0))
    return lane.same(op, data, b.op("Concat", wide, places, axis=-1), updates)


def elements(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """All operands have the same axes, so all get that of the runs."""
    parts = (lane.spread(x) for x in given(operands))
    return lane.same(op, *parts, axis=further(attribute(op, "axis")))


def compress(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """Without an axis the elements of one run are one list."""
    only(op, operands, 0)
    x, mask = required(operands, 0), required(operands, 1)
    axis = attribute(op, "axis")
    if axis is not None:
        return lane.same(op, x.value, mask.value, axis=further(axis))
    shape = lane.b.op("Concat", lane.count(), size_between(lane.b, x.value, 1), axis=0)
    flat = lane.b.op("Reshape", x.value, shape, allowzero=1)
    return lane.same(op, flat, mask.value, axis=1)
