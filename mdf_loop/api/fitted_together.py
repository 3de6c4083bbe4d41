"""Joint fits of several subjects that share parameters, by one search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_curves import build_curve_term, build_fits, search_optima
from mdf_loop.api.fitted_report import Report
from mdf_loop.api.fitted_times import build_decision_term, evolve, refine_and_report
from mdf_loop.api.fitting_to_data import FitRequest, name_subject_in_errors, split_subjects
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


def fit_together(model: Derivable, request: FitRequest, free: ParameterSpace) -> Fits:
    """Fit all subjects jointly: `shared` parameters have one value, other parameters one for each subject.

    The joint search starts from the optima of separate fits of the subjects.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    if request.objective is not None:
        raise InputError("shared ties subjects, but an objective has none", hint="leave it out")
    is_usual = request.method is None or (
        request.method == "least_squares" and not request.likelihood
    )
    if request.start is not None or not is_usual:
        raise InputError("a fit with shared takes neither start nor method", hint="leave them out")
    places = _assign_indices(free, request.shared, len(request.data))
    size = 1 + max(int(own.max()) for own in places)
    way = _fit_decisions_jointly if request.likelihood else _fit_curves_jointly
    with (
        track_read_files(model.prepared.document.files) as files,
        FitMonitor(request.progress, request.time_limit, model.prepared.document.name) as watch,
    ):
        fits = way(model, free, _JointFit(request, places, size, watch))
    return Fits(dict(zip(request.data, fits, strict=True)), request.shared, frozenset(files))


class _JointFit(Struct, frozen=True):
    """Subjects of a joint fit.

    Attributes:
        request: Arguments of the fit, with the data of all subjects.
        places: Indices of each subject's parameters in a joint point.
        size: Number of elements of a joint point.
        watch: Progress and limits of the fit.
    """

    request: FitRequest
    places: Sequence[Array]
    size: int
    watch: FitMonitor

    def parts(self, of: Callable[[FitRequest, Array], AnyTerm]) -> list[AnyTerm]:
        """Return the objective term of each subject. `of` creates a term from a request and indices."""
        parts = []
        for (name, each), own in zip(split_subjects(self.request), self.places, strict=True):
            with name_subject_in_errors(name):
                parts.append(of(each, own))
        return parts

    def starts(self, parts: Sequence[AnyTerm], least: Callable[[AnyTerm], Array]) -> Array:
        """Return the starts of the joint search, from the separate optimum of each subject.

        If the fit is stopped meanwhile, the remaining subjects have no optimum of their own.

        Args:
            parts: Objective terms of the subjects.
            least: A function that returns the optimum of one subject alone.
        """
        alone: list[Array] = []
        for name, part in zip(self.request.data, parts, strict=True):
            with name_subject_in_errors(name):
                alone.append(least(part))
            if self.watch.ended is not None:
                break
        return _choose_starts(alone, self.places, self.size)


def _fit_curves_jointly(model: Derivable, free: ParameterSpace, subjects: _JointFit) -> list[Fit]:
    """Return the fit of each subject from a joint least-squares search."""
    request, watch = subjects.request, subjects.watch
    parts = subjects.parts(lambda each, own: build_curve_term(model, each, free, own))

    def least(part: CurveTerm) -> Array:
        squares = LeastSquaresObjective([part.standalone], len(part.indices), watch)
        return search_optima(squares, free, request, watch).best.point

    squares = LeastSquaresObjective(parts, subjects.size, watch)
    begin = subjects.starts(parts, least)

    def run() -> list[Optimum]:
        best = rank_points(begin, squares.costs)[: request.polish]
        return [least_squares(p, squares.residuals, squares.jacobian) for p in best]

    return build_fits(Report(model, request, run_search(run, watch), watch), squares)


def _fit_decisions_jointly(
    model: Derivable, free: ParameterSpace, subjects: _JointFit
) -> list[Fit]:
    """Return the fit of each subject from a joint search of the likelihood of decisions."""
    request, watch = subjects.request, subjects.watch
    parts = subjects.parts(lambda each, own: build_decision_term(model, each, free, own))

    def least(part: DecisionTerm) -> Array:
        likelihood = LikelihoodObjective([part.standalone], len(part.indices), watch)
        return run_search(lambda: [evolve(likelihood, request)], watch).best.point

    likelihood = LikelihoodObjective(parts, subjects.size, watch)
    begin = subjects.starts(parts, least)
    return refine_and_report(
        model, request, likelihood, lambda: rank_points(begin, likelihood.costs)[0]
    )


def _assign_indices(free: ParameterSpace, shared: Sequence[str], subjects: int) -> list[Array]:
    """Return the indices of each subject's parameters in a joint point, shared parameters first."""
    tied = np.repeat(
        [each.name in shared for each in free.parameters],
        [each.lower.size for each in free.parameters],
    )
    together, own = int(tied.sum()), int((~tied).sum())
    places = []
    for k in range(subjects):
        place = np.zeros(len(tied), int)
        place[tied] = np.arange(together)
        place[~tied] = together + k * own + np.arange(own)
        places.append(place)
    return places


def _choose_starts(alone: Sequence[Array], places: Sequence[Array], size: int) -> Array:
    """Return the starts of a joint search from the separate optima of the subjects.

    Unshared parameters start at the optimum of their subject. Shared parameters start at the median of
    all optima in the first start, and at the optimum of one subject in each other start.

    Args:
        alone: Separate optima of the first subjects. Other subjects start at the median.
        places: Indices of each subject's parameters in a joint point.
        size: Number of elements of a joint point.
    """
    median = np.median(alone, axis=0)
    points = [*alone, *[median] * (len(places) - len(alone))]
    starts = []
    for shared in (median, *alone):
        start = np.zeros(size)
        for point, own in zip(points, places, strict=True):
            start[own] = point
        start[places[0]] = np.where(_find_shared(places), shared, start[places[0]])
        starts.append(start)
    return np.array(starts)


def _find_shared(places: Sequence[Array]) -> Array:
    """Return a mask of those parameters of a subject that all subjects share."""
    if len(places) == 1:
        return np.zeros(len(places[0]), bool)
    is_tied: Array = places[0] == places[1]
    return is_tied
