"""Early stops of runs by signals, time and memory limits, or requests of the program.

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
    """Exception that a computation was stopped from outside, for example by a signal."""


class Stopping:
    """Context manager that stops a run at a signal, a limit or a request.

    Only a run in the main thread receives signals. A second signal is left to other handlers.

    Attributes:
        reason: Reason to stop the run, or None to continue.
        received_signal: Received signal, even if another reason came first. None without a signal.
        failure: Error that ended the run, or None.
    """

    def __init__(self, time_limit: float | None = None, grace: float = GRACE_SECONDS) -> None:
        self.reason: StopReason | None = None
        self.received_signal: StopReason | None = None
        self.failure: LoopError | None = None
        self._grace_seconds = grace
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._memory_limit = limit()
        self._termination_time: float | None = None
        self._is_terminated = False
        self._running_computations: set[Any] = set()
        self._is_in_main_thread = False
        self._is_socket_installed = False
        self._intercepted_signals: list[int] = []

    can_stop = True
    """True if a watcher can stop the run."""

    @property
    def is_over(self) -> bool:
        """True if the running computations of the run were told to terminate."""
        return self._is_terminated

    @property
    def remaining(self) -> float | None:
        """Seconds until the run's time limit, at least 0.001, or None without a limit."""
        return None if self._deadline is None else max(0.001, self._deadline - time.monotonic())

    def request_stop(self, reason: StopReason) -> None:
        """Request a stop of the run, from any thread.

        The first request determines the reason.
        """
        self._record_request(reason)
        _watcher().wakeup_socket.wake()

    def receive_signal(self, reason: StopReason) -> bool:
        """Record that the run received a signal, and return True for its first signal."""
        is_first_signal = self.received_signal is None
        self.received_signal = self.received_signal or reason
        self._record_request(reason)
        return is_first_signal

    def _record_request(self, reason: StopReason) -> None:
        if self.reason is None:
            self._termination_time = time.monotonic() + self._grace_seconds
            self.reason = reason

    # --- the run ------------------------------------------------------------------------------

    def __enter__(self) -> Stopping:
        run_watcher = _watcher()
        self._is_in_main_thread = signals.in_main_thread()
        run_watcher.watched_runs.add(self)
        if self._is_in_main_thread:
            self._is_socket_installed = run_watcher.wakeup_socket.install()
            signals.add_listener(self.receive_signal)
            self._intercepted_signals = signals.install_handlers(_SIGINT)
        if self._deadline is not None:
            run_watcher.wake_by(self._deadline)
        return self

    def __exit__(self, *_: object) -> None:
        run_watcher = _watcher()
        if self.received_signal is not None:
            signals.record_answer()
        try:
            signals.remove_handlers(self._intercepted_signals)
        finally:
            signals.remove_listener(self.receive_signal)
            if self._is_socket_installed:
                run_watcher.wakeup_socket.uninstall()
                if self.received_signal is not None:
                    run_watcher.check_runs()  # a signal of this run must not stop the next one
            run_watcher.watched_runs.discard(self)

    def register_computation(self, run_options: Any) -> None:
        """Register a computation of the engine, which is terminated when the run must stop."""
        self._running_computations.add(run_options)
        if self._is_terminated:
            run_options.terminate = True
        _watcher().wake_by(time.monotonic() + MEMORY_CHECK_SECONDS)

    def unregister_computation(self, run_options: Any) -> None:
        """Unregister a computation of the engine that has finished."""
        self._running_computations.discard(run_options)

    # --- the watcher --------------------------------------------------------------------------

    def due_time(self) -> float | None:
        """Return the time of the next check of the run's limits, or None."""
        if self._is_terminated:
            return None
        due_time = self._deadline if self.reason is None else self._termination_time
        if not self._running_computations:
            return due_time
        next_check = time.monotonic() + MEMORY_CHECK_SECONDS
        return next_check if due_time is None else min(due_time, next_check)

    def check_memory(self, extra_bytes: float = 0.0) -> None:
        """Stop the run at once if its memory use plus `extra_bytes` exceeds the memory limit."""
        if self.reason is not None:
            return
        used_bytes = measure_use(extra_bytes, self._memory_limit)
        if used_bytes + extra_bytes > self._memory_limit:
            self.failure = (
                exceeded_error(self._memory_limit)
                if used_bytes > self._memory_limit
                else growth_error(extra_bytes, used_bytes, self._memory_limit)
            )
            self._record_request(StopReason.MEMORY_LIMIT)
            self._termination_time = time.monotonic()

    def check(self, now: float, signal_reasons: Collection[StopReason]) -> None:
        """Check signals and limits at `now`, and terminate computations if the run must stop."""
        for reason in signal_reasons if self._is_in_main_thread else ():
            self._record_request(reason)
        if self._deadline is not None and now >= self._deadline:
            self._record_request(StopReason.TIME_LIMIT)
        if self._running_computations:
            self.check_memory()
        if self._termination_time is not None and time.monotonic() >= self._termination_time:
            self._is_terminated = True
            for run_options in tuple(self._running_computations):
                run_options.terminate = True


class NeverStopping(Stopping):
    """Substitute for `Stopping` that never stops a run, used for very short runs."""

    can_stop = False

    def register_computation(self, run_options: Any) -> None:
        """Do nothing, since this class never terminates a computation."""

    def unregister_computation(self, run_options: Any) -> None:
        """Do nothing, since this class never terminates a computation."""


class _Watcher:
    """Thread that waits for signals and deadlines, and stops runs."""

    def __init__(self) -> None:
        self.watched_runs: set[Stopping] = set()
        self.wakeup_socket = signals.WakeupSocket()
        self._wake_time = math.inf
        self._requested_wake_time = -math.inf
        self._check_lock = ForkSafeLock()
        threading.Thread(target=self._watch, name="mdf_loop watcher", daemon=True).start()

    def wake_by(self, due: float) -> None:
        """Make sure that the thread wakes up at time `due` or earlier."""
        if due < self._wake_time:
            self._requested_wake_time = self._wake_time = due  # no earlier wake-up is needed
            self.wakeup_socket.wake()

    def check_runs(self) -> None:
        """Stop each run that has received a signal, or exceeds its time or memory limit."""
        with self._check_lock:
            wakeup_bytes = self.wakeup_socket.receive()
            signal_reasons = signals.reasons_in(wakeup_bytes or b"")
            now = time.monotonic()
            for stop_monitor in tuple(self.watched_runs):
                stop_monitor.check(now, signal_reasons)
        if wakeup_bytes and threading.current_thread() is threading.main_thread():
            self.wakeup_socket.wake()  # wake the watcher thread, since this thread has read its bytes

    def _watch(self) -> None:
        while True:
            self._wake_time = math.inf  # a run that begins from now on wakes this thread
            due_times = [
                due_time
                for stop_monitor in tuple(self.watched_runs)
                if (due_time := stop_monitor.due_time()) is not None
            ]
            # The requesting run may have ended, but other runs rely on this wake-up time.
            if self._requested_wake_time > time.monotonic():
                due_times.append(self._requested_wake_time)
            sleep_seconds = None
            if due_times:
                self._wake_time = min(due_times)
                sleep_seconds = min(max(0.0, self._wake_time - time.monotonic()), MAX_SLEEP_SECONDS)
            select.select([self.wakeup_socket.socket], [], [], sleep_seconds)
            self.check_runs()


@functools.cache
def _watcher() -> _Watcher:
    """Return the thread that watches all runs of this process."""
    return _Watcher()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_watcher.cache_clear)
