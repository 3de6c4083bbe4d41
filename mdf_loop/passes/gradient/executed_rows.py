"""Scanned arrays of a loop in reverse mode, cut to one row for each executed iteration."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Loop, Op, Operation, Scanned, Value, captures
from mdf_loop.ops.build_helpers import ints, rank
from mdf_loop.ops.derivatives.shapes import shape_of


def executed_rows(b: Builder, loop: Loop, skipped_count: Value | None, active: set[Value]) -> Loop:
    """Return a loop whose scanned arrays have exactly one row for each executed iteration.

    Indexing of an array by the iteration number is converted to scanning.

    The cotangent of an indexing operation is a whole array in each iteration, while the cotangent of a scan
    is one row. The rows of the first `skipped_count` iterations are omitted.
    """
    assert loop.iteration_count is not None
    end_row = b.op("Reshape", loop.iteration_count, ints(b, 1))
    first_row = ints(b, 0) if skipped_count is None else b.op("Reshape", skipped_count, ints(b, 1))
    indexing_scans = {
        op: scan for op in loop.ops if (scan := _scan_of_indexing(loop, op, active)) is not None
    }
    scans = [_cut_scan(b, scanned, first_row, end_row, active) for scanned in loop.scanned]
    scans += [
        _cut_indexed(b, loop, scanned, first_row, end_row, active)
        for scanned in indexing_scans.values()
    ]
    ops = tuple(op for op in loop.ops if op not in indexing_scans)
    return replace(loop, ops=ops, scanned=tuple(scans))


def _scan_of_indexing(loop: Loop, op: Operation, active: set[Value]) -> Scanned | None:
    """Return a scan that replaces indexing by the iteration number, or None for other indices."""
    if not (isinstance(op, Op) and op.op_type == "Gather" and op.inputs[1] is loop.iteration):
        return None
    rows = op.inputs[0]
    if rows is None or rows.shape is None or rows not in active or rows not in captures(loop):
        return None
    return Scanned(rows, op.outputs[0], int(op.attributes.get("axis", 0)) % len(rows.shape))


def _cut_indexed(
    b: Builder, loop: Loop, s: Scanned, begin: Value, end: Value, active: set[Value]
) -> Scanned:
    """Return a scan over the rows of an indexed array that executed iterations read."""
    if loop.first_iteration is None:
        return _cut_scan(b, s, begin, end, active)
    first_iteration = b.op("Reshape", loop.first_iteration, ints(b, 1))
    return _slice_rows(
        b, s, b.op("Add", first_iteration, begin), b.op("Add", first_iteration, end), active
    )


def _cut_scan(b: Builder, s: Scanned, begin: Value, end: Value, active: set[Value]) -> Scanned:
    """Return a scan over the rows from `begin` to `end` of a scanned array.

    A backward scan counts rows from the end.
    """
    if not s.is_backward:
        return _slice_rows(b, s, begin, end, active)
    row_count = b.op("Shape", s.rows, start=s.axis, end=s.axis + 1)
    return _slice_rows(b, s, b.op("Sub", row_count, end), b.op("Sub", row_count, begin), active)


def _slice_rows(b: Builder, s: Scanned, first: Value, end: Value, active: set[Value]) -> Scanned:
    rows = b.op("Slice", s.rows, first, end, ints(b, s.axis))
    if s.rows in active:
        active.add(rows)
    return replace(s, rows=rows)


def rows_along_first_axis(b: Builder, scanned: Scanned) -> Value:
    """Transpose and reverse a scanned array so that row k along axis 0 belongs to iteration k."""
    rows, axis = scanned.rows, scanned.axis
    if axis:
        other_axes = [k for k in range(rank(rows)) if k != axis]
        rows = b.op("Transpose", rows, perm=(axis, *other_axes))
    return reverse_rows(b, rows) if scanned.is_backward else rows


def restore_scan_axis(b: Builder, cotangent_rows: Value, scanned: Scanned) -> Value:
    """Transpose the stacked cotangents of scanned rows back to the layout of the scanned array."""
    cotangent_rows = reverse_rows(b, cotangent_rows) if scanned.is_backward else cotangent_rows
    if scanned.axis == 0:
        return cotangent_rows
    other_axes = list(range(1, rank(cotangent_rows)))
    return b.op(
        "Transpose",
        cotangent_rows,
        perm=(*other_axes[: scanned.axis], 0, *other_axes[scanned.axis :]),
    )


def repeat_rows(b: Builder, value: Value, count: Value) -> Value:
    """Repeat a loop-invariant value along a new first axis, once for each iteration."""
    row_count = b.op("Reshape", count, ints(b, 1))
    return b.op("Expand", value, b.op("Concat", row_count, shape_of(b, value), axis=0))


def reverse_rows(b: Builder, rows: Value) -> Value:
    """Reverse an array along its first axis."""
    backward_end = ints(b, int(np.iinfo(np.int64).min))
    return b.op("Slice", rows, ints(b, -1), backward_end, ints(b, 0), ints(b, -1))
