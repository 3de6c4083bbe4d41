"""Batching of operators that select elements by index."""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operand,
    Operands,
    attribute,
    present_operands,
    refuse_other_batched,
    required_operand,
    shift_axis,
)
from mdf_loop.ops.build_helpers import cast, ints, scalar, size_between


def gather(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Gather for a batch of model runs, with indices that are shared or differ between runs."""
    x, indices = required_operand(operands, 0), required_operand(operands, 1)
    axis = attribute(op, "axis")
    if not indices.is_batched:
        return scope.append_copy(op, x.value, indices.value, axis=shift_axis(axis))
    axis %= x.rank
    if x.is_batched:
        return (_gather_per_run(scope, x, indices, axis),)
    gathered_elements = scope.b.op("Gather", x.value, indices.value, axis=axis)
    return (_move_axis(scope, gathered_elements, axis, x.rank + indices.rank, 0),)


def _gather_per_run(scope: BatchScope, data: Operand, indices: Operand, axis: int) -> Value:
    """Build `data[run, ..., indices[run], ...]` for each model run by GatherND and Transpose."""
    b = scope.b
    x_along_axis = _move_axis(scope, data.value, axis + 1, data.rank + 1, 1)
    index_tuples = b.op("Unsqueeze", cast(b, indices.value, "int64"), ints(b, -1))
    gathered_elements = b.op(
        "GatherND", x_along_axis, index_tuples, batch_dims=1
    )  # [runs, *indices, *data without axis]
    rank, index_axes = data.rank + indices.rank, range(1, 1 + indices.rank)
    trailing_axes = range(1 + indices.rank, rank)
    axis_order = (0, *trailing_axes[:axis], *index_axes, *trailing_axes[axis:])
    return (
        gathered_elements
        if axis_order == tuple(range(rank))
        else b.op("Transpose", gathered_elements, perm=axis_order)
    )


def _move_axis(scope: BatchScope, x: Value, axis: int, rank: int, new_position: int) -> Value:
    """Move one axis of an array to another position."""
    axis_order = [k for k in range(rank) if k != axis]
    axis_order.insert(new_position, axis)
    return x if axis == new_position else scope.b.op("Transpose", x, perm=tuple(axis_order))


def gather_nd(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build GatherND for a batch of model runs, with the run axis as a batch axis unless all runs share the data."""
    x, indices = required_operand(operands, 0), required_operand(operands, 1)
    batch_axis_count = attribute(op, "batch_dims")
    if not x.is_batched and not batch_axis_count:
        return scope.append_copy(op, x.value, indices.value)
    return scope.append_copy(
        op, scope.with_run_axis(x), scope.with_run_axis(indices), batch_dims=batch_axis_count + 1
    )


def scatter_nd(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build ScatterND for a batch of model runs, with the run number prepended to each index tuple."""
    updated_array, indices, updates = (scope.with_run_axis(x) for x in present_operands(operands))
    b, unit_extents = scope.b, (1,) * required_operand(operands, 1).rank
    run_count = b.op("Reshape", scope.run_count(), ints(b))
    run_numbers = b.op("Range", scalar(b, 0, "int64"), run_count, scalar(b, 1, "int64"))
    run_number_column = b.op("Reshape", run_numbers, ints(b, -1, *unit_extents))
    index_shape = b.op("Shape", indices, end=-1)
    run_indices = b.op("Expand", run_number_column, b.op("Concat", index_shape, ints(b, 1), axis=0))
    return scope.append_copy(
        op, updated_array, b.op("Concat", run_indices, indices, axis=-1), updates
    )


def apply_to_elements(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build GatherElements or ScatterElements for a batch of model runs, with the run axis in all operands."""
    batched_operands = (scope.with_run_axis(x) for x in present_operands(operands))
    return scope.append_copy(op, *batched_operands, axis=shift_axis(attribute(op, "axis")))


def compress(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Compress for a batch of model runs, along an axis or on the flattened elements of each run."""
    refuse_other_batched(op, operands, 0)
    x, mask = required_operand(operands, 0), required_operand(operands, 1)
    axis = attribute(op, "axis")
    if axis is not None:
        return scope.append_copy(op, x.value, mask.value, axis=shift_axis(axis))
    flattened_shape = scope.b.op(
        "Concat", scope.run_count(), size_between(scope.b, x.value, 1), axis=0
    )
    flattened_runs = scope.b.op("Reshape", x.value, flattened_shape, allowzero=1)
    return scope.append_copy(op, flattened_runs, mask.value, axis=1)
