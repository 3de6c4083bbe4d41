"""What a loop that has run was given row by row: just as many rows as there were iterations."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Loop, Op, Operation, Scanned, Value, captures
from mdf_loop.ops.derivatives.shapes import shape_of
from mdf_loop.ops.words import ints, rank


def executed_rows(b: Builder, loop: Loop, skipped: Value | None, active: set[Value]) -> Loop:
    """The loop with the rows that it was given, and of what it has indexed by the iteration's number.

    Indexing gives a cotangent of all that is indexed, in each iteration; scanning one of a row. Rows of
    iterations that are `skipped` are left out.
    """
    assert loop.count is not None
    end = b.op("Reshape", loop.count, ints(b, 1))
    begin = ints(b, 0) if skipped is None else b.op("Reshape", skipped, ints(b, 1))
    indexed = {op: s for op in loop.ops if (s := _indexed(loop, op, active)) is not None}
    scanned = [_given(b, s, begin, end, active) for s in loop.scanned]
    scanned += [_numbered(b, loop, s, begin, end, active) for s in indexed.values()]
    ops = tuple(op for op in loop.ops if op not in indexed)
    return replace(loop, ops=ops, scanned=tuple(scanned))


def _indexed(loop: Loop, op: Operation, active: set[Value]) -> Scanned | None:
    """What an operation takes by the number of the iteration, as the row of a scan."""
    if not (isinstance(op, Op) and op.op_type == "Gather" and op.inputs[1] is loop.iteration):
        return None
    rows = op.inputs[0]
    if rows is None or rows.shape is None or rows not in active or rows not in captures(loop):
        return None
    return Scanned(rows, op.outputs[0], int(op.attributes.get("axis", 0)) % len(rows.shape))


def _numbered(
    b: Builder, loop: Loop, s: Scanned, begin: Value, end: Value, active: set[Value]
) -> Scanned:
    """The rows from the number of the first iteration on."""
    if loop.first is None:
        return _given(b, s, begin, end, active)
    first = b.op("Reshape", loop.first, ints(b, 1))
    return _cut(b, s, b.op("Add", first, begin), b.op("Add", first, end), active)


def _given(b: Builder, s: Scanned, begin: Value, end: Value, active: set[Value]) -> Scanned:
    """The rows of these iterations; those of a scan that goes backward are counted from the end."""
    if not s.backward:
        return _cut(b, s, begin, end, active)
    extent = b.op("Shape", s.rows, start=s.axis, end=s.axis + 1)
    return _cut(b, s, b.op("Sub", extent, end), b.op("Sub", extent, begin), active)


def _cut(b: Builder, s: Scanned, first: Value, end: Value, active: set[Value]) -> Scanned:
    rows = b.op("Slice", s.rows, first, end, ints(b, s.axis))
    if s.rows in active:
        active.add(rows)
    return replace(s, rows=rows)


def rows_along_first_axis(b: Builder, scanned: Scanned) -> Value:
    """Rows that were scanned, in the order of iterations, along the first axis."""
    rows, axis = scanned.rows, scanned.axis
    if axis:
        others = [k for k in range(rank(rows)) if k != axis]
        rows = b.op("Transpose", rows, perm=(axis, *others))
    return reverse_rows(b, rows) if scanned.backward else rows


def restore_scan_axis(b: Builder, stack: Value, scanned: Scanned) -> Value:
    """What iterations give rows that were scanned, in their order, as these rows lie."""
    stack = reverse_rows(b, stack) if scanned.backward else stack
    if scanned.axis == 0:
        return stack
    others = list(range(1, rank(stack)))
    return b.op("Transpose", stack, perm=(*others[: scanned.axis], 0, *others[scanned.axis :]))


def repeat_rows(b: Builder, value: Value, count: Value) -> Value:
    """A row for each of so many iterations, of what is the same in all of them."""
    rows = b.op("Reshape", count, ints(b, 1))
    return b.op("Expand", value, b.op("Concat", rows, shape_of(b, value), axis=0))


def reverse_rows(b: Builder, rows: Value) -> Value:
    """The last row first."""
    least = ints(b, int(np.iinfo(np.int64).min))
    return b.op("Slice", rows, ints(b, -1), least, ints(b, 0), ints(b, -1))
