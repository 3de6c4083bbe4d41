"""Control of a run: progress reports, checkpoints, and early stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Protocol

import numpy as np

from mdf_loop import signals
from mdf_loop.errors import DiskFullError, InputError, LoopError, MemoryLimitError
from mdf_loop.files import real_place, remove_abandoned
from mdf_loop.ir import Array, StopReason
from mdf_loop.run.control.checkpoint import CheckpointParts, Checkpoints, Identity, load
from mdf_loop.run.control.chunks import Chunks
from mdf_loop.run.control.progress import open_reporter
from mdf_loop.run.control.snapshot import BEGIN_ANEW_HINT, Snapshot, damaged_error
from mdf_loop.run.control.stepper import Block, Stepper
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.environment import check_environment, environment
from mdf_loop.run.recording.watch import NotFiniteValue
from mdf_loop.run.run_id import new_run_id
from mdf_loop.specification import RunControls


class RowRecorder(Protocol):
    """Interface of an object that records the rows which a stepper computes."""

    def add_block(self, block: Block) -> None:
        """Record the rows of a block of consecutive steps."""

    def flush(self) -> None:
        """Write all recorded rows to their destination (memory or disk)."""

    def snapshot(self) -> Mapping[str, Array]:
        """Return the arrays that a checkpoint needs to continue recording."""

    def end(self) -> bool:
        """Release reserved disk space, and return True if all recorded rows are stored safely."""


_ENVIRONMENT = "environment"
"""Name of the checkpoint part with the environment of the run."""


class RunController:
    """Controller of a run: reports progress, writes checkpoints, and stops the run.

    Attributes:
        not_finite_value: First nan or infinity, if the run was watched and stopped there. None otherwise.
        failure: Error that ended the run, or None.
        stopping: Watcher of signals and limits.
        run_id: Id of the run, which a resumed run keeps.
        checkpoint: File from which the run can resume, or None before the first checkpoint.
    """

    def __init__(
        self,
        controls: RunControls,
        identity: Callable[[], Identity],
        axis: int = 0,
        run: str | None = None,
    ) -> None:
        self.controls = controls
        self.not_finite_value: NotFiniteValue | None = None
        self.failure: LoopError | None = None
        self.seconds: dict[str, float] = {}
        self._identity: Identity = {} if controls.checkpoint_path is None else identity()
        self._axis = axis
        self._checkpoints: Checkpoints | None = None
        self.resumed_snapshots = self._load_resumed()
        new_id = run or new_run_id() if controls.checkpoint_path is not None else run or ""
        self.run_id = new_id if self.resumed_snapshots is None else _run_id(self.resumed_snapshots)
        self.checkpoint = None if self.resumed_snapshots is None else controls.resume

    def _load_resumed(self) -> Mapping[str, Snapshot] | None:
        """Load the checkpoint from which the run resumes, or return None for a new run."""
        if self.controls.is_new_run:
            return None
        assert self.controls.resume is not None
        snapshots = load(self.controls.resume, self._identity)
        if missing_part_names := {"course", "kept"} - set(snapshots):
            raise damaged_error(self.controls.resume.name, f"it has no '{min(missing_part_names)}'")
        recorded_environment = snapshots.get(_ENVIRONMENT)
        check_environment(
            f"the checkpoint '{self.controls.resume.name}'",
            None
            if recorded_environment is None
            else {key: recorded_environment.text(key) for key in recorded_environment},
            BEGIN_ANEW_HINT,
        )
        return snapshots

    def __enter__(self) -> RunController:
        if self.controls.checkpoint_path is not None:
            for path in (self.controls.checkpoint, self.controls.resume):
                if path is not None:
                    remove_abandoned(real_place(path))
            self._checkpoints = Checkpoints(
                self.controls.checkpoint_path, self.controls.checkpoint_every, self._identity
            )
        self.stopping = Stopping(self.controls.time_limit)
        self.stopping.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.__exit__()
        self.failure = self.failure or self.stopping.failure

    def run_in_chunks(
        self, stepper: Stepper, recorder: RowRecorder, unit: str, name: str = ""
    ) -> StopReason | None:
        """Run a loop, or a run over time, in chunks of steps until it ends or is stopped.

        Return the reason of the stop, or None.

        The elapsed seconds are stored in `seconds` under `name`.
        """
        start_time = perf_counter()
        with open_reporter(
            self.controls.progress, stepper.total, stepper.done, unit, name
        ) as reporter:
            chunks = Chunks(stepper, self.stopping, self._axis)
            try:
                for row_block in chunks:
                    recorder.add_block(row_block)
                    if not reporter.update(stepper.done):
                        self.stopping.request_stop(StopReason.INTERRUPTED)
                    if self._checkpoints is not None and self._checkpoints.due():
                        self._save(stepper, recorder)
                    del row_block  # frees its rows before the next chunk
                reason, self.not_finite_value = chunks.reason, chunks.not_finite_value
                self.failure = self.stopping.failure
                if reason is not None and reason.is_asked:
                    signals.record_answer()
                self._save(stepper, recorder)
            except DiskFullError as error:
                self.failure, reason = error, StopReason.DISK_FULL
                self._save_on_full_disk(stepper, recorder)
            except MemoryLimitError as error:
                self.failure, reason = error, StopReason.MEMORY_LIMIT
            except LoopError as error:  # rows that cannot be recorded
                self.failure, reason = error, StopReason.FAILED
        self.seconds[name] = perf_counter() - start_time
        return reason

    def _save(self, stepper: Stepper, recorder: RowRecorder) -> None:
        """Write all recorded rows, and a checkpoint if the run has a checkpoint file."""
        recorder.flush()
        if self._checkpoints is not None:
            stepper_snapshot = stepper.snapshot()
            parts: CheckpointParts = {
                "run": {"id": np.array(self.run_id)},
                _ENVIRONMENT: self._environment(stepper_snapshot),
                "course": stepper_snapshot,
                "kept": recorder.snapshot(),
            }
            self._checkpoints.save(parts)
            self.checkpoint = self.controls.checkpoint_path

    def _environment(self, stepper_snapshot: Mapping[str, Array]) -> dict[str, Array]:
        """Return the software versions and processor of the run, as arrays of a checkpoint."""
        execution_mode_by_loop = (
            json.loads(str(stepper_snapshot["native"])) if "native" in stepper_snapshot else None
        )
        description_by_key = environment(
            self._identity.get("engine", "onnxruntime"), execution_mode_by_loop
        )
        return {key: np.array(description) for key, description in description_by_key.items()}

    def _save_on_full_disk(self, stepper: Stepper, recorder: RowRecorder) -> None:
        """Write a last checkpoint after the disk became full, in space reserved for rows."""
        if recorder.end():
            with suppress(InputError):  # the first error is the one to report
                self._save(stepper, recorder)


def _run_id(resumed: Mapping[str, Snapshot]) -> str:
    """Return the id of the run that wrote a checkpoint, or "" if the checkpoint has no id."""
    return resumed["run"].text("id") if "run" in resumed else ""
