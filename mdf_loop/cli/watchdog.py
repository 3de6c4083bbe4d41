"""Watchdog thread, which ends the process if the main thread ignores a signal.

    0 s      A signal arrives. Python runs the handler in the main thread after the return from C code.
    1.5 s    If the main thread has not ended or begun to save results, the watchdog ends the process.

The exit code and the message are the same in both cases. Saving results has no time limit until a second
signal arrives. A signal during an import is deferred: the watchdog sends it again after the import.
"""

from __future__ import annotations

import _thread
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mdf_loop import signals
from mdf_loop.cli.ending import end_process
from mdf_loop.stopped_by import StopReason

RESPONSE_SECONDS = 1.5
"""Time limit in seconds for the response of the main thread to a first signal."""

SECOND_RESPONSE_SECONDS = 0.5
"""Time limit in seconds for the end of the main thread after a second signal."""

RESEND_INTERVAL_SECONDS = 0.01
"""Interval in seconds for sending a signal that arrived during an import again."""

CHECK_INTERVAL_SECONDS = 0.1
"""Interval in seconds for checking the main thread after a first signal."""


@contextmanager
def watch_main_thread() -> Iterator[None]:
    """Run the watchdog thread inside the block, unless the command runs in another thread."""
    if not signals.in_main_thread():
        yield
        return
    watchdog = _Watchdog()
    with signals.deferring_signals():
        watchdog.start()
        try:
            yield
        finally:
            watchdog.end()


class _Watchdog:
    """Thread that ends the process if the main thread does not respond to a signal in time."""

    def __init__(self) -> None:
        self._wakeup_socket = signals.WakeupSocket()
        self._is_over = False
        self._reason: StopReason | None = None
        self._deadline = 0.0
        self._next_resend = 0.0
        self._is_second_signal = False
        self._last_times: dict[int, float] = {}
        self._resend_counts: Counter[int] = Counter()

    def start(self) -> None:
        """Start the watchdog thread."""
        self._wakeup_socket.install()
        threading.Thread(target=self._watch_signals, name="mdf_loop watchdog", daemon=True).start()

    def end(self) -> None:
        """Stop the watchdog thread."""
        self._is_over = True
        self._wakeup_socket.uninstall()
        self._wakeup_socket.wake()

    def _watch_signals(self) -> None:
        """Wait for signals, and end the process if the main thread does not respond in time."""
        while not self._is_over:
            select.select([self._wakeup_socket.socket], [], [], self._wait_seconds())
            for signal_number in self._wakeup_socket.receive() or b"":
                self._register_signal(signal_number)
            if not self._is_over:
                self._resend_deferred()
                self._end_if_due()

    def _resend_deferred(self) -> None:
        """Send signals again that arrived during an import, every `RESEND_INTERVAL_SECONDS`."""
        if not signals.DEFERRED_SIGNALS or time.monotonic() < self._next_resend:
            return
        self._next_resend = time.monotonic() + RESEND_INTERVAL_SECONDS
        for signal_number in tuple(signals.DEFERRED_SIGNALS):
            self._resend_counts[signal_number] += 1  # the signal also wakes this thread
            _thread.interrupt_main(signal.Signals(signal_number))

    def _wait_seconds(self) -> float | None:
        """Return the seconds to wait for the next signal, or None to wait without limit."""
        if self._reason is None:
            return None
        return RESEND_INTERVAL_SECONDS if signals.DEFERRED_SIGNALS else CHECK_INTERVAL_SECONDS

    def _register_signal(self, signal_number: int) -> None:
        """Record a signal and its deadline, unless the signal repeats the previous one."""
        if self._resend_counts[signal_number]:
            self._resend_counts[signal_number] -= 1
            return
        stop_reasons = signals.reasons_in(bytes([signal_number]))
        now = time.monotonic()
        if not stop_reasons or signals.is_repetition(
            signal_number, self._last_times.get(signal_number), now
        ):
            return
        self._last_times[signal_number] = now
        (stop_reason,) = stop_reasons
        self._is_second_signal = self._reason is not None
        self._reason = stop_reason
        self._deadline = now + (
            SECOND_RESPONSE_SECONDS if self._is_second_signal else RESPONSE_SECONDS
        )

    def _end_if_due(self) -> None:
        """End the process if the main thread has not responded to a signal before the deadline."""
        if self._reason is None or time.monotonic() < self._deadline:
            return
        if self._is_second_signal or not signals.is_answered():
            end_process(self._reason)
