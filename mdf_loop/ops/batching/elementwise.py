"""Batching of elementwise operators, which broadcast their operands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operand,
    Operands,
    operand_values,
    optional_operand,
    present_operands,
    required_operand,
)
from mdf_loop.ops.build_helpers import kind
from mdf_loop.ops.decompositions.build_helpers import constant_like

MAX_PREBROADCAST_ELEMENTS = 16
"""Maximum number of elements of a run for which an operand is repeated before the operation (measured)."""


def elementwise(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build an elementwise operation for a batch of model runs, with the run axis first.

    `[runs, n]` beside `[m, n]` becomes `[runs, 1, n]`.
    """
    result_shape = _result_shape(present_operands(operands))
    return scope.append_copy(
        op, *(_broadcast_operand(scope, x, result_shape) for x in present_operands(operands))
    )


def _result_shape(operands: Sequence[Operand]) -> tuple[int | str, ...]:
    """Return the shape to which the operands of a single model run are broadcast."""
    rank = max(x.rank for x in operands)
    padded_shapes = [(1,) * (rank - x.rank) + (x.single_run_value.shape or ()) for x in operands]
    return tuple(
        next((extent for extent in axis_extents if extent != 1), 1)
        for axis_extents in zip(*padded_shapes, strict=True)
    )


def _broadcast_operand(scope: BatchScope, x: Operand, shape: tuple[int | str, ...]) -> Value:
    """Return an operand that broadcasts to `shape` in each model run, repeated in advance if faster.

    ONNX Runtime takes 10 ns for each repeated piece. So a run of few elements is repeated before the loop, or
    once for all operations that read it.
    """
    operand_shape = x.single_run_value.shape or ()
    if not x.is_batched and all(extent == 1 for extent in operand_shape):
        return scope.shared_element(x, len(shape))
    fixed_shape = tuple(extent for extent in shape if isinstance(extent, int))
    is_small = (
        len(fixed_shape) == len(shape) and math.prod(fixed_shape) <= MAX_PREBROADCAST_ELEMENTS
    )
    if is_small and (not x.is_batched or (operand_shape != shape and scope.is_outside(x))):
        return scope.broadcast_to(x, fixed_shape)
    return scope.align_rank(x, len(shape))


def clip(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build Clip by Where for bounds that differ between model runs, which ONNX's Clip refuses.

        below = Where(x < low, low, x)      ->      Where(high < below, high, below)

    An omitted bound is the last finite number of the dtype. A bound of nan has no effect.
    """
    x = required_operand(operands)
    if not any(bound_operand.is_batched for bound_operand in present_operands(operands[1:])):
        return scope.append_copy(op, *operand_values(operands))
    run_shape = x.single_run_value.shape or ()
    clipped_values = x.value
    for op_type, position, bound_name in (("Less", 1, "min"), ("Greater", 2, "max")):
        bound_operand = optional_operand(operands, position)
        if bound_operand is not None:
            broadcast_bound = _broadcast_operand(scope, bound_operand, run_shape)
        elif kind(clipped_values) == "f":
            broadcast_bound = constant_like(
                scope.b, getattr(np.finfo(clipped_values.dtype), bound_name), clipped_values
            )
        else:
            continue
        clipped_values = scope.b.op(
            "Where",
            scope.b.op(op_type, clipped_values, broadcast_bound),
            broadcast_bound,
            clipped_values,
        )
    return (clipped_values,)


def prelu(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build PRelu for a batch of model runs, with the run axis added to `x`.

    PRelu broadcasts only the slope.
    """
    x, slope = required_operand(operands, 0), required_operand(operands, 1)
    return scope.append_copy(op, scope.with_run_axis(x), scope.align_rank(slope, x.rank))


def cast_like(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Build CastLike for a batch of model runs: a cast of the first operand to the dtype of the second."""
    return scope.append_copy(
        op, scope.with_run_axis(required_operand(operands, 0)), required_operand(operands, 1).value
    )
