"""What operations make of one iteration, made of all iterations at once.

%y: float64[n] = Add(%x, %z)     ->     %ys: float64[rows, n] = Add(%xs, %zs)

Keeps: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Value
from mdf_loop.ops import row_of
from mdf_loop.ops.registry import Bits
from mdf_loop.ops.words import ints


def is_exact_elementwise(op: Op) -> bool:
    """Whether an operation is computed number by number, with the same bits wherever they stand."""
    row = row_of(op.op_type)
    surely = not row.may_fail(op, lambda value: None) and len(op.outputs) == 1
    return row.elementwise and row.bits is Bits.FIXED and surely


def vectorize_elementwise(
    b: Builder, ops: Iterable[Op], rows: Mapping[Value, Value]
) -> dict[Value, Value]:
    """The rows of all that exact operations read and make; what has none is the same for all."""
    made = dict(rows)
    for op in ops:
        rank = len(op.outputs[0].shape or ())
        given = [
            insert_axes(b, made[value], len(value.shape or ()), rank) if value in made else value
            for value in op.inputs
        ]
        made[op.outputs[0]] = b.op(op.op_type, *given, **op.attributes)
    return made


def insert_axes(b: Builder, rows: Value, own: int, rank: int) -> Value:
    """Rows of values of so many axes of their own, with axes before these, so that there are more."""
    return rows if own == rank else b.op("Unsqueeze", rows, ints(b, *range(1, 1 + rank - own)))
