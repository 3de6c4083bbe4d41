"""What a loop scans, with its rows along the first axis.

    loop i < M                                    turned = Transpose(xs, perm=[1, 0])
      scan x: [n] of xs: [n, M] axis 1      ->    loop i < M
                                                    scan x: [n] of turned axis 0

A row lies together then, as machine code wants it; ONNX Runtime's Scan does the same itself.

Keeps: results bit for bit.
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
    """The program whose loops scan first axes only."""
    if not any(
        _is_behind(s) for op in walk(program.ops) if isinstance(op, Loop) for s in op.scanned
    ):
        return program
    ops = tuple(_turned(Builder.resume(program), program.ops))
    return replace(program, ops=ops)


def _is_behind(scanned: Scanned) -> bool:
    return scanned.axis != 0 and scanned.rows.shape is not None


def _turned(b: Builder, ops: Iterable[Operation]) -> Iterable[Operation]:
    for operation in ops:
        inner = [tuple(_turned(b, body.ops)) for body in bodies(operation)]
        operation = with_bodies(operation, inner)
        if isinstance(operation, Loop):
            turns = [_turn(b, scanned, operation.where) for scanned in operation.scanned]
            yield from (turn for turn, _ in turns if turn is not None)
            operation = replace(operation, scanned=tuple(scanned for _, scanned in turns))
        yield operation


def _turn(b: Builder, scanned: Scanned, where: str) -> tuple[Op | None, Scanned]:
    """What turns the rows of a scan to the front, if it must, and the scan of them."""
    rows, axis = scanned.rows, scanned.axis
    if not _is_behind(scanned):
        return None, scanned
    order = (axis, *(k for k in range(len(rows.shape or ())) if k != axis))
    shape = tuple((rows.shape or ())[k] for k in order)
    made = Value(b.name(f"{rows.name} along axis {axis}"), rows.dtype, shape, rows.where)
    turn = Op("Transpose", (rows,), (made,), {"perm": order}, where)
    return turn, replace(scanned, rows=made, axis=0)
