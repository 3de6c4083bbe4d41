"""Joint fits of several subjects that share parameters, by one search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.api.fitted_curves import build_curve_term, build_fits, search_optima
from mdf_loop.api.fitted_report import Report
from mdf_loop.api.fitted_times import build_decision_term, evolve, refine_and_report
from mdf_loop.api.fitting_to_data import FitRequest, name_subject_in_errors, split_subjects
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.reaction_times import DecisionTerm, LikelihoodObjective
from mdf_loop.fitting.search import Optimum, least_squares, rank_points, run_search
from mdf_loop.fitting.squares import CurveTerm, LeastSquaresObjective
from mdf_loop.fitting.summands import AnyTerm
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.paths import track_read_files
from mdf_loop.results.fit import Fit, Fits


def fit_together(model: PreparedModel, request: FitRequest, space: ParameterSpace) -> Fits:
    """Fit several subjects jointly, with one common estimate of each parameter in `shared`.

    Other parameters have one value for each subject.

    The joint search starts from the optima of separate fits of the subjects.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    if request.objective is not None:
        raise InputError("shared ties subjects, but an objective has none", hint="leave it out")
    is_default_method = request.method is None or (
        request.method == "least_squares" and not request.likelihood_outputs
    )
    if request.start_values is not None or not is_default_method:
        raise InputError("a fit with shared takes neither start nor method", hint="leave them out")
    subject_indices = _assign_indices(space, request.shared_names, len(request.observed_data))
    joint_element_count = 1 + max(
        int(parameter_indices.max()) for parameter_indices in subject_indices
    )
    fit_function = _fit_decisions_jointly if request.likelihood_outputs else _fit_curves_jointly
    with (
        track_read_files(model.document.files) as read_files,
        FitMonitor(request.progress, request.time_limit, model.document.name) as monitor,
    ):
        fits = fit_function(
            model, space, _JointFit(request, subject_indices, joint_element_count, monitor)
        )
    return Fits(
        dict(zip(request.observed_data, fits, strict=True)),
        request.shared_names,
        frozenset(read_files),
    )


class _JointFit(Struct, frozen=True):
    """Joint fit of several subjects, whose parameters are elements of one vector.

    Attributes:
        request: Arguments of the fit, with the data of all subjects.
        subject_indices: Indices of each subject's parameters in a joint point.
        point_size: Number of elements of a joint point.
        monitor: Progress and limits of the fit.
    """

    request: FitRequest
    subject_indices: Sequence[Array]
    point_size: int
    monitor: FitMonitor

    def terms(self, create_term: Callable[[FitRequest, Array], AnyTerm]) -> list[AnyTerm]:
        """Return the objective term of each subject, created by the function `create_term`."""
        objective_terms = []
        for (subject_name, subject_request), parameter_indices in zip(
            split_subjects(self.request), self.subject_indices, strict=True
        ):
            with name_subject_in_errors(subject_name):
                objective_terms.append(create_term(subject_request, parameter_indices))
        return objective_terms

    def starts(self, terms: Sequence[AnyTerm], find_optimum: Callable[[AnyTerm], Array]) -> Array:
        """Return starting points of the joint search, from separate fits of the subjects.

        If the fit is stopped meanwhile, the remaining subjects have no optimum of their own.

        Args:
            terms: Objective terms of the subjects.
            find_optimum: A function that returns the optimum of one subject alone.
        """
        separate_optima: list[Array] = []
        for subject_name, term in zip(self.request.observed_data, terms, strict=True):
            with name_subject_in_errors(subject_name):
                separate_optima.append(find_optimum(term))
            if self.monitor.end_reason is not None:
                break
        return _choose_starts(separate_optima, self.subject_indices, self.point_size)


def _fit_curves_jointly(
    model: PreparedModel, space: ParameterSpace, subjects: _JointFit
) -> list[Fit]:
    """Fit several subjects jointly by least squares, and return the fit of each subject."""
    request, monitor = subjects.request, subjects.monitor
    curve_terms = subjects.terms(
        lambda subject_request, indices: build_curve_term(model, subject_request, space, indices)
    )

    def find_optimum(term: CurveTerm) -> Array:
        objective = LeastSquaresObjective([term.standalone], len(term.indices), monitor)
        return search_optima(objective, space, request, monitor).best.point

    objective = LeastSquaresObjective(curve_terms, subjects.point_size, monitor)
    start_points = subjects.starts(curve_terms, find_optimum)

    def run() -> list[Optimum]:
        best_points = rank_points(start_points, objective.costs)[: request.local_search_count]
        return [
            least_squares(point, objective.residuals, objective.jacobian) for point in best_points
        ]

    return build_fits(Report(model, request, run_search(run, monitor), monitor), objective)


def _fit_decisions_jointly(
    model: PreparedModel, space: ParameterSpace, subjects: _JointFit
) -> list[Fit]:
    """Fit several subjects jointly by the likelihood of reaction times and choices.

    Return the fit of each subject.
    """
    request, monitor = subjects.request, subjects.monitor
    decision_terms = subjects.terms(
        lambda subject_request, indices: build_decision_term(model, subject_request, space, indices)
    )

    def find_optimum(term: DecisionTerm) -> Array:
        likelihood = LikelihoodObjective([term.standalone], len(term.indices), monitor)
        return run_search(lambda: [evolve(likelihood, request)], monitor).best.point

    likelihood = LikelihoodObjective(decision_terms, subjects.point_size, monitor)
    start_points = subjects.starts(decision_terms, find_optimum)
    return refine_and_report(
        model, request, likelihood, lambda: rank_points(start_points, likelihood.costs)[0]
    )


def _assign_indices(space: ParameterSpace, shared: Sequence[str], subjects: int) -> list[Array]:
    """Return the indices of each subject's parameters in the vector of all parameters.

    Shared parameters come first.
    """
    is_shared = np.repeat(
        [parameter.name in shared for parameter in space.parameters],
        [parameter.lower_bounds.size for parameter in space.parameters],
    )
    shared_count, unshared_count = int(is_shared.sum()), int((~is_shared).sum())
    subject_indices = []
    for subject_number in range(subjects):
        parameter_indices = np.zeros(len(is_shared), int)
        parameter_indices[is_shared] = np.arange(shared_count)
        parameter_indices[~is_shared] = (
            shared_count + subject_number * unshared_count + np.arange(unshared_count)
        )
        subject_indices.append(parameter_indices)
    return subject_indices


def _choose_starts(
    separate_optima: Sequence[Array], subject_indices: Sequence[Array], size: int
) -> Array:
    """Return starting points of a joint search, built from the separate optima of the subjects.

    Unshared parameters start at the optimum of their subject. Shared parameters start at the median of
    all optima in the first start, and at the optimum of one subject in each other start.

    Args:
        separate_optima: Separate optima of the first subjects. Other subjects start at the median.
        subject_indices: Indices of each subject's parameters in a joint point.
        size: Number of elements of a joint point.
    """
    median_optimum = np.median(separate_optima, axis=0)
    subject_optima = [
        *separate_optima,
        *[median_optimum] * (len(subject_indices) - len(separate_optima)),
    ]
    start_points = []
    for shared_values in (median_optimum, *separate_optima):
        start_point = np.zeros(size)
        for subject_optimum, parameter_indices in zip(subject_optima, subject_indices, strict=True):
            start_point[parameter_indices] = subject_optimum
        start_point[subject_indices[0]] = np.where(
            _find_shared(subject_indices), shared_values, start_point[subject_indices[0]]
        )
        start_points.append(start_point)
    return np.array(start_points)


def _find_shared(subject_indices: Sequence[Array]) -> Array:
    """Return a mask of one subject's parameters that is True for the shared parameters."""
    if len(subject_indices) == 1:
        return np.zeros(len(subject_indices[0]), bool)
    is_shared: Array = subject_indices[0] == subject_indices[1]
    return is_shared
