"""Loops prepared for reverse mode, with arrays cut to one row per executed iteration.

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
    """Loop whose scanned and recorded arrays have exactly one row per executed iteration.

    Attributes:
        loop: The loop.
        iteration_count: Number of differentiated iterations.
        skipped_count: Number of iterations before the differentiated ones; None if all iterations are
            differentiated.
        tape: Recordings of the values that entered each differentiated iteration.
        row_extent: Name of the extent of the rows.
        slice_ops: Operations that slice the scanned rows from the arrays.
    """

    loop: Loop
    iteration_count: Value
    skipped_count: Value | None
    tape: Tape
    row_extent: str
    slice_ops: Sequence[Op]

    def propagate_through_slices(self, reverse: Reverse, outer_sweep: Sweep) -> None:
        """Add the cotangents of sliced scanned arrays to the cotangents of the whole arrays."""
        reverse.propagate_backward(outer_sweep, self.slice_ops)

    def append_backward(
        self,
        b: Builder,
        carried: Iterable[Carried],
        recorded: Iterable[Recorded],
        ops: Iterable[Operation],
        scanned: Iterable[Scanned],
        iteration: Value | None = None,
    ) -> None:
        """Append the backward loop, whose body `ops` runs once for each executed iteration."""
        b.append(
            Loop(
                name=b.name(f"{self.loop.name} backward"),
                trip_count=self.iteration_count,
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
        """Return the cotangents of a recorded array, without the rows of skipped iterations."""
        return _rows_after(
            outer_sweep.b, outer_sweep.cotangents[recorded.stack], self.skipped_count
        )

    def add_initial_cotangent(self, outer_sweep: Sweep, carried: Carried, cotangent: Value) -> None:
        """Add a cotangent for an initial carried value, which is zero if iterations are skipped.

        Iterations are skipped if only the last ones are differentiated.
        """
        b = outer_sweep.b
        if self.skipped_count is not None:
            is_first_iteration = b.op("Equal", self.skipped_count, scalar(b, 0, "int64"))
            cotangent = b.op("Where", is_first_iteration, cotangent, zeros(b, cotangent))
        outer_sweep.add(carried.initial, cotangent)


def executed_loop(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> ExecutedLoop:
    """Return a loop whose scanned and recorded arrays are cut to the executed iterations."""
    assert loop.iteration_count is not None
    b, tape = outer_sweep.b, reverse.tapes[loop]
    row_extents = [stack.shape[0] for stack in tape.values() if stack.shape]
    row_extent = str(row_extents[0]) if row_extents else b.name("tape")
    iteration_count, skipped_count = loop.iteration_count, None
    if reverse.last_iterations is not None and b.parent is None:
        iteration_count = b.op(
            "Min", loop.iteration_count, scalar(b, reverse.last_iterations, "int64")
        )
        skipped_count = b.op("Sub", loop.iteration_count, iteration_count)
        tape = {value: _rows_after(b, stack, skipped_count) for value, stack in tape.items()}
    first_new_op_index = len(b.ops)
    sliced_loop = executed_rows(b, loop, skipped_count, reverse.active_values)
    if skipped_count is not None:
        first_iteration = (
            skipped_count
            if loop.first_iteration is None
            else b.op("Add", loop.first_iteration, skipped_count)
        )
        sliced_loop = replace(sliced_loop, first_iteration=first_iteration)
    slice_ops = [op for op in b.ops[first_new_op_index:] if isinstance(op, Op)]
    return ExecutedLoop(sliced_loop, iteration_count, skipped_count, tape, row_extent, slice_ops)


def _rows_after(b: Builder, rows: Value, skipped_count: Value | None) -> Value:
    """Return the rows of an array after the first `skipped_count` rows."""
    if skipped_count is None:
        return rows
    first_row = b.op("Reshape", skipped_count, ints(b, 1))
    return b.op("Slice", rows, first_row, ints(b, _MAX_INT64), ints(b, 0))
