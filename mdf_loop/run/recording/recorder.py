"""Recorder of a run over time: recorded rows, every k-th or selected step, and reductions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from mdf_loop.errors import DiskFullError, InputError
from mdf_loop.ir import Array, Data
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Block, RowSink, StepNumbers
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers
from mdf_loop.run.recording.lengths import insert_axes, row_lengths
from mdf_loop.run.recording.missing_rows import fill_missing_rows
from mdf_loop.run.recording.not_finite import RowMonitor
from mdf_loop.run.recording.recording_plan import RecordingPlan
from mdf_loop.run.recording.reductions import Reductions
from mdf_loop.run.recording.rows import Column
from mdf_loop.run.recording.ticks import Clock, Ticks


class Recorder:
    """Recorder of selected rows and of reductions during a run over time.

    `axis` is the axis of time: 0, or 1 after the members of a sweep. `has_run` maps an output to the rows of
    flags that are True if its node has run.

    Attributes:
        row_monitor: Last recorded rows, with a check for nan and infinite values.
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
        self.flag_names = has_run
        self.row_monitor = RowMonitor(axis)
        self._reductions = Reductions(plan.selection.reduce)
        self._selected_numbers = Column("the numbers of the steps")
        self._first_step: int | None = None
        self._row_count = 0

    def get_buffers(self, numbers: range) -> OutputBuffers:
        """Return memory into which the next steps can be computed directly, if possible.

        Every step must be recorded without a change of shape.
        """
        recording_selection = self.plan.selection
        if recording_selection.when is not None or any(
            step_number % recording_selection.every for step_number in numbers[:2]
        ):
            return NO_BUFFERS
        buffers = self.sink.next_buffers(len(numbers))
        fixed_names = (name for name in self.plan.traces if name not in self.plan.varying_ranks)
        return {name: buffers[name] for name in fixed_names if name in buffers}

    def add_block(self, block: Block) -> None:
        """Record the selected rows of consecutive steps, and add all rows to the reductions."""
        rows = self._insert_missing_axes(
            fill_missing_rows(block.rows, self.flag_names, self.plan.varying_ranks)
        )
        if self.plan.selection.reduce:
            self._reductions.add(
                {name: rows[name] for name in self.plan.selection.reduce}, self.axis
            )
        step_numbers, row_positions = self._select_steps(block.step_numbers, rows)
        rows |= self._row_lengths(rows, block.rows)
        selected_rows = {
            name: self._select_rows(rows[name], row_positions) for name in self.plan.columns
        }
        if self._first_step is None and len(step_numbers):
            self._first_step = int(step_numbers[0])
        if self.plan.selection.when is not None:
            self._selected_numbers.add(np.asarray(step_numbers, np.int64))
        self._row_count += len(step_numbers)
        if len(step_numbers):
            self.row_monitor.check_rows(
                {name: selected_rows[name] for name in self.plan.traces},
                self._select_flags(block, row_positions),
            )
        self.sink.add(Ticks(step_numbers, self.clock), selected_rows)

    def _select_flags(self, block: Block, row_positions: slice | Array) -> dict[str, Array]:
        """Return for each output a flag per selected row, True where the output's node ran."""
        execution_flag_names = self.flag_names.items()
        recorded_flag_names = (
            (name, flags_name)
            for name, flags_name in execution_flag_names
            if name in self.plan.traces
        )
        return {
            name: self._select_rows(block.rows[flags], row_positions)
            for name, flags in recorded_flag_names
            if flags in block.rows
        }

    def _insert_missing_axes(self, rows: dict[str, Data]) -> dict[str, Array]:
        """Insert axes of length 1, so that an output's rows have equally many axes in all steps."""
        leading_ndim = self.axis + 1
        known_ranks = {
            name: rank for name, rank in self.plan.varying_ranks.items() if rank is not None
        }
        return {
            **rows,
            **{
                name: insert_axes(rows[name], rank, leading_ndim)
                for name, rank in known_ranks.items()
            },
        }

    def _row_lengths(
        self, rows: Mapping[str, Array], block_rows: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return the arrays of row lengths by name, for outputs whose rows vary in length."""
        leading_ndim = self.axis + 1
        return {
            column: row_lengths(
                rows[name], block_rows.get(self.flag_names.get(name, "")), leading_ndim
            )
            for name, column in self.plan.length_array_names.items()
        }

    def _select_steps(
        self, numbers: StepNumbers, rows: Mapping[str, Array]
    ) -> tuple[StepNumbers, slice | Array]:
        """Return the numbers of the steps to record, and the positions of the recorded rows."""
        stride, condition_name = self.plan.selection.every, self.plan.selection.when
        if condition_name is None and isinstance(numbers, range):
            first_position = -numbers.start % stride if numbers.step < stride else 0
            row_slice = slice(first_position, None, max(1, stride // numbers.step))
            return numbers[row_slice], row_slice
        all_step_numbers = np.asarray(numbers)
        is_selected = all_step_numbers % stride == 0
        if condition_name is not None:
            is_selected &= _convert_to_booleans(
                condition_name, rows[condition_name], len(all_step_numbers)
            )
        row_positions = np.flatnonzero(is_selected)
        return all_step_numbers[row_positions], row_positions

    def _select_rows(self, rows: Array, row_positions: slice | Array) -> Array:
        return rows[(slice(None),) * self.axis + (row_positions,)]

    def flush(self) -> None:
        """Write all recorded rows to their destination."""
        self.sink.flush()

    def end(self) -> bool:
        """Close the destination of the rows, and return True if all recorded rows are stored."""
        with suppress(DiskFullError):
            self.sink.close()
        return self.sink.length == self._row_count

    # --- recorded values ------------------------------------------------------------------------

    def ticks(self) -> Ticks:
        """Return the times (or step numbers) of the recorded rows."""
        if self.plan.selection.when is not None:
            return Ticks(self._selected_numbers.rows.astype(np.int64), self.clock)
        first_step, stride = self._first_step or 0, self.plan.selection.every
        return Ticks(range(first_step, first_step + stride * self.sink.length, stride), self.clock)

    def reductions(self) -> dict[str, Array]:
        """Return the reductions over time by name, for example `FNpop.V.mean`."""
        return self._reductions.arrays() if self.plan.selection.reduce else {}

    # --- checkpoints --------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""
        first_step_entry = {} if self._first_step is None else {"first": np.array(self._first_step)}
        reduction_entries = {
            f"reduction {name}": array for name, array in self._reductions.snapshot().items()
        }
        selected_steps_entry = (
            {} if self.plan.selection.when is None else {"chosen": self._selected_numbers.rows}
        )
        row_entries = {f"rows {name}": array for name, array in self.sink.snapshot().items()}
        unrun_entries = {
            f"unrun {name}": np.asarray(count)
            for name, count in self.row_monitor.unrun_counts.items()
        }
        return {
            **first_step_entry,
            **reduction_entries,
            **selected_steps_entry,
            **unrun_entries,
            **row_entries,
            "length": np.array(self.sink.length),
        }

    def restore(self, snapshot: Snapshot, numbers: range, dtypes: Mapping[str, str]) -> None:
        """Restore the recorder from a checkpoint of the steps `numbers`.

        `dtypes` are the dtypes of the recorded values. The sink is restored last, since it may change files.
        """
        self._row_count = row_count = snapshot.number("length", len(numbers))
        expected_count = self.plan.count_recorded_rows(numbers.start, len(numbers))
        if expected_count not in (None, row_count):
            raise snapshot.invalid_part_error(
                "length", f"{expected_count}, the rows of {len(numbers)} steps"
            )
        if row_count:
            self._first_step = snapshot.number("first", numbers.stop - 1)
            if self._first_step not in numbers:
                raise snapshot.invalid_part_error(
                    "first", f"one of {numbers.start} to {numbers.stop - 1}"
                )
        if self.plan.selection.when is not None:
            self._selected_numbers.add(self._read_selected_numbers(snapshot, row_count, numbers))
        self._reductions.restore(snapshot.with_prefix("reduction "))
        unrun_counts = snapshot.with_prefix("unrun ")
        self.row_monitor.unrun_counts.update(
            {name: unrun_counts.array(name, "i", (None,) * self.axis) for name in unrun_counts}
        )
        dtype_by_column = {name: dtypes.get(name, "int64") for name in self.plan.columns}
        self.sink.restore(
            snapshot.with_prefix("rows "), row_count, dtype_by_column if numbers else {}
        )

    def _read_selected_numbers(self, snapshot: Snapshot, length: int, numbers: range) -> Array:
        """Read from a checkpoint the numbers of the steps that the condition `when` selected."""
        if not length:
            return np.zeros(0, np.int64)
        selected_step_numbers = snapshot.array("chosen", "i", (length,)).astype(np.int64)
        stride = self.plan.selection.every
        are_in_range = (
            numbers.start <= selected_step_numbers[0] and selected_step_numbers[-1] < numbers.stop
        )
        if (
            not are_in_range
            or (np.diff(selected_step_numbers) <= 0).any()
            or (selected_step_numbers % stride).any()
        ):
            raise snapshot.invalid_part_error(
                "chosen", f"numbers of steps up to {numbers.stop - 1}"
            )
        return selected_step_numbers


def _convert_to_booleans(name: str, rows: Array, length: int) -> Array:
    """Convert the output named by `when` to one boolean per step."""
    if rows.size != length or rows.dtype.kind not in "biuf":
        raise InputError(
            f"when: '{name}' is {rows.dtype}{list(rows.shape[1:])} in each step, "
            "but must be one truth value",
            hint="name a port with one value that is true where a row shall be kept",
        )
    booleans: Array = (rows.reshape(length) != 0) & ~np.isnan(rows.reshape(length).astype(float))
    return booleans
