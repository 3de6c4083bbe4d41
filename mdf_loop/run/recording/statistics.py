"""Statistics over trials: count, variance, standard deviation, quantiles, histogram.

    mean, min, max     as over time
    var, std           population variance mean((x - mean(x)) ** 2), and its square root
    count              number of trials
    quantiles          linear interpolation between the values, all of which are stored for this
    histogram          number of values between edges, with the upper edge in the last bin

The statistics do not depend on the division of the trials into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.recording.reduction import Last, Maximum, Mean, Minimum, Reduction, Sum


class Count(Reduction):
    """Statistic that counts the trials."""

    requires_one_shape = False
    is_over_time = False
    has_unit = False
    has_time_axis = False
    empty_value = 0

    def value(self) -> Array:
        """Return the number of trials (0 instead of nan if there were none)."""
        return np.array(self.row_count)

    def _add_rows(self, rows: Array) -> None:
        """Do nothing, since the base class counts the trials."""

    def _compute_value(self) -> Array:
        return np.array(self.row_count)

    def _state_arrays(self) -> dict[str, Array]:
        return {}

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        self._set_shape(shape)


class Variance(Reduction):
    """Population variance over trials, computed from differences to the first trial.

    The first row is close to the mean, so little precision is lost if the mean is far from 0.
    """

    is_over_time = False
    has_unit = False

    def __init__(self) -> None:
        super().__init__()
        self._first_row: Array = np.zeros(())
        self._moments = (Mean(), Mean())

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        self._first_row = np.zeros(shape)
        super()._set_shape(shape)

    def _add_rows(self, rows: Array) -> None:
        float_rows = rows.astype(np.float64, copy=False)
        if not self.row_count:
            self._first_row = float_rows[0].copy()
        differences = float_rows - self._first_row
        for power, moment in enumerate(self._moments, 1):
            moment.add(differences**power)

    def _compute_value(self) -> Array:
        mean, mean_square = (moment.value() for moment in self._moments)
        return np.asarray(np.maximum(mean_square - mean * mean, 0.0))

    def _state_arrays(self) -> dict[str, Array]:
        state_arrays = {"first": self._first_row}
        for k, moment in enumerate(self._moments):
            state_arrays |= {f"{k} {name}": array for name, array in moment.snapshot().items()}
        return state_arrays

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        self._set_shape(shape)
        self._first_row = snapshot.array("first", "f", shape)
        for k, moment in enumerate(self._moments):
            moment.restore(snapshot.with_prefix(f"{k} "))


class Deviation(Variance):
    """Population standard deviation over trials."""

    has_unit = True

    def _compute_value(self) -> Array:
        return np.sqrt(super()._compute_value())


class Quantiles(Reduction):
    """Quantiles over trials, along a new last axis.

    All trials are stored.
    """

    is_over_time = False

    @classmethod
    def accepts(cls, parameters: tuple[float, ...]) -> bool:
        """Return True for one or more probabilities."""
        return bool(parameters) and all(0 <= probability <= 1 for probability in parameters)

    @classmethod
    def of(cls, parameters: tuple[float, ...]) -> Quantiles:
        """Create an accumulator for these probabilities."""
        return cls(parameters)

    def __init__(self, probabilities: tuple[float, ...]) -> None:
        super().__init__()
        self._probabilities = probabilities
        self._stored_rows: list[Array] = []

    def value(self) -> Array:
        """Return the quantile for each probability, or nan if there were no trials."""
        quantiles = super().value()
        shape = (*self._shape, len(self._probabilities))
        return quantiles if self.row_count else np.full(shape, np.nan)

    def _add_rows(self, rows: Array) -> None:
        self._stored_rows.append(rows.copy())

    def _compute_value(self) -> Array:
        return np.moveaxis(np.quantile(self._joined_rows(), self._probabilities, axis=0), 0, -1)

    def _joined_rows(self) -> Array:
        self._stored_rows = [np.concatenate(self._stored_rows)]
        return self._stored_rows[0]

    def _state_arrays(self) -> dict[str, Array]:
        return {"kept": self._joined_rows()}

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        self._set_shape(shape)
        self._stored_rows = [snapshot.array("kept", "biuf", (self.row_count, *shape))]


class Histogram(Reduction):
    """Histogram over trials: number of values between edges, along a new last axis."""

    is_over_time = False
    has_unit = False
    empty_value = 0

    @classmethod
    def accepts(cls, parameters: tuple[float, ...]) -> bool:
        """Return True for increasing bin edges."""
        return len(parameters) > 1 and all(a < b for a, b in pairwise(parameters))

    @classmethod
    def of(cls, parameters: tuple[float, ...]) -> Histogram:
        """Create an accumulator for these bin edges."""
        return cls(parameters)

    def __init__(self, edges: tuple[float, ...]) -> None:
        super().__init__()
        self._edges = np.array(edges)
        self._counts: Array = np.zeros(len(edges) - 1, np.int64)

    def value(self) -> Array:
        """Return the number of values in each bin of the histogram (all 0 without trials)."""
        return self._counts.copy()

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        self._counts = np.zeros((*shape, len(self._edges) - 1), np.int64)
        super()._set_shape(shape)

    def _add_rows(self, rows: Array) -> None:
        bin_indexes = np.searchsorted(self._edges, rows, side="right") - 1
        bin_indexes[rows == self._edges[-1]] = len(self._edges) - 2
        for bin_index in range(len(self._edges) - 1):
            self._counts[..., bin_index] += np.count_nonzero(bin_indexes == bin_index, axis=0)

    def _compute_value(self) -> Array:
        return self._counts

    def _state_arrays(self) -> dict[str, Array]:
        return {"counts": self._counts}

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        self._set_shape(shape)
        self._counts = snapshot.array("counts", "i", self._counts.shape)


REDUCTIONS: Mapping[str, type[Reduction]] = {
    "mean": Mean,
    "sum": Sum,
    "last": Last,
    "min": Minimum,
    "max": Maximum,
    "var": Variance,
    "std": Deviation,
    "count": Count,
    "quantiles": Quantiles,
    "histogram": Histogram,
}
"""All reductions over time and over trials by name."""


def reductions_over_time() -> Mapping[str, type[Reduction]]:
    """Return the reductions of rows over time by name."""
    return {name: reduction for name, reduction in REDUCTIONS.items() if reduction.is_over_time}


def reductions_over_trials() -> Mapping[str, type[Reduction]]:
    """Return the reductions (statistics) over trials by name."""
    return {name: reduction for name, reduction in REDUCTIONS.items() if reduction.is_over_trials}
