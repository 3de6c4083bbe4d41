"""Recording of the rows of a run: traces, subsampled and selected, and reductions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from mdf_loop.errors import DiskFullError, InputError
from mdf_loop.ir import Array, Data
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Block, RowSink, StepNumbers
from mdf_loop.run.recording.lengths import insert_axes, row_lengths
from mdf_loop.run.recording.missing import fill_missing_rows
from mdf_loop.run.recording.not_finite import RowEnds
from mdf_loop.run.recording.recording_plan import RecordingPlan
from mdf_loop.run.recording.reductions import Reductions
from mdf_loop.run.recording.rows import Column
from mdf_loop.run.recording.ticks import Clock, Ticks
from mdf_loop.run.room import NO_ROOM, Room


class Recorder:
    """Recorder that selects rows of consecutive blocks, and accumulates reductions.

    `axis` is the axis of time: 0, or 1 after the members of a sweep. `has_run` maps an output to the rows of
    flags that are True if its node has run.

    Attributes:
        ends: Last recorded rows, with a check for nan and infinite values.
    """

    def __init__(
        self,
        plan: RecordingPlan,
        sink: RowSink,
        clock: Clock,
        axis: int,
        has_run: Mapping[str, str],
    ) -> None:
        self.plan = plan
        self.sink = sink
        self.clock = clock
        self.axis = axis
        self.has_run = has_run
        self.ends = RowEnds(axis)
        self._reductions = Reductions(plan.selection.reduce)
        self._selected_numbers = Column("the numbers of the steps")
        self._first: int | None = None
        self._row_count = 0

    def room(self, numbers: range) -> Room:
        """Return memory for the rows of these steps, if every step is recorded without a change of shape."""
        selection = self.plan.selection
        if selection.when is not None or any(number % selection.every for number in numbers[:2]):
            return NO_ROOM
        room = self.sink.room(len(numbers))
        fixed_names = (name for name in self.plan.traces if name not in self.plan.open)
        return {name: room[name] for name in fixed_names if name in room}

    def add_block(self, block: Block) -> None:
        """Record the selected rows and reductions of a block."""
        rows = self._insert_missing_axes(
            fill_missing_rows(block.rows, self.has_run, self.plan.open)
        )
        if self.plan.selection.reduce:
            self._reductions.add({n: rows[n] for n in self.plan.selection.reduce}, self.axis)
        numbers, positions = self._select_steps(block.numbers, rows)
        rows |= self._row_lengths(rows, block.rows)
        selected_rows = {
            name: self._select_rows(rows[name], positions) for name in self.plan.columns
        }
        if self._first is None and len(numbers):
            self._first = int(numbers[0])
        if self.plan.selection.when is not None:
            self._selected_numbers.add(np.asarray(numbers, np.int64))
        self._row_count += len(numbers)
        if len(numbers):
            self.ends.check_rows(
                {n: selected_rows[n] for n in self.plan.traces},
                self._select_flags(block, positions),
            )
        self.sink.add(Ticks(numbers, self.clock), selected_rows)

    def _select_flags(self, block: Block, places: slice | Array) -> dict[str, Array]:
        """Return flags of the selected rows that are True if the node of an output has run."""
        flags = self.has_run.items()
        traces = ((name, flag) for name, flag in flags if name in self.plan.traces)
        return {n: self._select_rows(block.rows[f], places) for n, f in traces if f in block.rows}

    def _insert_missing_axes(self, rows: dict[str, Data]) -> dict[str, Array]:
        """Insert axes of length 1 into rows, so that all steps have rows with equally many axes."""
        front = self.axis + 1
        known = {n: rank for n, rank in self.plan.open.items() if rank is not None}
        return {**rows, **{n: insert_axes(rows[n], rank, front) for n, rank in known.items()}}

    def _row_lengths(
        self, rows: Mapping[str, Array], block_rows: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return the length of each row of outputs with varying row length, by the name of the column."""
        front = self.axis + 1
        return {
            column: row_lengths(rows[name], block_rows.get(self.has_run.get(name, "")), front)
            for name, column in self.plan.lengths.items()
        }

    def _select_steps(
        self, numbers: StepNumbers, rows: Mapping[str, Array]
    ) -> tuple[StepNumbers, slice | Array]:
        """Return the step numbers of the selected rows, and their positions in the block."""
        every, when = self.plan.selection.every, self.plan.selection.when
        if when is None and isinstance(numbers, range):
            first = -numbers.start % every if numbers.step < every else 0
            places = slice(first, None, max(1, every // numbers.step))
            return numbers[places], places
        all_numbers = np.asarray(numbers)
        mask = all_numbers % every == 0
        if when is not None:
            mask &= _convert_to_booleans(when, rows[when], len(all_numbers))
        positions = np.flatnonzero(mask)
        return all_numbers[positions], positions

    def _select_rows(self, rows: Array, places: slice | Array) -> Array:
        return rows[(slice(None),) * self.axis + (places,)]

    def flush(self) -> None:
        """Write all recorded rows to their destination."""
        self.sink.flush()

    def end(self) -> bool:
        """Close the destination. Return True if it contains all recorded rows."""
        with suppress(DiskFullError):
            self.sink.close()
        return self.sink.length == self._row_count

    # --- recorded values ------------------------------------------------------------------------

    def ticks(self) -> Ticks:
        """Return the coordinates along the axis of time."""
        if self.plan.selection.when is not None:
            return Ticks(self._selected_numbers.rows.astype(np.int64), self.clock)
        first, every = self._first or 0, self.plan.selection.every
        return Ticks(range(first, first + every * self.sink.length, every), self.clock)

    def reduced(self) -> dict[str, Array]:
        """Return the reductions by name, for example `FNpop.V.mean`."""
        return self._reductions.arrays() if self.plan.selection.reduce else {}

    # --- checkpoints --------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""
        first = {} if self._first is None else {"first": np.array(self._first)}
        reduced = {f"reduction {k}": v for k, v in self._reductions.snapshot().items()}
        chosen = {} if self.plan.selection.when is None else {"chosen": self._selected_numbers.rows}
        rows = {f"rows {name}": array for name, array in self.sink.snapshot().items()}
        unrun = {f"unrun {name}": np.asarray(count) for name, count in self.ends.unrun.items()}
        return {**first, **reduced, **chosen, **unrun, **rows, "length": np.array(self.sink.length)}

    def restore(self, parts: Snapshot, numbers: range, dtypes: Mapping[str, str]) -> None:
        """Restore the recorder from a snapshot of the steps `numbers`.

        `dtypes` are the dtypes of the recorded values. The sink is restored last, since it may change files.
        """
        self._row_count = length = parts.number("length", len(numbers))
        expected = self.plan.count_recorded_rows(numbers.start, len(numbers))
        if expected not in (None, length):
            raise parts.wrong("length", f"{expected}, the rows of {len(numbers)} steps")
        if length:
            self._first = parts.number("first", numbers.stop - 1)
            if self._first not in numbers:
                raise parts.wrong("first", f"one of {numbers.start} to {numbers.stop - 1}")
        if self.plan.selection.when is not None:
            self._selected_numbers.add(self._read_selected_numbers(parts, length, numbers))
        self._reductions.restore(parts.under("reduction "))
        unrun = parts.under("unrun ")
        self.ends.unrun.update({n: unrun.array(n, "i", (None,) * self.axis) for n in unrun})
        columns = {name: dtypes.get(name, "int64") for name in self.plan.columns}
        self.sink.restore(parts.under("rows "), length, columns if numbers else {})

    def _read_selected_numbers(self, parts: Snapshot, length: int, numbers: range) -> Array:
        """Read the step numbers of the rows that `when` has selected from a snapshot."""
        if not length:
            return np.zeros(0, np.int64)
        chosen = parts.array("chosen", "i", (length,)).astype(np.int64)
        every = self.plan.selection.every
        inside = numbers.start <= chosen[0] and chosen[-1] < numbers.stop
        if not inside or (np.diff(chosen) <= 0).any() or (chosen % every).any():
            raise parts.wrong("chosen", f"numbers of steps up to {numbers.stop - 1}")
        return chosen


def _convert_to_booleans(name: str, rows: Array, length: int) -> Array:
    """Convert the rows of the `when` output to one boolean per step."""
    if rows.size != length or rows.dtype.kind not in "biuf":
        raise InputError(
            f"when: '{name}' is {rows.dtype}{list(rows.shape[1:])} in each step, "
            "but must be one truth value",
            hint="name a port with one value that is true where a row shall be kept",
        )
    truths: Array = (rows.reshape(length) != 0) & ~np.isnan(rows.reshape(length).astype(float))
    return truths
