"""Fits of decisions: the likelihood of choices and their times, by trials."""

from __future__ import annotations

import numpy as np

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_report import Report, criteria
from mdf_loop.api.fitting_to_data import FitRequest, fitted_model, refuse_few
from mdf_loop.errors import InputError
from mdf_loop.fitting.apart import refuse_apart
from mdf_loop.fitting.around import as_found, settled
from mdf_loop.fitting.free import Free
from mdf_loop.fitting.observed import Table, column_of, read_table
from mdf_loop.fitting.reaction_times import Likelihood, ReactionTimes
from mdf_loop.fitting.search import Optimum, Searched, evolution, ranked, searched
from mdf_loop.fitting.uncertainty import Uncertainty
from mdf_loop.fitting.unmoved import refuse_unmoved
from mdf_loop.fitting.watch import Watch
from mdf_loop.ir import Array
from mdf_loop.reading.names import find_item
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import Distribution
from mdf_loop.sweeps import evenly

WORDS = ("rt", "choice")
"""What can be observed of a decision."""

GENERATIONS = 12
"""Of the differential evolution: what it has found is settled with other random numbers."""

FEWEST = 5
"""Points that a differential evolution can begin with."""

REDRAWN = 8
"""Sets of random numbers with which that is."""


def fit_times(model: Derivable, request: FitRequest, free: Free) -> Fit:
    """The fit of one subject.

    Raises:
        LoopError: what is asked for does not fit; the sentence names it.
    """
    times, outputs = observed_times(model, request)
    refuse_few(len(free.elements), times.count)
    with Watch(request.progress, request.time_limit, model.prepared.document.name) as watch:
        fitted = fitted_model(model, request, request.steps, outputs)
        likelihood = Likelihood(fitted, free, times, outputs, watch)
        found, uncertainty = _searched(likelihood, request)
        return _told(Report(model, request, found, watch), likelihood, uncertainty)


def observed_times(model: Derivable, request: FitRequest) -> tuple[ReactionTimes, tuple[str, ...]]:
    """What was observed, and the outputs that it is of.

    Raises:
        InputError: a column or an output is missing.
    """
    said = request.likelihood
    if "rt" not in said or not set(said) <= set(WORDS):
        raise InputError(
            f"a likelihood is of 'rt', and of 'choice' if there are any, not {', '.join(said)}",
            hint="e.g. likelihood={'rt': 'ddm.rt', 'choice': 'ddm.choice'}",
        )
    if request.start is None and request.points < FEWEST:
        raise InputError(
            f"points={request.points} are too few for a likelihood: the population that it is "
            f"searched with has at least {FEWEST}",
            hint="give more, e.g. points=64, or leave points out",
        )
    if request.method not in (None, "differential_evolution"):
        raise InputError(
            f"a likelihood by trials cannot be fitted by {request.method}: it changes in steps",
            hint="leave method out",
        )
    table = read_table(request.data)
    outputs = tuple(find_item(model.prepared.document, said[w]).name for w in WORDS if w in said)
    times, *choices = (_column(table, word, said[word]) for word in WORDS if word in said)
    return ReactionTimes.of(times, choices[0] if choices else None), outputs


def _column(table: Table, word: str, output: str) -> Array:
    return column_of(table, (word,), f"'{output}'", f"rename the one of '{output}' to '{word}'")


def _searched(likelihood: Likelihood, request: FitRequest) -> tuple[Searched, Uncertainty | None]:
    """The best that evolution finds with one set of random numbers, settled with others."""
    size, free = len(likelihood.free.elements), likelihood.free
    sure: list[Uncertainty] = []

    def run() -> list[Optimum]:
        begin = _begin(likelihood, request)
        refuse_apart(
            likelihood.times,
            likelihood.trials,
            begin[:2],
            lambda: np.concatenate([begin, evenly(request.points, size, request.seed)]),
        )
        refuse_unmoved(free, begin[:2], likelihood.log_shares)
        first = begin[: max(8 * size, FEWEST)]
        found = evolution(likelihood.costs, size, request.seed, GENERATIONS, first)
        point, uncertainty = settled(found.point, pooled, request.seed)
        sure.append(uncertainty)
        cost = float(pooled(point[None])[0])
        return [as_found(point, cost, uncertainty, found.point)]

    def pooled(points: Array) -> Array:
        shares = likelihood.pooled(points, _redrawn(request))
        return np.asarray(-(np.log(shares) @ likelihood.times.observed))

    made = searched(run, likelihood.watch)
    return made, sure[0] if sure else None


def _begin(likelihood: Likelihood, request: FitRequest) -> Array:
    """Points to begin with: those within the bounds, the best first, or a cloud around a start."""
    size = len(likelihood.free.elements)
    if request.start is None:
        return ranked(evenly(request.points, size, request.seed), likelihood.costs)
    cloud = np.random.default_rng(request.seed).normal(0, 0.1, (8 * size, size))
    cloud[0] = 0.0
    begin: Array = np.clip(likelihood.free.point(request.start) + cloud, 0.0, 1.0)
    return begin


def _redrawn(request: FitRequest) -> Array:
    """The seeds of other random numbers."""
    return np.random.default_rng(request.seed).integers(0, 2**62, REDRAWN)


def _told(report: Report, likelihood: Likelihood, uncertainty: Uncertainty | None) -> Fit:
    best, free, count = report.found.best, likelihood.free, likelihood.times.count
    return report.of(
        free,
        uncertainty,
        "differential evolution of a binned likelihood",
        **criteria(best.cost, len(free.elements), count),
        distributions=_distributions(likelihood, best.point, _redrawn(report.request)),
    )


def _distributions(likelihood: Likelihood, point: Array, seeds: Array) -> tuple[Distribution, ...]:
    """The bins beside what the model expects in them."""
    shares = likelihood.pooled(point[None], seeds)[0] * likelihood.times.count
    made, at = [], 0
    for each in likelihood.times.bins:
        expected = shares[at : at + len(each.observed)]
        made.append(Distribution(each.choice, each.edges, each.observed, expected))
        at += len(each.observed)
    return tuple(made)
