"""Operators that treat every row of their first operand alone: images, mostly.

x[runs, rows, ...]  ->  x[runs * rows, ...]  ->  the operator  ->  y[runs, rows, ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.batching.lane import Lane, Operands, only, refusal, required, values
from mdf_loop.ops.words import ints

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def row_by_row(lane: Lane, op: Op, operands: Operands) -> Sequence[Value]:
    """The rows of all runs as rows of one array."""
    only(op, operands, 0)
    if len(op.outputs) > 1:
        raise refusal(op, "it gives more than one result")
    b, x = lane.b, required(operands)
    rest = _extents(b, x.value, 2)
    flat = b.op("Reshape", x.value, b.op("Concat", ints(b, -1), rest, axis=0))
    (made,) = lane.same(op, flat, *values(operands[1:]))
    front = b.op("Shape", x.value, start=0, end=2)
    return (b.op("Reshape", made, b.op("Concat", front, _extents(b, made, 1), axis=0)),)


def _extents(b: Builder, x: Value, start: int) -> Value:
    """The shape from an axis on, in numbers where it is known."""
    known = [extent for extent in (x.shape or ("",))[start:] if isinstance(extent, int)]
    whole = x.shape is not None and len(known) == len(x.shape) - start
    return ints(b, *known) if whole else b.op("Shape", x, start=start)
