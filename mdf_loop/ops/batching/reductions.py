"""Batching of operators along axes: sums, extremes, softmax, cumulative sums, TopK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operands,
    attribute,
    operand_values,
    refuse_other_batched,
    required_operand,
    shift_axis,
)
from mdf_loop.ops.build_helpers import ints


def reduce(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build a reduction along axes for a batch of model runs.

    Without axes, all axes of each run are reduced.
    """
    if len(operands) > 1:
        return reduce_sum(scope, op, operands)
    return _reduce_axes(scope, op, operands, attribute(op, "axes"))


def reduce_sum(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build ReduceSum for a batch of model runs, with axes from its second operand.

    An empty list of axes may mean no reduction.
    """
    refuse_other_batched(op, operands, 0)
    axes = scope.constant(op, operands, 1)
    if (axes is None or axes.size == 0) and attribute(op, "noop_with_empty_axes"):
        return (scope.b.op("Identity", required_operand(operands).value),)
    return _reduce_axes(scope, op, operands, () if axes is None else axes.tolist())


def _reduce_axes(scope: BatchScope, op: Op, operands: Operands, axes: Any) -> Sequence[Value]:
    x = required_operand(operands)
    operand_value, keepdims = x.value, attribute(op, "keepdims")
    shifted_axes = [shift_axis(axis) for axis in axes or range(-x.rank, 0)]
    if not x.rank:  # A scalar equals its sum, but not its sum of squares.
        operand_value, shifted_axes, keepdims = (
            scope.b.op("Unsqueeze", operand_value, ints(scope.b, 1)),
            [1],
            0,
        )
    if op.op_type == "ReduceSum":
        return (
            scope.b.op(op.op_type, operand_value, ints(scope.b, *shifted_axes), keepdims=keepdims),
        )
    return (scope.b.op(op.op_type, operand_value, axes=tuple(shifted_axes), keepdims=keepdims),)


def apply_along_axis(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build an operation along one axis of its first operand for a batch of model runs."""
    refuse_other_batched(op, operands, 0)
    return scope.append_copy(op, *operand_values(operands), axis=shift_axis(attribute(op, "axis")))


def cumulative_sum(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build CumSum for a batch of model runs, along the axis in the second operand."""
    refuse_other_batched(op, operands, 0)
    axis = scope.constant(op, operands, 1)
    assert axis is not None
    shifted_axis = scope.b.constant(np.where(axis >= 0, axis + 1, axis).astype(axis.dtype))
    return scope.append_copy(op, required_operand(operands).value, shifted_axis)
