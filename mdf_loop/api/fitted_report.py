"""Reports of fits: estimates with their uncertainty, starts, and the model with the estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.api.fitting_to_data import FitRequest
from mdf_loop.api.members import with_member
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.search import Optimum, SearchResult
from mdf_loop.fitting.uncertainty import Uncertainty
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.reading.settings import bind_settings, with_defaults, with_values
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import FitStart


class Report(Struct, frozen=True):
    """Finished search for parameters, from which the fit of each subject is built."""

    model: PreparedModel
    request: FitRequest
    search_result: SearchResult
    monitor: FitMonitor

    def build_fit(
        self,
        space: ParameterSpace,
        uncertainty: Uncertainty | None,
        method: str,
        indices: Array | None = None,
        **fields: Any,
    ) -> Fit:
        """Return the fit of one subject from the finished search.

        Args:
            space: The free parameters of the subject.
            uncertainty: Uncertainty of the subject's estimates, or None if it is unknown.
            method: Name of the search method.
            indices: Indices of the subject's parameters in a point of the search. By default all indices.
            **fields: Further fields of the fit.
        """
        indices = np.arange(len(space.elements)) if indices is None else indices
        best_optimum, spec = self.search_result.best, self.request.spec
        trial_numbers = spec.values.draws.trials
        fields = {"steps": self.request.steps, **fields}
        return Fit(
            **_build_estimate_fields(space, best_optimum.point[indices], uncertainty),
            cost=best_optimum.cost,
            converged=best_optimum.is_converged,
            reason=best_optimum.end_reason,
            stopped_by=self.search_result.stopped_by,
            starts=tuple(
                self._describe_search(space, indices, optimum)
                for optimum in self.search_result.optima
            ),
            evaluations=self.monitor.evaluations,
            seconds=self.monitor.elapsed,
            seed=self.request.seed,
            method=method,
            model=self._with_estimates(space.values(best_optimum.point[indices])),
            trials=None if trial_numbers is None else len(trial_numbers),
            dt=None if fields["steps"] is None else spec.dt,
            **fields,
        )

    def _describe_search(self, space: ParameterSpace, indices: Array, optimum: Optimum) -> FitStart:
        """Return one local search's record, with start, end, and agreement with the best optimum."""
        start_values, end_values = (
            convert_scalars(space.values(point[indices]))
            for point in (optimum.start_point, optimum.point)
        )
        return FitStart(
            start_values,
            end_values,
            optimum.cost,
            self.search_result.agrees(optimum),
            self.search_result.ties(optimum),
        )

    def _with_estimates(self, values: Mapping[str, Array]) -> Any:
        """Return the compiled model with the estimates and the user's parameter values."""
        prepared_model = self.model
        run_values = self.request.spec.values
        written_values = with_member(
            prepared_model.document, type(run_values)(set=run_values.set), values
        )
        bound_settings = bind_settings(
            prepared_model.document, written_values.set, prepared_model.options.precision
        )
        defaults = {name: array.tolist() for name, array in written_values.inputs.items()}
        document = with_defaults(with_values(prepared_model.document, bound_settings), defaults)
        return self.request.build_model(document, prepared_model.placement, prepared_model.options)


def compute_criteria(cost: float, numbers: int, count: int) -> dict[str, Any]:
    """Return the log likelihood, AIC and BIC of a fit from its negative log likelihood.

    Args:
        cost: Negative log likelihood.
        numbers: Number of estimated parameters.
        count: Number of observed values.
    """
    return {
        "log_likelihood": -cost,
        "aic": 2 * (numbers + cost),
        "bic": numbers * float(np.log(count)) + 2 * cost,
        "count": count,
    }


def convert_scalars(values: Mapping[str, Array]) -> dict[str, Any]:
    """Return parameter values with scalar arrays converted to Python floats."""
    return {
        name: float(value) if np.ndim(value) == 0 else np.asarray(value)
        for name, value in values.items()
    }


def _build_estimate_fields(
    space: ParameterSpace, point: Array, uncertainty: Uncertainty | None
) -> dict[str, Any]:
    """Return the fields of a fit for its estimates, standard errors and confidence intervals."""
    estimates = space.values(point)
    bound_indices = [k for k, coordinate in enumerate(point) if coordinate in (0.0, 1.0)]
    fit_fields = {
        "estimates": convert_scalars(estimates),
        "standard_errors": {},
        "intervals": {},
        "parameters": space.elements,
        "covariance": np.full((len(point), len(point)), np.nan),
        "at_bounds": tuple(space.elements[k] for k in bound_indices),
    }
    if uncertainty is None:
        return fit_fields
    standard_errors = uncertainty.standard_errors * space.widths
    interval_centers = space.lower_bounds + point * space.widths
    margins = uncertainty.margin * standard_errors
    interval_ends = interval_centers - margins, interval_centers + margins
    lower_limits, upper_limits = (
        convert_scalars(space.unflatten(interval_limits)) for interval_limits in interval_ends
    )
    exceeds_bounds = (interval_ends[0] < space.lower_bounds) | (
        interval_ends[1] > space.lower_bounds + space.widths
    )
    exceeds_bounds &= np.isfinite(margins)
    return fit_fields | {
        "standard_errors": convert_scalars(space.unflatten(standard_errors)),
        "intervals": {name: (lower_limits[name], upper_limits[name]) for name in estimates},
        "beyond_bounds": tuple(space.elements[k] for k in np.flatnonzero(exceeds_bounds)),
        "covariance": uncertainty.covariance * np.outer(space.widths, space.widths),
        "unidentifiable": tuple(
            tuple(space.elements[k] for k in index_group)
            for index_group in uncertainty.unidentifiable_groups
        ),
    }
