"""How far a fit is: how many runs it has seen, the best of them, and what ends it.

    with Watch(None, 60.0, "cell") as watch:
        watch.seen(points, costs)              raises Halted after a minute, and from then on

Ctrl-C, a time limit and a callback that returns False end a fit with the best point so far. A fit of
several searches has one watch, which is told where another one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from mdf_loop.ir import Array, StoppedBy
from mdf_loop.run.control.progress import reporting


class Halted(Exception):  # noqa: N818 - no error: the fit says what it has found
    """A fit shall end now, for this reason."""

    def __init__(self, reason: StoppedBy) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FitProgress:
    """How far a fit is: runs of the model, the least sum (or -log likelihood) of them, seconds."""

    evaluations: int
    best: float
    elapsed: float


Told = Callable[[FitProgress], object]


class Watch(AbstractContextManager["Watch"]):
    """Counts runs of the model, keeps the best, and says when it is enough.

    Attributes:
        evaluations: how many runs there were.
        best: the least cost, and the point where it was.
        ended: what has ended the fit.
    """

    def __init__(self, progress: bool | Told | None, limit: float | None, name: str) -> None:
        self.evaluations = 0
        self.best: tuple[float, Array | None] = (np.inf, None)
        self.ended: StoppedBy | None = None
        self._told = progress if callable(progress) else None
        bar = False if callable(progress) else progress
        self._reporting = reporting(bar, None, 0, "evaluations", name)
        self._limit = limit
        self._began = perf_counter()

    def __enter__(self) -> Watch:
        self._reporter = self._reporting.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._reporting.__exit__(*error)  # type: ignore[arg-type]

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return perf_counter() - self._began

    def begin(self) -> None:
        """Forget what is best: another search begins, of other points."""
        self.best = (np.inf, None)

    def seen(self, points: Array, costs: Array) -> None:
        """Note what runs at some points cost.

        Raises:
            Halted: it is enough.
        """
        least = int(np.argmin(costs))
        if costs[least] < self.best[0]:
            self.best = (float(costs[least]), np.array(points[least]))
        self.ran(len(costs))

    def ran(self, runs: int) -> None:
        """Note that there were so many runs, whose costs are a part of those of a point.

        Raises:
            Halted: it is enough.
        """
        self.evaluations += runs
        self._reporter.update(self.evaluations, f"best {self.best[0]:.6g}")
        told = FitProgress(self.evaluations, self.best[0], self.elapsed)
        if self.ended is None and self._told is not None and self._told(told) is False:
            self.ended = StoppedBy.INTERRUPTED
        if self.ended is None and self._limit is not None and self.elapsed > self._limit:
            self.ended = StoppedBy.TIME_LIMIT
        if self.ended is not None:
            raise Halted(self.ended)
