"""Exit codes of commands, and words for the signals that end them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NoReturn

from mdf_loop.stopped_by import StoppedBy

EXIT_CODES = {
    StoppedBy.HUNG_UP: 129,
    StoppedBy.INTERRUPTED: 130,
    StoppedBy.TERMINATED: 143,
}
"""Exit code by stop reason: 128 plus the number of the signal, as in shells."""

_SIGNAL_WORDS = {
    StoppedBy.HUNG_UP: "hung up",
    StoppedBy.INTERRUPTED: "interrupted",
    StoppedBy.TERMINATED: "terminated",
}


def exit_code(stopped_by: StoppedBy) -> int:
    """Return the exit code of a command by the reason that ended its run. The results are printed in any case."""
    return EXIT_CODES.get(stopped_by, 0)


def interruption_word_and_code(interruption: KeyboardInterrupt) -> tuple[str, int]:
    """Return the word and the exit code for a command that an interruption ended at once."""
    reason: StoppedBy = getattr(interruption, "reason", StoppedBy.INTERRUPTED)
    return _SIGNAL_WORDS[reason], EXIT_CODES[reason]


def end_process(reason: StoppedBy) -> NoReturn:
    """Write the word for a signal on stderr, and end the process at once with its exit code.

    Nothing is cleaned up: this is for a process that has computed nothing, or does not answer.
    """
    with suppress(OSError):  # the terminal may be closed
        os.write(2, f"{_SIGNAL_WORDS[reason]}\n".encode())
    os._exit(EXIT_CODES[reason])
