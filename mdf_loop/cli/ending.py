"""How a command ends: its exit code, and a word where a signal has ended it."""

from __future__ import annotations

from mdf_loop.stopped_by import StoppedBy

EXIT_CODES = {
    StoppedBy.HUNG_UP: 129,
    StoppedBy.INTERRUPTED: 130,
    StoppedBy.TERMINATED: 143,
}
"""128 and the number of the signal, as shells have it."""

_WORDS = {
    StoppedBy.HUNG_UP: "hung up",
    StoppedBy.INTERRUPTED: "interrupted",
    StoppedBy.TERMINATED: "terminated",
}


def exit_code(stopped_by: StoppedBy) -> int:
    """The exit code of a command whose run ended so; what was reached is given."""
    return EXIT_CODES.get(stopped_by, 0)


def word_and_code(ended: KeyboardInterrupt) -> tuple[str, int]:
    """What is said of a command that ended at once, and its exit code."""
    reason: StoppedBy = getattr(ended, "reason", StoppedBy.INTERRUPTED)
    return _WORDS[reason], EXIT_CODES[reason]
