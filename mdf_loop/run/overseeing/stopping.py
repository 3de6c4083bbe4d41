"""What may end a run before its end: Ctrl-C, a time limit, a word from the program around it.

While ONNX Runtime computes, Python cannot run its signal handler. The interpreter's wake-up
descriptor is written to by the signal itself; one watcher thread for the whole process reads it,
looks after the time limits, and tells the runtime to stop. What is being computed has a moment to
end by itself (`GRACE`): where steps are short, nothing is lost. A run costs microseconds for it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from mdf_loop.errors import LoopError
from mdf_loop.ir import StoppedBy

GRACE = 0.03
"""Seconds that are left to what is being computed when a run is asked to stop."""


class Stopped(Exception):  # noqa: N818 - no error: it was wanted
    """A computation was ended from outside; `Stopping.reason` says why."""


class Stopping:
    """What may end a run: to be entered before the run begins, and left after its end.

    Ctrl-C is noticed by a run in the main thread; a second one is Python's KeyboardInterrupt.

    Attributes:
        reason: why the run is to end; None if it may go on.
        failure: the error that has ended it.
    """

    def __init__(self, time_limit: float | None = None, grace: float = GRACE) -> None:
        self.reason: StoppedBy | None = None
        self.interrupted = False  # also where that was not the first reason
        self.failure: LoopError | None = None
        self._grace = grace
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._end: float | None = None
        self._over = False
        self._running: set[Any] = set()
        self._main = False
        self._old_bell = -1
        self._handles = False

    def ask(self, reason: StoppedBy) -> None:
        """Let the run stop, if nothing has yet; from any thread."""
        self._set(reason)
        _watcher(os.getpid()).wake()

    def _set(self, reason: StoppedBy) -> None:
        if reason is StoppedBy.INTERRUPTED:
            self.interrupted = True
        if self.reason is None:
            self._end = time.monotonic() + self._grace
            self.reason = reason

    # --- the run ------------------------------------------------------------------------------

    def __enter__(self) -> Stopping:
        watcher = _watcher(os.getpid())
        self._main = threading.current_thread() is threading.main_thread()
        watcher.watched.add(self)
        if self._main:
            self._old_bell = signal.set_wakeup_fd(watcher.bell, warn_on_full_buffer=False)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._interrupted)
                self._handles = True
        if self._deadline is not None:
            watcher.wake_by(self._deadline)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._handles:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        finally:
            watcher = _watcher(os.getpid())
            if self._main:
                signal.set_wakeup_fd(self._old_bell)
                if self.interrupted or not self._handles:
                    watcher.look()  # what was rung in this run is not for the next one
            watcher.watched.discard(self)

    def _interrupted(self, signal_number: int, frame: FrameType | None) -> None:
        """Python's own handler for Ctrl-C during the run."""
        self._set(StoppedBy.INTERRUPTED)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextlib.contextmanager
    def watching(self, run_options: Any) -> Iterator[None]:
        """A computation of the runtime, which is told to stop when the time for it is over."""
        self._running.add(run_options)
        if self._over:
            run_options.terminate = True
        try:
            yield
        finally:
            self._running.discard(run_options)

    # --- the watcher --------------------------------------------------------------------------

    def due(self) -> float | None:
        """When something will have to be done, if nothing else happens."""
        if self._over:
            return None
        return self._deadline if self.reason is None else self._end

    def look(self, now: float, *, interrupted: bool) -> None:
        """Do what has to be done now."""
        if interrupted and self._main:
            self._set(StoppedBy.INTERRUPTED)
        if self._deadline is not None and now >= self._deadline:
            self._set(StoppedBy.TIME_LIMIT)
        if self._end is not None and now >= self._end:
            self._over = True
            for run_options in tuple(self._running):
                run_options.terminate = True


class _Watcher:
    """A thread that reads signals from a socket and knows what is due next."""

    def __init__(self) -> None:
        self.watched: set[Stopping] = set()
        self._sleeps_until = math.inf
        self._looking = threading.Lock()
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self.bell = self._writing.fileno()
        threading.Thread(target=self._watch, name="mdf_loop watcher", daemon=True).start()

    def wake(self) -> None:
        """Let the watcher look anew."""
        with contextlib.suppress(BlockingIOError):  # it is full of reasons to look
            self._writing.send(b"\0")

    def wake_by(self, due: float) -> None:
        """Let the watcher look at `due`: a short run need not disturb it, if it wakes before."""
        if due < self._sleeps_until:
            self.wake()

    def look(self) -> None:
        """Read what was rung, and let everyone do what has to be done now."""
        with self._looking:
            try:
                data = self._reading.recv(4096)
            except BlockingIOError:
                data = b""
            now = time.monotonic()
            for stopping in tuple(self.watched):
                stopping.look(now, interrupted=signal.SIGINT in data)
        if data and threading.current_thread() is threading.main_thread():
            self.wake()  # the watcher has not seen it

    def _watch(self) -> None:
        while True:
            self._sleeps_until = math.inf  # who comes from here on wakes it
            dues = [due for s in tuple(self.watched) if (due := s.due()) is not None]
            wait = None
            if dues:
                self._sleeps_until = min(dues)
                wait = max(0.0, self._sleeps_until - time.monotonic())
            select.select([self._reading], [], [], wait)
            self.look()


@functools.lru_cache(maxsize=1)
def _watcher(process: int) -> _Watcher:
    """The watcher of this process (a fork has none of its parent's threads)."""
    return _Watcher()
