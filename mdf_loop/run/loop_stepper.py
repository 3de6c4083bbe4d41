"""Execution of one loop in chunks of iterations, between which the loop can be stopped.

    stepper = LoopStepper(session, segment, values)
    while not stepper.finished:
        block = stepper.advance(1000, stopping)     # rows of 1 to 1000 iterations
    values |= stepper.results()

Before its first iteration, a stepper returns the results of an empty loop: initial values and no rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from mdf_loop.emit.loop_node import MAX_TRIP_COUNT
from mdf_loop.emit.row_shapes import build_row_shape_error
from mdf_loop.ir import Array, Data, Recorded, Scanned, StopReason, Value, body_outputs, reads
from mdf_loop.passes.segments.loop_segment import LoopSegment
from mdf_loop.run.backend import Runnable
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Block, Cadence, data_bytes
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.outputs import LoopReport
from mdf_loop.run.recording.rows import Rows


class LoopState(Struct, frozen=True, eq=False):
    """State of a loop between two iterations: number of iterations, carried values, condition.

    If members terminate individually, each member has its own condition and its own count of iterations.
    """

    completed_iterations: int
    carried_values: tuple[Data, ...]
    condition: Array
    iteration_counts: Array


class LoopStepper:
    """Stepper that executes one loop in chunks of iterations.

    Attributes:
        rows: Recorded rows by stack name. The code that drives the stepper adds each block.
        outer_arrays: Further arrays for a snapshot, which are necessary to resume in another process.
    """

    def __init__(
        self,
        session: Runnable,
        segment: LoopSegment,
        values: Mapping[Value, Data],
        outer_arrays: Mapping[str, Array] | None = None,
        max_iterations: int = sys.maxsize,
    ) -> None:
        loop = segment.loop
        self._max_iterations = max_iterations
        self.cadence = Cadence()
        self.session = session
        self.segment = segment
        self.outer_arrays = dict(outer_arrays or {})
        self._captured_data = {value.name: values[value] for value in segment.captured_inputs}
        self._scanned_arrays = tuple(
            np.asarray(values[scanned_input.rows]) for scanned_input in loop.scanned
        )
        self._first_iteration = (
            0 if loop.first_iteration is None else int(values[loop.first_iteration])
        )
        self._iteration_limit = (
            loop.max_iterations if loop.trip_count is None else int(values[loop.trip_count])
        )
        condition = np.array(True if loop.condition is None else values[loop.condition])
        initial_values = tuple(values[carried_value.initial] for carried_value in loop.carried)
        self._state = self._make_initial_state(
            LoopState(0, initial_values, condition, np.zeros(condition.shape, np.int64))
        )
        self._previous_state = self._state
        self._row_shapes: dict[Recorded, tuple[int, ...]] = {}
        self.rows = Rows()

    @property
    def name(self) -> str:
        """Name of the loop: `node.function`."""
        return self.segment.loop.name

    @property
    def all_members_state(self) -> LoopState:
        """State of the loop for all members of a batch, including members that have ended."""
        return self._state

    @property
    def done(self) -> int:
        """Number of completed iterations."""
        return self._state.completed_iterations

    @property
    def total(self) -> int | None:
        """Total number of iterations, or None if a condition ends the loop."""
        if self.segment.loop.condition is not None or self._iteration_limit in (
            None,
            MAX_TRIP_COUNT,
        ):
            return None
        return max(0, self._iteration_limit)

    @property
    def ended_by(self) -> StopReason | None:
        """Reason why the loop ended, or None if iterations remain."""
        if self.segment.loop.condition is not None and not self._state.condition.any():
            return StopReason.CONDITION
        if self._iteration_limit is None or self.done < self._iteration_limit:
            return None
        has_count = self.segment.loop.trip_count is not None
        return StopReason.TRIP_COUNT if has_count else StopReason.MAX_ITERATIONS

    def report(self, reason: StopReason | None) -> LoopReport:
        """Return the iteration count and stop reason of the loop.

        `reason` is the stop reason if iterations remain.
        """
        stopped_by = self.ended_by or reason
        assert stopped_by is not None
        return LoopReport(self.done, stopped_by)

    @property
    def finished(self) -> bool:
        """True if the loop has no further iterations."""
        return self.ended_by is not None

    @property
    def carried_bytes(self) -> int:
        """Number of bytes of the loop's carried values."""
        return sum(map(data_bytes, self._state.carried_values))

    # --- execution ------------------------------------------------------------------------------

    def advance(self, max_steps: int, stopping: Stopping) -> Block:
        """Run between 1 and `max_steps` further iterations, and return the recorded rows.

        Raises:
            Stopped: The computation was stopped. The state is the one before the call.
            RecordShapeError: A row differs in shape from earlier rows.
        """
        max_steps = self._limit_steps(max_steps)
        outputs = self._complete_outputs(self.session.run(self._next_feeds(max_steps), stopping))
        rows = {
            recorded_value.stack.name: outputs[recorded_value.stack.name]
            for recorded_value in self.segment.loop.recorded
        }
        self._check_row_shapes(outputs)
        segment, state = self.segment, self._state
        new_iterations = (
            np.array(max_steps)
            if segment.iteration_count is None
            else outputs[segment.iteration_count.name]
        )
        last_condition = segment.last_condition
        self._previous_state = state
        self._state = self._make_next_state(
            LoopState(
                state.completed_iterations + int(new_iterations.max()),
                tuple(outputs[carried_value.final.name] for carried_value in segment.loop.carried),
                state.condition if last_condition is None else outputs[last_condition.name],
                np.asarray(state.iteration_counts + new_iterations),
            )
        )
        watched_rows = {name: outputs[value.name] for name, value in segment.watched_values.items()}
        return Block(range(state.completed_iterations, self.done), rows, watched_rows)

    def _limit_steps(self, max_steps: int) -> int:
        """Return the number of iterations of the next chunk, which is at most `max_steps`."""
        max_steps = min(max_steps, self._max_iterations)
        if self._iteration_limit is None:
            return max_steps
        return min(max_steps, self._iteration_limit - self.done)

    def _complete_outputs(self, outputs: Mapping[str, Data]) -> Mapping[str, Data]:
        """Return the outputs of the loop's program for all members of a batch."""
        return outputs

    def _make_initial_state(self, state: LoopState) -> LoopState:
        """Convert the initial loop state to the state representation of this stepper class."""
        return state

    def _make_next_state(self, state: LoopState) -> LoopState:
        """Convert the next loop state to the state representation of this stepper class."""
        return state

    def add_block(self, block: Block) -> None:
        """Append the rows of a block of iterations to all recorded rows."""
        self.rows.add(block.step_numbers, block.rows)

    def undo_advance(self) -> None:
        """Undo the last call of `advance`."""
        self._state = self._previous_state

    def _next_feeds(self, max_steps: int) -> dict[str, Data]:
        """Return the inputs of the loop's program for the next `max_steps` iterations."""
        return self._feeds(max_steps, self._state, self._captured_data)

    def _feeds(
        self, max_steps: int, state: LoopState, captured_data: Mapping[str, Data]
    ) -> dict[str, Data]:
        segment = self.segment
        feeds = {**captured_data, segment.max_iterations.name: np.array(max_steps, np.int64)}
        feeds |= {
            value.name: data
            for value, data in zip(segment.carried_inputs, state.carried_values, strict=True)
        }
        if segment.first_iteration is not None:
            feeds[segment.first_iteration.name] = np.array(
                self._first_iteration + state.completed_iterations, np.int64
            )
        scanned_inputs = zip(
            segment.loop.scanned, segment.row_inputs, self._scanned_arrays, strict=True
        )
        for scanned_input, value, rows in scanned_inputs:
            feeds[value.name] = _slice_scanned_rows(
                rows, scanned_input, state.completed_iterations, max_steps
            )
        if segment.condition is not None:
            feeds[segment.condition.name] = state.condition
        return feeds

    def _check_row_shapes(self, outputs: Mapping[str, Array]) -> None:
        """Raise an error if recorded rows of different chunks differ in shape."""
        for recorded_value in self.segment.loop.recorded:
            shape = outputs[recorded_value.stack.name].shape[1:]
            first_shape = self._row_shapes.setdefault(recorded_value, shape)
            if shape != first_shape:
                name = recorded_value.name or recorded_value.row.name
                raise build_row_shape_error(
                    [name], str(list(first_shape)), str(list(shape)), self.segment.loop.where
                )

    # --- results --------------------------------------------------------------------------------

    def results(self) -> dict[Value, Data]:
        """Return the final carried values and the recorded rows.

        Before the first iteration, the final values of carried variables that no iteration reads are missing:
        such a variable only holds an output of the last iteration.
        """
        loop, state = self.segment.loop, self.all_members_state
        loop_results: dict[Value, Data] = {}
        if self.done:
            self.rows.close()
            rows = self.rows.arrays()
            loop_results |= {
                recorded_value.stack: rows[recorded_value.stack.name]
                for recorded_value in loop.recorded
            }
            carried_data = zip(loop.carried, state.carried_values, strict=True)
            loop_results |= {carried_value.final: data for carried_value, data in carried_data}
        else:
            outputs = self.session.run(self._feeds(0, state, self._captured_data))
            loop_results |= {
                value: outputs[value.name] for value in self._values_without_iterations()
            }
        if loop.iteration_count is not None:
            loop_results[loop.iteration_count] = state.iteration_counts
        if loop.last_condition is not None:
            loop_results[loop.last_condition] = state.condition
        return loop_results

    def _values_without_iterations(self) -> tuple[Value, ...]:
        loop = self.segment.loop
        read_values = {value for operation in loop.ops for value in reads(operation)}
        read_values.update(body_outputs(loop))
        final_values = (
            carried_value.final
            for carried_value in loop.carried
            if self.finished or carried_value.body_input in read_values
        )
        return (*final_values, *(recorded_value.stack for recorded_value in loop.recorded))

    # --- checkpoints ----------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Array]:
        """Return arrays from which the loop can be resumed, for a checkpoint."""
        state, loop = self.all_members_state, self.segment.loop
        arrays = {
            "iterations": np.array(state.completed_iterations, np.int64),
            "condition": state.condition,
        }
        if loop.member_axis is not None:
            arrays["counts"] = state.iteration_counts
        for carried_value, data in zip(loop.carried, state.carried_values, strict=True):
            arrays[f"carried {carried_value.body_input.name}"] = np.asarray(data)
        arrays |= {f"rows of {name}": rows for name, rows in self.rows.snapshot().items()}
        return {**self.outer_arrays, **arrays}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the loop state and the recorded rows from a checkpoint."""
        loop = self.segment.loop
        carried_values = tuple(
            snapshot.value(f"carried {carried_value.body_input.name}", carried_value.body_input)
            for carried_value in loop.carried
        )
        iterations = snapshot.number("iterations", self._iteration_limit)
        condition, iteration_counts = self._read_progress(snapshot, iterations)
        self._state = self._make_initial_state(
            LoopState(iterations, carried_values, condition, iteration_counts)
        )
        self._previous_state = self._state
        self.rows = Rows()
        stored_rows = snapshot.with_prefix("rows of ")
        recorded_values = loop.recorded if iterations else ()
        for recorded_value in recorded_values:
            self._row_shapes[recorded_value] = stored_rows.value(
                recorded_value.stack.name, recorded_value.row, (iterations,)
            ).shape[1:]
        self.rows.restore(
            stored_rows,
            iterations,
            {
                recorded_value.stack.name: recorded_value.stack.dtype
                for recorded_value in recorded_values
            },
        )

    def _read_progress(self, snapshot: Snapshot, done: int) -> tuple[Array, Array]:
        """Read the last value of the loop condition, and the iteration count, from a checkpoint.

        Both have an element for each member if members terminate individually.
        """
        if self.segment.loop.member_axis is None:
            return np.array(snapshot.flag("condition")), np.array(done)
        member_shape = self.all_members_state.condition.shape
        return snapshot.array("condition", "b", member_shape), snapshot.array(
            "counts", "i", member_shape
        )


def _slice_scanned_rows(rows: Array, scanned_input: Scanned, done: int, max_steps: int) -> Array:
    """Return a view of the scanned rows that the next `max_steps` iterations read."""
    row_count = rows.shape[scanned_input.axis]
    first_row, end_row = min(done, row_count), min(done + max_steps, row_count)
    row_slice = (
        slice(row_count - end_row, row_count - first_row)
        if scanned_input.is_backward
        else slice(first_row, end_row)
    )
    rows_view: Array = rows[(*(slice(None),) * scanned_input.axis, row_slice)]
    return rows_view
