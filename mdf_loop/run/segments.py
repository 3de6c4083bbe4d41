"""Evaluation of a program whose loops run in chunks of iterations, between straight-line parts.

    for segment in segments:
        straight segment: values |= session.run(values)
        loop:             drive(stepper, ...); values |= stepper.results()

If the evaluation is stopped in a loop, later straight segments use the results of the completed
iterations. Later loops do not start: they have 0 iterations, and their final values are the initial ones.
Outputs that cannot be computed are omitted, and the reason is reported (see `after_stop`). After a stop
within a straight segment, all outputs that depend on this segment are omitted.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from mdf_loop.ir import (
    Array,
    Constant,
    Data,
    Loop,
    Program,
    StopReason,
    Value,
    is_fixed,
    reads,
    results,
)
from mdf_loop.locks import ForkSafeLock
from mdf_loop.native.loop_decisions import NATIVE
from mdf_loop.passes.segments.loop_segment import LoopSegment
from mdf_loop.passes.segments.member_aggregates import member_aggregates
from mdf_loop.passes.segments.pregenerate_random_numbers import (
    MAX_PREGENERATED_NUMBERS,
    MIN_PREGENERATED_ITERATIONS,
    pregenerate_random_numbers,
    pregenerated_rows,
    total_elements,
)
from mdf_loop.passes.segments.run_past_termination import MAX_RUN_ITERATIONS, run_past_termination
from mdf_loop.passes.segments.split_into_segments import Segment, StraightSegment
from mdf_loop.run.after_stop import IncompleteResults, compute_available_values
from mdf_loop.run.backend import Backend, Runnable
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Cadence
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import DEFAULT_PLACEMENT, UNDECIDED_DEVICE, Device, Placement
from mdf_loop.run.loop_stepper import LoopStepper
from mdf_loop.run.members_stepper import MembersStepper, ShrinkingMembersStepper
from mdf_loop.run.outputs import LoopReport

LONG_ITERATIONS = 100_000
"""Iterations above which a loop is expected to run long."""


class Segments:
    """Program that is split at its loops into parts, which are loaded when they first run.

    Several threads may use the object at once.
    """

    def __init__(
        self,
        program: Program,
        segments: tuple[Segment, ...],
        backend: Backend,
        placement: Placement = DEFAULT_PLACEMENT,
    ) -> None:
        self.program = program
        self.segments = segments
        self.needed_values = _values_needed_by_segment(program, segments)
        self.constants: dict[Value, Data] = {
            op.value: op.array for op in program.ops if isinstance(op, Constant)
        }
        segment_loops = (segment.loop for segment in segments if isinstance(segment, LoopSegment))
        trip_counts = {loop.trip_count for loop in segment_loops if loop.condition is None}
        input_names = {
            program_input.value: program_input.value.name for program_input in program.inputs
        }
        self._trip_count_inputs = [
            input_names[trip_count] for trip_count in trip_counts if trip_count in input_names
        ]
        constant_trip_counts = (
            self.constants[trip_count] for trip_count in trip_counts if trip_count in self.constants
        )
        self._has_long_constant_loop = any(
            np.max(trip_count) > LONG_ITERATIONS for trip_count in constant_trip_counts
        )
        self._backend = backend
        self._placement = placement
        self._sessions: dict[int, Runnable] = {}
        self._max_chunk_iterations: dict[LoopSegment, int] = {}
        self.cadences: dict[LoopSegment, Cadence] = defaultdict(Cadence)
        self._lock = ForkSafeLock()

    @property
    def device(self) -> Device:
        """Device on which the program runs, with the reason for the choice of the device.

        The device is that of the first loaded part whose device is decided.
        """
        session_devices = [session.device for _, session in sorted(self._sessions.items())]
        decided_devices = (device for device in session_devices if device is not UNDECIDED_DEVICE)
        return next(decided_devices, None) or self.session(0).device

    @property
    def native(self) -> dict[str, str]:
        """Execution mode of each loop that has run: `native` or `standard: <reason>`."""
        sessions = tuple(self._sessions.values())  # atomic, so that no lock is needed
        return {
            name: execution_mode
            for session in sessions
            for name, execution_mode in session.native.items()
        }

    def is_long(self, arrays: Mapping[str, Data]) -> bool:
        """Return True if a loop has a large trip count, given the inputs `arrays`."""
        trip_counts = (arrays[name] for name in self._trip_count_inputs)
        return self._has_long_constant_loop or any(
            (trip_count.item() if trip_count.size == 1 else trip_count.max()) > LONG_ITERATIONS
            for trip_count in trip_counts
        )

    def session(self, index: int) -> Runnable:
        """Return the session of part `index` of the program, and load the part on first use."""
        with self._lock:
            if index not in self._sessions:
                self._sessions[index] = self._load_segment(self.segments[index])
            return self._sessions[index]

    def _load_segment(self, segment: Segment) -> Runnable:
        session = self.load_part(segment.program)
        if not isinstance(segment, LoopSegment):
            return session
        has_members = segment.loop.member_axis is not None
        if has_members and not self.have_independent_members(segment):
            return session
        if session.native.get(segment.loop.name, NATIVE) == NATIVE:
            return session
        pregenerated_program = pregenerate_random_numbers(segment.program, segment.max_iterations)
        pregenerated_arrays = pregenerated_rows(segment.program, pregenerated_program)
        if not pregenerated_arrays or not (
            has_members or all(is_fixed(row.shape) for row in pregenerated_arrays)
        ):
            return session
        if not has_members:
            self._max_chunk_iterations[segment] = max(
                MIN_PREGENERATED_ITERATIONS,
                MAX_PREGENERATED_NUMBERS // total_elements(pregenerated_arrays, 1),
            )
            return self.load_part(pregenerated_program)
        extended_program = run_past_termination(pregenerated_program, segment.max_iterations)
        if extended_program is not pregenerated_program:
            self._max_chunk_iterations[segment] = MAX_RUN_ITERATIONS
        return self.load_part(extended_program)

    def max_chunk_iterations(self, segment: LoopSegment) -> int:
        """Return the maximum number of iterations of a loop in one chunk.

        Pregenerated random numbers take memory, and members that have ended may run on within a chunk.
        """
        return self._max_chunk_iterations.get(segment, sys.maxsize)

    def have_independent_members(self, segment: LoopSegment) -> bool:
        """Return True if ended members of a batch can be removed from a loop."""
        members_dim = segment.loop.member_axis
        if members_dim is None:
            return False
        return member_aggregates(self.program, members_dim).isdisjoint(segment.captured_inputs)

    def load_part(self, part: Program) -> Runnable:
        """Load a part of the program into the engine."""
        return self._backend.load(part, self._placement, self.program)


def _values_needed_by_segment(
    program: Program, segments: tuple[Segment, ...]
) -> tuple[frozenset[Value], ...]:
    """Return the values that each part of a split program, or a later part, reads."""
    needed_values = frozenset(output.value for output in program.outputs)
    needed_value_sets = []
    for segment in reversed(segments):
        segment_inputs = (
            reads(segment.loop)
            if isinstance(segment, LoopSegment)
            else _input_values(segment.program)
        )
        needed_values |= frozenset(segment_inputs)
        needed_value_sets.append(needed_values)
    return tuple(reversed(needed_value_sets))


def _input_values(program: Program) -> tuple[Value, ...]:
    return tuple(program_input.value for program_input in program.inputs)


class PartialRun(Struct, frozen=True):
    """Complete or partial results of an evaluation that may have been stopped.

    Attributes:
        outputs: Computed outputs of the whole program, by name.
        loops: Report of each loop, by name. For several loops of the same name, the report of the last
            one that started.
        stopped_by: Reason of a stop from outside, or None.
        missing_reasons: Reason why each missing output could not be computed, by name.
    """

    outputs: Mapping[str, Data]
    loops: Mapping[str, LoopReport]
    stopped_by: StopReason | None
    missing_reasons: Mapping[str, str]


class SegmentedEvaluation:
    """Evaluation, part by part, of a program that is split at its loops.

        evaluation = SegmentedEvaluation(segments, arrays, stopping)
        for stepper in evaluation.steppers():
            evaluation.reason = ...                # run the stepper until it ends or is stopped
        evaluation.results()

    Args:
        segments: Program in segments.
        arrays: Inputs by name.
        stopping: Watcher of signals and limits, which has been entered.
        resume: Snapshot of a stepper in an earlier run of this program with these inputs, or None.

    Attributes:
        reason: Reason why the evaluation was stopped, or None.
    """

    def __init__(
        self,
        segments: Segments,
        arrays: Mapping[str, Data],
        stopping: Stopping,
        resume: Snapshot | None = None,
    ) -> None:
        self.segments = segments
        self.stopping = stopping
        self.feeds = segments.constants | {
            program_input.value: arrays[program_input.value.name]
            for program_input in segments.program.inputs
        }
        self.values: dict[Value, Data] = {}
        self.reports: dict[str, LoopReport] = {}
        self.reason: StopReason | None = None
        self.incomplete = IncompleteResults()
        self.first_index = 0
        self.resume: Snapshot | None = None
        if resume is not None:
            self._restore(resume)

    def steppers(self) -> Iterator[LoopStepper]:
        """Run the parts of the program in order, and yield the stepper of each loop to be run.

        After a stop, the remaining loops are not yielded, and keep their initial values.

        Raises:
            LoopError: The model failed before any stop.
        """
        for index in range(self.first_index, len(self.segments.segments)):
            segment = self.segments.segments[index]
            self._discard_unneeded(index)
            if isinstance(segment, StraightSegment):
                self._run_straight(index, segment.program)
                continue
            known_values = self._known_values()
            if not all(value in known_values for value in reads(segment.loop)):
                continue
            stepper = self._make_stepper(index, segment, known_values)
            is_started = self.reason is None
            if is_started:
                yield stepper
            self._add_loop_results(segment, stepper)
            if is_started or stepper.name not in self.reports:
                self.reports[stepper.name] = stepper.report(self.reason)

    def results(self) -> PartialRun:
        """Return the outputs that could be computed, and how each loop ended."""
        value_by_output = {output.name: output.value for output in self.segments.program.outputs}
        outputs = {
            name: self.values[value]
            for name, value in value_by_output.items()
            if value in self.values
        }
        absence_reasons = {
            name: self._missing_reason()
            for name, value in value_by_output.items()
            if value not in self.values
        }
        return PartialRun(outputs, self.reports, self.reason, absence_reasons)

    def _missing_reason(self) -> str:
        """Return the reason why some outputs are missing: an error, or a stop of the run."""
        if self.incomplete.errors:
            return str(self.incomplete.errors[0])
        assert self.reason is not None
        return self.reason.value

    def _discard_unneeded(self, index: int) -> None:
        """Discard values that no remaining part of the program reads."""
        needed_values = self.segments.needed_values[index]
        self.values = {value: data for value, data in self.values.items() if value in needed_values}

    def _known_values(self) -> dict[Value, Data]:
        """Return inputs, constants and computed values, without arrays that have missing rows."""
        known_values = {**self.feeds, **self.values}
        return {
            value: data
            for value, data in known_values.items()
            if value not in self.incomplete.shortened_stacks
        }

    # --- straight segments ----------------------------------------------------------------------

    def _run_straight(self, index: int, program: Program) -> None:
        known_values = self._known_values()
        if self.reason is not None:
            self.values |= compute_available_values(
                program, known_values, self.incomplete, self._make_loader(index)
            )
            return
        feeds = {
            program_input.value.name: known_values[program_input.value]
            for program_input in program.inputs
        }
        try:
            outputs = self.segments.session(index).run(feeds, self.stopping)
        except Stopped:
            self.reason = self.stopping.reason
        else:
            self.values |= {output.value: outputs[output.name] for output in program.outputs}

    def _make_loader(self, index: int) -> Callable[[Program], Runnable]:
        """Return a function that loads part `index` of the program, possibly with fewer outputs."""
        outputs = self.segments.segments[index].program.outputs

        def session_of(part: Program) -> Runnable:
            is_whole_segment = part.outputs == outputs
            return (
                self.segments.session(index) if is_whole_segment else self.segments.load_part(part)
            )

        return session_of

    # --- loops ----------------------------------------------------------------------------------

    def _add_loop_results(self, segment: LoopSegment, stepper: LoopStepper) -> None:
        """Add the results of a loop, which may have been stopped, to the computed values."""
        loop_results = stepper.results()
        self.values |= loop_results
        if not stepper.finished:
            self.incomplete.record_stopped_loop(segment.loop, loop_results)

    def _make_stepper(
        self, index: int, segment: LoopSegment, known_values: Mapping[Value, Data]
    ) -> LoopStepper:
        """Create the stepper of a loop, in the state of a checkpoint if the evaluation resumes there."""
        outer_arrays = {} if self.reason else self._snapshot(index)
        session = self.segments.session(index)
        max_iterations = self.segments.max_chunk_iterations(segment)
        stepper_class = LoopStepper
        if segment.loop.member_axis is not None:
            are_independent = self.segments.have_independent_members(segment)
            stepper_class = ShrinkingMembersStepper if are_independent else MembersStepper
        stepper = stepper_class(session, segment, known_values, outer_arrays, max_iterations)
        stepper.cadence = self.segments.cadences[segment]
        if self.resume is not None:
            stepper.restore(self.resume)
            self.resume = None
        return stepper

    # --- checkpoints ----------------------------------------------------------------------------

    def _snapshot(self, index: int) -> dict[str, Array]:
        """Return arrays for a checkpoint: the values so far, and how the earlier loops ended."""
        arrays = {f"value {value.name}": np.asarray(data) for value, data in self.values.items()}
        for name, report in self.reports.items():
            arrays[f"loop {name}"] = np.array([report.iterations, report.codes])
        return {"piece": np.array(index, np.int64), **arrays}

    def _restore(self, snapshot: Snapshot) -> None:
        """Resume the evaluation from a checkpoint, within the loop that was running."""
        segments = self.segments.segments
        self.first_index = snapshot.number("piece", len(segments) - 1)
        if not isinstance(segments[self.first_index], LoopSegment):
            raise snapshot.invalid_part_error("piece", "the place of a loop")
        self.resume = snapshot
        stored_values = snapshot.with_prefix("value ")
        for segment in segments[: self.first_index]:
            for value in _segment_results(segment):
                if value in self.segments.needed_values[self.first_index]:
                    self.values[value] = stored_values.value(value.name, value)
            if isinstance(segment, LoopSegment):
                self.reports[segment.loop.name] = _read_report(snapshot, segment.loop)


def _read_report(snapshot: Snapshot, loop: Loop) -> LoopReport:
    """Read the report about a completed loop from a checkpoint."""
    part_name, members_shape = f"loop {loop.name}", () if loop.member_axis is None else (None,)
    iterations, reason_codes = snapshot.array(part_name, "i", (2, *members_shape))
    if (
        (iterations < 0).any()
        or (reason_codes < 0).any()
        or (reason_codes >= len(StopReason)).any()
    ):
        raise snapshot.invalid_part_error(part_name, "iterations and why they ended")
    return LoopReport.of(iterations, reason_codes)


def _segment_results(segment: Segment) -> tuple[Value, ...]:
    if isinstance(segment, LoopSegment):
        return tuple(results(segment.loop))
    return tuple(output.value for output in segment.program.outputs)
