"""What the system says of other processes."""

from __future__ import annotations

import os


def is_running(process: int) -> bool:
    """Whether there is a process of this number; if it cannot be told, there is.

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
