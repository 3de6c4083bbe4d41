"""Early ends of runs: signals, limits, and requests of the surrounding program.

While ONNX Runtime computes, Python cannot run its signal handler. But a signal rings a bell (see
`mdf_loop.signals`); one watcher thread for the whole process hears it, looks after the time limits
and the memory, and tells the runtime to stop. What is being computed has a moment to end by itself
(`GRACE`): where steps are short, nothing is lost. Where memory runs out there is none; the runtime
obeys between two operations, not within one. A run costs microseconds for it.
"""

from __future__ import annotations

import functools
import math
import os
import select
import signal
import threading
import time
from collections.abc import Collection
from typing import Any

from mdf_loop import signals
from mdf_loop.errors import LoopError
from mdf_loop.ir import StopReason
from mdf_loop.locks import ForkSafeLock
from mdf_loop.memory_limit import in_use, limit, passed, would_pass

GRACE = 0.03
"""Seconds that are left to what is being computed when a run is asked to stop."""

LOOKS = 0.05
"""Seconds from one look at the memory to the next, while something is computed."""

LONGEST_SLEEP = 3600.0
"""Seconds after which the watcher wakes without a reason: the system knows no eternity."""


_SIGINT = (int(signal.SIGINT),)


class Stopped(Exception):  # noqa: N818 - no error: it was wanted
    """A computation was ended from outside; `Stopping.reason` says why."""


class Stopping:
    """Watcher of the reasons to stop a run. The run takes place within this context.

    Signals are noticed by a run in the main thread; a second one is not for it.

    Attributes:
        reason: why the run is to end; None if it may go on.
        signalled: the signal that has come, also where that was not the first reason.
        failure: the error that has ended it.
    """

    def __init__(self, time_limit: float | None = None, grace: float = GRACE) -> None:
        self.reason: StopReason | None = None
        self.signalled: StopReason | None = None
        self.failure: LoopError | None = None
        self._grace = grace
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._most = limit()
        self._end: float | None = None
        self._over = False
        self._running: set[Any] = set()
        self._main = False
        self._hung = False
        self._taken_signals: list[int] = []

    can_end = True
    """True if the run is watched, so that something can end it."""

    @property
    def is_over(self) -> bool:
        """True if the computations of the run were told to end."""
        return self._over

    @property
    def remaining(self) -> float | None:
        """Seconds until the time limit, at least a thousandth; None without a limit."""
        return None if self._deadline is None else max(0.001, self._deadline - time.monotonic())

    def ask(self, reason: StopReason) -> None:
        """Let the run stop, if nothing has yet; from any thread."""
        self._set(reason)
        _watcher().bell.ring()

    def hears(self, reason: StopReason) -> bool:
        """Take a signal; whether it is the first."""
        first = self.signalled is None
        self.signalled = self.signalled or reason
        self._set(reason)
        return first

    def _set(self, reason: StopReason) -> None:
        if self.reason is None:
            self._end = time.monotonic() + self._grace
            self.reason = reason

    # --- the run ------------------------------------------------------------------------------

    def __enter__(self) -> Stopping:
        watcher = _watcher()
        self._main = signals.in_main_thread()
        watcher.watched.add(self)
        if self._main:
            self._hung = watcher.bell.hang()
            signals.listen(self.hears)
            self._taken_signals = signals.take(_SIGINT)
        if self._deadline is not None:
            watcher.wake_by(self._deadline)
        return self

    def __exit__(self, *_: object) -> None:
        watcher = _watcher()
        if self.signalled is not None:
            signals.answer()
        try:
            signals.give_back(self._taken_signals)
        finally:
            signals.listen_no_more(self.hears)
            if self._hung:
                watcher.bell.take_down()
                if self.signalled is not None:
                    watcher.look()  # what was rung in this run is not for the next one
            watcher.watched.discard(self)

    def begins(self, run_options: Any) -> None:
        """Register a computation of the runtime, which is told to stop when its time is over."""
        self._running.add(run_options)
        if self._over:
            run_options.terminate = True
        _watcher().wake_by(time.monotonic() + LOOKS)

    def ends(self, run_options: Any) -> None:
        """Remove a computation that has ended."""
        self._running.discard(run_options)

    # --- the watcher --------------------------------------------------------------------------

    def due(self) -> float | None:
        """Return the time of the next action if nothing else happens."""
        if self._over:
            return None
        due = self._deadline if self.reason is None else self._end
        if not self._running:
            return due
        look = time.monotonic() + LOOKS
        return look if due is None else min(due, look)

    def look_at_memory(self, more: float = 0.0) -> None:
        """Let the run stop at once if it has more memory than it may, or will with so much more."""
        if self.reason is not None:
            return
        there = in_use(more, self._most)
        if there + more > self._most:
            self.failure = (
                passed(self._most) if there > self._most else would_pass(more, there, self._most)
            )
            self._set(StopReason.MEMORY_LIMIT)
            self._end = time.monotonic()

    def look(self, now: float, rung: Collection[StopReason]) -> None:
        """Do what has to be done now; some signals have rung."""
        for reason in rung if self._main else ():
            self._set(reason)
        if self._deadline is not None and now >= self._deadline:
            self._set(StopReason.TIME_LIMIT)
        if self._running:
            self.look_at_memory()
        if self._end is not None and time.monotonic() >= self._end:
            self._over = True
            for run_options in tuple(self._running):
                run_options.terminate = True


class NeverStopping(Stopping):
    """Watcher that never stops a run, for very short runs."""

    can_end = False

    def begins(self, run_options: Any) -> None:
        """Do nothing."""

    def ends(self, run_options: Any) -> None:
        """Do nothing."""


class _Watcher:
    """A thread that hears the bell and knows what is due next."""

    def __init__(self) -> None:
        self.watched: set[Stopping] = set()
        self.bell = signals.WakeupSocket()
        self._sleeps_until = math.inf
        self._requested_wake = -math.inf
        self._looking = ForkSafeLock()
        threading.Thread(target=self._watch, name="mdf_loop watcher", daemon=True).start()

    def wake_by(self, due: float) -> None:
        """Let the watcher look at `due`: a short run need not disturb it, if it wakes before."""
        if due < self._sleeps_until:
            self._requested_wake = self._sleeps_until = due  # others need not ring until then
            self.bell.ring()

    def look(self) -> None:
        """Hear what was rung, and let everyone do what has to be done now."""
        with self._looking:
            data = self.bell.heard()
            rung = signals.reasons_in(data or b"")
            now = time.monotonic()
            for stopping in tuple(self.watched):
                stopping.look(now, rung)
        if data and threading.current_thread() is threading.main_thread():
            self.bell.ring()  # the watcher has not heard it

    def _watch(self) -> None:
        while True:
            self._sleeps_until = math.inf  # who comes from here on wakes it
            dues = [due for s in tuple(self.watched) if (due := s.due()) is not None]
            if (
                self._requested_wake > time.monotonic()
            ):  # who asked may be done, but others need not ask
                dues.append(self._requested_wake)
            wait = None
            if dues:
                self._sleeps_until = min(dues)
                wait = min(max(0.0, self._sleeps_until - time.monotonic()), LONGEST_SLEEP)
            select.select([self.bell.socket], [], [], wait)
            self.look()


@functools.cache
def _watcher() -> _Watcher:
    """Return the watcher thread of this process."""
    return _Watcher()


if hasattr(os, "register_at_fork"):  # a fork has none of its parent's threads
    os.register_at_fork(after_in_child=_watcher.cache_clear)
