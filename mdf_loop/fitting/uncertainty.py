"""Uncertainty of estimates: covariance from a Jacobian, and unidentifiable parameters.

    covariance = s**2 inverse(J' J), with s**2 = sse / (data - parameters)

If the standard deviation of each value is known, the residuals have unit variance and s is 1.

Source: Seber and Wild, Nonlinear regression (1989), chapters 2 and 5.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array

MIN_RELATIVE_CHANGE = 1e-7
"""Relative change of the residuals below which a direction is not determined by the data."""

MIN_SHARE_IN_DIRECTION = 0.1
"""Least share of a parameter in an undetermined direction."""

CONFIDENCE_LEVEL = 0.95
"""Probability that an interval contains the true value."""


class Uncertainty(Struct, frozen=True):
    """Covariance of the estimates, with the groups of parameters that the data do not identify.

    Attributes:
        covariance: The covariance matrix, infinite for undetermined elements.
        margin: The half-width of an interval, in standard errors.
        unidentifiable_groups: The groups of elements that the data cannot distinguish, by index.
    """

    covariance: Array
    margin: float
    unidentifiable_groups: tuple[tuple[int, ...], ...] = ()

    def subset(self, indices: Array) -> Uncertainty:
        """Return the uncertainty of a subset of the estimates."""
        position_of_index = {int(index): k for k, index in enumerate(indices)}
        included_groups = [
            group for group in self.unidentifiable_groups if position_of_index.keys() >= set(group)
        ]
        return Uncertainty(
            self.covariance[np.ix_(indices, indices)],
            self.margin,
            tuple(tuple(position_of_index[index] for index in group) for group in included_groups),
        )

    @property
    def standard_errors(self) -> Array:
        """Standard error of each estimate."""
        standard_errors: Array = np.sqrt(np.diag(self.covariance))
        return standard_errors


def uncertainty_from_jacobian(jacobian: Array, variance: float, freedom: int | None) -> Uncertainty:
    """Return the covariance of estimates, computed from the Jacobian of the residuals.

    Args:
        jacobian: The Jacobian, with a row for each residual and a column for each element.
        variance: The variance of the residuals.
        freedom: The number of residuals minus the number of elements, or None if the variance is
            known.
    """
    element_count = jacobian.shape[1]
    column_norms = np.sqrt(np.sum(jacobian * jacobian, axis=0))
    scaled_jacobian = jacobian / np.where(column_norms > 0, column_norms, 1.0)
    _, singular_values, right_singular_vectors = np.linalg.svd(
        scaled_jacobian, full_matrices=len(scaled_jacobian) < element_count
    )
    singular_values = np.concatenate(
        [singular_values, np.zeros(element_count - len(singular_values))]
    )
    is_determined = singular_values > MIN_RELATIVE_CHANGE * singular_values[0]
    scaled_rows = (
        right_singular_vectors[is_determined]
        / singular_values[is_determined, None]
        / np.where(column_norms > 0, column_norms, np.inf)
    )
    covariance = variance * (scaled_rows.T @ scaled_rows)
    return uncertainty_with_undetermined_directions(
        covariance, right_singular_vectors[~is_determined], freedom
    )


def uncertainty_with_undetermined_directions(
    covariance: Array, undetermined_directions: Array, freedom: int | None = None
) -> Uncertainty:
    """Return the uncertainty of estimates that the data leave undetermined in some directions.

    Args:
        covariance: The covariance of the elements in the other directions.
        undetermined_directions: The unknown directions, one in each row.
        freedom: The number of data minus the number of elements, or None if the variance is known.
    """
    from scipy import special

    covariance_with_inf = covariance.copy()
    index_groups = [
        np.flatnonzero(np.abs(row) > MIN_SHARE_IN_DIRECTION) for row in undetermined_directions
    ]
    for index_group in index_groups:
        covariance_with_inf[index_group, :] = covariance_with_inf[:, index_group] = np.nan
        covariance_with_inf[index_group, index_group] = np.inf
    upper_probability = (1 + CONFIDENCE_LEVEL) / 2
    margin = (
        special.ndtri(upper_probability)
        if freedom is None
        else special.stdtrit(freedom, upper_probability)
    )
    unidentifiable_groups = tuple(
        tuple(map(int, index_group)) for index_group in index_groups if len(index_group) > 1
    )
    return Uncertainty(covariance_with_inf, float(margin), unidentifiable_groups)


def normal_negative_log_likelihood(
    sse: float, factors: Array, *, has_known_deviations: bool
) -> float:
    """Return the negative log likelihood of normally distributed residuals.

    Args:
        sse: The sum of the squared residuals.
        factors: The factor by which each residual was multiplied.
        has_known_deviations: True if the factors have scaled the residuals to unit variance. Otherwise the
            variance is the most likely one.
    """
    residual_count, log_factor_sum = len(factors), float(np.sum(np.log(factors)))
    if has_known_deviations:
        return 0.5 * (sse + residual_count * float(np.log(2 * np.pi))) - log_factor_sum
    with np.errstate(divide="ignore"):
        return (
            0.5 * residual_count * (float(np.log(2 * np.pi * sse / residual_count)) + 1)
            - log_factor_sum
        )
