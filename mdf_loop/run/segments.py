"""Evaluation of a model segment by segment, with its loops in chunks (see `passes.segments`).

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
from collections.abc import Callable, Mapping
from typing import TypeAlias

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
from mdf_loop.run.after_stop import Incomplete, compute_available_values
from mdf_loop.run.backend import Backend, Runnable
from mdf_loop.run.control.chunks import run_in_chunks
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stepper import Cadence
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import UNDECIDED, USUAL, Device, Placement
from mdf_loop.run.loop_stepper import LoopStepper
from mdf_loop.run.members_stepper import MembersStepper, ShrinkingMembersStepper
from mdf_loop.run.outputs import LoopReport

LONG_ITERATIONS = 100_000
"""Iterations above which a loop is expected to run long."""

Follower: TypeAlias = Callable[[LoopStepper, Stopping], StopReason | None]
"""Function that runs a stepper until its end or a stop, and adds each block to its rows (`add_block`)."""


def follow_loop(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
    """Run a loop until it ends or `stopping` stops it."""
    return run_in_chunks(stepper, stopping, stepper.add_block)


class Segments:
    """Program that is divided into segments. A session is created when its segment first runs.

    Several threads may use the object at once.
    """

    def __init__(
        self,
        program: Program,
        segments: tuple[Segment, ...],
        backend: Backend,
        placement: Placement = USUAL,
    ) -> None:
        self.program = program
        self.segments = segments
        self.needed = _values_needed_by_segment(program, segments)
        self.constants: dict[Value, Data] = {
            op.value: op.array for op in program.ops if isinstance(op, Constant)
        }
        loops = (segment.loop for segment in segments if isinstance(segment, LoopSegment))
        trips = {loop.trip_count for loop in loops if loop.condition is None}
        input_names = {entry.value: entry.value.name for entry in program.inputs}
        self._trip_count_inputs = [input_names[trip] for trip in trips if trip in input_names]
        constants = (self.constants[trip] for trip in trips if trip in self.constants)
        self._has_long_constant_loop = any(np.max(trip) > LONG_ITERATIONS for trip in constants)
        self._backend = backend
        self._placement = placement
        self._sessions: dict[int, Runnable] = {}
        self._max_chunk_iterations: dict[LoopSegment, int] = {}
        self.cadences: dict[LoopSegment, Cadence] = defaultdict(Cadence)
        self._lock = ForkSafeLock()

    @property
    def device(self) -> Device:
        """Device of the first segment whose device is decided, with the reason for its choice."""
        devices = [session.device for _, session in sorted(self._sessions.items())]
        decided = (device for device in devices if device is not UNDECIDED)
        return next(decided, None) or self.session(0).device

    @property
    def native(self) -> dict[str, str]:
        """Form of each loop in segments that have run, by loop name."""
        sessions = tuple(self._sessions.values())  # atomic, so that no lock is needed
        return {name: form for session in sessions for name, form in session.native.items()}

    def is_long(self, arrays: Mapping[str, Data]) -> bool:
        """Return True if a loop is known in advance to run long."""
        trips = (arrays[name] for name in self._trip_count_inputs)
        return self._has_long_constant_loop or any(
            (trip.item() if trip.size == 1 else trip.max()) > LONG_ITERATIONS for trip in trips
        )

    def session(self, place: int) -> Runnable:
        """Return the session of the segment at an index, which is created on first use."""
        with self._lock:
            if place not in self._sessions:
                self._sessions[place] = self._load_segment(self.segments[place])
            return self._sessions[place]

    def _load_segment(self, segment: Segment) -> Runnable:
        session = self.load_part(segment.program)
        if not isinstance(segment, LoopSegment):
            return session
        has_members = segment.loop.member_axis is not None
        if has_members and not self.have_independent_members(segment):
            return session
        if session.native.get(segment.loop.name, NATIVE) == NATIVE:
            return session
        pregenerated = pregenerate_random_numbers(segment.program, segment.max_iterations)
        rows = pregenerated_rows(segment.program, pregenerated)
        if not rows or not (has_members or all(is_fixed(row.shape) for row in rows)):
            return session
        if not has_members:
            self._max_chunk_iterations[segment] = max(
                MIN_PREGENERATED_ITERATIONS, MAX_PREGENERATED_NUMBERS // total_elements(rows, 1)
            )
            return self.load_part(pregenerated)
        extended = run_past_termination(pregenerated, segment.max_iterations)
        if extended is not pregenerated:
            self._max_chunk_iterations[segment] = MAX_RUN_ITERATIONS
        return self.load_part(extended)

    def max_chunk_iterations(self, segment: LoopSegment) -> int:
        """Return the maximum number of loop iterations in one chunk.

        Pregenerated random numbers take memory, and members that have ended may run on within a chunk.
        """
        return self._max_chunk_iterations.get(segment, sys.maxsize)

    def have_independent_members(self, segment: LoopSegment) -> bool:
        """Return True if each member of a loop can be removed as soon as it has ended."""
        members = segment.loop.member_axis
        if members is None:
            return False
        return member_aggregates(self.program, members).isdisjoint(segment.captured_inputs)

    def load_part(self, part: Program) -> Runnable:
        """Load a part of the program, such as a segment, into a new session."""
        return self._backend.load(part, self._placement, self.program)


def _values_needed_by_segment(
    program: Program, segments: tuple[Segment, ...]
) -> tuple[frozenset[Value], ...]:
    """Return, for each segment, the values that are read there, in later segments or as outputs."""
    needed = frozenset(output.value for output in program.outputs)
    needed_sets = []
    for segment in reversed(segments):
        own_values = (
            reads(segment.loop)
            if isinstance(segment, LoopSegment)
            else _input_values(segment.program)
        )
        needed |= frozenset(own_values)
        needed_sets.append(needed)
    return tuple(reversed(needed_sets))


def _input_values(program: Program) -> tuple[Value, ...]:
    return tuple(entry.value for entry in program.inputs)


class PartialRun(Struct, frozen=True):
    """Complete or partial results of an evaluation.

    Attributes:
        outputs: Computed outputs of the whole program, by name.
        loops: Report of each loop, by name. For several loops of the same name, the report of the last
            one that started.
        stopped_by: Reason of a stop from outside, or None.
        missing: Reason why each missing output could not be computed, by name.
    """

    outputs: Mapping[str, Data]
    loops: Mapping[str, LoopReport]
    stopped_by: StopReason | None
    missing: Mapping[str, str]


def run_in_segments(
    segments: Segments,
    arrays: Mapping[str, Data],
    stopping: Stopping,
    follower: Follower = follow_loop,
    resume: Snapshot | None = None,
) -> PartialRun:
    """Evaluate a program segment by segment.

    Args:
        segments: Program in segments.
        arrays: Inputs by name.
        stopping: Watcher of signals and limits, which has been entered.
        follower: Function that runs each loop. A snapshot of its stepper is sufficient to resume.
        resume: Snapshot of a stepper in an earlier run of this program with these inputs, or None.

    Raises:
        LoopError: The model failed before any stop.
    """
    run = _Evaluation(segments, arrays, stopping, follower)
    if resume is not None:
        run.restore(resume)
    return run.run_remaining()


class _Evaluation:
    """Evaluation of a program segment by segment, with its current values and loop reports."""

    def __init__(
        self, segments: Segments, arrays: Mapping[str, Data], stopping: Stopping, follower: Follower
    ) -> None:
        self.segments = segments
        self.stopping = stopping
        self.follower = follower
        self.feeds = segments.constants | {
            entry.value: arrays[entry.value.name] for entry in segments.program.inputs
        }
        self.values: dict[Value, Data] = {}
        self.reports: dict[str, LoopReport] = {}
        self.reason: StopReason | None = None
        self.incomplete = Incomplete()
        self.first = 0
        self.resume: Snapshot | None = None

    def run_remaining(self) -> PartialRun:
        """Run the remaining segments and return the outputs and loop reports."""
        for index in range(self.first, len(self.segments.segments)):
            segment = self.segments.segments[index]
            self._discard_unneeded(index)
            if isinstance(segment, StraightSegment):
                self._run_straight(index, segment.program)
            else:
                self._run_loop(index, segment)
        output_values = {output.name: output.value for output in self.segments.program.outputs}
        outputs = {
            n: self.values[value] for n, value in output_values.items() if value in self.values
        }
        missing = {
            n: self._missing_reason()
            for n, value in output_values.items()
            if value not in self.values
        }
        return PartialRun(outputs, self.reports, self.reason, missing)

    def _missing_reason(self) -> str:
        """Return the reason why outputs are missing: an error, or the stop of the run."""
        if self.incomplete.errors:
            return str(self.incomplete.errors[0])
        assert self.reason is not None
        return self.reason.value

    def _discard_unneeded(self, place: int) -> None:
        """Discard values that neither the remaining segments nor the outputs read."""
        needed = self.segments.needed[place]
        self.values = {value: data for value, data in self.values.items() if value in needed}

    def _known_values(self) -> dict[Value, Data]:
        """Return the computed values, inputs and constants, without incomplete rows of stopped loops."""
        known = {**self.feeds, **self.values}
        return {value: data for value, data in known.items() if value not in self.incomplete.short}

    # --- straight segments ----------------------------------------------------------------------

    def _run_straight(self, place: int, program: Program) -> None:
        known = self._known_values()
        if self.reason is not None:
            self.values |= compute_available_values(
                program, known, self.incomplete, self._make_loader(place)
            )
            return
        feeds = {entry.value.name: known[entry.value] for entry in program.inputs}
        try:
            outputs = self.segments.session(place).run(feeds, self.stopping)
        except Stopped:
            self.reason = self.stopping.reason
        else:
            self.values |= {output.value: outputs[output.name] for output in program.outputs}

    def _make_loader(self, place: int) -> Callable[[Program], Runnable]:
        """Return a function that loads a segment, or a reduced segment with some of its outputs."""
        outputs = self.segments.segments[place].program.outputs

        def session_of(part: Program) -> Runnable:
            is_whole = part.outputs == outputs
            return self.segments.session(place) if is_whole else self.segments.load_part(part)

        return session_of

    # --- loops ----------------------------------------------------------------------------------

    def _run_loop(self, place: int, segment: LoopSegment) -> None:
        known = self._known_values()
        if not all(value in known for value in reads(segment.loop)):
            return
        outer_arrays = {} if self.reason else self._snapshot(place)
        stepper = self._make_stepper(place, segment, known, outer_arrays)
        stepper.cadence = self.segments.cadences[segment]
        if self.resume is not None:
            stepper.restore(self.resume)
            self.resume = None
        is_started = self.reason is None
        if is_started:
            self.reason = self.follower(stepper, self.stopping)
        loop_results = stepper.results()
        self.values |= loop_results
        if not stepper.finished:
            self.incomplete.record_stopped_loop(segment.loop, loop_results)
        if is_started or stepper.name not in self.reports:
            self.reports[stepper.name] = stepper.report(self.reason)

    def _make_stepper(
        self,
        place: int,
        segment: LoopSegment,
        known: Mapping[Value, Data],
        outer_arrays: Mapping[str, Array],
    ) -> LoopStepper:
        session = self.segments.session(place)
        at_once = self.segments.max_chunk_iterations(segment)
        if segment.loop.member_axis is None:
            return LoopStepper(session, segment, known, outer_arrays, at_once)
        stepper_class = (
            ShrinkingMembersStepper
            if self.segments.have_independent_members(segment)
            else MembersStepper
        )
        return stepper_class(session, segment, known, outer_arrays, at_once)

    # --- checkpoints ----------------------------------------------------------------------------

    def _snapshot(self, place: int) -> dict[str, Array]:
        """Return checkpoint arrays with the values and loop reports at the beginning of a loop."""
        parts = {f"value {value.name}": np.asarray(data) for value, data in self.values.items()}
        for name, report in self.reports.items():
            parts[f"loop {name}"] = np.array([report.iterations, report.codes])
        return {"piece": np.array(place, np.int64), **parts}

    def restore(self, parts: Snapshot) -> None:
        """Resume in the loop in which the snapshot was taken."""
        segments = self.segments.segments
        self.first = parts.number("piece", len(segments) - 1)
        if not isinstance(segments[self.first], LoopSegment):
            raise parts.wrong("piece", "the place of a loop")
        self.resume = parts
        values = parts.under("value ")
        for segment in segments[: self.first]:
            for value in _segment_results(segment):
                if value in self.segments.needed[self.first]:
                    self.values[value] = values.value(value.name, value)
            if isinstance(segment, LoopSegment):
                self.reports[segment.loop.name] = _read_report(parts, segment.loop)


def _read_report(parts: Snapshot, loop: Loop) -> LoopReport:
    """Read the report of a completed loop from a snapshot."""
    name, own = f"loop {loop.name}", () if loop.member_axis is None else (None,)
    iterations, codes = parts.array(name, "i", (2, *own))
    if (iterations < 0).any() or (codes < 0).any() or (codes >= len(StopReason)).any():
        raise parts.wrong(name, "iterations and why they ended")
    return LoopReport.of(iterations, codes)


def _segment_results(segment: Segment) -> tuple[Value, ...]:
    if isinstance(segment, LoopSegment):
        return tuple(results(segment.loop))
    return tuple(output.value for output in segment.program.outputs)
