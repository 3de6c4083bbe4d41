"""Least-squares fits of outputs to data, for one subject or several that share parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdf_loop.api.fitted_report import Report, compute_criteria
from mdf_loop.api.fitting_to_data import (
    FitRequest,
    build_fitted_model,
    match_data,
    refuse_too_few_data,
)
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.document.units import TIME
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.parameter_effects import check_parameters_have_effect
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
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import Curve
from mdf_loop.sweeps import generate_sobol_points


def fit_curves(model: PreparedModel, request: FitRequest, space: ParameterSpace) -> Fit:
    """Fit the outputs of a model to the data of one subject by least squares.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    if request.method == "gradient":
        raise InputError("curves cannot be fitted by gradient", hint="leave method out")
    element_count = len(space.elements)
    curve_term = build_curve_term(model, request, space, np.arange(element_count))
    with FitMonitor(request.progress, request.time_limit, model.document.name) as monitor:
        objective = LeastSquaresObjective([curve_term], element_count, monitor)
        search_result = search_optima(objective, space, request, monitor)
        return build_fits(Report(model, request, search_result, monitor), objective)[0]


def build_curve_term(
    model: PreparedModel, request: FitRequest, space: ParameterSpace, indices: Array
) -> CurveTerm:
    """Return one subject's term of a sum of squares, whose residuals are model minus data.

    Args:
        model: The model.
        request: The arguments of the fit, with the data of the subject.
        space: The free parameters.
        indices: The indices of the subject's parameters in a point of the search.

    Raises:
        InputError: There are more parameters than data, or a row of the data does not fit.
    """
    observations = match_data(model, request, request.observed_data)
    refuse_too_few_data(len(indices), observations.count)
    outputs = [series.output_name for series in observations.output_series]
    fitted_model = build_fitted_model(model, request, observations.steps, outputs)
    fitted_model.check_method(space.values(np.full(len(indices), 0.5)), request.method)
    return CurveTerm(fitted_model, space, indices, observations)


def search_optima(
    objective: LeastSquaresObjective,
    space: ParameterSpace,
    request: FitRequest,
    monitor: FitMonitor,
) -> SearchResult:
    """Minimize a sum of squares by local searches from several starts, and return all optima."""

    def starts() -> Array:
        if request.start_values is not None:
            return space.normalize(request.start_values)[None]
        if request.method == "differential_evolution":
            return minimize_by_evolution(objective.costs, objective.size, request.seed).point[None]
        return rank_points(
            generate_sobol_points(request.start_point_count, objective.size, request.seed),
            objective.costs,
        )

    def run() -> list[Optimum]:
        start_points = starts()[: request.local_search_count]
        check_parameters_have_effect(space, start_points, objective.residual_rows)
        return [
            least_squares(point, objective.residuals, objective.jacobian) for point in start_points
        ]

    return run_search(run, monitor)


def build_fits(report: Report, objective: LeastSquaresObjective) -> list[Fit]:
    """Return the fit of each subject from the optima of a least-squares search."""
    best_optimum = report.search_result.best
    subject_observations = [term.observations for term in objective.objective_terms]
    degrees_of_freedom = (
        sum(subject_data.count for subject_data in subject_observations) - objective.size
    )
    has_known_deviations = all(
        subject_data.has_known_deviations for subject_data in subject_observations
    )
    variance = (
        1.0
        if has_known_deviations
        else best_optimum.cost / degrees_of_freedom
        if degrees_of_freedom
        else np.inf
    )
    jacobian = objective.jacobian(best_optimum.point)
    uncertainty = uncertainty_from_jacobian(
        jacobian, variance, None if has_known_deviations else degrees_of_freedom
    )
    return [_build_fit(report, term, uncertainty) for term in objective.objective_terms]


def _build_fit(report: Report, term: CurveTerm, uncertainty: Uncertainty) -> Fit:
    """Return the fit of one subject from a finished least-squares search of all subjects."""
    best_point, value_count = report.search_result.best.point[term.indices], term.observations.count
    residuals = term.residuals(best_point[None])[0]
    sum_of_squares, has_known_deviations = (
        float(residuals @ residuals),
        term.observations.has_known_deviations,
    )
    time_unit = report.model.units[TIME]
    finite_difference_reason = getattr(term.model, "difference_reason", "")
    return report.build_fit(
        term.parameter_space,
        uncertainty.subset(term.indices),
        "least squares"
        + (f" with differences: {finite_difference_reason}" if finite_difference_reason else ""),
        term.indices,
        steps=term.observations.steps,
        sse=sum_of_squares,
        residual_sd=float(np.sqrt(sum_of_squares / max(value_count - len(best_point), 1))),
        **compute_criteria(
            normal_negative_log_likelihood(
                sum_of_squares, term.factors, has_known_deviations=has_known_deviations
            ),
            len(best_point) + (not has_known_deviations),
            value_count,
        ),
        nonfinite_derivatives=tuple(sorted(term.nonfinite_parameters)),
        dropped=term.observations.dropped,
        curves=tuple(_build_curves(term, best_point, report.request.spec.dt, time_unit)),
    )


def _build_curves(
    term: CurveTerm, point: Array, dt: float | None, time_unit: str
) -> Iterator[Curve]:
    """Yield a curve for each fitted output, with model values, data and residuals."""
    outputs = term.model.outputs(term.parameter_space.values(point[None]))
    shown_unit = "" if dt is None else time_unit
    step_length = 1.0 if dt is None else dt
    for series in term.observations.output_series:
        fitted_values = outputs[series.output_name][0]
        residuals = np.where(
            series.is_observed, fitted_values[series.row_steps] - series.observed_values, np.nan
        )
        curve_times = np.arange(len(fitted_values)) * step_length
        yield Curve(
            series.output_name,
            curve_times,
            fitted_values,
            series.row_steps * step_length,
            series.observed_values,
            residuals,
            shown_unit,
        )
