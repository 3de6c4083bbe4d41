"""Statistics over trials, without keeping them: those of `reduction`, and what more trials ask for.

    mean, min, max     as over time
    var, std           of all trials: mean((x - mean(x)) ** 2), and its root
    count              how many trials there were
    quantiles          by linear interpolation between the values, which are kept for that
    histogram          how many values lie between edges; the last part has its upper end, too

They are the same however the trials are cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.recording.reduction import REDUCTIONS, Mean, Reduction


class Count(Reduction):
    """Number of rows."""

    one_shape = False

    def value(self) -> Array:
        """Whole, and 0 of nothing."""
        return np.array(self.rows)

    def _take(self, rows: Array) -> None:
        """Count the rows, which are then discarded."""

    def _result(self) -> Array:
        return np.array(self.rows)

    def _parts(self) -> dict[str, Array]:
        return {}

    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        self._begin(shape)


class Variance(Reduction):
    """The mean of the squares of what differs from the mean, by differences from the first row.

    That row is among what is measured, so little is lost where means are far from 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first: Array = np.zeros(())
        self._moments = (Mean(), Mean())

    def _begin(self, shape: tuple[int, ...]) -> None:
        self._first = np.zeros(shape)
        super()._begin(shape)

    def _take(self, rows: Array) -> None:
        wide = rows.astype(np.float64, copy=False)
        if not self.rows:
            self._first = wide[0].copy()
        apart = wide - self._first
        for power, moment in enumerate(self._moments, 1):
            moment.add(apart**power)

    def _result(self) -> Array:
        mean, square = (moment.value() for moment in self._moments)
        return np.asarray(np.maximum(square - mean * mean, 0.0))

    def _parts(self) -> dict[str, Array]:
        parts = {"first": self._first}
        for k, moment in enumerate(self._moments):
            parts |= {f"{k} {name}": part for name, part in moment.snapshot().items()}
        return parts

    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        self._begin(shape)
        self._first = parts.array("first", "f", shape)
        for k, moment in enumerate(self._moments):
            moment.restore(parts.under(f"{k} "))


class Deviation(Variance):
    """The square root of the variance."""

    def _result(self) -> Array:
        return np.sqrt(super()._result())


class Quantiles(Reduction):
    """Quantiles, along a last axis: all rows are kept for them."""

    def __init__(self, probabilities: tuple[float, ...]) -> None:
        super().__init__()
        self._probabilities = probabilities
        self._kept_rows: list[Array] = []

    def value(self) -> Array:
        """Return nan for each probability if there are no rows."""
        quantiles = super().value()
        shape = (*self._shape, len(self._probabilities))
        return quantiles if self.rows else np.full(shape, np.nan)

    def _take(self, rows: Array) -> None:
        self._kept_rows.append(rows.copy())

    def _result(self) -> Array:
        return np.moveaxis(np.quantile(self._all(), self._probabilities, axis=0), 0, -1)

    def _all(self) -> Array:
        self._kept_rows = [np.concatenate(self._kept_rows)]
        return self._kept_rows[0]

    def _parts(self) -> dict[str, Array]:
        return {"kept": self._all()}

    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        self._begin(shape)
        self._kept_rows = [parts.array("kept", "biuf", (self.rows, *shape))]


class Histogram(Reduction):
    """Number of values between edges, along a last axis."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        super().__init__()
        self._edges = np.array(edges)
        self._counts: Array = np.zeros(len(edges) - 1, np.int64)

    def value(self) -> Array:
        """Return the counts, which are 0 without rows."""
        return self._counts.copy()

    def _begin(self, shape: tuple[int, ...]) -> None:
        self._counts = np.zeros((*shape, len(self._edges) - 1), np.int64)
        super()._begin(shape)

    def _take(self, rows: Array) -> None:
        place = np.searchsorted(self._edges, rows, side="right") - 1
        place[rows == self._edges[-1]] = len(self._edges) - 2
        for k in range(len(self._edges) - 1):
            self._counts[..., k] += np.count_nonzero(place == k, axis=0)

    def _result(self) -> Array:
        return self._counts

    def _parts(self) -> dict[str, Array]:
        return {"counts": self._counts}

    def _take_parts(self, parts: Snapshot, shape: tuple[int, ...]) -> None:
        self._begin(shape)
        self._counts = parts.array("counts", "i", self._counts.shape)


WORDS: Mapping[str, Callable[[], Reduction]] = {
    **{word: REDUCTIONS[word] for word in ("mean", "min", "max")},
    "var": Variance,
    "std": Deviation,
    "count": Count,
}
"""Statistics by the word that asks for them."""

OF_NUMBERS: Mapping[str, Callable[[tuple[float, ...]], Any]] = {
    "quantiles": Quantiles,
    "histogram": Histogram,
}
"""The same, of those that numbers belong to: `{"quantiles": [0.1, 0.5, 0.9]}`."""
