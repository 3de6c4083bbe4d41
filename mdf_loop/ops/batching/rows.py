"""Batching of operators that process each row of their first operand independently.

x[runs, rows, ...]  ->  x[runs * rows, ...]  ->  the operator  ->  y[runs, rows, ...]
"""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operands,
    batching_error,
    operand_values,
    refuse_other_batched,
    required_operand,
)
from mdf_loop.ops.build_helpers import ints, shape_between, size_between


def apply_to_rows(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Apply an operation that handles rows independently to the rows of all model runs at once."""
    refuse_other_batched(op, operands, 0)
    if len(op.outputs) > 1:
        raise batching_error(op, "it gives more than one result")
    b, x = scope.b, required_operand(operands)
    run_and_row_counts, row_shape = shape_between(b, x.value, 0, 2), shape_between(b, x.value, 2)
    known_row_shape = b.constant_of(row_shape)
    can_infer_count = known_row_shape is not None and 0 not in known_row_shape
    row_count = ints(b, -1) if can_infer_count else size_between(b, x.value, 0, 2)
    all_rows = b.op("Reshape", x.value, b.op("Concat", row_count, row_shape, axis=0), allowzero=1)
    (row_results,) = scope.append_copy(op, all_rows, *operand_values(operands[1:]))
    result_shape = b.op("Concat", run_and_row_counts, shape_between(b, row_results, 1), axis=0)
    return (b.op("Reshape", row_results, result_shape, allowzero=1),)
