"""One evaluation of a model, computed in one call, or in chunks if it has long loops.

Most evaluations are short, and are one call of ONNX Runtime. An evaluation that takes longer than `MAX_WHOLE_SECONDS`
is aborted and started again in segments, so that it can be watched, and stopped with partial results.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from mdf_loop.errors import MemoryLimitError, RunError
from mdf_loop.ir import Array, Data, Program, StopReason, bodies, is_fixed, loops, results
from mdf_loop.locks import ForkSafeLock
from mdf_loop.passes.segments.split_into_segments import split_into_segments
from mdf_loop.pipeline import passes_of_evaluation, prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS, Backend
from mdf_loop.run.control.controller import RunController
from mdf_loop.run.control.stepper import Block
from mdf_loop.run.control.stopping import NeverStopping, Stopped, Stopping
from mdf_loop.run.device import DEFAULT_PLACEMENT, UNDECIDED_DEVICE, Device, Placement
from mdf_loop.run.loop_stepper import LoopStepper
from mdf_loop.run.members import move_members_first
from mdf_loop.run.segments import PartialRun, SegmentedEvaluation, Segments
from mdf_loop.signals import stop_exception
from mdf_loop.specification import RunControls

MAX_WHOLE_SECONDS = 0.1
"""Seconds after which a whole evaluation is aborted and started in segments, if its duration is unknown."""

MAX_KNOWN_WHOLE_SECONDS = 1.0
"""Maximum seconds of a whole evaluation whose duration is known. After an abort, its work is lost."""

MIN_REMOVED_MEMBERS = 8
"""Minimum number of members for which ended members are removed from the beginning of the evaluation."""

SIGNAL_FREE_SECONDS = 0.005
"""Seconds of an evaluation below which signals are left to Python's own handlers.

Watching for signals costs 10 us per call, since handlers are changed and caches lose their contents."""


class SingleRun:
    """Loaded model for single evaluations, which several threads may run at once."""

    def __init__(
        self,
        program: Program,
        placement: Placement = DEFAULT_PLACEMENT,
        swept: Collection[str] = (),
        backend: Backend = PROGRAM_BACKENDS["onnxruntime"],
    ) -> None:
        self._backend = backend
        self._swept = min(swept, default=None)
        self._program = prepare(program, self._backend.pass_order, passes_of_evaluation(swept))
        self._placement = placement
        self.session = self._backend.load(self._program, placement)
        self._segments: dict[bool, Segments | None] = {}
        self._has_constant_duration = _has_constant_duration(self._program)
        self._members_end_individually = any(loop.member_axis for loop in loops(self._program))
        self._last_duration = math.inf
        self._one_call_seconds: float | None = None
        self._lock = ForkSafeLock()

    @property
    def device(self) -> Device:
        """Device of the model, with the reason for its choice."""
        device = self.session.device
        loaded_segments = [segments for segments in self._segments.values() if segments is not None]
        return (
            loaded_segments[-1].device if device is UNDECIDED_DEVICE and loaded_segments else device
        )

    @property
    def native(self) -> dict[str, str]:
        """Execution mode of each loop by name: `native` (machine code) or `standard: <reason>`."""
        loaded_segments = [segments for segments in self._segments.values() if segments is not None]
        execution_mode_by_loop = {
            name: execution_mode
            for segments in loaded_segments
            for name, execution_mode in segments.native.items()
        }
        return {**self.session.native, **execution_mode_by_loop}

    def run(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        """Evaluate the model once, under the control of `controller`.

        The controller must not be entered yet.

        Raises:
            KeyboardInterrupt, RunError, MemoryLimitError: The evaluation was stopped without partial results.
        """
        segments = self._load_segments(controller.controls.watches)
        if segments is None:
            return self._move_members_first(arrays, self._run_whole(arrays, controller))
        outputs, received_signal = self._try_one_call(segments, arrays, controller)
        if outputs is not None:
            partial_run = PartialRun(outputs, {}, received_signal, {})
            return self._move_members_first(arrays, partial_run)
        with controller:
            if received_signal is not None:
                controller.stopping.receive_signal(received_signal)
            snapshots, start_time = controller.resumed_snapshots, time.perf_counter()
            resumed_snapshot = None if snapshots is None else snapshots["course"]
            evaluation = SegmentedEvaluation(
                segments, arrays, controller.stopping, resumed_snapshot
            )
            for stepper in evaluation.steppers():
                recorder = _StepperRowRecorder(stepper)
                evaluation.reason = controller.run_in_chunks(
                    stepper, recorder, "iterations", stepper.name
                )
            partial_run = evaluation.results()
            if partial_run.stopped_by is None and resumed_snapshot is None:
                self._one_call_seconds = _compute_one_call_limit(time.perf_counter() - start_time)
        return self._move_members_first(arrays, partial_run)

    def _move_members_first(
        self, arrays: Mapping[str, Data], partial_run: PartialRun
    ) -> PartialRun:
        """Return the outputs of a sweep with a first axis of members."""
        if self._swept is None:
            return partial_run
        member_count = len(arrays[self._swept])
        outputs = move_members_first(self._program, partial_run.outputs, member_count)
        return replace(partial_run, outputs=outputs)

    def _try_one_call(
        self, segments: Segments, arrays: Mapping[str, Data], controller: RunController
    ) -> tuple[Mapping[str, Data] | None, StopReason | None]:
        """Evaluate the model in one call if it is expected to be short.

        Return the outputs, or None if the evaluation must run in segments, and the reason of a signal.
        """
        max_seconds = self._get_one_call_limit(controller.controls)
        if max_seconds <= 0 or segments.is_long(arrays) or self._has_many_members(arrays):
            return None, None
        outputs = None
        # All rows of a loop at once may exceed the memory limit.
        expected_errors = (Stopped, MemoryLimitError)
        start_time = time.perf_counter()
        with (
            Stopping(max_seconds, grace=0.0) as attempt_stop_monitor,
            contextlib.suppress(*expected_errors),
        ):
            outputs = self.session.run(arrays, attempt_stop_monitor)
            controller.seconds[""] = time.perf_counter() - start_time
        if outputs is None and attempt_stop_monitor.reason is StopReason.MEMORY_LIMIT:
            self.session = self._backend.load(self._program, self._placement)  # with new memory
        return outputs, attempt_stop_monitor.received_signal

    def _get_one_call_limit(self, controls: RunControls) -> float:
        """Return the time limit in seconds of an evaluation in one call, without chunks."""
        if not controls.can_run_in_one_call:
            return 0.0
        one_call_seconds = self._one_call_seconds
        if one_call_seconds is None or (one_call_seconds and controls.time_limit is not None):
            return MAX_WHOLE_SECONDS
        return one_call_seconds

    def _has_many_members(self, arrays: Mapping[str, Data]) -> bool:
        """Return True if a batch is so large that ended members should be removed from it."""
        if not self._members_end_individually or self._swept is None:
            return False
        return len(arrays[self._swept]) >= MIN_REMOVED_MEMBERS

    def _load_segments(self, watch: bool) -> Segments | None:
        if watch in self._segments:
            return self._segments[watch]
        with self._lock:
            if watch not in self._segments:
                segments = split_into_segments(self._program, watch)
                self._segments[watch] = (
                    None
                    if segments is None
                    else Segments(self._program, segments, self._backend, self._placement)
                )
            return self._segments[watch]

    def _run_whole(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        """Evaluate a model in one call, because its loops cannot run in chunks."""
        controls = controller.controls
        is_controlled = controls.time_limit is not None or controls.checkpoint_path is not None
        start_time = time.perf_counter()
        if (
            self._has_constant_duration
            and self._last_duration < SIGNAL_FREE_SECONDS
            and not is_controlled
        ):
            partial_run = PartialRun(self.session.run(arrays, NeverStopping()), {}, None, {})
        else:
            partial_run = self._run_controlled(arrays, controller)
        self._last_duration = controller.seconds[""] = time.perf_counter() - start_time
        return partial_run

    def _run_controlled(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        """Evaluate the model in one call, which signals and limits can stop."""
        outputs = None
        with controller, contextlib.suppress(Stopped):
            outputs = self.session.run(arrays, controller.stopping)
        reason = controller.stopping.reason
        if reason is not None and reason.is_asked:
            raise stop_exception(reason)
        if outputs is not None:
            return PartialRun(outputs, {}, None, {})
        raise controller.failure or RunError(
            "the time limit of the run was over, and nothing was reached",
            hint="only a loop on the outermost level of a model, or a run over time (steps), can "
            "be stopped with what it has reached",
        )


def _compute_one_call_limit(seconds: float) -> float:
    """Return the time limit for an evaluation in one call, given its duration in chunks.

    An evaluation in chunks takes longer than an evaluation in one call. 0 means that the evaluation runs in
    chunks from the beginning.
    """
    return (
        0.0
        if seconds > MAX_KNOWN_WHOLE_SECONDS
        else max(MAX_WHOLE_SECONDS, min(2 * seconds, MAX_KNOWN_WHOLE_SECONDS))
    )


def _has_constant_duration(program: Program) -> bool:
    """Return True if a program's duration is constant: no loops, branches, unknown shapes."""
    result_values = (value for operation in program.ops for value in results(operation))
    all_values = (*(program_input.value for program_input in program.inputs), *result_values)
    return not any(map(bodies, program.ops)) and all(is_fixed(value.shape) for value in all_values)


class _StepperRowRecorder:
    """Row recorder that passes the rows of a loop to the `LoopStepper` that runs the loop."""

    def __init__(self, stepper: LoopStepper) -> None:
        self._stepper = stepper

    def add_block(self, block: Block) -> None:
        """Append the rows of a block of iterations to those of the stepper."""
        self._stepper.add_block(block)

    def flush(self) -> None:
        """Do nothing, since rows are never buffered."""

    def snapshot(self) -> Mapping[str, Array]:
        """Return an empty dict, since the checkpoint of the `LoopStepper` has all rows."""
        return {}

    def end(self) -> bool:
        """Do nothing, and return True: all rows are stored, since they stay in memory."""
        return True
