"""Sum of squared residuals (model minus data), and the Jacobian of the residuals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import field

from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.observed import Observations, ObservedSeries
from mdf_loop.fitting.summands import ObjectiveTerm, SumObjective
from mdf_loop.ir import Array

FAILED_RESIDUAL = 1e150
"""Residual of a run that fails or is not a number. Its square is finite."""


class CurveTerm(ObjectiveTerm, frozen=True):
    """One subject's term of a sum of squares, with the model and the observed data.

    Attributes:
        nonfinite_parameters: The names of parameters by which a derivative was nan or infinite where the
            residual was finite. A search adds the names.
    """

    observations: Observations
    nonfinite_parameters: set[str] = field(default_factory=set)

    def residuals(self, points: Array) -> Array:
        """Return the weighted residuals (model minus data) at each point."""
        outputs = self.model.outputs(self.parameter_space.values(points))
        residual_blocks = [
            _weighted_residuals(series, outputs[series.output_name])
            for series in self.observations.output_series
        ]
        return np.concatenate(residual_blocks, axis=1)

    def jacobian(self, point: Array) -> Array:
        """Return the Jacobian of the residuals at a point, with 0 for unknown derivatives."""
        derivatives = self.model.jacobian(self.parameter_space.values(point))
        jacobian_blocks = [
            _jacobian_rows(series, derivatives, self.parameter_space)
            for series in self.observations.output_series
        ]
        jacobian = np.concatenate(jacobian_blocks)
        is_nonfinite = ~np.isfinite(jacobian)
        if is_nonfinite.any():
            is_finite_residual = np.abs(self.residuals(point[None])[0]) < FAILED_RESIDUAL
            nonfinite_by_parameter = self.parameter_space.unflatten(
                (is_nonfinite & is_finite_residual[:, None]).any(axis=0)
            )
            self.nonfinite_parameters.update(
                name for name, flags in nonfinite_by_parameter.items() if flags.any()
            )
        return np.where(is_nonfinite, 0.0, jacobian)

    @property
    def factors(self) -> Array:
        """Square roots of the weights, by which the residuals are multiplied."""
        return np.concatenate(
            [_value_factors(series) for series in self.observations.output_series]
        )


class LeastSquaresObjective(SumObjective[CurveTerm]):
    """Sum of squared residuals of one subject, or of several that share parameters."""

    def costs(self, points: Array) -> Array:
        """Return the sum of squared residuals at each point, infinite where the model fails."""
        residuals = self.residual_rows(points)
        with np.errstate(over="ignore"):
            sums_of_squares = np.sum(residuals * residuals, axis=1)
        costs: Array = np.where(
            np.abs(residuals).max(axis=1, initial=0) >= FAILED_RESIDUAL, np.inf, sums_of_squares
        )
        self.monitor.record(points, costs)
        return costs

    def residuals(self, point: Array) -> Array:
        """Return the weighted residuals of all subjects at a point."""
        residuals: Array = self.residual_rows(point[None])[0]
        self.monitor.record(point[None], np.array([residuals @ residuals]))
        return residuals

    def jacobian(self, point: Array) -> Array:
        """Return the Jacobian of the residuals of all subjects at a point."""
        jacobian_blocks = []
        for term in self.objective_terms:
            term_jacobian = term.jacobian(point[term.indices])
            padded_jacobian = np.zeros((len(term_jacobian), self.size))
            padded_jacobian[:, term.indices] = term_jacobian * term.parameter_space.widths
            jacobian_blocks.append(padded_jacobian)
        return np.concatenate(jacobian_blocks)

    def residual_rows(self, points: Array) -> Array:
        """Return the residuals of all subjects at each search point, with one row per point."""
        return np.concatenate(
            [term.residuals(points[:, term.indices]) for term in self.objective_terms], axis=1
        )


def _weighted_residuals(series: ObservedSeries, output: Array) -> Array:
    """Return the weighted residuals (model minus data) of one output, for each parameter set.

    Raises:
        InputError: The output and the data differ in the shape of a row.
    """
    _check_rows(series, output.shape[1:])
    differences = np.take(output, series.row_steps, axis=1) - series.observed_values
    weighted_differences = differences[:, series.is_observed] * _value_factors(series)
    residuals: Array = np.where(
        np.isfinite(weighted_differences),
        np.clip(weighted_differences, -FAILED_RESIDUAL, FAILED_RESIDUAL),
        FAILED_RESIDUAL,
    )
    return residuals


def _jacobian_rows(
    series: ObservedSeries, derivatives: Mapping[tuple[str, str], Array], free: ParameterSpace
) -> Array:
    """Return the Jacobian of one output's residuals, with a column per parameter element."""
    column_blocks = []
    for parameter in free.parameters:
        derivative_rows = np.take(
            derivatives[series.output_name, parameter.name], series.row_steps, axis=0
        )[series.is_observed]
        column_blocks.append(derivative_rows.reshape(len(derivative_rows), -1))
    jacobian: Array = np.concatenate(column_blocks, axis=1) * _value_factors(series)[:, None]
    return jacobian


def _value_factors(series: ObservedSeries) -> Array:
    """Return the square root of the weight of each observed value."""
    is_observed = series.is_observed
    row_factors = series.residual_factors.reshape(-1, *(1,) * (is_observed.ndim - 1))
    residual_factors: Array = np.broadcast_to(row_factors, is_observed.shape)[is_observed]
    return residual_factors


def _check_rows(series: ObservedSeries, shape: tuple[int, ...]) -> None:
    """Raise InputError if an output's shape differs from the shape of the observed data rows."""
    row_count, row_shape = series.observed_values.shape[0], series.observed_values.shape[1:]
    if not shape:
        raise InputError(
            f"'{series.output_name}' is one number in an evaluation, but the data have {row_count} rows",
            hint="for a run over time give steps, dt, or a column 'time' or 'step'",
        )
    if shape[1:] != row_shape or shape[0] <= int(series.row_steps.max()):
        raise InputError(
            f"'{series.output_name}' has rows {list(shape)}, but the data {[row_count, *row_shape]}",
            hint="a row of the data has the elements of an output at one time",
        )
