"""Sum of squared residuals between outputs and data, and the Jacobian of the residuals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import field

from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.observed import Observations, Observed
from mdf_loop.fitting.summands import ObjectiveTerm, SumObjective
from mdf_loop.ir import Array

FAILED_RESIDUAL = 1e150
"""Residual of a run that fails or is not a number. Its square is finite."""


class CurveTerm(ObjectiveTerm, frozen=True):
    """Term of a sum of squares: a model, and the observed data of one subject.

    Attributes:
        nonfinite: The names of parameters by which a derivative was nan or infinite where the
            residual was finite. A search adds the names.
    """

    observations: Observations
    nonfinite: set[str] = field(default_factory=set)

    def residuals(self, points: Array) -> Array:
        """Return the weighted residuals (model minus data) at some points."""
        outputs = self.model.outputs(self.free.values(points))
        residual_blocks = [
            _weighted_residuals(observed, outputs[observed.output])
            for observed in self.observations.parts
        ]
        return np.concatenate(residual_blocks, axis=1)

    def jacobian(self, point: Array) -> Array:
        """Return the Jacobian of the residuals at a point, with 0 for unknown derivatives."""
        derivatives = self.model.jacobian(self.free.values(point))
        jacobian_blocks = [
            _jacobian_rows(observed, derivatives, self.free) for observed in self.observations.parts
        ]
        jacobian = np.concatenate(jacobian_blocks)
        is_unknown = ~np.isfinite(jacobian)
        if is_unknown.any():
            is_number = np.abs(self.residuals(point[None])[0]) < FAILED_RESIDUAL
            unknown_by_parameter = self.free.unflatten(
                (is_unknown & is_number[:, None]).any(axis=0)
            )
            self.nonfinite.update(
                name for name, flags in unknown_by_parameter.items() if flags.any()
            )
        return np.where(is_unknown, 0.0, jacobian)

    @property
    def factors(self) -> Array:
        """Factors of the residuals, which are the roots of their weights."""
        return np.concatenate([_value_factors(observed) for observed in self.observations.parts])


class LeastSquaresObjective(SumObjective[CurveTerm]):
    """Sum of squared residuals of one model, or of several that share parameters."""

    def costs(self, points: Array) -> Array:
        """Return the sum of squares at each point, which is infinite where the model fails."""
        residuals = self.residual_rows(points)
        with np.errstate(over="ignore"):
            sums_of_squares = np.sum(residuals * residuals, axis=1)
        costs: Array = np.where(
            np.abs(residuals).max(axis=1, initial=0) >= FAILED_RESIDUAL, np.inf, sums_of_squares
        )
        self.monitor.record(points, costs)
        return costs

    def residuals(self, point: Array) -> Array:
        """Return the residuals at a point."""
        residuals: Array = self.residual_rows(point[None])[0]
        self.monitor.record(point[None], np.array([residuals @ residuals]))
        return residuals

    def jacobian(self, point: Array) -> Array:
        """Return the Jacobian of the residuals at a point."""
        jacobian_blocks = []
        for part in self.parts:
            block = part.jacobian(point[part.indices])
            full_block = np.zeros((len(block), self.size))
            full_block[:, part.indices] = block * part.free.width
            jacobian_blocks.append(full_block)
        return np.concatenate(jacobian_blocks)

    def residual_rows(self, points: Array) -> Array:
        """Return the residuals of all models at each point, one row for each point."""
        return np.concatenate(
            [part.residuals(points[:, part.indices]) for part in self.parts], axis=1
        )


def _weighted_residuals(observed: Observed, output: Array) -> Array:
    """Return the weighted residuals (model minus data) of each member.

    Raises:
        InputError: The output and the data differ in the shape of a row.
    """
    _check_rows(observed, output.shape[1:])
    differences = np.take(output, observed.steps, axis=1) - observed.values
    rows = differences[:, observed.is_observed] * _value_factors(observed)
    residuals: Array = np.where(
        np.isfinite(rows), np.clip(rows, -FAILED_RESIDUAL, FAILED_RESIDUAL), FAILED_RESIDUAL
    )
    return residuals


def _jacobian_rows(
    observed: Observed, derivatives: Mapping[tuple[str, str], Array], free: ParameterSpace
) -> Array:
    """Return the Jacobian of one output's residuals, with a column for each element."""
    column_blocks = []
    for parameter in free.parameters:
        rows = np.take(derivatives[observed.output, parameter.name], observed.steps, axis=0)[
            observed.is_observed
        ]
        column_blocks.append(rows.reshape(len(rows), -1))
    jacobian: Array = np.concatenate(column_blocks, axis=1) * _value_factors(observed)[:, None]
    return jacobian


def _value_factors(observed: Observed) -> Array:
    """Return the factor of each observed value."""
    is_observed = observed.is_observed
    factors = observed.factors.reshape(-1, *(1,) * (is_observed.ndim - 1))
    value_factors: Array = np.broadcast_to(factors, is_observed.shape)[is_observed]
    return value_factors


def _check_rows(observed: Observed, shape: tuple[int, ...]) -> None:
    """Raise InputError if the shape of an output does not fit the observed rows."""
    row_count, row_shape = observed.values.shape[0], observed.values.shape[1:]
    if not shape:
        raise InputError(
            f"'{observed.output}' is one number in an evaluation, but the data have {row_count} rows",
            hint="for a run over time give steps, dt, or a column 'time' or 'step'",
        )
    if shape[1:] != row_shape or shape[0] <= int(observed.steps.max()):
        raise InputError(
            f"'{observed.output}' has rows {list(shape)}, but the data {[row_count, *row_shape]}",
            hint="a row of the data has the elements of an output at one time",
        )
