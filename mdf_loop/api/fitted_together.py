"""Fits of several subjects that share parameters: one search for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_curves import Report, fit_curves, part_of
from mdf_loop.api.fitting_to_data import FitRequest
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import Free
from mdf_loop.fitting.search import Optimum, least_squares, ranked, searched
from mdf_loop.fitting.squares import Squares
from mdf_loop.fitting.watch import Watch
from mdf_loop.ir import Array
from mdf_loop.results.fit import Fit, Fits


def fit_together(
    model: Derivable, request: FitRequest, free: Free, subjects: Mapping[str, object]
) -> Fits:
    """The fit of all subjects: `shared` parameters have one value, the others one for each.

    It begins where each subject's own fit has ended.

    Raises:
        LoopError: what is asked for does not fit; the sentence names it.
    """
    if request.likelihood or request.objective is not None:
        raise InputError("shared ties fits of curves alone", hint="fit the subjects one by one")
    if request.start is not None or request.method is not None:
        raise InputError("a fit with shared takes neither start nor method", hint="leave them out")
    alone = {n: fit_curves(model, replace(request, data=d), free) for n, d in subjects.items()}
    places = _places(free, request.shared, len(subjects))
    size = 1 + max(int(own.max()) for own in places)
    parts = [
        part_of(model, request, free, data, own)
        for data, own in zip(subjects.values(), places, strict=True)
    ]
    with Watch(request.progress, request.time_limit, model.prepared.document.name) as watch:
        squares = Squares(parts, size, watch)
        begin = _starts(free, list(alone.values()), places, size)

        def run() -> list[Optimum]:
            best = ranked(begin, squares.costs)[: request.polish]
            return [least_squares(p, squares.residuals, squares.jacobian) for p in best]

        report = Report(model, request, squares, searched(run, watch), watch)
        found = {name: report.of(part) for name, part in zip(subjects, parts, strict=True)}
    return Fits(found, request.shared, model.prepared.document.files)


def _places(free: Free, shared: Sequence[str], subjects: int) -> list[Array]:
    """Which numbers of a point of all are those of each subject."""
    tied = np.repeat(
        [each.name in shared for each in free.parameters],
        [each.lower.size for each in free.parameters],
    )
    together, own = int(tied.sum()), int((~tied).sum())
    made = []
    for k in range(subjects):
        place = np.zeros(len(tied), int)
        place[tied] = np.arange(together)
        place[~tied] = together + k * own + np.arange(own)
        made.append(place)
    return made


def _starts(free: Free, fits: Sequence[Fit], places: Sequence[Array], size: int) -> Array:
    """Each subject's own numbers, with shared ones of their median, and of each of them."""
    points = [free.point(fit.estimates) for fit in fits]
    starts = []
    for shared in (np.median(points, axis=0), *points):
        start = np.zeros(size)
        for point, own in zip(points, places, strict=True):
            start[own] = point
        start[places[0]] = np.where(_tied(places), shared, start[places[0]])
        starts.append(start)
    return np.clip(np.array(starts), 0.0, 1.0)


def _tied(places: Sequence[Array]) -> Array:
    """Which of a subject's numbers belong to all."""
    if len(places) == 1:
        return np.zeros(len(places[0]), bool)
    made: Array = places[0] == places[1]
    return made
