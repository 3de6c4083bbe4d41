"""Batching of operators that process each row of their first operand alone, mostly images.

x[runs, rows, ...]  ->  x[runs * rows, ...]  ->  the operator  ->  y[runs, rows, ...]
"""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.scope import (
    BatchScope,
    Operands,
    operand_values,
    refusal,
    refuse_other_batched,
    required,
)
from mdf_loop.ops.build_helpers import ints, shape_between, size_between


def row_by_row(scope: BatchScope, op: Op, operands: Operands) -> Sequence[Value]:
    """Apply an operation once to one array that contains the rows of all runs."""
    refuse_other_batched(op, operands, 0)
    if len(op.outputs) > 1:
        raise refusal(op, "it gives more than one result")
    b, x = scope.b, required(operands)
    front, rest = shape_between(b, x.value, 0, 2), shape_between(b, x.value, 2)
    known = b.constant_of(rest)
    is_determined = known is not None and 0 not in known
    count = ints(b, -1) if is_determined else size_between(b, x.value, 0, 2)
    flat = b.op("Reshape", x.value, b.op("Concat", count, rest, axis=0), allowzero=1)
    (result,) = scope.apply(op, flat, *operand_values(operands[1:]))
    shape = b.op("Concat", front, shape_between(b, result, 1), axis=0)
    return (b.op("Reshape", result, shape, allowzero=1),)
