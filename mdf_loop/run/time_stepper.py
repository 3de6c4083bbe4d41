"""Execution of a model over time in chunks: the first evaluation, then a loop over the others.

A loop cannot record rows of different shapes. If row shapes vary, each call of the loop records rows of
one shape only: first one row, then as many rows as had equal shapes so far.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.errors import InputError, RecordShapeError
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, numpy_dtype
from mdf_loop.native.loop_decisions import NATIVE, STANDARD_FOR_LITTLE_WORK
from mdf_loop.run.backend import Runnable
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Block, data_bytes
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.execution_list import EndPosition, NodeSets, OrderOfExecution
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers, shares_memory
from mdf_loop.run.recording.lengths import insert_axes
from mdf_loop.run.recording.ticks import Clock
from mdf_loop.run.states import KEYS_NAME, State
from mdf_loop.run.time_session import LAST_ROW_STRIDE, TimeSession

if TYPE_CHECKING:
    from mdf_loop.reading.binding import BoundValues
    from mdf_loop.run.recording.recording_plan import RecordingPlan
    from mdf_loop.specification import RunSpecification


class _Position(Struct, frozen=True):
    """Progress of a run over time: completed evaluations, carried values, expected row shapes.

    `execution_end_position` is the end of the recorded order of execution.

    `equal_row_count` is the expected number of further rows with equal shapes. `row_shapes` are those of the last rows.
    """

    evaluation_count: int
    state: State | None
    execution_end_position: EndPosition | None
    equal_row_count: int
    row_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class _Call(Struct, frozen=True):
    """Planned call of a program of the model over time.

    Attributes:
        runnable: Loaded program.
        program_index: 0 for the first evaluation, and 1 for later evaluations.
        feeds: Inputs of the program.
        step_numbers: Numbers of the steps whose rows are recorded.
        step_count: Number of evaluations.
        row_count: Number of rows that the program returns.
        buffers: Memory for the recorded rows.
    """

    runnable: Runnable
    program_index: int
    feeds: Mapping[str, Array]
    step_numbers: range
    step_count: int
    row_count: int
    buffers: OutputBuffers = NO_BUFFERS


class TimeStepper:
    """Stepper that executes one run over time in chunks of evaluations.

    Attributes:
        total: Total number of evaluations.
        first_step: Number of the first evaluation.
        clock: Clock from the beginning of the run, or of its initial state.
        native: Execution mode of each loop by name: `native`, or `standard: ` followed by the reason.
        get_buffers: Function that returns memory for the rows of given steps.
    """

    def __init__(
        self,
        session: TimeSession,
        specification: RunSpecification,
        bound: BoundValues,
        plan: RecordingPlan,
    ) -> None:
        initial_state = session.initial_state(specification, bound)
        state = (
            None
            if initial_state is None
            else {name: initial_state[name] for name in session.carried}
        )
        self.total = specification.steps or 0
        if self.total > int(state is None):  # beyond the first evaluation
            session.refuse_standard_loops()
        self.first_step = 0 if initial_state is None else int(initial_state["step"])
        self.clock = _make_clock(initial_state, specification.dt)
        self.native: dict[str, str] = {}
        self._later_execution_modes: dict[str, str] = {}
        self.get_buffers: Callable[[range], OutputBuffers] = lambda numbers: NO_BUFFERS
        self.cadence = session.cadence
        self._session = session
        self._specification = specification
        self._bound_values = bound
        self._member_count = session.members(bound)
        self._is_brief = session.register_run(self.total, self._member_count, specification.runs)
        self._record_stride = session.record_stride(
            plan, specification.controls, self._member_count
        )
        self._execution_order: OrderOfExecution | None = OrderOfExecution()
        self._position = self._previous_position = _Position(
            0, state, self._execution_order.end_position(), self.total
        )

    @property
    def done(self) -> int:
        """Number of completed evaluations."""
        return self._position.evaluation_count

    @property
    def finished(self) -> bool:
        """True if all evaluations are completed."""
        return self.done >= self.total

    @property
    def carried_state(self) -> State | None:
        """Carried values after the completed evaluations, or None before the first evaluation."""
        return self._position.state

    @property
    def carried_bytes(self) -> int | None:
        """Number of bytes of the carried values, or None before the first evaluation."""
        state = self._position.state
        return None if state is None else sum(map(data_bytes, state.values()))

    @property
    def execution_order(self) -> OrderOfExecution | None:
        """Order in which the nodes ran, or None if the order was not recorded."""
        return self._execution_order

    def state(self, clock: Clock) -> State | None:
        """Return the model's state after the completed evaluations, or None without evaluations."""
        if self._position.state is None:
            return None
        step_number = self.first_step + self.done
        position_entries = {
            "step": np.array(step_number),
            "time": np.array(float(clock.at(step_number - 1))),
        }
        random_key_entries = (
            {}
            if not self._bound_values.keys_by_input
            else {KEYS_NAME: self._bound_values.random_keys}
        )
        return {**position_entries, **random_key_entries, **self._position.state}

    # --- execution ----------------------------------------------------------------------------

    def advance(self, max_steps: int, stopping: Stopping | None) -> Block:
        """Run between 1 and `max_steps` further evaluations, and return the recorded rows."""
        session, call = self._session, self._plan_call(max_steps)
        try:
            outputs = call.runnable.run(call.feeds, stopping, call.buffers)
        except RecordShapeError:
            if call.row_count == 1:
                raise
            self._position = replace(self._position, equal_row_count=1)
            return self.advance(max_steps, stopping)
        if call.program_index == 0:
            self.native.update(call.runnable.native)
            rows: Mapping[str, Array] = {
                name: self._convert_first_row(name, array)
                for name, array in session.recorded_rows(outputs).items()
            }
        else:
            self._check_execution_modes(call.runnable.native)
            rows = outputs
        node_sets = session.executed_sets(outputs, call.program_index)
        self._advance_position(call.step_count, session.state_of(outputs), rows, node_sets)
        return self._make_block(call.step_numbers, rows, call.program_index, call.buffers)

    def undo_advance(self) -> None:
        """Undo the last call of `advance`."""
        self._position = self._previous_position
        if self._execution_order is not None:
            assert self._position.execution_end_position is not None
            self._execution_order.truncate(self._position.execution_end_position)

    def _convert_first_row(self, name: str, array: Array) -> Array:
        """Convert an output of the first step to a row with the shape and dtype of the rows of later steps."""
        time_axis = self._session.axis
        converted_row = array[(slice(None),) * time_axis + (np.newaxis,)]
        if self.total > 1:
            converted_row = _convert_to_common_dtype(converted_row, self._session.dtypes.get(name))
        shape = self._session.row_shapes.broadcast_shapes.get(name)
        if shape is None:
            return converted_row
        expanded_row = insert_axes(converted_row, len(shape), time_axis + 1)
        return np.broadcast_to(expanded_row, (*expanded_row.shape[: time_axis + 1], *shape))

    def _plan_call(self, max_steps: int) -> _Call:
        """Return the next call of the model: its first evaluation, or the loop over later ones."""
        session, state, stride = self._session, self._position.state, self._record_stride
        if state is None:
            feeds = session.step_inputs(self._bound_values, 0)
            return _Call(session.first_loaded_program, 0, feeds, range(1), 1, 1)
        next_step, max_steps = self.first_step + self.done, min(max_steps, self.total - self.done)
        if self._specification.execution_list and session.is_schedule_dynamic:
            max_steps = 1
        loop = session.get_later_loop(state, is_brief=self._is_brief, thinned=stride > 1)
        max_steps = min(max_steps, session.max_evaluations_per_call(loop, self._member_count))
        step_count, row_count = _plan_steps(
            next_step, min(max_steps, self._position.equal_row_count * stride), stride
        )
        step_inputs = session.step_inputs(self._bound_values, self.done, self.done + step_count)
        feeds = session.loop_feeds(
            loop, step_inputs, state, step_count, row_count, self._specification.dt
        )
        first_row_step = next_step + step_count // max(row_count, 1) - 1
        step_numbers = (
            range(first_row_step, next_step + step_count, stride)
            if _is_recorded(first_row_step, stride)
            else range(0)
        )
        buffers = self.get_buffers(step_numbers)
        return _Call(loop, 1, feeds, step_numbers, step_count, row_count, buffers)

    def _advance_position(
        self, steps: int, state: State, rows: Mapping[str, Array], sets: NodeSets | None
    ) -> None:
        self._previous_position = self._position
        if self._execution_order is not None and sets is not None:
            self._execution_order.add(sets, steps)
        else:
            self._execution_order = None
        end_position = (
            None if self._execution_order is None else self._execution_order.end_position()
        )
        same_shape_count, row_shapes = self._predict_equal_rows(rows)
        self._position = _Position(
            self.done + steps, state, end_position, same_shape_count, row_shapes
        )

    def _predict_equal_rows(
        self, rows: Mapping[str, Array]
    ) -> tuple[int, Mapping[str, tuple[int, ...]]]:
        """Predict how many of the next rows have the shapes of the last rows.

        Return this number, and the shapes. The number doubles while the shapes are equal, and begins at 1 after
        a row of another shape.
        """
        leading_ndim = self._session.axis + 1
        row_shapes = {
            name: rows[name].shape[leading_ndim:] for name in self._session.row_shapes.varying_ranks
        }
        if row_shapes == (self._position.row_shapes or row_shapes):
            return min(2 * self._position.equal_row_count, self.total), row_shapes
        return 1, row_shapes

    def _make_block(
        self,
        step_numbers: range,
        outputs: Mapping[str, Array],
        program_index: int,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> Block:
        """Build a block of rows from the outputs of the first or of later evaluations.

        `program_index` is 0 for the first evaluation, and 1 for later evaluations.
        """
        rows_index = (slice(None),) * self._session.axis + (slice(len(step_numbers)),)
        rows = {
            name: outputs[name][rows_index]
            for name in self._session.programs.recorded_names
            if name in outputs
        }
        watched_rows = {
            output_name: _zero_unrun_rows(
                outputs[name],
                outputs.get(self._session.flag_names.get(name, "")),
                self._session.axis,
            )
            for output_name, name in self._session.programs.watched_names[program_index].items()
        }
        stored_names = frozenset(
            name for name, array in rows.items() if shares_memory(array, buffers.get(name))
        )
        return Block(step_numbers, rows, watched_rows, stored_names)

    def _check_execution_modes(self, execution_modes: Mapping[str, str]) -> None:
        """Raise an error if a loop ran as machine code earlier in the run, but cannot do so now.

        Otherwise, record the execution modes of the loops. The first evaluation is excluded: a loop may have
        another form there, since more is known at compile time.

        Raises:
            InputError: A loop was native in such evaluations before, and cannot be native now.
        """
        for name, execution_mode in execution_modes.items():
            if self._later_execution_modes.get(name) == NATIVE and execution_mode not in (
                NATIVE,
                STANDARD_FOR_LITTLE_WORK,
            ):
                raise InputError(
                    f"the loop '{name}' was native in the run that goes on, and is not here: {execution_mode}",
                    hint="go on where it can be native (see mdf-loop doctor), or begin the run anew",
                )
        self._later_execution_modes.update(execution_modes)
        self.native.update(execution_modes)

    # --- checkpoints --------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""
        state, execution_order = self._position.state or {}, self._execution_order
        state_entries = {f"state {name}": array for name, array in state.items()}
        order_entry = (
            {} if execution_order is None else {"ran": np.array(json.dumps(execution_order.runs))}
        )
        execution_modes_array = np.array(json.dumps(self.native))
        return {
            "done": np.array(self.done),
            "native": execution_modes_array,
            **order_entry,
            **state_entries,
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the completed evaluations and carried values from a checkpoint."""
        evaluation_count = snapshot.number("done")
        # The carried values may be empty.
        has_state = evaluation_count > 0 or self._specification.values.state is not None
        state = (
            self._session.read_state(snapshot.with_prefix("state "), self._bound_values)
            if has_state
            else None
        )
        self._execution_order = (
            _read_execution_order(snapshot, evaluation_count) if "ran" in snapshot else None
        )
        self.native = _read_execution_modes(snapshot)
        has_first_evaluation = self._specification.values.state is None
        self._later_execution_modes = (
            dict(self.native) if evaluation_count > has_first_evaluation else {}
        )
        end_position = (
            None if self._execution_order is None else self._execution_order.end_position()
        )
        self._position = self._previous_position = _Position(
            evaluation_count, state, end_position, self.total
        )


def _read_execution_modes(snapshot: Snapshot) -> dict[str, str]:
    """Read the execution mode (native or not) of each loop from a checkpoint."""
    execution_mode_by_loop = snapshot.content("native") if "native" in snapshot else {}
    if not isinstance(execution_mode_by_loop, dict) or not all(
        isinstance(text, str) for text in execution_mode_by_loop.values()
    ):
        raise snapshot.invalid_part_error("native", "which loops were native")
    return execution_mode_by_loop


def _read_execution_order(snapshot: Snapshot, done: int) -> OrderOfExecution:
    """Read the order in which nodes ran in `done` evaluations from a checkpoint."""
    execution_order = OrderOfExecution.read(snapshot.content("ran"))
    if execution_order is None or len(execution_order) != done:
        raise snapshot.invalid_part_error("ran", f"the order of execution of {done} steps")
    return execution_order


def _make_clock(start: State | None, dt: float | None) -> Clock:
    """Create the clock of a run that starts at step 0, or at the step of an initial state."""
    if start is None:
        return Clock(0, 0.0, dt)
    return Clock(int(start["step"]) - 1, float(start["time"]), dt)


def _plan_steps(number: int, max_steps: int, stride: int) -> tuple[int, int]:
    """Return the numbers of evaluations and of recorded rows for the next call of the loop.

    A row is that of the last of `steps / rows` evaluations. A row whose number is not a multiple of `stride`
    is not recorded.
    """
    steps_to_row = -number % stride + 1
    if steps_to_row > max_steps or steps_to_row < stride:
        return min(steps_to_row, max_steps), 1
    return max_steps // stride * stride, max_steps // stride


def _is_recorded(number: int, stride: int) -> bool:
    return stride == LAST_ROW_STRIDE or number % stride == 0


def _convert_to_common_dtype(row: Array, dtype: str | None) -> Array:
    """Convert an array to the common dtype of the array and `dtype`.

    None leaves the array unchanged.
    """
    if dtype is None or dtype_name(row) == dtype:
        return row
    return row.astype(np.result_type(row.dtype, numpy_dtype(dtype)))


def _zero_unrun_rows(rows: Array, flags: Array | None, axis: int) -> Array:
    """Replace the rows of steps in which an output's node had not run yet by zeros."""
    if flags is None or np.all(flags):
        return rows
    expanded_flags = flags.reshape(*flags.shape, *(1,) * (rows.ndim - flags.ndim))
    return np.where(expanded_flags, rows, np.zeros((), rows.dtype))
