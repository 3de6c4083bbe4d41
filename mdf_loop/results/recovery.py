"""What was true of data sets that a model made, and what fits have found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import flat

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Recovery:
    """Fits of data sets of which it is known what is true.

    Attributes:
        truths: for each data set the values that made it.
        fits: for each what its fit has found.
    """

    truths: tuple[Mapping[str, Any], ...]
    fits: tuple[Fit, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """What each column of `true` and `found` is about: `cell.a`, or `net.W[0,1]`."""
        return self.fits[0].parameters

    @property
    def true(self) -> Array:
        """What is true: a row for each data set."""
        return np.array([flat(truth) for truth in self.truths])

    @property
    def found(self) -> Array:
        """What was found: a row for each data set."""
        return np.array([flat(fit.estimates) for fit in self.fits])

    @property
    def held(self) -> Array:
        """Whether what is true lies in the 95 % interval: a row for each data set."""
        lower, upper = (
            np.array([flat({n: e[k] for n, e in f.intervals.items()}) for f in self.fits])
            for k in (0, 1)
        )
        made: Array = (lower <= self.true) & (self.true <= upper)
        return made

    def table(self) -> DataFrame:
        """A pandas DataFrame with a row for each number: how well it is found.

        bias and sd are of the estimate minus what is true; `held` is the share of intervals that hold it.
        """
        from pandas import DataFrame, Index

        off = self.found - self.true
        columns = {
            "bias": off.mean(axis=0),
            "sd": off.std(axis=0),
            "largest": np.abs(off).max(axis=0),
            "held": self.held.mean(axis=0),
        }
        return DataFrame(columns, index=Index(self.parameters, name="parameter"))

    def __str__(self) -> str:
        """The table, and of how many data sets it is."""
        return f"{self.table().to_string()}\n{len(self.fits)} data sets"
