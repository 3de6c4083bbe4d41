"""Exit codes of commands, and words for the signals that end them."""

from __future__ import annotations

import os
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


def end_process(reason: StopReason) -> NoReturn:
    """Write the word for a signal on stderr, and end the process at once with its exit code.

    Nothing is cleaned up: this is for a process that has computed nothing, or does not answer.
    """
    with suppress(OSError):  # the terminal may be closed
        os.write(2, f"{_SIGNAL_WORDS[reason]}\n".encode())
    os._exit(EXIT_CODES[reason])
