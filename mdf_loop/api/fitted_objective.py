"""Fits to a user-defined objective: a function of outputs, or a sum of differentiable terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_report import Report
from mdf_loop.api.fitting_to_data import FitRequest, build_fitted_model
from mdf_loop.api.members import with_member
from mdf_loop.api.nonfinite_derivatives import has_nonfinite
from mdf_loop.api.suited_method import read_program, warn_of_steps
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.search import (
    Optimum,
    minimize_along_gradient,
    minimize_by_evolution,
    rank_points,
    run_search,
)
from mdf_loop.fitting.unmoved import check_parameters_have_effect
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.reading.names import named_items
from mdf_loop.results.fit import Fit
from mdf_loop.specification import Selection
from mdf_loop.sweeps import generate_sobol_points

Costs = Callable[[Array], Array]


def fit_objective(model: Derivable, request: FitRequest, free: ParameterSpace) -> Fit:
    """Minimize a user-defined objective over the free parameters, and return the fit.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    in_words = isinstance(request.objective, Mapping)
    if not in_words and not callable(request.objective):
        raise InputError(
            "an objective is a function of outputs, or words: {'cell.V': 'mean'}",
        )
    allowed = ("gradient", "differential_evolution") if in_words else ("differential_evolution",)
    if request.method is not None and request.method not in allowed:
        raise InputError(
            f"this objective cannot be fitted by {request.method}",
            hint=f"use {' or '.join(allowed)}",
        )
    with FitMonitor(request.progress, request.time_limit, model.prepared.document.name) as watch:
        way = (
            _TermObjective(model, request, free)
            if in_words
            else _FunctionObjective(model, request, free)
        )

        def costs(points: Array) -> Array:
            cost_values = way.costs(points)
            finite: Array = np.where(np.isfinite(cost_values), cost_values, np.inf)
            watch.record(points, finite)
            return finite

        if isinstance(way, _TermObjective) and request.method is None:
            way.warn_of_steps(free.values(np.full(len(free.elements), 0.5)))
        optimum = run_search(lambda: _search(way, costs, request, free, watch), watch)
        by_gradient = in_words and request.method != "differential_evolution"
        method = "descent by the gradient" if by_gradient else "differential evolution"
        names = tuple(sorted(way.nonfinite)) if isinstance(way, _TermObjective) else ()
        report = Report(model, request, optimum, watch)
        return report.of(free, None, method, nonfinite_derivatives=names)


def _search(
    way: _TermObjective | _FunctionObjective,
    costs: Costs,
    request: FitRequest,
    free: ParameterSpace,
    watch: FitMonitor,
) -> list[Optimum]:
    """Minimize an objective by one differential evolution or by several descents, and return the optima."""
    size = len(free.elements)
    if request.start is not None:
        begin = free.normalize(request.start)[None]
    else:
        begin = rank_points(generate_sobol_points(request.points, size, request.seed), costs)
    check_parameters_have_effect(
        free, begin[: request.polish], lambda points: costs(points)[:, None]
    )
    if isinstance(way, _FunctionObjective) or request.method == "differential_evolution":
        return [minimize_by_evolution(costs, size, request.seed)]

    def value_and_gradient(point: Array) -> tuple[float, Array]:
        value, slopes = way.value_and_gradient(point)
        watch.record(point[None], np.array([value]))
        return value, slopes

    return [minimize_along_gradient(point, value_and_gradient) for point in begin[: request.polish]]


class _TermObjective:
    """Objective that is a sum of terms of `differentiate`.

    Attributes:
        nonfinite: Names of free parameters whose derivatives were nan or infinite although the objective
            was finite. A search adds the names.
    """

    def __init__(self, model: Derivable, request: FitRequest, free: ParameterSpace) -> None:
        spec, draws = request.spec, request.spec.values.draws
        self._free, self._values = free, spec.values
        self._document = model.prepared.document
        self.nonfinite: set[str] = set()
        dt = None if request.steps is None else spec.dt
        self._differentiated = model.differentiate(
            request.objective,
            list(request.free),
            steps=request.steps,
            dt=dt,
            seed=draws.seed,
            trials=draws.trials,
        )

    def warn_of_steps(self, values: Mapping[str, Array]) -> None:
        """Warn if outputs change only in steps, since the search uses derivatives."""
        named = self._differentiated.named
        warn_of_steps(named, read_program(named, self._values, values))

    def costs(self, points: Array) -> Array:
        """Return the value of the objective at each point."""
        base_values, values = self._values, self._free.values(points)
        return np.asarray(
            self._differentiated.evaluate(base_values.set, base_values.inputs, values).value
        )

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """Return the value of the objective at a point, and its gradient."""
        member_values = with_member(self._document, self._values, self._free.values(point))
        cost_and_gradient = self._differentiated.evaluate(member_values.set, member_values.inputs)
        if np.isfinite(cost_and_gradient.value):
            self.nonfinite.update(
                n for n, array in cost_and_gradient.items() if has_nonfinite([array])
            )
        slopes = np.concatenate(
            [cost_and_gradient[each.name].ravel() for each in self._free.parameters]
        )
        return float(cost_and_gradient.value), slopes * self._free.width


class _FunctionObjective:
    """Objective that is a Python function of the outputs of one run."""

    def __init__(self, model: Derivable, request: FitRequest, free: ParameterSpace) -> None:
        names = [item.name for item in named_items(model.prepared.document, Selection()).values()]
        self._free, self._function = free, request.objective
        self._model = build_fitted_model(model, request, request.steps, names)

    def costs(self, points: Array) -> Array:
        """Return the value of the function at each point."""
        outputs = self._model.outputs(self._free.values(points))
        members = ({name: rows[k] for name, rows in outputs.items()} for k in range(len(points)))
        return np.array([self._number(self._function(member)) for member in members])

    def _number(self, value: Any) -> float:
        """Return the value of the user's function as a float.

        Raises:
            InputError: The value is no number.
        """
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(f"the objective gave {value!r}, which is no number"[:200]) from None
