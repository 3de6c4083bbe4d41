"""Rewrite operations that ONNX Runtime's CUDA provider computes differently from its CPU provider.

    y = Gather(x, i)             ->   j = i guarded by -n <= i < n; y = Gather(x, j)
    s = Sign(x)                  ->   s = Where(x == x, Sign(x), x)   # see `ops.cuda_replacements`

    loop i < trip                     loop i < trip guarded by trip <= rows of xs
      scan %row of %xs           ->     scan %row of %xs

    loop i while going                loop i while going
      scan %row of %xs           ->     scan %row' of %xs
      ...                               row = row' guarded by i < rows of xs

    loop                              loop
      carry %x to %x             ->     %y = Identity(%x)
      record %x                         carry %x to %y
                                        record %y

A check that is always true is omitted. Preserves: results bit for bit, and errors.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Guard,
    Loop,
    Op,
    Program,
    Scanned,
    Value,
    body_outputs,
)
from mdf_loop.ops.cuda_replacements import INDEX_OUT_OF_RANGE_MESSAGE, extent_of
from mdf_loop.ops.registry import KnownArrays, row_of
from mdf_loop.passes.failing import constant_lookup
from mdf_loop.passes.rewrite import rewrite, rewrite_loops


def for_cuda(program: Program) -> Program:
    """Return the program with checks that fail on CUDA wherever the CPU kernels would fail."""
    find_constant = constant_lookup(program.ops)

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        rewrite_op = row_of(op.op_type).cuda_replacement
        replacement = None if rewrite_op is None else rewrite_op(b, op, find_constant)
        return None if replacement is None else (replacement,)

    return rewrite_loops(
        rewrite(program, rule), lambda b, loop: _rewrite_loop(b, loop, find_constant)
    )


def _rewrite_loop(b: Builder, loop: Loop, find_constant: KnownArrays) -> Loop:
    check_builder, identity_builder = b.body(), b.body()
    for scan in loop.scanned:
        with b.at(loop.where, scan.row.name), check_builder.at(loop.where, scan.row.name):
            loop = _check_scan_length(b, check_builder, loop, scan, find_constant)
    identity_copies = {
        value: identity_builder.op("Identity", value) for value in _unchanged_carried_values(loop)
    }
    return replace(
        loop,
        carried=tuple(
            replace(
                carried, body_output=identity_copies.get(carried.body_output, carried.body_output)
            )
            for carried in loop.carried
        ),
        recorded=tuple(
            replace(recorded, row=identity_copies.get(recorded.row, recorded.row))
            for recorded in loop.recorded
        ),
        ops=(*check_builder.ops, *loop.ops, *identity_builder.ops),
    )


def _unchanged_carried_values(loop: Loop) -> set[Value]:
    """Return the carried values that an iteration passes on unchanged."""
    return {carried.body_input for carried in loop.carried}.intersection(body_outputs(loop))


def _check_scan_length(
    b: Builder, body_builder: Builder, loop: Loop, scan: Scanned, find_constant: KnownArrays
) -> Loop:
    """Check that a scanned array has enough rows: before the loop, or in each iteration.

    The check is in the iteration if the loop has a condition.
    """
    constant_trip_count, rows_shape = find_constant(loop.trip_count), scan.rows.shape
    constant_row_count = None if rows_shape is None else rows_shape[scan.axis]
    if (
        isinstance(constant_row_count, int)
        and constant_trip_count is not None
        and constant_trip_count <= constant_row_count
    ):
        return loop
    row_count = extent_of(b, scan.rows, scan.axis)
    if loop.trip_count is not None and loop.condition is None:
        fits_rows = b.op("LessOrEqual", loop.trip_count, row_count)
        return replace(
            loop, trip_count=b.guard(loop.trip_count, fits_rows, INDEX_OUT_OF_RANGE_MESSAGE)
        )
    iteration_index = loop.iteration
    if loop.first_iteration is not None:
        iteration_index = body_builder.op("Sub", iteration_index, loop.first_iteration)
    unchecked_row = b.new(scan.row.dtype, scan.row.shape, scan.row.name)
    row_guard = Guard(
        unchecked_row,
        body_builder.op("Less", iteration_index, row_count),
        scan.row,
        INDEX_OUT_OF_RANGE_MESSAGE,
        loop.where,
    )
    body_builder.append(row_guard)
    checked_scans = tuple(
        replace(other_scan, row=unchecked_row) if other_scan is scan else other_scan
        for other_scan in loop.scanned
    )
    return replace(loop, scanned=checked_scans)
