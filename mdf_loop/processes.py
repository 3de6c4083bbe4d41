"""Queries to the operating system about other processes."""

from __future__ import annotations

import os


def is_running(process: int) -> bool:
    """Return True if a process of this number exists, or if that cannot be determined.

    Raises:
        OverflowError: no system counts so far.
    """
    if os.name != "posix":  # elsewhere to ask would be to end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
