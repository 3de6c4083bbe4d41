"""Reasons for the end of a loop or a run."""

from __future__ import annotations

from enum import Enum


class StopReason(Enum):
    """Reason why a loop or a run ended.

    The value is a sentence for the user.

    The first three reasons apply to loops of a model, the others to runs. If the condition of a loop
    becomes false in the last allowed iteration, the reason is the condition.
    """

    TRIP_COUNT = "all iterations of its trip count were run"
    CONDITION = "its condition became false"
    MAX_ITERATIONS = "it reached the bound that was set for this run (max_iterations)"
    COMPLETED = "all of it was computed"
    TIME_LIMIT = "the time limit of the run was over"
    INTERRUPTED = "the run was interrupted"
    NOT_FINITE = "a value was nan or infinite"
    FAILED = "the model failed"
    DISK_FULL = "the disk was full"
    TERMINATED = "the run was terminated (SIGTERM)"
    HUNG_UP = "the terminal of the run was closed (SIGHUP)"
    MEMORY_LIMIT = "the memory limit of the run was passed"

    @property
    def is_asked(self) -> bool:
        """True if the user requested the stop by Ctrl-C, another signal, or a callback."""
        return self in (StopReason.INTERRUPTED, StopReason.TERMINATED, StopReason.HUNG_UP)

    @property
    def word(self) -> str:
        """Stop reason as a word in results: `trip_count`, `condition`, `max_iterations`, ..."""
        return self.name.lower()

    @property
    def code(self) -> int:
        """Integer code of the stop reason, which is its position among all reasons.

        `loop.stopped_by` in a model is 0, 1 or 2.
        """
        return REASONS.index(self)


REASONS = tuple(StopReason)
"""All reasons, in the order of their codes."""
