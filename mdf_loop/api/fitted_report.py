"""Report of a fit: estimates with their uncertainty, starts, and the model with the estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitting_to_data import FitRequest
from mdf_loop.api.members import with_member
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.search import Optimum, SearchResult
from mdf_loop.fitting.uncertainty import Uncertainty
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.reading.settings import bind_settings, with_defaults, with_values
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import FitStart


class Report(Struct, frozen=True):
    """Finished search for the parameters of a model, from which fits are created."""

    model: Derivable
    request: FitRequest
    optimum: SearchResult
    watch: FitMonitor

    def of(
        self,
        free: ParameterSpace,
        uncertainty: Uncertainty | None,
        method: str,
        own: Array | None = None,
        **fields: Any,
    ) -> Fit:
        """Return the fit of one subject.

        Args:
            free: The free parameters of the subject.
            uncertainty: Uncertainty of the subject's estimates, or None if it is unknown.
            method: Name of the search method.
            own: Indices of the subject's parameters in a point of the search. By default all indices.
            **fields: Further fields of the fit.
        """
        own = np.arange(len(free.elements)) if own is None else own
        best, spec = self.optimum.best, self.request.spec
        trials = spec.values.draws.trials
        fields = {"steps": self.request.steps, **fields}
        return Fit(
            **_build_estimate_fields(free, best.point[own], uncertainty),
            cost=best.cost,
            converged=best.converged,
            reason=best.reason,
            stopped_by=self.optimum.stopped_by,
            starts=tuple(self._start(free, own, each) for each in self.optimum.optima),
            evaluations=self.watch.evaluations,
            seconds=self.watch.elapsed,
            seed=self.request.seed,
            method=method,
            model=self._with_estimates(free.values(best.point[own])),
            trials=None if trials is None else len(trials),
            dt=None if fields["steps"] is None else spec.dt,
            **fields,
        )

    def _start(self, free: ParameterSpace, own: Array, optimum: Optimum) -> FitStart:
        """Return the record of one local search: its start, its end, and whether it agrees with the best."""
        began, ended = (
            convert_scalars(free.values(point[own])) for point in (optimum.start, optimum.point)
        )
        return FitStart(
            began, ended, optimum.cost, self.optimum.agrees(optimum), self.optimum.ties(optimum)
        )

    def _with_estimates(self, values: Mapping[str, Array]) -> Any:
        """Return the compiled model whose parameters have the estimates and the values that the user set."""
        prepared = self.model.prepared
        run_values = self.request.spec.values
        written = with_member(prepared.document, type(run_values)(set=run_values.set), values)
        bound = bind_settings(prepared.document, written.set, prepared.options.precision)
        document = with_defaults(with_values(prepared.document, bound), written.inputs)
        return type(self.model)(document, prepared.placement, prepared.options)  # type: ignore[call-arg]


def compute_criteria(cost: float, numbers: int, count: int) -> dict[str, Any]:
    """Return the log likelihood and the information criteria for a number of free parameters.

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
    """Return parameter values with Python floats in place of arrays without axes."""
    return {name: float(v) if np.ndim(v) == 0 else np.asarray(v) for name, v in values.items()}


def _build_estimate_fields(
    free: ParameterSpace, point: Array, uncertainty: Uncertainty | None
) -> dict[str, Any]:
    """Return the fields of a fit about estimates and their uncertainty, which may be unknown (None)."""
    estimates = free.values(point)
    at = [k for k, place in enumerate(point) if place in (0.0, 1.0)]
    fields = {
        "estimates": convert_scalars(estimates),
        "standard_errors": {},
        "intervals": {},
        "parameters": free.elements,
        "covariance": np.full((len(point), len(point)), np.nan),
        "at_bounds": tuple(free.elements[k] for k in at),
    }
    if uncertainty is None:
        return fields
    errors = uncertainty.standard_errors * free.width
    middle = free.lower + point * free.width
    margin = uncertainty.margin * errors
    ends = middle - margin, middle + margin
    lower, upper = (convert_scalars(free.unflatten(end)) for end in ends)
    beyond = (ends[0] < free.lower) | (ends[1] > free.lower + free.width)
    beyond &= np.isfinite(margin)
    return fields | {
        "standard_errors": convert_scalars(free.unflatten(errors)),
        "intervals": {name: (lower[name], upper[name]) for name in estimates},
        "beyond_bounds": tuple(free.elements[k] for k in np.flatnonzero(beyond)),
        "covariance": uncertainty.covariance * np.outer(free.width, free.width),
        "unidentifiable": tuple(
            tuple(free.elements[k] for k in group) for group in uncertainty.unidentifiable
        ),
    }
