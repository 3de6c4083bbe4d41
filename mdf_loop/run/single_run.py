"""Single evaluation of a model, as a whole or with its long loops in chunks.

Most evaluations are short, and are one call of ONNX Runtime. An evaluation that takes longer than `PATIENCE`
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
from mdf_loop.pipeline import evaluation, prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS, Backend
from mdf_loop.run.control.controller import RunController
from mdf_loop.run.control.stepper import Block
from mdf_loop.run.control.stopping import NeverStopping, Stopped, Stopping
from mdf_loop.run.device import UNDECIDED, USUAL, Device, Placement
from mdf_loop.run.loop_stepper import LoopStepper
from mdf_loop.run.members import members_in_front
from mdf_loop.run.segments import Follower, PartialRun, Segments, run_in_segments
from mdf_loop.signals import ending
from mdf_loop.specification import RunControls

PATIENCE = 0.1
"""Seconds after which a whole evaluation is aborted and started in segments, if its duration is unknown."""

LONGEST_PATIENCE = 1.0
"""Maximum seconds of a whole evaluation whose duration is known. After an abort, its work is lost."""

MANY = 8
"""Minimum number of members for which ended members are removed from the beginning of the evaluation."""

BRIEF = 0.005
"""Seconds of an evaluation below which signals are left to Python's own handlers.

Watching for signals costs 10 us per call, since handlers are changed and caches lose their contents."""


class SingleRun:
    """Loaded model for single evaluations, which several threads may run at once."""

    def __init__(
        self,
        program: Program,
        placement: Placement = USUAL,
        swept: Collection[str] = (),
        backend: Backend = PROGRAM_BACKENDS["onnxruntime"],
    ) -> None:
        self._backend = backend
        self._swept = min(swept, default=None)
        self._program = prepare(program, self._backend.order, evaluation(swept))
        self._placement = placement
        self.session = self._backend.load(self._program, placement)
        self._segments: dict[bool, Segments | None] = {}
        self._takes_alike = _takes_alike(self._program)
        self._members_end_individually = any(loop.members for loop in loops(self._program))
        self._took = math.inf
        self._longer_patience: float | None = None
        self._lock = ForkSafeLock()

    @property
    def device(self) -> Device:
        """Device of the whole program, or of its segments if only those have run."""
        whole = self.session.device
        loaded_segments = [segments for segments in self._segments.values() if segments is not None]
        return loaded_segments[-1].device if whole is UNDECIDED and loaded_segments else whole

    @property
    def native(self) -> dict[str, str]:
        """Form of each loop by name: `native`, or `standard: ` followed by the reason."""
        loaded_segments = [segments for segments in self._segments.values() if segments is not None]
        pieces = {name: form for each in loaded_segments for name, form in each.native.items()}
        return {**self.session.native, **pieces}

    def run(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        """Evaluate the model. `controller` must not be entered yet.

        Raises:
            KeyboardInterrupt, RunError, MemoryLimitError: The evaluation was stopped without partial results.
        """
        partial_run = self._reached(arrays, controller)
        if self._swept is None:
            return partial_run
        outputs = members_in_front(self._program, partial_run.outputs, len(arrays[self._swept]))
        return replace(partial_run, outputs=outputs)

    def _reached(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        controls = controller.controls
        segments = self._segments_of(controls.watches)
        if segments is None:
            return self._whole(arrays, controller)
        signalled = None
        patience = self._patience(controls)
        if patience > 0 and not segments.is_long(arrays) and not self._many(arrays):
            outputs = None
            trouble = (Stopped, MemoryLimitError)  # all rows of a loop at once may exceed memory
            begun = time.perf_counter()
            with Stopping(patience, grace=0.0) as attempt, contextlib.suppress(*trouble):
                outputs = self.session.run(arrays, attempt)
                controller.seconds[""] = time.perf_counter() - begun
            signalled = attempt.signalled
            if outputs is not None:
                return PartialRun(outputs, {}, signalled, {})
            if attempt.reason is StopReason.MEMORY_LIMIT:
                self.session = self._backend.load(self._program, self._placement)  # with new memory
        with controller:
            if signalled is not None:
                controller.stopping.hears(signalled)
            resumed = None if controller.resumed is None else controller.resumed["course"]
            begun = time.perf_counter()
            partial_run = run_in_segments(
                segments, arrays, controller.stopping, _follower(controller), resumed
            )
            if partial_run.stopped_by is None and resumed is None:
                self._longer_patience = _patience(time.perf_counter() - begun)
            return partial_run

    def _patience(self, controls: RunControls) -> float:
        """Return the maximum number of seconds of a whole evaluation before it is started in segments."""
        if not controls.is_patient:
            return 0.0
        known = self._longer_patience
        if known is None or (known and controls.time_limit is not None):
            return PATIENCE
        return known

    def _many(self, arrays: Mapping[str, Data]) -> bool:
        """Return True if enough members end individually to make their removal worthwhile."""
        if not self._members_end_individually or self._swept is None:
            return False
        return len(arrays[self._swept]) >= MANY

    def _segments_of(self, watch: bool) -> Segments | None:
        if watch in self._segments:
            return self._segments[watch]
        with self._lock:
            if watch not in self._segments:
                cut = split_into_segments(self._program, watch)
                self._segments[watch] = (
                    None
                    if cut is None
                    else Segments(self._program, cut, self._backend, self._placement)
                )
            return self._segments[watch]

    def _whole(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        """Evaluate a model that has no loops to divide into chunks."""
        controls = controller.controls
        is_asked = controls.time_limit is not None or controls.saved_at is not None
        begun = time.perf_counter()
        if self._takes_alike and self._took < BRIEF and not is_asked:
            partial_run = PartialRun(self.session.run(arrays, NeverStopping()), {}, None, {})
        else:
            partial_run = self._watched(arrays, controller)
        self._took = controller.seconds[""] = time.perf_counter() - begun
        return partial_run

    def _watched(self, arrays: Mapping[str, Data], controller: RunController) -> PartialRun:
        """Evaluate the whole program under the control of signals and limits."""
        outputs = None
        with controller, contextlib.suppress(Stopped):
            outputs = self.session.run(arrays, controller.stopping)
        reason = controller.stopping.reason
        if reason is not None and reason.is_asked:
            raise ending(reason)
        if outputs is not None:
            return PartialRun(outputs, {}, None, {})
        raise controller.failure or RunError(
            "the time limit of the run was over, and nothing was reached",
            hint="only a loop on the outermost level of a model, or a run over time (steps), can "
            "be stopped with what it has reached",
        )


def _patience(seconds: float) -> float:
    """Return the seconds allowed for a whole evaluation, from the duration of an evaluation in segments.

    An evaluation in segments takes longer than a whole evaluation. 0 means that segments are used at once.
    """
    return 0.0 if seconds > LONGEST_PATIENCE else max(PATIENCE, min(2 * seconds, LONGEST_PATIENCE))


def _takes_alike(program: Program) -> bool:
    """Return True if a program has no loops, branches or unknown shapes, and so a constant duration."""
    result_values = (value for operation in program.ops for value in results(operation))
    values = (*(entry.value for entry in program.inputs), *result_values)
    return not any(map(bodies, program.ops)) and all(is_fixed(value.shape) for value in values)


class _Rows:
    """Adapter that records the rows of a loop in its stepper."""

    def __init__(self, stepper: LoopStepper) -> None:
        self._stepper = stepper

    def take(self, block: Block) -> None:
        """Append the rows of a block to the rows of the stepper."""
        self._stepper.take(block)

    def flush(self) -> None:
        """Do nothing, since rows are never buffered."""

    def snapshot(self) -> Mapping[str, Array]:
        """Return no arrays, since the stepper has all rows."""
        return {}

    def end(self) -> bool:
        """Return True, since no rows have to be written to the disk."""
        return True


def _follower(controller: RunController) -> Follower:
    def follow(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
        return controller.follow(stepper, _Rows(stepper), "iterations", stepper.name)

    return follow
