"""Result of a parameter recovery: true parameters of simulated data sets, and their estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.html_tables import html_table, table_cells
from mdf_loop.ir import Array
from mdf_loop.public_call import public_calls
from mdf_loop.renamed import renamed_attributes
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import flatten

if TYPE_CHECKING:
    from pandas import DataFrame


@public_calls
@dataclass(frozen=True, eq=False)
class Recovery:
    """Fits of simulated data sets, with the true parameters of each data set.

    Attributes:
        truths: True parameters of each data set.
        fits: Fit of each data set.
    """

    truths: tuple[Mapping[str, Any], ...]
    fits: tuple[Fit, ...]

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes({"found": "estimates", "held": "covered"})

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the columns of `true` and `estimates`, such as `cell.a` or `net.W[0,1]`."""
        return self.fits[0].parameters

    @property
    def true(self) -> Array:
        """Array of true parameters, one row per data set."""
        return np.array([flatten(truth) for truth in self.truths])

    @property
    def estimates(self) -> Array:
        """Array of estimated parameters, one row per data set."""
        return np.array([flatten(fit.estimates) for fit in self.fits])

    @property
    def covered(self) -> Array:
        """Mask of the estimates whose 95 % interval contains the true parameter.

        It has one row per data set.
        """
        lower_limits, upper_limits = (
            np.array(
                [
                    flatten({name: intervals[k] for name, intervals in fit.intervals.items()})
                    for fit in self.fits
                ]
            )
            for k in (0, 1)
        )
        is_covered: Array = (lower_limits <= self.true) & (self.true <= upper_limits)
        return is_covered

    def table(self) -> DataFrame:
        """Return a pandas DataFrame with one row of statistics per estimated parameter element.

        `bias` and `sd` are mean and standard deviation of the estimate minus the true parameter. `held` is the
        proportion of intervals that cover the true parameter.
        """
        from pandas import DataFrame, Index

        estimation_errors = self.estimates - self.true
        statistics_columns = {
            "bias": estimation_errors.mean(axis=0),
            "sd": estimation_errors.std(axis=0),
            "largest": np.abs(estimation_errors).max(axis=0),
            "held": self.covered.mean(axis=0),
        }
        return DataFrame(statistics_columns, index=Index(self.parameters, name="parameter"))

    def __str__(self) -> str:
        """Return the recovery as text: the table of statistics, and the number of data sets."""
        return f"{self.table().to_string()}\n{len(self.fits)} data sets"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.fits)} data sets", *table_cells(self.table()))
