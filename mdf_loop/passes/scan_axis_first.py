"""Transposition of scanned arrays, so that loops scan them along axis 0.

    loop i < M                                    turned = Transpose(xs, perm=[1, 0])
      scan x: [n] of xs: [n, M] axis 1      ->    loop i < M
                                                    scan x: [n] of turned axis 0

Each row is then contiguous in memory, as native code requires. ONNX Runtime's Scan also transposes the array.

Preserves: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Loop,
    Op,
    Operation,
    Program,
    Scanned,
    Value,
    bodies,
    walk,
    with_bodies,
)


def scan_axis_first(program: Program) -> Program:
    """Transpose the scanned arrays of a program, so that loops scan along axis 0."""
    if not any(
        _scans_later_axis(scanned)
        for op in walk(program.ops)
        if isinstance(op, Loop)
        for scanned in op.scanned
    ):
        return program
    transposed_ops = tuple(_transpose_scans(Builder.for_rewrite_of(program), program.ops))
    return replace(program, ops=transposed_ops)


def _scans_later_axis(scanned: Scanned) -> bool:
    return scanned.axis != 0 and scanned.rows.shape is not None


def _transpose_scans(b: Builder, ops: Iterable[Operation]) -> Iterable[Operation]:
    for operation in ops:
        inner_ops = [tuple(_transpose_scans(b, body.ops)) for body in bodies(operation)]
        operation = with_bodies(operation, inner_ops)
        if isinstance(operation, Loop):
            transposed_scans = [
                _transpose_scan(b, scanned, operation.where) for scanned in operation.scanned
            ]
            yield from (
                transpose_op for transpose_op, _ in transposed_scans if transpose_op is not None
            )
            operation = replace(
                operation, scanned=tuple(scanned for _, scanned in transposed_scans)
            )
        yield operation


def _transpose_scan(b: Builder, scanned: Scanned, where: str) -> tuple[Op | None, Scanned]:
    """Return a Transpose that moves a scanned axis to the front, and a scan of its result.

    Return None instead of the Transpose if the axis is already first.
    """
    scanned_rows, scan_axis = scanned.rows, scanned.axis
    if not _scans_later_axis(scanned):
        return None, scanned
    axis_order = (scan_axis, *(k for k in range(len(scanned_rows.shape or ())) if k != scan_axis))
    transposed_shape = tuple((scanned_rows.shape or ())[k] for k in axis_order)
    transposed_rows = Value(
        b.name(f"{scanned_rows.name} along axis {scan_axis}"),
        scanned_rows.dtype,
        transposed_shape,
        scanned_rows.where,
    )
    transpose_op = Op("Transpose", (scanned_rows,), (transposed_rows,), {"perm": axis_order}, where)
    return transpose_op, replace(scanned, rows=transposed_rows, axis=0)
