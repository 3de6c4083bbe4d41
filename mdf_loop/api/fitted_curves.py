"""Fits of outputs to data: least squares, of one subject or of several that share parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitting_to_data import (
    Estimated,
    FitRequest,
    fitted_model,
    observed_by,
    plain,
    with_estimates,
)
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import Free
from mdf_loop.fitting.search import (
    Optimum,
    Searched,
    evolution,
    least_squares,
    ranked,
    searched,
    sobol,
)
from mdf_loop.fitting.squares import Squares, Subject
from mdf_loop.fitting.uncertainty import normal_cost, of_jacobian
from mdf_loop.fitting.unmoved import refuse_unmoved
from mdf_loop.fitting.watch import Watch
from mdf_loop.ir import Array
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import Curve, FitStart


def fit_curves(model: Derivable, request: FitRequest, free: Free) -> Fit:
    """The fit of one subject.

    Raises:
        LoopError: what is asked for does not fit; the sentence names it.
    """
    if request.method == "gradient":
        raise InputError("curves cannot be fitted by gradient", hint="leave method out")
    size = len(free.elements)
    part = part_of(model, request, free, request.data, np.arange(size))
    with Watch(request.progress, request.time_limit, model.prepared.document.name) as watch:
        squares = Squares([part], size, watch)
        found = search(squares, free, request, watch)
        return Report(model, request, squares, found, watch).of(part)


def part_of(model: Derivable, request: FitRequest, free: Free, data: object, own: Array) -> Subject:
    """The model beside the data of a subject.

    Raises:
        InputError: there are more parameters than data, or a row does not fit.
    """
    observations = observed_by(model, request, data)
    if observations.count < len(own):
        raise InputError(
            f"{len(own)} numbers are free, but there are only {observations.count} data",
            hint="leave parameters out of free, or give more data",
        )
    outputs = [each.output for each in observations.parts]
    return Subject(
        fitted_model(model, request, observations.steps, outputs), free, observations, own
    )


def search(squares: Squares, free: Free, request: FitRequest, watch: Watch) -> Searched:
    """Where the sum of squares is least."""

    def starts() -> Array:
        if request.start is not None:
            return free.point(request.start)[None]
        if request.method == "differential_evolution":
            return evolution(squares.costs, squares.size, request.seed).point[None]
        return ranked(sobol(request.points, squares.size, request.seed), squares.costs)

    def run() -> list[Optimum]:
        begin = starts()[: request.polish]
        refuse_unmoved(free, begin, squares.rows)
        return [least_squares(point, squares.residuals, squares.jacobian) for point in begin]

    return searched(run, watch)


class Report:
    """What is told of a search for the least squares."""

    def __init__(
        self,
        model: Derivable,
        request: FitRequest,
        squares: Squares,
        found: Searched,
        watch: Watch,
    ) -> None:
        self._model, self._request, self._found, self._watch = model, request, found, watch
        self._best = found.best.point
        observed = [part.observations for part in squares.parts]
        freedom = sum(each.count for each in observed) - squares.size
        exact = all(each.exact for each in observed)
        variance = 1.0 if exact else found.best.cost / freedom if freedom else np.inf
        jacobian = squares.jacobian(self._best)
        self._uncertainty = of_jacobian(jacobian, variance, None if exact else freedom)

    def of(self, part: Subject) -> Fit:
        """What is told of one subject."""
        free, point, count = part.free, self._best[part.own], part.observations.count
        rows = part.residuals(point[None])[0]
        sse, exact = float(rows @ rows), part.observations.exact
        numbers = len(point) + (not exact)
        cost = normal_cost(sse, part.factors, exact=exact)
        without = getattr(part.model, "without", "")
        about = Estimated(free, point, self._uncertainty.of(part.own))
        return Fit(
            **about.fields,
            cost=self._found.best.cost,
            converged=self._found.best.converged,
            reason=self._found.best.reason,
            stopped_by=self._found.stopped_by,
            starts=tuple(self._start(part, each) for each in self._found.found),
            evaluations=self._watch.evaluations,
            seconds=self._watch.elapsed,
            seed=self._request.seed,
            method="least squares" + (f" with differences: {without}" if without else ""),
            model=with_estimates(self._model, self._request, free.values(point)),
            sse=sse,
            residual_sd=float(np.sqrt(sse / max(count - len(point), 1))),
            log_likelihood=-cost,
            aic=2 * (numbers + cost),
            bic=numbers * float(np.log(count)) + 2 * cost,
            count=count,
            curves=tuple(self._curves(part, point)),
            read_from=self._model.prepared.document.files,
        )

    def _start(self, part: Subject, found: Optimum) -> FitStart:
        began, ended = (part.free.values(p[part.own]) for p in (found.start, found.point))
        return FitStart(plain(began), plain(ended), found.cost, self._found.agrees(found))

    def _curves(self, part: Subject, point: Array) -> Iterator[Curve]:
        """Outputs at the best point, beside the data."""
        made = part.model.outputs(part.free.values(point[None]))
        dt = 1.0 if self._request.asked.dt is None else self._request.asked.dt
        for each in part.observations.parts:
            rows = made[each.output][0]
            residuals = np.where(each.seen, rows[each.steps] - each.values, np.nan)
            time = np.arange(len(rows)) * dt
            yield Curve(each.output, time, rows, each.steps * dt, each.values, residuals)
