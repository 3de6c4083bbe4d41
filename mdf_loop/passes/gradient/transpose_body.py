"""The body of a loop once more, and what goes backward through it."""

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
    """One iteration backward, on values of its own.

    Attributes:
        inside: what stands for values of the body.
        leaving: the cotangents that an iteration is given of what it has carried on.
        rows: those of what it has recorded.
        captured: what it reads from outside, and gives cotangents.
        sweep: the cotangents that it gives; its builder has the operations.
    """

    inside: Mapping[Value, Value]
    leaving: Mapping[Carried, Value]
    rows: Mapping[Recorded, Value]
    captured: tuple[Value, ...]
    sweep: Sweep

    @property
    def b(self) -> Builder:
        """Where the operations are."""
        return self.sweep.b

    @property
    def ops(self) -> list[Operation]:
        """The body once more, then what goes backward."""
        return self.sweep.b.ops

    def of(self, value: Value) -> Value | None:
        """The cotangent of what a body reads."""
        return self.sweep.of.get(self.inside.get(value, value))


def transpose_body(
    reverse: Reverse,
    outside: Sweep,
    loop: Loop,
    *,
    leaving: Iterable[Carried] | None = None,
    rows: Iterable[Recorded] | None = None,
) -> TransposedBody:
    """The body of a loop transposed.

    Args:
        reverse: what is known of the program.
        outside: the cotangents of what the loop gives.
        loop: it has run.
        leaving: what of it that is carried on is given cotangents; all that changes, if it is not said.
        rows: what of it that is recorded is given cotangents; all that has some outside.
    """
    b = outside.b
    body = b.body()
    given = {loop.condition_in: b.constant(np.array(True))}
    for value in (loop.iteration, *(c.enter for c in loop.carried), *(s.row for s in loop.scanned)):
        given[value] = replace(value, name=b.name(value.name))
    ops, new = reverse.copy_operations(b, loop.ops, given)
    ops = reverse.forward(body, ops)
    if leaving is None:
        leaving = (c for c in loop.carried if reverse.changes(c.enter))
    if rows is None:
        rows = (r for r in loop.recorded if r.stack in outside.of)
    changes = {c: _change(b, c.enter) for c in leaving}
    row_changes = {r: _change(b, r.row) for r in rows}
    sweep = reverse.sweep(body, {})
    for c, change in changes.items():
        sweep.add(new.get(c.leave, c.leave), change)
    for r, change in row_changes.items():
        sweep.add(new.get(r.row, r.row), change)
    reverse.back(sweep, ops)
    captured = tuple(v for v in captures(loop) if v in sweep.of)
    return TransposedBody(new, changes, row_changes, captured, sweep)


def _change(b: Builder, value: Value) -> Value:
    return b.new(value.dtype, value.shape, f"{value.name} change")
