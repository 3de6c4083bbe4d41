"""How sure estimates are: covariance by the Jacobian, and what cannot be told apart.

    covariance = s**2 inverse(J' J), with s**2 = sse / (data - parameters)

Where the standard deviation of each value is given, residuals are standard ones and s is 1.

Source: Seber and Wild, Nonlinear regression (1989), chapters 2 and 5.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array

SINGULAR = 1e-7
"""Directions in which residuals change by less than this part of the most are not determined."""

INVOLVED = 0.1
"""The least part that a parameter has in such a direction."""

LEVEL = 0.95
"""How often an interval holds what is true."""


class Uncertainty(Struct, frozen=True):
    """How sure numbers are.

    Attributes:
        covariance: infinite where nothing is known.
        margin: how many standard errors an interval reaches to each side.
        together: numbers that cannot be told apart, by their places.
    """

    covariance: Array
    margin: float
    together: tuple[tuple[int, ...], ...] = ()

    def of(self, own: Array) -> Uncertainty:
        """How sure some of the numbers are."""
        places = {int(place): k for k, place in enumerate(own)}
        together = [group for group in self.together if places.keys() >= set(group)]
        return Uncertainty(
            self.covariance[np.ix_(own, own)],
            self.margin,
            tuple(tuple(places[place] for place in group) for group in together),
        )

    @property
    def standard_errors(self) -> Array:
        """The root of the variance of each number."""
        made: Array = np.sqrt(np.diag(self.covariance))
        return made


def of_jacobian(jacobian: Array, variance: float, freedom: int | None) -> Uncertainty:
    """How sure numbers are by which residuals change so.

    Args:
        jacobian: a row for each residual, a column for each number.
        variance: that of residuals.
        freedom: how many more residuals than numbers there are; None if the variance is known.
    """
    size = jacobian.shape[1]
    norms = np.sqrt(np.sum(jacobian * jacobian, axis=0))
    scaled = jacobian / np.where(norms > 0, norms, 1.0)
    _, values, rows = np.linalg.svd(scaled, full_matrices=len(scaled) < size)
    values = np.concatenate([values, np.zeros(size - len(values))])
    known = values > SINGULAR * values[0]
    spread = rows[known] / values[known, None] / np.where(norms > 0, norms, np.inf)
    covariance = variance * (spread.T @ spread)
    return with_lost(covariance, rows[~known], freedom)


def with_lost(covariance: Array, lost: Array, freedom: int | None = None) -> Uncertainty:
    """How sure numbers are, of which nothing is known in some directions.

    Args:
        covariance: of the numbers, in the other directions.
        lost: a row for each direction of which nothing is known.
        freedom: how many more data than numbers there are; None if the variance is known.
    """
    from scipy import special

    made = covariance.copy()
    groups = [np.flatnonzero(np.abs(row) > INVOLVED) for row in lost]
    for places in groups:
        made[places, :] = made[:, places] = np.nan
        made[places, places] = np.inf
    quantile = (1 + LEVEL) / 2
    margin = special.ndtri(quantile) if freedom is None else special.stdtrit(freedom, quantile)
    together = tuple(tuple(map(int, places)) for places in groups if len(places) > 1)
    return Uncertainty(made, float(margin), together)


def normal_cost(sse: float, factors: Array, *, exact: bool) -> float:
    """Minus the log likelihood of normal residuals, of known variance or of the likeliest one.

    Args:
        sse: the sum of their squares.
        factors: what each was multiplied by.
        exact: whether that has made them standard ones.
    """
    count, scale = len(factors), float(np.sum(np.log(factors)))
    if exact:
        return 0.5 * (sse + count * float(np.log(2 * np.pi))) - scale
    with np.errstate(divide="ignore"):
        return 0.5 * count * (float(np.log(2 * np.pi * sse / count)) + 1) - scale
