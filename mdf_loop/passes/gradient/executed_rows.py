"""Slicing of a loop's scanned arrays to one row for each executed iteration, for reverse mode."""

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
    cut_scans = [_cut_scan(b, scanned, first_row, end_row, active) for scanned in loop.scanned]
    cut_scans += [
        _cut_indexed(b, loop, scanned, first_row, end_row, active)
        for scanned in indexing_scans.values()
    ]
    remaining_ops = tuple(op for op in loop.ops if op not in indexing_scans)
    return replace(loop, ops=remaining_ops, scanned=tuple(cut_scans))


def _scan_of_indexing(loop: Loop, op: Operation, active: set[Value]) -> Scanned | None:
    """Return a scan equivalent to a `Gather` by the iteration number, or None for other indices."""
    if not (isinstance(op, Op) and op.op_type == "Gather" and op.inputs[1] is loop.iteration):
        return None
    indexed_array = op.inputs[0]
    if (
        indexed_array is None
        or indexed_array.shape is None
        or indexed_array not in active
        or indexed_array not in captures(loop)
    ):
        return None
    return Scanned(
        indexed_array, op.outputs[0], int(op.attributes.get("axis", 0)) % len(indexed_array.shape)
    )


def _cut_indexed(
    b: Builder, loop: Loop, scanned: Scanned, begin_row: Value, end_row: Value, active: set[Value]
) -> Scanned:
    """Return a scan over an indexed array, cut to the rows that executed iterations read."""
    if loop.first_iteration is None:
        return _cut_scan(b, scanned, begin_row, end_row, active)
    first_iteration = b.op("Reshape", loop.first_iteration, ints(b, 1))
    return _slice_rows(
        b,
        scanned,
        b.op("Add", first_iteration, begin_row),
        b.op("Add", first_iteration, end_row),
        active,
    )


def _cut_scan(
    b: Builder, scanned: Scanned, begin_row: Value, end_row: Value, active: set[Value]
) -> Scanned:
    """Return a scan over the rows from `begin_row` to `end_row` of a scanned array.

    A backward scan counts rows from the end.
    """
    if not scanned.is_backward:
        return _slice_rows(b, scanned, begin_row, end_row, active)
    row_count = b.op("Shape", scanned.rows, start=scanned.axis, end=scanned.axis + 1)
    return _slice_rows(
        b, scanned, b.op("Sub", row_count, end_row), b.op("Sub", row_count, begin_row), active
    )


def _slice_rows(
    b: Builder, scanned: Scanned, begin_row: Value, end_row: Value, active: set[Value]
) -> Scanned:
    sliced_rows = b.op("Slice", scanned.rows, begin_row, end_row, ints(b, scanned.axis))
    if scanned.rows in active:
        active.add(sliced_rows)
    return replace(scanned, rows=sliced_rows)


def rows_along_first_axis(b: Builder, scanned: Scanned) -> Value:
    """Transpose and reverse a scanned array so that row k along axis 0 belongs to iteration k."""
    scanned_rows, scan_axis = scanned.rows, scanned.axis
    if scan_axis:
        other_axes = [k for k in range(rank(scanned_rows)) if k != scan_axis]
        scanned_rows = b.op("Transpose", scanned_rows, perm=(scan_axis, *other_axes))
    return reverse_rows(b, scanned_rows) if scanned.is_backward else scanned_rows


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


def repeat_rows(b: Builder, value: Value, iteration_count: Value) -> Value:
    """Repeat a loop-invariant value along a new first axis, once for each iteration."""
    row_count = b.op("Reshape", iteration_count, ints(b, 1))
    return b.op("Expand", value, b.op("Concat", row_count, shape_of(b, value), axis=0))


def reverse_rows(b: Builder, rows: Value) -> Value:
    """Reverse an array along its first axis."""
    backward_end = ints(b, int(np.iinfo(np.int64).min))
    return b.op("Slice", rows, ints(b, -1), backward_end, ints(b, 0), ints(b, -1))
