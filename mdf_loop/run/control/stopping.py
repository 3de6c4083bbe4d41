"""Early stops of runs: signals, limits, and requests of the surrounding program.

While ONNX Runtime computes, Python cannot run its signal handler. A signal therefore also writes to a
wake-up socket (see `mdf_loop.signals`). One watcher thread per process reads the socket, checks time
limits and memory, and asks the runtime to stop. The current computation first has `GRACE_SECONDS` seconds to
finish: with short steps, no work is lost. At the memory limit, there is no such delay. The runtime stops
between two operations, not within one. The cost is some microseconds per run.
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
from mdf_loop.memory_limit import exceeded_error, growth_error, limit, measure_use

GRACE_SECONDS = 0.03
"""Seconds that the current computation has to finish after a request to stop."""

MEMORY_CHECK_SECONDS = 0.05
"""Seconds between two checks of the memory while a computation runs."""

MAX_SLEEP_SECONDS = 3600.0
"""Maximum seconds that the watcher sleeps, since the operating system does not accept unlimited timeouts."""


_SIGINT = (int(signal.SIGINT),)


class Stopped(Exception):  # noqa: N818 - a requested stop is no error
    """Exception that a computation was stopped from outside. `Stopping.reason` has the reason."""


class Stopping:
    """Watcher of the reasons to stop a run. The run takes place within this context.

    Only a run in the main thread receives signals. A second signal is left to other handlers.

    Attributes:
        reason: Reason to stop the run, or None to continue.
        signalled: Received signal, even if another reason came first. None without a signal.
        failure: Error that ended the run, or None.
    """

    def __init__(self, time_limit: float | None = None, grace: float = GRACE_SECONDS) -> None:
        self.reason: StopReason | None = None
        self.signalled: StopReason | None = None
        self.failure: LoopError | None = None
        self._grace = grace
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._memory_limit = limit()
        self._termination_time: float | None = None
        self._is_terminated = False
        self._running: set[Any] = set()
        self._is_in_main_thread = False
        self._is_bell_installed = False
        self._intercepted_signals: list[int] = []

    can_end = True
    """True if a watcher can stop the run."""

    @property
    def is_over(self) -> bool:
        """True if the computations of the run were asked to terminate."""
        return self._is_terminated

    @property
    def remaining(self) -> float | None:
        """Seconds until the time limit, at least 0.001, or None without a limit."""
        return None if self._deadline is None else max(0.001, self._deadline - time.monotonic())

    def ask(self, reason: StopReason) -> None:
        """Request a stop of the run, from any thread. The first request determines the reason."""
        self._request_stop(reason)
        _watcher().bell.ring()

    def receive_signal(self, reason: StopReason) -> bool:
        """Record a received signal, and return True if it is the first signal of the run."""
        is_first = self.signalled is None
        self.signalled = self.signalled or reason
        self._request_stop(reason)
        return is_first

    def _request_stop(self, reason: StopReason) -> None:
        if self.reason is None:
            self._termination_time = time.monotonic() + self._grace
            self.reason = reason

    # --- the run ------------------------------------------------------------------------------

    def __enter__(self) -> Stopping:
        watcher = _watcher()
        self._is_in_main_thread = signals.in_main_thread()
        watcher.watched.add(self)
        if self._is_in_main_thread:
            self._is_bell_installed = watcher.bell.hang()
            signals.add_listener(self.receive_signal)
            self._intercepted_signals = signals.install_handlers(_SIGINT)
        if self._deadline is not None:
            watcher.wake_by(self._deadline)
        return self

    def __exit__(self, *_: object) -> None:
        watcher = _watcher()
        if self.signalled is not None:
            signals.record_answer()
        try:
            signals.remove_handlers(self._intercepted_signals)
        finally:
            signals.remove_listener(self.receive_signal)
            if self._is_bell_installed:
                watcher.bell.take_down()
                if self.signalled is not None:
                    watcher.look()  # a signal of this run must not stop the next one
            watcher.watched.discard(self)

    def begins(self, run_options: Any) -> None:
        """Register a computation of the runtime, which the watcher terminates at the end of the run."""
        self._running.add(run_options)
        if self._is_terminated:
            run_options.terminate = True
        _watcher().wake_by(time.monotonic() + MEMORY_CHECK_SECONDS)

    def ends(self, run_options: Any) -> None:
        """Unregister a computation of the runtime that has finished."""
        self._running.discard(run_options)

    # --- the watcher --------------------------------------------------------------------------

    def due(self) -> float | None:
        """Return the time of the next check or deadline of this run, or None."""
        if self._is_terminated:
            return None
        due = self._deadline if self.reason is None else self._termination_time
        if not self._running:
            return due
        next_check = time.monotonic() + MEMORY_CHECK_SECONDS
        return next_check if due is None else min(due, next_check)

    def check_memory(self, more: float = 0.0) -> None:
        """Stop the run at once if its memory, plus `more` bytes, exceeds the limit."""
        if self.reason is not None:
            return
        used_bytes = measure_use(more, self._memory_limit)
        if used_bytes + more > self._memory_limit:
            self.failure = (
                exceeded_error(self._memory_limit)
                if used_bytes > self._memory_limit
                else growth_error(more, used_bytes, self._memory_limit)
            )
            self._request_stop(StopReason.MEMORY_LIMIT)
            self._termination_time = time.monotonic()

    def look(self, now: float, signal_reasons: Collection[StopReason]) -> None:
        """Check signals, the time limit and the memory at time `now`, and terminate computations if due."""
        for reason in signal_reasons if self._is_in_main_thread else ():
            self._request_stop(reason)
        if self._deadline is not None and now >= self._deadline:
            self._request_stop(StopReason.TIME_LIMIT)
        if self._running:
            self.check_memory()
        if self._termination_time is not None and time.monotonic() >= self._termination_time:
            self._is_terminated = True
            for run_options in tuple(self._running):
                run_options.terminate = True


class NeverStopping(Stopping):
    """Watcher that never stops a run, for very short runs."""

    can_end = False

    def begins(self, run_options: Any) -> None:
        """Do nothing, since this watcher never terminates a computation."""

    def ends(self, run_options: Any) -> None:
        """Do nothing, since this watcher never terminates a computation."""


class _Watcher:
    """Thread that waits for signals and for the next deadline of a watched run."""

    def __init__(self) -> None:
        self.watched: set[Stopping] = set()
        self.bell = signals.WakeupSocket()
        self._wake_time = math.inf
        self._requested_wake = -math.inf
        self._check_lock = ForkSafeLock()
        threading.Thread(target=self._watch, name="mdf_loop watcher", daemon=True).start()

    def wake_by(self, due: float) -> None:
        """Wake the watcher at `due` at the latest. A watcher that wakes earlier anyway is not disturbed."""
        if due < self._wake_time:
            self._requested_wake = self._wake_time = due  # no earlier wake-up is needed
            self.bell.ring()

    def look(self) -> None:
        """Read the received signals, and check each watched run."""
        with self._check_lock:
            data = self.bell.heard()
            signal_reasons = signals.reasons_in(data or b"")
            now = time.monotonic()
            for stopping in tuple(self.watched):
                stopping.look(now, signal_reasons)
        if data and threading.current_thread() is threading.main_thread():
            self.bell.ring()  # wake the watcher thread, since this thread has read its bytes

    def _watch(self) -> None:
        while True:
            self._wake_time = math.inf  # a run that begins from now on wakes this thread
            due_times = [due for s in tuple(self.watched) if (due := s.due()) is not None]
            # The requesting run may have ended, but other runs rely on this wake-up time.
            if self._requested_wake > time.monotonic():
                due_times.append(self._requested_wake)
            timeout = None
            if due_times:
                self._wake_time = min(due_times)
                timeout = min(max(0.0, self._wake_time - time.monotonic()), MAX_SLEEP_SECONDS)
            select.select([self.bell.socket], [], [], timeout)
            self.look()


@functools.cache
def _watcher() -> _Watcher:
    """Return the watcher of this process."""
    return _Watcher()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_watcher.cache_clear)
