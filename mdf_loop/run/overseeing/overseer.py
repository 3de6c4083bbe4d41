"""A run that is overseen: it is reported, saved from time to time, and stopped when it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mdf_loop.arguments import word
from mdf_loop.durations import seconds
from mdf_loop.errors import DiskFullError, InputError, LoopError, MemoryLimitError
from mdf_loop.files import real_place, remove_abandoned
from mdf_loop.ir import Array, StoppedBy
from mdf_loop.memory_limit import checked_limit
from mdf_loop.paths import path_of
from mdf_loop.run.overseeing.checkpoint import Checkpoints, Identity, Parts, load
from mdf_loop.run.overseeing.chunks import follow
from mdf_loop.run.overseeing.course import Block, Course
from mdf_loop.run.overseeing.progress import Callback, Reporter, reporting
from mdf_loop.run.overseeing.snapshot import Snapshot, damaged
from mdf_loop.run.overseeing.stopping import Stopped, Stopping
from mdf_loop.run.recording.watch import Found, first_not_finite
from mdf_loop.run.run_id import new_run_id

NAN = ("ignore", "stop", "error")
EVERY = 60.0
"""Seconds between two checkpoints, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Oversight:
    """How a run is overseen; see `Compiled.run` for the words. `run` is what it is called."""

    time_limit: float | None = None
    nan: str = "ignore"
    progress: bool | Callback | None = None
    checkpoint: Path | None = None
    checkpoint_every: float = EVERY
    resume: Path | None = None
    memory_limit: int | None = None
    run: str = field(default_factory=new_run_id)

    @property
    def begins(self) -> bool:
        """Whether the run begins anew; one that has no checkpoint yet does."""
        path = self.resume
        return path is None or (path == self.checkpoint and not path.exists())

    @property
    def is_patient(self) -> bool:
        """Whether nothing is asked for that a run in one piece does not give."""
        asked = callable(self.progress) or self.saved_at is not None or self.nan != "ignore"
        return not asked and (self.time_limit is None or self.time_limit > 1.0)

    @property
    def saved_at(self) -> Path | None:
        """Where checkpoints are written: where the run goes on from, if nothing else is said."""
        return self.checkpoint or self.resume


def checked_oversight(
    time_limit: Any = None,
    nan: str = "ignore",
    progress: bool | Callback | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: Any = None,
    resume: str | Path | None = None,
    memory_limit: Any = None,
) -> Oversight:
    """How a run is overseen, refusing words that mean nothing."""
    word(nan, "nan", NAN)
    if checkpoint_every is not None and checkpoint is None and resume is None:
        raise InputError(
            "a time between checkpoints needs a file for them",
            hint="give checkpoint (--checkpoint), too",
        )
    return Oversight(
        None if time_limit is None else seconds(time_limit, "the time limit"),
        nan,
        progress,
        None if checkpoint is None else path_of(checkpoint, "the checkpoint"),
        EVERY
        if checkpoint_every is None
        else seconds(checkpoint_every, "the time between checkpoints"),
        None if resume is None else path_of(resume, "the checkpoint to go on from"),
        checked_limit(memory_limit),
    )


class Keeper(Protocol):
    """What keeps the rows of a course."""

    def take(self, block: Block) -> None:
        """Keep of the block what is to be kept."""

    def flush(self) -> None:
        """Let everything be safe that was taken."""

    def snapshot(self) -> Mapping[str, Array]:
        """All that is needed to go on keeping."""

    def end(self) -> bool:
        """Give up what was kept of the disk; whether all is safe that was taken."""


class Overseer:
    """Oversees one run; to be entered before its first course is followed.

    Attributes:
        found: what was not finite, if the run was watched and has stopped for that.
        failure: the error that has ended the run, if one has.
        stopping: what ends the run from outside.
        run: what the run is called, also when it goes on from a checkpoint.
        checkpoint: the file with which it can go on; None as long as there is none.
    """

    def __init__(
        self, oversight: Oversight, identity: Callable[[], Identity], axis: int = 0
    ) -> None:
        self.oversight = oversight
        self.found: Found | None = None
        self.failure: LoopError | None = None
        self._identity: Identity = {} if oversight.saved_at is None else identity()
        self._axis = axis
        self._entered = ExitStack()
        self._checkpoints: Checkpoints | None = None
        self.resumed = self._resumed()
        self.run = oversight.run if self.resumed is None else _run_of(self.resumed)
        self.checkpoint = None if self.resumed is None else oversight.resume

    def _resumed(self) -> Mapping[str, Snapshot] | None:
        """What a checkpoint says to go on from."""
        if self.oversight.begins:
            return None
        assert self.oversight.resume is not None
        found = load(self.oversight.resume, self._identity)
        if missing := {"course", "kept"} - set(found):
            raise damaged(self.oversight.resume.name, f"it has no '{min(missing)}'")
        return found

    def __enter__(self) -> Overseer:
        for path in (self.oversight.checkpoint, self.oversight.resume):
            if path is not None:
                remove_abandoned(real_place(path))
        if self.oversight.saved_at is not None:
            self._checkpoints = Checkpoints(
                self.oversight.saved_at, self.oversight.checkpoint_every, self._identity
            )
        self.stopping = self._entered.enter_context(Stopping(self.oversight.time_limit))
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()
        self.failure = self.failure or self.stopping.failure

    def follow(self, course: Course, keeper: Keeper, unit: str, name: str = "") -> StoppedBy | None:
        """Follow a course to its end, or until the run is stopped; None if it was not."""
        with reporting(self.oversight.progress, course.total, course.done, unit, name) as reporter:
            take = self._taking(course, keeper, reporter)
            try:
                reason = follow(course, self.stopping, take)
                self.failure = self.stopping.failure
                self._save(course, keeper)
            except DiskFullError as error:
                self.failure, reason = error, StoppedBy.DISK_FULL
                self._save_at_last(course, keeper)
            except MemoryLimitError as error:
                self.failure, reason = error, StoppedBy.MEMORY_LIMIT
            except LoopError as error:  # rows that cannot be kept
                self.failure, reason = error, StoppedBy.FAILED
        return reason

    def _taking(
        self, course: Course, keeper: Keeper, reporter: Reporter
    ) -> Callable[[Block], StoppedBy | None]:
        """What is done with each block."""

        def take(block: Block) -> StoppedBy | None:
            found = first_not_finite(block, self._axis) if block.watched else None
            if found is not None:
                course.back()
                try:
                    block = course.advance(found.row + 1, self.stopping)
                except Stopped:
                    return self.stopping.reason
                self.found = found
            keeper.take(block)
            if not reporter.update(course.done):
                self.stopping.ask(StoppedBy.INTERRUPTED)
            if self._checkpoints is not None and self._checkpoints.due():
                self._save(course, keeper)
            return None if found is None else StoppedBy.NOT_FINITE

        return take

    def _save(self, course: Course, keeper: Keeper) -> None:
        """Write what was reached."""
        keeper.flush()
        if self._checkpoints is not None:
            parts: Parts = {
                "run": {"id": np.array(self.run)},
                "course": course.snapshot(),
                "kept": keeper.snapshot(),
            }
            self._checkpoints.save(parts)
            self.checkpoint = self.oversight.saved_at

    def _save_at_last(self, course: Course, keeper: Keeper) -> None:
        """Write what was reached, with the room that was kept on the disk for rows."""
        if keeper.end():
            with suppress(InputError):  # what was wrong first is said
                self._save(course, keeper)


def _run_of(resumed: Mapping[str, Snapshot]) -> str:
    """What the run of a checkpoint is called; nothing for one that does not say it."""
    return resumed["run"].text("id") if "run" in resumed else ""
