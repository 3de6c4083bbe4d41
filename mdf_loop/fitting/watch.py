"""Progress report of a fit, and the conditions that end the fit.

    with FitMonitor(None, 60.0, "cell") as monitor:
        monitor.record(points, costs)      raises SearchStopped after a minute, and at each later call

Ctrl-C, a time limit and a callback that returns False end a fit with the best point so far. A fit with
several searches has one monitor, and calls `reset_best` where a search begins.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from mdf_loop.ir import Array, StopReason
from mdf_loop.run.control.progress import open_reporter


class SearchStopped(Exception):  # noqa: N818 - not an error: the fit returns its best point
    """Exception that ends a search at once, with the reason for its end."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FitProgress:
    """Progress report of a fit: number of runs, best cost and elapsed time.

    Attributes:
        evaluations: Number of runs of the model so far.
        best: Lowest sum of squares, negative log likelihood or objective so far.
        elapsed: Seconds since the beginning of the fit.
    """

    evaluations: int
    best: float
    elapsed: float


FitCallback = Callable[[FitProgress], object]


class FitMonitor(AbstractContextManager["FitMonitor"]):
    """Monitor of a fit, which counts model runs, records the best search point, and can end fits.

    Attributes:
        evaluations: The number of runs so far.
        best: The lowest cost, and its point.
        end_reason: The reason why the fit was ended, or None.
    """

    def __init__(
        self, progress: bool | FitCallback | None, time_limit: float | None, name: str
    ) -> None:
        self.evaluations = 0
        self.best: tuple[float, Array | None] = (np.inf, None)
        self.end_reason: StopReason | None = None
        self._callback = progress if callable(progress) else None
        is_bar_shown = False if callable(progress) else progress
        self._reporter_context = open_reporter(is_bar_shown, None, 0, "evaluations", name)
        self._time_limit = time_limit
        self._start_time = perf_counter()

    def __enter__(self) -> FitMonitor:
        self._reporter = self._reporter_context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._reporter_context.__exit__(*error)  # type: ignore[arg-type]

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning of the fit."""
        return perf_counter() - self._start_time

    def reset_best(self) -> None:
        """Forget the best point before a new search, whose points can have other parameters."""
        self.best = (np.inf, None)

    def record(self, points: Array, costs: Array) -> None:
        """Record the costs of some search points, and raise SearchStopped if the search must end.

        Raises:
            SearchStopped: The time limit is exceeded, or the callback returned False.
        """
        best_index = int(np.argmin(costs))
        if costs[best_index] < self.best[0]:
            self.best = (float(costs[best_index]), np.array(points[best_index]))
        self.count_runs(len(costs))

    def count_runs(self, runs: int) -> None:
        """Add runs of the model to the count, report the progress, and end the search if necessary.

        Call this method directly for runs that compute only a part of the cost of a point.

        Raises:
            SearchStopped: The time limit is exceeded, or the callback returned False.
        """
        self.evaluations += runs
        self._reporter.update(self.evaluations, f"best {self.best[0]:.6g}")
        progress_report = FitProgress(self.evaluations, self.best[0], self.elapsed)
        if (
            self.end_reason is None
            and self._callback is not None
            and self._callback(progress_report) is False
        ):
            self.end_reason = StopReason.INTERRUPTED
        if (
            self.end_reason is None
            and self._time_limit is not None
            and self.elapsed > self._time_limit
        ):
            self.end_reason = StopReason.TIME_LIMIT
        if self.end_reason is not None:
            raise SearchStopped(self.end_reason)
