"""Executed loop: a loop with its recordings, its iteration count, and exactly the rows that the loop scanned.

If derivatives are truncated, only the last iterations are differentiated, and their initial values are
constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Op, Operation, Recorded, Scanned, Value
from mdf_loop.ops.build_helpers import ints, scalar
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.executed_rows import executed_rows
from mdf_loop.passes.gradient.reverse import Reverse, Tape

_MAX_INT64 = int(np.iinfo(np.int64).max)


class ExecutedLoop(Struct, frozen=True):
    """Loop whose scanned and recorded arrays have one row for each executed iteration.

    Attributes:
        loop: The loop.
        count: Number of differentiated iterations.
        skipped: Number of iterations before the differentiated ones; None if all iterations are
            differentiated.
        tape: Recordings of the values that entered each differentiated iteration.
        extent: Name of the extent of the rows.
        cuts: Operations that slice the scanned rows from the arrays.
    """

    loop: Loop
    count: Value
    skipped: Value | None
    tape: Tape
    extent: str
    cuts: Sequence[Op]

    def propagate_through_cuts(self, reverse: Reverse, outer_sweep: Sweep) -> None:
        """Propagate the cotangents of the sliced rows to the scanned arrays."""
        reverse.propagate_backward(outer_sweep, self.cuts)

    def append_backward(
        self,
        b: Builder,
        carried: Iterable[Carried],
        recorded: Iterable[Recorded],
        ops: Iterable[Operation],
        scanned: Iterable[Scanned],
        iteration: Value | None = None,
    ) -> None:
        """Append a loop over the iterations in reverse order, with the body `ops`."""
        b.append(
            Loop(
                name=b.name(f"{self.loop.name} backward"),
                trip_count=self.count,
                condition=None,
                iteration=iteration or b.new("int64", (), "iteration backward"),
                condition_in=b.new("bool", (), "go"),
                condition_out=None,
                carried=tuple(carried),
                recorded=tuple(recorded),
                ops=tuple(ops),
                scanned=tuple(scanned),
                where=self.loop.where,
            )
        )

    def recording_cotangents(self, outer_sweep: Sweep, recorded: Recorded) -> Value:
        """Return the cotangents of the rows that a loop has recorded."""
        return _rows_after(outer_sweep.b, outer_sweep.cotangents[recorded.stack], self.skipped)

    def add_initial_cotangent(self, outer_sweep: Sweep, carried: Carried, cotangent: Value) -> None:
        """Add the cotangent of an initial carried value (zero if earlier iterations are skipped)."""
        b = outer_sweep.b
        if self.skipped is not None:
            is_first = b.op("Equal", self.skipped, scalar(b, 0, "int64"))
            cotangent = b.op("Where", is_first, cotangent, zeros(b, cotangent))
        outer_sweep.add(carried.initial, cotangent)


def executed_loop(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> ExecutedLoop:
    """Return a loop with exactly the rows and recordings of its executed iterations."""
    assert loop.count is not None
    b, tape = outer_sweep.b, reverse.tapes[loop]
    row_extents = [stack.shape[0] for stack in tape.values() if stack.shape]
    extent = str(row_extents[0]) if row_extents else b.name("tape")
    count, skipped = loop.count, None
    if reverse.last_iterations is not None and b.parent is None:
        count = b.op("Min", loop.count, scalar(b, reverse.last_iterations, "int64"))
        skipped = b.op("Sub", loop.count, count)
        tape = {value: _rows_after(b, stack, skipped) for value, stack in tape.items()}
    old_op_count = len(b.ops)
    executed = executed_rows(b, loop, skipped, reverse.active)
    if skipped is not None:
        first_iteration = skipped if loop.first is None else b.op("Add", loop.first, skipped)
        executed = replace(executed, first=first_iteration)
    cuts = [op for op in b.ops[old_op_count:] if isinstance(op, Op)]
    return ExecutedLoop(executed, count, skipped, tape, extent, cuts)


def _rows_after(b: Builder, rows: Value, skipped: Value | None) -> Value:
    """Return the rows of a recording after the rows of the skipped iterations."""
    if skipped is None:
        return rows
    first_row = b.op("Reshape", skipped, ints(b, 1))
    return b.op("Slice", rows, first_row, ints(b, _MAX_INT64), ints(b, 0))
