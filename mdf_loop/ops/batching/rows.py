"""Operators that treat every row of their first operand alone: images, mostly.

x[runs, rows, ...]  ->  x[runs * rows, ...]  ->  the operator  ->  y[runs, rows, ...]
"""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.lane import Lane, Operands, only, refusal, required, values
from mdf_loop.ops.words import ints, shape_between, size_between


def row_by_row(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The rows of all runs as rows of one array."""
    only(op, operands, 0)
    if len(op.outputs) > 1:
        raise refusal(op, "it gives more than one result")
    b, x = lane.b, required(operands)
    front, rest = shape_between(b, x.value, 0, 2), shape_between(b, x.value, 2)
    known = b.constant_of(rest)
    is_determined = known is not None and 0 not in known
    count = ints(b, -1) if is_determined else size_between(b, x.value, 0, 2)
    flat = b.op("Reshape", x.value, b.op("Concat", count, rest, axis=0), allowzero=1)
    (result,) = lane.same(op, flat, *values(operands[1:]))
    shape = b.op("Concat", front, shape_between(b, result, 1), axis=0)
    return (b.op("Reshape", result, shape, allowzero=1),)
