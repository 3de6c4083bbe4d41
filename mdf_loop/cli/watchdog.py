"""Watchdog of the command line: a thread that ends the process if the main thread does not answer a signal.

    0 s      a signal comes: Python's handler runs in the main thread when that is back from code of C
    1.5 s    the main thread has neither ended nor begun to save what it has reached: the process is ended

The exit code and the word are those of the signal in any case. Saving what was computed has time until a second signal
comes. A signal that came during an import is given to the handler again when the import is over.
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

ANSWER_SECONDS = 1.5
"""Seconds in which the main thread has to answer a first signal."""

SECOND_ANSWER_SECONDS = 0.5
"""Seconds in which the main thread has to end after a second signal."""

RETRY_SECONDS = 0.01
"""Seconds after which a signal that came during an import is given to the handler again."""

LOOK_SECONDS = 0.1
"""Seconds between two looks at what the main thread does after a first signal."""


@contextmanager
def watched() -> Iterator[None]:
    """Watch the main thread within a command, if the command is in the main thread."""
    if not signals.in_main_thread():
        yield
        return
    watchdog = _Watchdog()
    with signals.deferring():
        watchdog.start()
        try:
            yield
        finally:
            watchdog.end()


class _Watchdog:
    """State of the thread that watches signals."""

    def __init__(self) -> None:
        self._bell = signals.WakeupSocket()
        self._is_over = False
        self._reason: StopReason | None = None
        self._deadline = 0.0
        self._next_repeat = 0.0
        self._is_second = False
        self._last: dict[int, float] = {}
        self._repeated: Counter[int] = Counter()

    def start(self) -> None:
        """Begin to watch."""
        self._bell.hang()
        threading.Thread(target=self._watch, name="mdf_loop watchdog", daemon=True).start()

    def end(self) -> None:
        """Watch no more."""
        self._is_over = True
        self._bell.take_down()
        self._bell.ring()

    def _watch(self) -> None:
        """Wait for signals, and end the process if one is not answered in time."""
        while not self._is_over:
            select.select([self._bell.socket], [], [], self._wait())
            for number in self._bell.heard() or b"":
                self._hear(number)
            if not self._is_over:
                self._repeat_deferred()
                self._end_if_due()

    def _repeat_deferred(self) -> None:
        """Give signals that came during an import to the handler again, from time to time."""
        if not signals.DEFERRED or time.monotonic() < self._next_repeat:
            return
        self._next_repeat = time.monotonic() + RETRY_SECONDS
        for number in tuple(signals.DEFERRED):
            self._repeated[number] += 1  # it rings the bell, too
            _thread.interrupt_main(signal.Signals(number))

    def _wait(self) -> float | None:
        """Return the seconds to wait for the next signal, or None for any time."""
        if self._reason is None:
            return None
        return RETRY_SECONDS if signals.DEFERRED else LOOK_SECONDS

    def _hear(self, number: int) -> None:
        """Note a signal, unless it is an echo of the last one or was given to the handler again."""
        if self._repeated[number]:
            self._repeated[number] -= 1
            return
        reasons = signals.reasons_in(bytes([number]))
        now = time.monotonic()
        if not reasons or signals.is_echo(number, self._last.get(number), now):
            return
        self._last[number] = now
        (reason,) = reasons
        self._is_second = self._reason is not None
        self._reason = reason
        self._deadline = now + (SECOND_ANSWER_SECONDS if self._is_second else ANSWER_SECONDS)

    def _end_if_due(self) -> None:
        """End the process if the time for an answer is over."""
        if self._reason is None or time.monotonic() < self._deadline:
            return
        if self._is_second or not signals.is_answered():
            end_process(self._reason)
