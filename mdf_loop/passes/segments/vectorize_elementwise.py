"""Vectorization of elementwise operations in a loop body over all iterations.

    %y: float64[n] = Add(%x, %z)     ->     %ys: float64[rows, n] = Add(%xs, %zs)

Preserves: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Value
from mdf_loop.ops import row_of
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.registry import Reproducibility


def is_exact_elementwise(op: Op) -> bool:
    """Return True for an elementwise operation that cannot fail and rounds alike everywhere."""
    operation_row = row_of(op.op_type)
    cannot_fail = not operation_row.may_fail(op, lambda value: None) and len(op.outputs) == 1
    return (
        operation_row.is_elementwise
        and operation_row.reproducibility is Reproducibility.FIXED
        and cannot_fail
    )


def vectorize_elementwise(
    b: Builder, ops: Iterable[Op], rows: Mapping[Value, Value]
) -> dict[Value, Value]:
    """Append elementwise operations for all iterations at once, and return the stacked values.

    Values without rows are loop-invariant.
    """
    stacked_values = dict(rows)
    for op in ops:
        output_rank = len(op.outputs[0].shape or ())
        operands = [
            insert_axes(b, stacked_values[value], len(value.shape or ()), output_rank)
            if value in stacked_values
            else value
            for value in op.inputs
        ]
        stacked_values[op.outputs[0]] = b.op(op.op_type, *operands, **op.attributes)
    return stacked_values


def insert_axes(b: Builder, rows: Value, row_rank: int, rank: int) -> Value:
    """Insert axes of extent 1 after the iteration axis, so that each row has rank `rank`."""
    return (
        rows
        if row_rank == rank
        else b.op("Unsqueeze", rows, ints(b, *range(1, 1 + rank - row_rank)))
    )
