"""Model over time in an engine: a program for the first evaluation, and a loop for the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import numpy as np
from msgspec.structs import replace

from mdf_loop.errors import InputError
from mdf_loop.ir import Array, InputRole, Loop, OutputRole, Program, Value
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.locks import ForkSafeLock
from mdf_loop.lower.builder import Options
from mdf_loop.native.loop_decisions import (
    MIN_NATIVE_MICROSECONDS,
    NATIVE,
    STANDARD_FOR_LITTLE_WORK,
    estimate_work,
    refuse_standard_loops,
)
from mdf_loop.native.support import constants_in
from mdf_loop.passes.segments.pregenerate_random_numbers import (
    MAX_PREGENERATED_NUMBERS,
    MIN_PREGENERATED_ITERATIONS,
    pregenerate_random_numbers,
    pregenerated_rows,
    total_elements,
)
from mdf_loop.pipeline import LOADED, passes_over_time, prepare
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.memory import NODE_FIELDS, state_name
from mdf_loop.reading.over_time import OverTime
from mdf_loop.run.backend import PROGRAM_BACKENDS, Backend, Runnable
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Cadence
from mdf_loop.run.device import DEFAULT_PLACEMENT, Device, Placement
from mdf_loop.run.execution_list import NodeSets, executed_node_sets
from mdf_loop.run.members import Members
from mdf_loop.run.recording.lengths import RowShapes
from mdf_loop.run.recording.recording_plan import RecordingPlan
from mdf_loop.run.states import (
    KEYS_NAME,
    State,
    check_keys,
    checked_state,
    convert_to_type,
    drop_equal_members,
    is_swept,
)
from mdf_loop.specification import RunControls, RunSpecification

SMALL_ROW_BYTES = 4096
"""Bytes of a step's rows, over all members, up to which recording all rows is cheaper than skipping some
(measured: FitzHugh-Nagumo, one number to 100 000)."""

COMPILATION_MICROSECONDS = 10 * MIN_NATIVE_MICROSECONDS
"""Total microseconds of short runs after which native loops are compiled. Compilation takes about as long."""

LAST_ROW_STRIDE = sys.maxsize
"""Distance between recorded rows that exceeds every number of steps: only the last row of each chunk is recorded."""

ProgramKind: TypeAlias = Literal["first", "later", "thinned"]
"""Kind of a program of a model over time. `thinned` only returns the row of every n-th step."""


class TimeSession:
    """Model over time, loaded into an engine for any number of steps.

    `swept` are inputs with a leading axis of members. With swept inputs, all outputs have this axis.
    """

    def __init__(
        self,
        programs: OverTime,
        options: Options,
        placement: Placement = DEFAULT_PLACEMENT,
        swept: Collection[str] = (),
        backend: Backend = PROGRAM_BACKENDS["onnxruntime"],
    ) -> None:
        self.programs = programs
        self.options = options
        self.swept = frozenset(swept)
        self.axis = int(bool(swept))
        self.row_shapes = _row_shapes(programs)
        self.dtypes = {output.name: output.value.dtype for output in programs.later_program.outputs}
        """Dtypes of the outputs of later evaluations, by name."""
        self._backend = backend
        self._placement = placement
        self._sessions: dict[tuple[ProgramKind, frozenset[str], bool], Runnable] = {}
        self._prepared_programs: dict[tuple[ProgramKind, frozenset[str]], Program] = {}
        self._pregenerated_rows: dict[Program, tuple[Value, ...]] = {}
        self.cadence = Cadence()
        self._lock = ForkSafeLock()
        self._step_work = _step_microseconds(programs.later_program)
        self._total_work = 0.0
        recorded_values = (
            output.value
            for output in programs.later_program.outputs
            if output.name in programs.recorded_names
        )
        self._bytes_per_row = sum(map(_row_bytes, recorded_values))
        self._state_outputs = programs.later_program.output_names(OutputRole.STATE)
        self._state_inputs = programs.later_program.input_names(InputRole.STATE)
        self.flag_names = programs.later_program.output_names(OutputRole.HAS_RUN)
        """Name of the flags of each output's node, which are True in rows in which the node ran."""
        input_by_name = {
            program_input.value.name: program_input.value
            for program_input in programs.later_program.inputs
        }
        state_names = map(state_name, programs.states)
        self.carried = {name: input_by_name[self._state_inputs[name]] for name in state_names}
        """Carried values by name, with a type that is common to all steps of one run."""
        self._member_states = frozenset(
            state_name(state) for state in programs.states if state[0] in NODE_FIELDS
        )
        """Names of the values that a sweep may change, which excludes the counters of the schedule."""

    @property
    def first_loaded_program(self) -> Runnable:
        """Loaded program of the model's first evaluation."""
        return self._get_program("first", self.swept)

    def register_run(self, steps: int, members: int, runs: int = 1) -> bool:
        """Register a run, and return True if the run is too short to compile its loops natively.

        Earlier runs count, too.

        `runs` is the expected number of runs of this kind.
        """
        run_microseconds = steps * members * self._step_work
        self._total_work += run_microseconds
        return (
            run_microseconds * runs < MIN_NATIVE_MICROSECONDS
            and self._total_work < COMPILATION_MICROSECONDS
        )

    def get_later_loop(self, state: State, *, is_brief: bool, thinned: bool) -> Runnable:
        """Return the loaded loop that computes the second and all later evaluations of the model.

        The program depends on which carried values in `state` have a leading axis of members.
        """
        swept_states = {
            self._state_inputs[name]
            for name, value in self.carried.items()
            if is_swept(state[name], value)
        }
        return self._get_program(
            "thinned" if thinned else "later", self.swept | swept_states, is_brief
        )

    def load_programs(self) -> None:
        """Load the programs of the first and later evaluations, to raise errors before a run."""
        for program_kind in ("first", "later"):
            self._get_program(program_kind, self.swept)

    def refuse_standard_loops(self) -> None:
        """Raise an error if machine code is required for the loop over time, but not possible.

        Raises:
            UnsupportedError: A loop cannot be native. The message has each such loop with the reason.
        """
        if (
            self._placement.native != "require"
            or self._backend is not PROGRAM_BACKENDS["onnxruntime"]
        ):
            return
        program = prepare(
            self.programs.later_program, self._backend.pass_order, passes_over_time(self.swept)
        )
        refuse_standard_loops(prepare(program, LOADED))

    def _get_program(
        self, kind: ProgramKind, swept: frozenset[str], is_brief: bool = True
    ) -> Runnable:
        with self._lock:
            if (kind, swept, is_brief) not in self._sessions:
                self._sessions[kind, swept, is_brief] = self._load_program(kind, swept, is_brief)
            return self._sessions[kind, swept, is_brief]

    def _load_program(self, kind: ProgramKind, swept: frozenset[str], is_brief: bool) -> Runnable:
        program = self._prepare_program(kind, swept)
        placement = replace(self._placement, is_brief=is_brief)
        if kind == "first" and not self._backend.is_standard(placement):
            state_inputs = (self._state_inputs[name] for name in self._member_states if swept)
            placement = replace(
                placement, loop_program=self._prepare_program("later", swept.union(state_inputs))
            )
        load_function = (
            self._load_loop_with_random_numbers
            if kind == "later" and program.sites
            else self._backend.load
        )
        loaded_program = load_function(program, placement)
        return Members(loaded_program, swept) if swept else loaded_program

    def _prepare_program(self, kind: ProgramKind, swept: frozenset[str]) -> Program:
        """Return the program of the first or later evaluations, after all compiler passes."""
        if (kind, swept) not in self._prepared_programs:
            program = (
                self.programs.first_program if kind == "first" else self.programs.later_program
            )
            first_passes = passes_over_time(swept, thinned=kind == "thinned")
            self._prepared_programs[kind, swept] = prepare(
                program, self._backend.pass_order, first_passes
            )
        return self._prepared_programs[kind, swept]

    def _load_loop_with_random_numbers(
        self, prepared_program: Program, placement: Placement
    ) -> Runnable:
        """Load a loop with random numbers, which are drawn in advance unless it is machine code.

        Machine code generates random numbers within the loop.
        """
        loop, load_function = prepared_program.ops[-1], self._backend.load
        (steps_value,) = (
            program_input.value
            for program_input in prepared_program.inputs
            if program_input.role is InputRole.CONTROL and program_input.owner_name == "steps"
        )
        if not isinstance(loop, Loop):
            return load_function(prepared_program, placement)
        loaded_loop = (
            None
            if self._backend.is_standard(placement)
            else load_function(prepared_program, placement)
        )
        if loaded_loop is not None and loaded_loop.native.get(
            loop.name, STANDARD_FOR_LITTLE_WORK
        ) in (
            NATIVE,
            STANDARD_FOR_LITTLE_WORK,
        ):
            return loaded_loop
        pregenerated_program = pregenerate_random_numbers(prepared_program, steps_value)
        if pregenerated_program is prepared_program:
            return loaded_loop or load_function(prepared_program, placement)
        pregenerated_loop = load_function(pregenerated_program, self._placement)
        self._pregenerated_rows[pregenerated_loop.program] = pregenerated_rows(
            prepared_program, pregenerated_program
        )
        return pregenerated_loop

    def max_evaluations_per_call(self, session: Runnable, members: int) -> int:
        """Return the maximum number of evaluations per call, limited by random-number memory."""
        numbers_per_evaluation = total_elements(
            self._pregenerated_rows.get(session.program, ()), members
        )
        return (
            max(MIN_PREGENERATED_ITERATIONS, MAX_PREGENERATED_NUMBERS // numbers_per_evaluation)
            if numbers_per_evaluation
            else sys.maxsize
        )

    def record_stride(self, plan: RecordingPlan, controls: RunControls, members: int) -> int:
        """Return the number of steps between rows that the loop returns, so as to save memory.

        `LAST_ROW_STRIDE` means that each call of the loop returns only its last row.
        """
        if controls.watches or self._has_small_rows(members):
            return 1
        if not plan.selection.reduce:
            return plan.selection.every
        is_uniform = not (
            self.flag_names or self.row_shapes.varying_ranks or self.programs.later_program.sites
        )
        return LAST_ROW_STRIDE if is_uniform and plan.last_only else 1

    def _has_small_rows(self, members: int) -> bool:
        """Return True if the values recorded per step, for all members, take little memory."""
        return members * self._bytes_per_row <= SMALL_ROW_BYTES

    @property
    def device(self) -> Device:
        """Device of the model, with the reason for its choice."""
        with self._lock:
            sessions = tuple(self._sessions.values())
        return (sessions[-1] if sessions else self.first_loaded_program).device

    def initial_state(self, specification: RunSpecification, bound: BoundValues) -> State | None:
        """Return the initial state in the types of the model, or None if the run begins at step 0.

        Raises:
            InputError: The given state does not fit this model.
        """
        self._refuse_member_execution_lists(specification)
        state = specification.values.state
        if state is None:
            return None
        (member_count,) = self._members_shape(bound) or (None,)
        initial_state = checked_state(state, self.carried, member_count, self._member_states)
        if bound.keys_by_input:  # all trials may start from the state of one run
            single_run_keys = bound.streams.keys_of_one_run(self.programs.later_program.sites)
            check_keys(state.get(KEYS_NAME), bound.random_keys, single_run_keys)
        return initial_state

    # --- inputs of the programs -----------------------------------------------------------------

    def step_inputs(
        self, bound: BoundValues, first: int, last: int | None = None
    ) -> dict[str, Array]:
        """Return the model's inputs at step `first`, or at steps `first` to `last` - 1."""
        feeds = dict(bound.arrays)
        for name in bound.inputs.varying_names:
            leading_index = (slice(None),) * int(name in self.swept)
            feeds[name] = feeds[name][
                (*leading_index, first if last is None else slice(first, last))
            ]
        return feeds

    def loop_feeds(
        self,
        session: Runnable,
        arrays: dict[str, Array],
        state: State,
        step_count: int,
        row_count: int,
        dt: float | None,
    ) -> dict[str, Array]:
        """Return the program inputs of the loop for the next steps: data, state, `steps`, `dt`."""
        control_inputs = {
            "steps": np.array(row_count, np.int64),
            "every": np.array(step_count // row_count, np.int64),
        }
        if dt is not None:
            control_inputs["dt"] = np.array(dt, self.options.precision)
        feeds: dict[str, Array] = {}
        for program_input in session.program.inputs:
            name = program_input.value.name
            match program_input.role:
                case InputRole.CONTROL:
                    feeds[name] = control_inputs[program_input.owner_name]
                case InputRole.STATE:
                    feeds[name] = state[program_input.owner_name]
                case _:
                    feeds[name] = arrays[name]
        return feeds

    # --- outputs of the programs ----------------------------------------------------------------

    @property
    def is_schedule_dynamic(self) -> bool:
        """True if only the run determines which nodes run in each later evaluation."""
        return self.programs.plans[1] is None

    def executed_sets(self, outputs: Mapping[str, Array], program_index: int) -> NodeSets | None:
        """Return the sets of nodes that ran in one evaluation, or None if the sets are unknown.

        `program_index` is 0 for the first evaluation, and 1 for later evaluations. The sets are unknown if
        the program computes no flags of nodes.
        """
        planned_sets = self.programs.plans[program_index]
        program = self.programs.later_program if program_index else self.programs.first_program
        flag_output_names = program.output_names(OutputRole.EXECUTED)
        if planned_sets is not None or not flag_output_names:
            return planned_sets
        (flags_name,) = flag_output_names.values()
        executed_flags = outputs[flags_name]
        return executed_node_sets(
            executed_flags.reshape(-1, executed_flags.shape[-1]), self.programs.schedule
        )

    def recorded_rows(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs that have a row for each step, without carried values."""
        carried_names = set(self._state_outputs.values())
        return {name: array for name, array in outputs.items() if name not in carried_names}

    def state_of(self, outputs: Mapping[str, Array]) -> State:
        """Return the carried values from the outputs of the last call, by name.

        Schedule counters that are equal for all members become one counter.
        """
        carried_arrays = {}
        for name, value in self.carried.items():
            array = outputs[self._state_outputs[name]]
            if self.swept and name not in self._member_states:
                array = drop_equal_members(array)
            has_members = bool(self.swept) and (
                name in self._member_states or is_swept(array, value)
            )
            carried_arrays[name] = convert_to_type(array, value, int(has_members))
        return carried_arrays

    def read_state(self, snapshot: Snapshot, bound: BoundValues) -> State:
        """Read the model's carried values from a checkpoint."""
        members_shape = self._members_shape(bound)
        return {
            name: snapshot.value(
                name, value, members_shape if is_swept(snapshot[name], value) else ()
            )
            for name, value in self.carried.items()
        }

    def members(self, bound: BoundValues) -> int:
        """Return the number of members of the sweep, or 1 without a sweep."""
        return math.prod(self._members_shape(bound))

    def _members_shape(self, bound: BoundValues) -> tuple[int, ...]:
        """Return the shape of the axis over members of the sweep, or () without a sweep."""
        return (len(bound.arrays[min(self.swept)]),) if self.swept else ()

    def _refuse_member_execution_lists(self, specification: RunSpecification) -> None:
        if self.swept and specification.execution_list and None in self.programs.plans:
            raise InputError(
                "a sweep has no execution_list where that is decided while running: "
                "each of its members would have its own",
                hint="ask for it in a run of one member",
            )


def _step_microseconds(program: Program) -> float:
    """Return a lower bound of the time of a step's loops, in microseconds."""
    known_values = constants_in(program)
    return sum(
        estimate_work(loop.ops, known_values) for loop in program.ops if isinstance(loop, Loop)
    )


def _row_shapes(programs: OverTime) -> RowShapes:
    """Return the shapes that recorded values have in one step."""
    first_step_shapes, later_step_shapes = (
        {output.name: output.value.shape for output in program.outputs}
        for program in (programs.first_program, programs.later_program)
    )
    stack_shapes = {
        name: later_step_shapes[name]
        for name in programs.recorded_names
        if name in first_step_shapes
    }
    row_shapes = {
        name: None if shape is None else shape[1:] for name, shape in stack_shapes.items()
    }
    return RowShapes.of({name: first_step_shapes[name] for name in row_shapes}, row_shapes)


def _row_bytes(stack: Value) -> float:
    """Return the number of bytes of a recorded value in one step, or infinity if unknown."""
    row_shape = stack.shape[1:] if stack.shape else (stack.name,)
    known_extents = [extent for extent in row_shape if isinstance(extent, int)]
    if len(known_extents) < len(row_shape) or stack.dtype == "string":
        return math.inf
    return math.prod(known_extents) * numpy_dtype(stack.dtype).itemsize
