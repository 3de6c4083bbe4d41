"""Time limit and memory limit of a comparison between engines.

The engine is slower than the compiled model, so it gets most of the time.
"""

from __future__ import annotations

import math
import time

from mdf_loop.errors import MemoryLimitError, RunError
from mdf_loop.ir import StopReason
from mdf_loop.memory_limit import as_text, limit, measure_use

ENGINE_SHARE_OF_TIME_LIMIT = 0.7
"""Fraction of the time limit for modeci_mdf's engine."""

STEPS_PER_MEMORY_CHECK = 16
"""Steps of the engine between two checks of the memory."""


class Limits:
    """Time limit and memory limit of a comparison between engines.

    The time begins at the creation.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = math.inf if seconds is None else seconds
        self._check_count = 0
        self.begin()

    def begin(self) -> None:
        """Restart the clock of the time limit, after imports and compilation."""
        self._start_time = time.monotonic()

    @property
    def remaining(self) -> float | None:
        """Seconds until the time limit, or None without a limit."""
        remaining_seconds = self._start_time + self._seconds - time.monotonic()
        return None if math.isinf(self._seconds) else max(remaining_seconds, 0.0)

    def check_engine(self) -> StopReason | None:
        """Return TIME_LIMIT if modeci_mdf's engine has used its share of the time limit.

        Raises:
            MemoryLimitError: The process exceeds its memory limit.
        """
        if self._check_count % STEPS_PER_MEMORY_CHECK == 0:
            _check_memory()
        self._check_count += 1
        is_engine_time_over = (
            time.monotonic() > self._start_time + ENGINE_SHARE_OF_TIME_LIMIT * self._seconds
        )
        return StopReason.TIME_LIMIT if is_engine_time_over else None

    def check_interpreter(self) -> None:
        """Raise an error if the interpreter run exceeds the time limit or the memory limit.

        Raises:
            RunError: The time limit is over.
            MemoryLimitError: The process exceeds its memory limit.
        """
        _check_memory()
        if self.remaining == 0.0:
            raise time_limit_error()


def _check_memory() -> None:
    """Raise MemoryLimitError if the process exceeds its memory limit."""
    memory_limit_bytes = limit()
    if measure_use(0.0, memory_limit_bytes) > memory_limit_bytes:
        raise MemoryLimitError(
            f"the comparison took more memory than its limit of {as_text(memory_limit_bytes)}",
            hint="compare fewer steps, or allow more: memory_limit (--memory-limit)",
        )


def time_limit_error() -> RunError:
    """Return the error for a comparison stopped by its time limit before any evaluation ended."""
    return RunError(
        "the time limit of the comparison was over before the first evaluation was done",
        hint="give the comparison more time: time_limit (--time-limit)",
    )
