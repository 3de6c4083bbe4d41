"""Exit codes of commands, and messages about the signals that end commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from mdf_loop.locks import ForkSafeLock
from mdf_loop.stopped_by import StopReason

EXIT_CODES = {
    StopReason.HUNG_UP: 129,
    StopReason.INTERRUPTED: 130,
    StopReason.TERMINATED: 143,
}
"""Exit code by stop reason. As in shells, the exit code is 128 plus the signal number."""

_SIGNAL_MESSAGES = {
    StopReason.HUNG_UP: "hung up",
    StopReason.INTERRUPTED: "interrupted",
    StopReason.TERMINATED: "terminated",
}


def exit_code(stopped_by: StopReason) -> int:
    """Return the exit code of a command for the stop reason of its run."""
    return EXIT_CODES.get(stopped_by, 0)


def interruption_message_and_code(interruption: KeyboardInterrupt) -> tuple[str, int]:
    """Return the message and exit code of a command that a signal ends without results."""
    stop_reason: StopReason = getattr(interruption, "reason", StopReason.INTERRUPTED)
    return _SIGNAL_MESSAGES[stop_reason], EXIT_CODES[stop_reason]


class SignalMessage:
    """Writer of one message on stderr about the signal that ends a command.

    Only the first thread writes the message.
    """

    LOCK_TIMEOUT_SECONDS = 0.5
    """Time limit in seconds for waiting for another thread that writes the message."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()  # a second signal can interrupt the writing thread
        self._is_written = False

    def reset(self) -> None:
        """Forget that a message was written, so that the next command can write one."""
        self._is_written = False

    def write(self, message: str, write_message: Callable[[str], object]) -> None:
        """Write the message about a signal, unless a message was already written."""
        if not self._lock.acquire(timeout=self.LOCK_TIMEOUT_SECONDS):
            return
        try:
            if not self._is_written:
                self._is_written = True
                write_message(message)
        finally:
            self._lock.release()


signal_message = SignalMessage()
"""Message for the signal that ends the current command. The main thread and the watchdog share it."""


def end_process(reason: StopReason) -> NoReturn:
    """Write a message about a signal on stderr, and end the process at once.

    The exit code is that of the signal.

    The process does not clean up. It has computed no results, or its main thread does not respond.
    """
    with suppress(OSError):  # the terminal may be closed
        signal_message.write(
            _SIGNAL_MESSAGES[reason], lambda word: os.write(2, f"{word}\n".encode())
        )
    os._exit(EXIT_CODES[reason])
