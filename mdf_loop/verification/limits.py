"""Limits of a comparison: the time that it may take, and the memory that the process may have.

The engine is slower than the compiled model, so that it gets most of the time.
"""

from __future__ import annotations

import math
import time

from mdf_loop.errors import MemoryLimitError, RunError
from mdf_loop.ir import StoppedBy
from mdf_loop.memory_limit import as_text, in_use, limit

ENGINE_SHARE = 0.7
"""Part of the time limit that modeci_mdf's engine may take."""

STEPS_PER_LOOK = 16
"""Steps of the engine between two looks at the memory."""


class Limits:
    """Time limit of a comparison that begins now, and the memory limit that holds here."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = math.inf if seconds is None else seconds
        self._looks = 0
        self.begin()

    def begin(self) -> None:
        """Let the time begin now: what is imported and compiled before takes none of it."""
        self._begun = time.monotonic()

    @property
    def remaining(self) -> float | None:
        """The seconds that are left, or None without a limit."""
        left = self._begun + self._seconds - time.monotonic()
        return None if math.isinf(self._seconds) else max(left, 0.0)

    def of_engine(self) -> StoppedBy | None:
        """Return the time limit if the engine has had its part of it.

        Raises:
            MemoryLimitError: The process has more memory than it may have.
        """
        if self._looks % STEPS_PER_LOOK == 0:
            _check_memory()
        self._looks += 1
        is_over = time.monotonic() > self._begun + ENGINE_SHARE * self._seconds
        return StoppedBy.TIME_LIMIT if is_over else None

    def of_interpreter(self) -> None:
        """Raise an error if the interpreter must stop.

        Raises:
            RunError: The time limit is over.
            MemoryLimitError: The process has more memory than it may have.
        """
        _check_memory()
        if self.remaining == 0.0:
            raise time_is_over()


def _check_memory() -> None:
    largest = limit()
    if in_use(0.0, largest) > largest:
        raise MemoryLimitError(
            f"the comparison took more memory than its limit of {as_text(largest)}",
            hint="compare fewer steps, or allow more: memory_limit (--memory-limit)",
        )


def time_is_over() -> RunError:
    """Return the error about a comparison that had no time for one evaluation."""
    return RunError(
        "the time limit of the comparison was over before the first evaluation was done",
        hint="give the comparison more time: time_limit (--time-limit)",
    )
