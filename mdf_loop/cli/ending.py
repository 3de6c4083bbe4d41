"""Exit codes of commands, and words for the signals that end them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from mdf_loop.stopped_by import StopReason

EXIT_CODES = {
    StopReason.HUNG_UP: 129,
    StopReason.INTERRUPTED: 130,
    StopReason.TERMINATED: 143,
}
"""Exit code by stop reason: 128 plus the number of the signal, as in shells."""

_SIGNAL_WORDS = {
    StopReason.HUNG_UP: "hung up",
    StopReason.INTERRUPTED: "interrupted",
    StopReason.TERMINATED: "terminated",
}


def exit_code(stopped_by: StopReason) -> int:
    """Return the exit code of a command by the reason that ended its run. The results are printed in any case."""
    return EXIT_CODES.get(stopped_by, 0)


def interruption_word_and_code(interruption: KeyboardInterrupt) -> tuple[str, int]:
    """Return the word and the exit code for a command that an interruption ended at once."""
    reason: StopReason = getattr(interruption, "reason", StopReason.INTERRUPTED)
    return _SIGNAL_WORDS[reason], EXIT_CODES[reason]


class SignalWord:
    """Word on stderr for the signal that ends a command. The first thread that writes the word is the only one."""

    LOCK_SECONDS = 0.5
    """Seconds that a thread waits for another thread that is writing the word."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a second signal can interrupt the thread that writes
        self._is_written = False

    def reset(self) -> None:
        """Allow the word to be written in a new command."""
        self._is_written = False

    def write(self, word: str, write: Callable[[str], object]) -> None:
        """Call `write(word)`, unless the word of this command has been written."""
        if not self._lock.acquire(timeout=self.LOCK_SECONDS):
            return
        try:
            if not self._is_written:
                self._is_written = True
                write(word)
        finally:
            self._lock.release()


signal_word = SignalWord()
"""Word for the signal that ends the current command, shared by the main thread and the watchdog."""


def end_process(reason: StopReason) -> NoReturn:
    """Write the word for a signal on stderr, and end the process at once with its exit code.

    Nothing is cleaned up: this is for a process that has computed nothing, or does not answer.
    """
    with suppress(OSError):  # the terminal may be closed
        signal_word.write(_SIGNAL_WORDS[reason], lambda word: os.write(2, f"{word}\n".encode()))
    os._exit(EXIT_CODES[reason])
