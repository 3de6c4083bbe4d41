"""Transposition of a loop body: a copy of the body, followed by its backward operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Operation, Recorded, Value, captures
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.reverse import Reverse


class TransposedBody(Struct, frozen=True):
    """Backward iteration of a loop: copies of the body's values, and their cotangents.

    Attributes:
        inside: Copies of the values of the body.
        leaving: Cotangents of the carried values that leave the iteration.
        rows: Cotangents of the rows that the iteration records.
        captured: Values from outside that the iteration adds cotangents to.
        sweep: Cotangents that the iteration computes, with the builder of their operations.
    """

    inside: Mapping[Value, Value]
    leaving: Mapping[Carried, Value]
    rows: Mapping[Recorded, Value]
    captured: tuple[Value, ...]
    sweep: Sweep

    @property
    def b(self) -> Builder:
        """Builder of the operations."""
        return self.sweep.b

    @property
    def ops(self) -> list[Operation]:
        """Operations of the copied body, followed by the backward operations."""
        return self.sweep.b.ops

    def cotangent_of(self, value: Value) -> Value | None:
        """Return the cotangent of a value that the body reads, or None."""
        return self.sweep.cotangents.get(self.inside.get(value, value))


def transpose_body(
    reverse: Reverse,
    outer_sweep: Sweep,
    loop: Loop,
    *,
    leaving: Iterable[Carried] | None = None,
    rows: Iterable[Recorded] | None = None,
) -> TransposedBody:
    """Return the transposed body of a loop.

    Args:
        reverse: The state of the differentiation.
        outer_sweep: The cotangents of the results of the loop.
        loop: The executed loop.
        leaving: Carried values with a cotangent at the end of an iteration; by default, all active carried
            values.
        rows: Recordings with cotangents; by default, the recordings that have a cotangent outside of the
            loop.
    """
    b = outer_sweep.b
    body = b.body()
    replacements = {loop.condition_in: b.constant(np.array(True))}
    for value in (loop.iteration, *(c.enter for c in loop.carried), *(s.row for s in loop.scanned)):
        replacements[value] = replace(value, name=b.name(value.name))
    ops, copies = reverse.copy_operations(b, loop.ops, replacements)
    ops = reverse.append_forward(body, ops)
    if leaving is None:
        leaving = (c for c in loop.carried if reverse.is_active_float(c.enter))
    if rows is None:
        rows = (r for r in loop.recorded if r.stack in outer_sweep.cotangents)
    leaving_cotangents = {c: _new_cotangent(b, c.enter) for c in leaving}
    row_cotangents = {r: _new_cotangent(b, r.row) for r in rows}
    sweep = reverse.new_sweep(body, {})
    for c, cotangent in leaving_cotangents.items():
        sweep.add(copies.get(c.leave, c.leave), cotangent)
    for r, cotangent in row_cotangents.items():
        sweep.add(copies.get(r.row, r.row), cotangent)
    reverse.propagate_backward(sweep, ops)
    captured = tuple(v for v in captures(loop) if v in sweep.cotangents)
    return TransposedBody(copies, leaving_cotangents, row_cotangents, captured, sweep)


def _new_cotangent(b: Builder, value: Value) -> Value:
    return b.new(value.dtype, value.shape, f"{value.name} change")
