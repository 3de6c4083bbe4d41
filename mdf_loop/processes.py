"""Queries to the operating system about other processes, such as whether they exist."""

from __future__ import annotations

import os


def is_running(process: int) -> bool:
    """Return True if a process with this id exists, or if the system cannot answer.

    Raises:
        OverflowError: The number is too large for a process.
    """
    if os.name != "posix":  # on other systems os.kill would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
