"""Stepper through the iterations of one loop, a chunk of iterations at a time.

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
    """State of a loop: completed iterations, carried values and the last condition.

    If members terminate individually, each member has its own condition and its own count of iterations.
    """

    done: int
    carried: tuple[Data, ...]
    condition: Array
    counts: Array


class LoopStepper:
    """A `Stepper` through the iterations of one loop.

    Attributes:
        rows: Recorded rows by stack name. The code that drives the stepper adds each block.
        around: Further arrays for a snapshot, which are necessary to resume in another process.
    """

    def __init__(
        self,
        session: Runnable,
        segment: LoopSegment,
        values: Mapping[Value, Data],
        around: Mapping[str, Array] | None = None,
        at_once: int = sys.maxsize,
    ) -> None:
        loop = segment.loop
        self._max_iterations = at_once
        self.cadence = Cadence()
        self.session = session
        self.segment = segment
        self.around = dict(around or {})
        self._captured = {value.name: values[value] for value in segment.captured_inputs}
        self._rows_of = tuple(np.asarray(values[scanned.rows]) for scanned in loop.scanned)
        self._first = 0 if loop.first_iteration is None else int(values[loop.first_iteration])
        self._limit = (
            loop.max_iterations if loop.trip_count is None else int(values[loop.trip_count])
        )
        condition = np.array(True if loop.condition is None else values[loop.condition])
        initial = tuple(values[carried.initial] for carried in loop.carried)
        self._state = self._make_initial_state(
            LoopState(0, initial, condition, np.zeros(condition.shape, np.int64))
        )
        self._previous_state = self._state
        self._row_shapes: dict[Recorded, tuple[int, ...]] = {}
        self.rows = Rows()

    @property
    def name(self) -> str:
        """Name of the loop: `node.function`."""
        return self.segment.loop.name

    @property
    def whole(self) -> LoopState:
        """Loop state of all members, including members that have ended."""
        return self._state

    @property
    def done(self) -> int:
        """Number of completed iterations."""
        return self._state.done

    @property
    def total(self) -> int | None:
        """Total number of iterations, or None if a condition decides."""
        if self.segment.loop.condition is not None or self._limit in (None, MAX_TRIP_COUNT):
            return None
        return max(0, self._limit)

    @property
    def ended_by(self) -> StopReason | None:
        """Reason for the end of the loop, or None while iterations remain."""
        if self.segment.loop.condition is not None and not self._state.condition.any():
            return StopReason.CONDITION
        if self._limit is None or self.done < self._limit:
            return None
        has_count = self.segment.loop.trip_count is not None
        return StopReason.TRIP_COUNT if has_count else StopReason.MAX_ITERATIONS

    def report(self, reason: StopReason | None) -> LoopReport:
        """Return the loop report, with `reason` as the stop reason if iterations remain."""
        stopped_by = self.ended_by or reason
        assert stopped_by is not None
        return LoopReport(self.done, stopped_by)

    @property
    def finished(self) -> bool:
        """True if no iterations remain."""
        return self.ended_by is not None

    @property
    def carried_bytes(self) -> int:
        """Bytes of the values that are carried into the next iteration."""
        return sum(map(data_bytes, self._state.carried))

    # --- execution ------------------------------------------------------------------------------

    def advance(self, most: int, stopping: Stopping) -> Block:
        """Run at least one iteration and at most `most` iterations.

        Raises:
            Stopped: The computation was stopped. The state is the one before the call.
            RecordShapeError: A row differs in shape from earlier rows.
        """
        most = min(most, self._max_iterations)
        if self._limit is not None:
            most = min(most, self._limit - self.done)
        outputs = self._run_iterations(most, stopping)
        rows = {r.stack.name: outputs[r.stack.name] for r in self.segment.loop.recorded}
        self._check_row_shapes(outputs)
        segment, state = self.segment, self._state
        iterations = (
            np.array(most)
            if segment.iteration_count is None
            else outputs[segment.iteration_count.name]
        )
        last_condition = segment.last_condition
        self._previous_state = state
        self._state = self._make_next_state(
            LoopState(
                state.done + int(iterations.max()),
                tuple(outputs[carried.final.name] for carried in segment.loop.carried),
                state.condition if last_condition is None else outputs[last_condition.name],
                np.asarray(state.counts + iterations),
            )
        )
        watched = {name: outputs[value.name] for name, value in segment.watched_values.items()}
        return Block(range(state.done, self.done), rows, watched)

    def _run_iterations(self, most: int, stopping: Stopping) -> Mapping[str, Data]:
        """Run `most` further iterations and return the outputs of the loop program."""
        return self.session.run(self._feeds(most, self._state, self._captured), stopping)

    def _make_initial_state(self, state: LoopState) -> LoopState:
        """Return the loop state before the next iterations, as this stepper represents it."""
        return state

    def _make_next_state(self, state: LoopState) -> LoopState:
        """Return the loop state after iterations, as this stepper represents it."""
        return state

    def add_block(self, block: Block) -> None:
        """Append the rows of a block to the recorded rows."""
        self.rows.add(block.numbers, block.rows)

    def undo_advance(self) -> None:
        """Restore the loop state before the last `advance`."""
        self._state = self._previous_state

    def _feeds(self, most: int, state: LoopState, captured: Mapping[str, Data]) -> dict[str, Data]:
        segment = self.segment
        feeds = {**captured, segment.max_iterations.name: np.array(most, np.int64)}
        feeds |= {
            v.name: data for v, data in zip(segment.carried_inputs, state.carried, strict=True)
        }
        if segment.first_iteration is not None:
            feeds[segment.first_iteration.name] = np.array(self._first + state.done, np.int64)
        scanning = zip(segment.loop.scanned, segment.row_inputs, self._rows_of, strict=True)
        for scanned, value, rows in scanning:
            feeds[value.name] = _slice_scanned_rows(rows, scanned, state.done, most)
        if segment.condition is not None:
            feeds[segment.condition.name] = state.condition
        return feeds

    def _check_row_shapes(self, outputs: Mapping[str, Array]) -> None:
        """Raise if a row differs in shape from the first row. The runtime compares rows of one chunk only."""
        for recorded in self.segment.loop.recorded:
            shape = outputs[recorded.stack.name].shape[1:]
            first = self._row_shapes.setdefault(recorded, shape)
            if shape != first:
                name = recorded.name or recorded.row.name
                raise build_row_shape_error(
                    [name], str(list(first)), str(list(shape)), self.segment.loop.where
                )

    # --- results --------------------------------------------------------------------------------

    def results(self) -> dict[Value, Data]:
        """Return the final values and recorded rows after the completed iterations.

        Before the first iteration, the final values of carried variables that no iteration reads are missing:
        such a variable only holds an output of the last iteration.
        """
        loop, state = self.segment.loop, self.whole
        loop_results: dict[Value, Data] = {}
        if self.done:
            self.rows.close()
            rows = self.rows.arrays()
            loop_results |= {
                recorded.stack: rows[recorded.stack.name] for recorded in loop.recorded
            }
            finals = zip(loop.carried, state.carried, strict=True)
            loop_results |= {carried.final: data for carried, data in finals}
        else:
            outputs = self.session.run(self._feeds(0, state, self._captured))
            loop_results |= {
                value: outputs[value.name] for value in self._values_without_iterations()
            }
        if loop.iteration_count is not None:
            loop_results[loop.iteration_count] = state.counts
        if loop.last_condition is not None:
            loop_results[loop.last_condition] = state.condition
        return loop_results

    def _values_without_iterations(self) -> tuple[Value, ...]:
        loop = self.segment.loop
        read = {value for operation in loop.ops for value in reads(operation)}
        read.update(body_outputs(loop))
        finals = (c.final for c in loop.carried if self.finished or c.enter in read)
        return (*finals, *(recorded.stack for recorded in loop.recorded))

    # --- checkpoints ----------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: iterations, condition, carried values, rows and outer values."""
        state, loop = self.whole, self.segment.loop
        parts = {
            "iterations": np.array(state.done, np.int64),
            "condition": state.condition,
        }
        if loop.member_axis is not None:
            parts["counts"] = state.counts
        for carried, data in zip(loop.carried, state.carried, strict=True):
            parts[f"carried {carried.enter.name}"] = np.asarray(data)
        parts |= {f"rows of {name}": rows for name, rows in self.rows.snapshot().items()}
        return {**self.around, **parts}

    def restore(self, parts: Snapshot) -> None:
        """Restore the loop state and the recorded rows from a snapshot."""
        loop = self.segment.loop
        carried = tuple(parts.value(f"carried {c.enter.name}", c.enter) for c in loop.carried)
        done = parts.number("iterations", self._limit)
        condition, counts = self._read_progress(parts, done)
        self._state = self._make_initial_state(LoopState(done, carried, condition, counts))
        self._previous_state = self._state
        self.rows = Rows()
        stored_rows = parts.under("rows of ")
        recorded = loop.recorded if done else ()
        for each in recorded:
            self._row_shapes[each] = stored_rows.value(each.stack.name, each.row, (done,)).shape[1:]
        self.rows.restore(
            stored_rows, done, {each.stack.name: each.stack.dtype for each in recorded}
        )

    def _read_progress(self, parts: Snapshot, done: int) -> tuple[Array, Array]:
        """Read the last condition and the iteration counts from a snapshot.

        Both have an element for each member if members terminate individually.
        """
        if self.segment.loop.member_axis is None:
            return np.array(parts.flag("condition")), np.array(done)
        member_shape = self.whole.condition.shape
        return parts.array("condition", "b", member_shape), parts.array("counts", "i", member_shape)


def _slice_scanned_rows(rows: Array, scanned: Scanned, done: int, most: int) -> Array:
    """Return a view of the rows of a scanned array that the next `most` iterations read."""
    count = rows.shape[scanned.axis]
    first, last = min(done, count), min(done + most, count)
    part = slice(count - last, count - first) if scanned.is_backward else slice(first, last)
    view: Array = rows[(*(slice(None),) * scanned.axis, part)]
    return view
