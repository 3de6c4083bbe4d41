"""Least-squares fits of outputs to data, for one subject or several that share parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_report import Report, compute_criteria
from mdf_loop.api.fitting_to_data import (
    FitRequest,
    build_fitted_model,
    match_data,
    refuse_too_few_data,
)
from mdf_loop.document.units import TIME
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.search import (
    Optimum,
    SearchResult,
    least_squares,
    minimize_by_evolution,
    rank_points,
    run_search,
)
from mdf_loop.fitting.squares import CurveTerm, LeastSquaresObjective
from mdf_loop.fitting.uncertainty import (
    Uncertainty,
    normal_negative_log_likelihood,
    uncertainty_from_jacobian,
)
from mdf_loop.fitting.unmoved import check_parameters_have_effect
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import Curve
from mdf_loop.sweeps import generate_sobol_points


def fit_curves(model: Derivable, request: FitRequest, free: ParameterSpace) -> Fit:
    """Return the least-squares fit of one subject.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    if request.method == "gradient":
        raise InputError("curves cannot be fitted by gradient", hint="leave method out")
    size = len(free.elements)
    part = build_curve_term(model, request, free, np.arange(size))
    with FitMonitor(request.progress, request.time_limit, model.prepared.document.name) as watch:
        squares = LeastSquaresObjective([part], size, watch)
        optimum = search_optima(squares, free, request, watch)
        return build_fits(Report(model, request, optimum, watch), squares)[0]


def build_curve_term(
    model: Derivable, request: FitRequest, free: ParameterSpace, own: Array
) -> CurveTerm:
    """Return the residual term of a subject, which compares the model with the data.

    Args:
        model: The model.
        request: The arguments of the fit, with the data of the subject.
        free: The free parameters.
        own: The indices of the subject's parameters in a point of the search.

    Raises:
        InputError: There are more parameters than data, or a row of the data does not fit.
    """
    observations = match_data(model, request, request.data)
    refuse_too_few_data(len(own), observations.count)
    outputs = [each.output for each in observations.parts]
    fitted = build_fitted_model(model, request, observations.steps, outputs)
    fitted.check_method(free.values(np.full(len(own), 0.5)), request.method)
    return CurveTerm(fitted, free, own, observations)


def search_optima(
    squares: LeastSquaresObjective, free: ParameterSpace, request: FitRequest, watch: FitMonitor
) -> SearchResult:
    """Minimize the sum of squares from several starts, and return all optima."""

    def starts() -> Array:
        if request.start is not None:
            return free.normalize(request.start)[None]
        if request.method == "differential_evolution":
            return minimize_by_evolution(squares.costs, squares.size, request.seed).point[None]
        return rank_points(
            generate_sobol_points(request.points, squares.size, request.seed), squares.costs
        )

    def run() -> list[Optimum]:
        begin = starts()[: request.polish]
        check_parameters_have_effect(free, begin, squares.residual_rows)
        return [least_squares(point, squares.residuals, squares.jacobian) for point in begin]

    return run_search(run, watch)


def build_fits(report: Report, squares: LeastSquaresObjective) -> list[Fit]:
    """Return the fit of each subject from a finished least-squares search."""
    best = report.optimum.best
    observed = [part.observations for part in squares.parts]
    freedom = sum(each.count for each in observed) - squares.size
    exact = all(each.exact for each in observed)
    variance = 1.0 if exact else best.cost / freedom if freedom else np.inf
    jacobian = squares.jacobian(best.point)
    uncertainty = uncertainty_from_jacobian(jacobian, variance, None if exact else freedom)
    return [_build_fit(report, part, uncertainty) for part in squares.parts]


def _build_fit(report: Report, part: CurveTerm, uncertainty: Uncertainty) -> Fit:
    """Return the fit of one subject from a finished least-squares search of all subjects."""
    point, count = report.optimum.best.point[part.indices], part.observations.count
    rows = part.residuals(point[None])[0]
    sse, exact = float(rows @ rows), part.observations.exact
    unit = report.model.prepared.units[TIME]
    without = getattr(part.model, "without", "")
    return report.of(
        part.free,
        uncertainty.subset(part.indices),
        "least squares" + (f" with differences: {without}" if without else ""),
        part.indices,
        steps=part.observations.steps,
        sse=sse,
        residual_sd=float(np.sqrt(sse / max(count - len(point), 1))),
        **compute_criteria(
            normal_negative_log_likelihood(sse, part.factors, exact=exact),
            len(point) + (not exact),
            count,
        ),
        nonfinite_derivatives=tuple(sorted(part.nonfinite)),
        dropped=part.observations.dropped,
        curves=tuple(_build_curves(part, point, report.request.spec.dt, unit)),
    )


def _build_curves(part: CurveTerm, point: Array, dt: float | None, unit: str) -> Iterator[Curve]:
    """Yield the fitted curve of each observed output at a point of the search, with data and residuals."""
    outputs = part.model.outputs(part.free.values(point[None]))
    unit = "" if dt is None else unit
    dt = 1.0 if dt is None else dt
    for each in part.observations.parts:
        rows = outputs[each.output][0]
        residuals = np.where(each.is_observed, rows[each.steps] - each.values, np.nan)
        time = np.arange(len(rows)) * dt
        yield Curve(each.output, time, rows, each.steps * dt, each.values, residuals, unit)
