"""Fits of several subjects that share parameters: one search for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_curves import part_of, search, told
from mdf_loop.api.fitted_report import Report
from mdf_loop.api.fitting_to_data import FitRequest, of_subject, subjects_of
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import Free
from mdf_loop.fitting.search import Optimum, least_squares, ranked, searched
from mdf_loop.fitting.squares import Squares, Subject
from mdf_loop.fitting.watch import Watch
from mdf_loop.ir import Array
from mdf_loop.paths import noting
from mdf_loop.results.fit import Fits


def fit_together(model: Derivable, request: FitRequest, free: Free) -> Fits:
    """The fit of all subjects: `shared` parameters have one value, the others one for each.

    It begins where each subject's own fit has ended.

    Raises:
        LoopError: what is asked for does not fit; the sentence names it.
    """
    if request.likelihood or request.objective is not None:
        raise InputError("shared ties fits of curves alone", hint="fit the subjects one by one")
    if request.start is not None or request.method is not None:
        raise InputError("a fit with shared takes neither start nor method", hint="leave them out")
    with noting(model.prepared.document.files) as files:
        parts = _parts(model, request, free)
    size = 1 + max(int(part.own.max()) for part in parts.values())
    with Watch(request.progress, request.time_limit, model.prepared.document.name) as watch:
        alone = _alone(parts, free, request, watch)
        squares = Squares(list(parts.values()), size, watch)
        begin = _starts(alone, [part.own for part in squares.parts], size)

        def run() -> list[Optimum]:
            best = ranked(begin, squares.costs)[: request.polish]
            return [least_squares(p, squares.residuals, squares.jacobian) for p in best]

        fits = told(Report(model, request, searched(run, watch), watch), squares)
    return Fits(dict(zip(parts, fits, strict=True)), request.shared, frozenset(files))


def _parts(model: Derivable, request: FitRequest, free: Free) -> dict[str, Subject]:
    """The model beside the data of each subject."""
    places = _places(free, request.shared, len(request.data))
    made = {}
    for (name, each), own in zip(subjects_of(request), places, strict=True):
        with of_subject(name):
            made[name] = part_of(model, each, free, own)
    return made


def _alone(
    parts: Mapping[str, Subject], free: Free, request: FitRequest, watch: Watch
) -> list[Array]:
    """Where each subject's own sum is least; of the first ones alone, if the fit is ended."""
    made: list[Array] = []
    for name, part in parts.items():
        squares = Squares([part.alone], len(part.own), watch)
        with of_subject(name):
            made.append(search(squares, free, request, watch).best.point)
        if watch.ended is not None:
            break
    return made


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


def _starts(alone: Sequence[Array], places: Sequence[Array], size: int) -> Array:
    """Each subject's own numbers, with shared ones of their median, and of each of them.

    Those of which there are none yet have the median.
    """
    median = np.median(alone, axis=0)
    points = [*alone, *[median] * (len(places) - len(alone))]
    starts = []
    for shared in (median, *alone):
        start = np.zeros(size)
        for point, own in zip(points, places, strict=True):
            start[own] = point
        start[places[0]] = np.where(_tied(places), shared, start[places[0]])
        starts.append(start)
    return np.array(starts)


def _tied(places: Sequence[Array]) -> Array:
    """Which of a subject's numbers belong to all."""
    if len(places) == 1:
        return np.zeros(len(places[0]), bool)
    made: Array = places[0] == places[1]
    return made
