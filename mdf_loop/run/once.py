"""One evaluation of a model: whole, or with its loops followed in chunks if it takes longer.

Most evaluations are over in a moment; they are one call of ONNX Runtime. What is not over after
`PATIENCE` is begun again in pieces, so that it can be watched, and stopped with what it has reached.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping

from mdf_loop.errors import RunError
from mdf_loop.ir import Array, Data, Program, StoppedBy
from mdf_loop.passes.in_pieces import in_pieces
from mdf_loop.run.choosing import UNDECIDED
from mdf_loop.run.device import Device
from mdf_loop.run.loop_course import LoopCourse
from mdf_loop.run.overseeing.course import Block
from mdf_loop.run.overseeing.overseer import Overseer
from mdf_loop.run.overseeing.stopping import Stopped, Stopping
from mdf_loop.run.pieces import Follower, Pieces, Reached, run_in_pieces
from mdf_loop.run.session import Session
from mdf_loop.signals import ending

PATIENCE = 0.1
"""Seconds after which an evaluation is begun again in pieces."""


class Once:
    """One evaluation of a model, ready to run: from several threads, too."""

    def __init__(self, program: Program, device: str) -> None:
        self.session = Session(program, device)
        self._program = program
        self._wanted_device = device
        self._pieces: dict[bool, Pieces | None] = {}
        self._lock = threading.Lock()

    @property
    def device(self) -> Device:
        """Where it runs, and why: as a whole, or where only pieces of it ran yet, those."""
        whole = self.session.device
        made = [pieces for pieces in self._pieces.values() if pieces is not None]
        return made[-1].device if whole is UNDECIDED and made else whole

    def run(self, arrays: Mapping[str, Data], overseer: Overseer) -> Reached:
        """Evaluate the model; `overseer` is not yet entered.

        Raises:
            KeyboardInterrupt, RunError, MemoryLimitError: it was stopped, and no loop could keep what was reached.
        """
        oversight = overseer.oversight
        pieces = self._in_pieces(oversight.nan != "ignore")
        if pieces is None:
            return self._whole(arrays, overseer)
        signalled = None
        if oversight.is_patient and not pieces.is_long(arrays):
            made = None
            with Stopping(PATIENCE, grace=0.0) as attempt, contextlib.suppress(Stopped):
                made = self.session.run(arrays, attempt)
            signalled = attempt.signalled
            if made is not None:
                return Reached(made, {}, signalled, {})
            if attempt.reason is StoppedBy.MEMORY_LIMIT:
                self.session = Session(self._program, self._wanted_device)  # without that memory
        with overseer:
            if signalled is not None:
                overseer.stopping.hears(signalled)
            resumed = None if overseer.resumed is None else overseer.resumed["course"]
            return run_in_pieces(pieces, arrays, overseer.stopping, _follower(overseer), resumed)

    def _in_pieces(self, watch: bool) -> Pieces | None:
        with self._lock:
            if watch not in self._pieces:
                cut = in_pieces(self._program, watch)
                self._pieces[watch] = (
                    None if cut is None else Pieces(self._program, cut, self._wanted_device)
                )
            return self._pieces[watch]

    def _whole(self, arrays: Mapping[str, Data], overseer: Overseer) -> Reached:
        """Evaluate a model without loops that could be followed."""
        made = None
        with overseer, contextlib.suppress(Stopped):
            made = self.session.run(arrays, overseer.stopping)
        reason = overseer.stopping.reason
        if reason is not None and reason.is_asked:
            raise ending(reason)
        if made is not None:
            return Reached(made, {}, None, {})
        raise overseer.failure or RunError(
            "the time limit of the run was over, and nothing was reached",
            hint="only a loop on the outermost level of a model, or a run over time (steps), can "
            "be stopped with what it has reached",
        )


class _Rows:
    """The rows of a loop, which are kept with the loop itself."""

    def __init__(self, course: LoopCourse) -> None:
        self._course = course

    def take(self, block: Block) -> None:
        """Keep the rows."""
        self._course.take(block)

    def flush(self) -> None:
        """Nothing waits."""

    def snapshot(self) -> Mapping[str, Array]:
        """Nothing: the course has all."""
        return {}

    def end(self) -> bool:
        """Nothing of it is on the disk."""
        return True


def _follower(overseer: Overseer) -> Follower:
    def follow(course: LoopCourse, stopping: Stopping) -> StoppedBy | None:
        return overseer.follow(course, _Rows(course), "iterations", course.name)

    return follow
