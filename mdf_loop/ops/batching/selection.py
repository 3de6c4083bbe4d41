"""Batching of operators that select elements by index."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operand,
    Operands,
    attribute,
    behind_run_axis,
    present_operands,
    refuse_other_batched,
    required,
)
from mdf_loop.ops.build_helpers import cast, ints, scalar, size_between


def gather(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Gather for all runs, with shared indices or with separate indices for each run."""
    data, indices = required(operands, 0), required(operands, 1)
    axis = attribute(op, "axis")
    if not indices.batched:
        return scope.apply(op, data.value, indices.value, axis=behind_run_axis(axis))
    axis %= data.rank
    if data.batched:
        return (_gather_per_run(scope, data, indices, axis),)
    members = scope.b.op("Gather", data.value, indices.value, axis=axis)
    return (_move_axis(scope, members, axis, data.rank + indices.rank, 0),)


def _gather_per_run(scope: BatchScope, data: Operand, indices: Operand, axis: int) -> Value:
    """Build `data[run, ..., indices[run], ...]` by a GatherND along the first axis and a Transpose."""
    b = scope.b
    first = _move_axis(scope, data.value, axis + 1, data.rank + 1, 1)
    index = b.op("Unsqueeze", cast(b, indices.value, "int64"), ints(b, -1))
    gathered = b.op("GatherND", first, index, batch_dims=1)  # [runs, *indices, *data without axis]
    rank, index_axes = data.rank + indices.rank, range(1, 1 + indices.rank)
    rest = range(1 + indices.rank, rank)
    order = (0, *rest[:axis], *index_axes, *rest[axis:])
    return gathered if order == tuple(range(rank)) else b.op("Transpose", gathered, perm=order)


def _move_axis(scope: BatchScope, x: Value, axis: int, rank: int, to: int) -> Value:
    """Move one axis of an array to another position."""
    order = [k for k in range(rank) if k != axis]
    order.insert(to, axis)
    return x if axis == to else scope.b.op("Transpose", x, perm=tuple(order))


def gather_nd(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build GatherND for all runs, with the run axis as an additional batch axis unless all runs share the data."""
    data, indices = required(operands, 0), required(operands, 1)
    shared = attribute(op, "batch_dims")
    if not data.batched and not shared:
        return scope.apply(op, data.value, indices.value)
    return scope.apply(
        op, scope.with_run_axis(data), scope.with_run_axis(indices), batch_dims=shared + 1
    )


def scatter_nd(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build ScatterND for all runs, with the run number prepended to each index tuple."""
    data, indices, updates = (scope.with_run_axis(x) for x in present_operands(operands))
    b, ones = scope.b, (1,) * required(operands, 1).rank
    count = b.op("Reshape", scope.count(), ints(b))
    runs = b.op("Range", scalar(b, 0, "int64"), count, scalar(b, 1, "int64"))
    column = b.op("Reshape", runs, ints(b, -1, *ones))
    tuples = b.op("Shape", indices, end=-1)
    wide = b.op("Expand", column, b.op("Concat", tuples, ints(b, 1), axis=0))
    return scope.apply(op, data, b.op("Concat", wide, indices, axis=-1), updates)


def elements(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Apply GatherElements or ScatterElements to all runs, with the run axis in all operands."""
    parts = (scope.with_run_axis(x) for x in present_operands(operands))
    return scope.apply(op, *parts, axis=behind_run_axis(attribute(op, "axis")))


def compress(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Compress for all runs, along an axis or on the flattened elements of each run."""
    refuse_other_batched(op, operands, 0)
    x, mask = required(operands, 0), required(operands, 1)
    axis = attribute(op, "axis")
    if axis is not None:
        return scope.apply(op, x.value, mask.value, axis=behind_run_axis(axis))
    shape = scope.b.op("Concat", scope.count(), size_between(scope.b, x.value, 1), axis=0)
    flat = scope.b.op("Reshape", x.value, shape, allowzero=1)
    return scope.apply(op, flat, mask.value, axis=1)
