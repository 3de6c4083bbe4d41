"""Fits by a user-defined objective: a function of outputs, or differentiable terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdf_loop.api.derivatives import differentiate
from mdf_loop.api.fitted_report import Report
from mdf_loop.api.fitting_to_data import FitRequest, build_fitted_model
from mdf_loop.api.members import with_member
from mdf_loop.api.nonfinite_derivatives import has_nonfinite
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.suited_method import read_program, warn_of_steps
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.parameter_effects import check_parameters_have_effect
from mdf_loop.fitting.search import (
    Optimum,
    minimize_along_gradient,
    minimize_by_evolution,
    rank_points,
    run_search,
)
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.reading.names import named_items
from mdf_loop.request.derivative_options import DifferentiationOptions
from mdf_loop.results.fit import Fit
from mdf_loop.specification import Selection
from mdf_loop.sweeps import generate_sobol_points

CostFunction = Callable[[Array], Array]


def fit_objective(model: PreparedModel, request: FitRequest, space: ParameterSpace) -> Fit:
    """Minimize a user-defined objective over the free parameters, and return the fit.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    is_sum_of_terms = isinstance(request.objective, Mapping)
    if not is_sum_of_terms and not callable(request.objective):
        raise InputError(
            "an objective is a function of outputs, or words: {'cell.V': 'mean'}",
        )
    allowed_methods = (
        ("gradient", "differential_evolution") if is_sum_of_terms else ("differential_evolution",)
    )
    if request.method is not None and request.method not in allowed_methods:
        raise InputError(
            f"this objective cannot be fitted by {request.method}",
            hint=f"use {' or '.join(allowed_methods)}",
        )
    with FitMonitor(request.progress, request.time_limit, model.document.name) as monitor:
        objective = (
            _TermObjective(model, request, space)
            if is_sum_of_terms
            else _FunctionObjective(model, request, space)
        )

        def costs(points: Array) -> Array:
            cost_values = objective.costs(points)
            costs_or_infinity: Array = np.where(np.isfinite(cost_values), cost_values, np.inf)
            monitor.record(points, costs_or_infinity)
            return costs_or_infinity

        if isinstance(objective, _TermObjective) and request.method is None:
            objective.warn_of_steps(space.values(np.full(len(space.elements), 0.5)))
        search_result = run_search(
            lambda: _search(objective, costs, request, space, monitor), monitor
        )
        uses_gradient = is_sum_of_terms and request.method != "differential_evolution"
        method_description = (
            "descent by the gradient" if uses_gradient else "differential evolution"
        )
        nonfinite_names = (
            tuple(sorted(objective.nonfinite_names))
            if isinstance(objective, _TermObjective)
            else ()
        )
        report = Report(model, request, search_result, monitor)
        return report.build_fit(
            space, None, method_description, nonfinite_derivatives=nonfinite_names
        )


def _search(
    objective: _TermObjective | _FunctionObjective,
    costs: CostFunction,
    request: FitRequest,
    space: ParameterSpace,
    monitor: FitMonitor,
) -> list[Optimum]:
    """Minimize an objective by differential evolution or by descents, and return the optima."""
    element_count = len(space.elements)
    if request.start_values is not None:
        start_points = space.normalize(request.start_values)[None]
    else:
        start_points = rank_points(
            generate_sobol_points(request.start_point_count, element_count, request.seed), costs
        )
    check_parameters_have_effect(
        space, start_points[: request.local_search_count], lambda points: costs(points)[:, None]
    )
    if isinstance(objective, _FunctionObjective) or request.method == "differential_evolution":
        return [minimize_by_evolution(costs, element_count, request.seed)]

    def value_and_gradient(point: Array) -> tuple[float, Array]:
        objective_value, gradient = objective.value_and_gradient(point)
        monitor.record(point[None], np.array([objective_value]))
        return objective_value, gradient

    return [
        minimize_along_gradient(point, value_and_gradient)
        for point in start_points[: request.local_search_count]
    ]


class _TermObjective:
    """Fit objective that is a sum of differentiable terms, as for `differentiate`.

    Attributes:
        nonfinite_names: Names of free parameters whose derivatives were nan or infinite although the objective
            was finite. A search adds the names.
    """

    def __init__(self, model: PreparedModel, request: FitRequest, space: ParameterSpace) -> None:
        spec, draws = request.spec, request.spec.values.draws
        self._space, self._run_values = space, spec.values
        self._document = model.document
        self.nonfinite_names: set[str] = set()
        dt = None if request.steps is None else spec.dt
        self._differentiated = differentiate(
            model,
            DifferentiationOptions(
                request.objective,
                list(request.free_bounds),
                steps=request.steps,
                dt=dt,
                seed=draws.seed,
                trials=draws.trials,
            ),
        )

    def warn_of_steps(self, values: Mapping[str, Array]) -> None:
        """Warn if outputs are piecewise constant, because their derivatives are zero."""
        differentiated_names = self._differentiated.differentiated_names
        warn_of_steps(
            differentiated_names, read_program(differentiated_names, self._run_values, values)
        )

    def costs(self, points: Array) -> Array:
        """Return the value of the fit objective at each point."""
        base_values, swept_values = self._run_values, self._space.values(points)
        return np.asarray(
            self._differentiated.evaluate(base_values.set, base_values.inputs, swept_values).value
        )

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """Return the value and the gradient of the fit objective at a point."""
        member_values = with_member(self._document, self._run_values, self._space.values(point))
        cost_and_gradient = self._differentiated.evaluate(member_values.set, member_values.inputs)
        if np.isfinite(cost_and_gradient.value):
            self.nonfinite_names.update(
                name for name, array in cost_and_gradient.items() if has_nonfinite([array])
            )
        gradient = np.concatenate(
            [cost_and_gradient[parameter.name].ravel() for parameter in self._space.parameters]
        )
        return float(cost_and_gradient.value), gradient * self._space.widths


class _FunctionObjective:
    """Fit objective that is a user's Python function of the outputs of one run."""

    def __init__(self, model: PreparedModel, request: FitRequest, space: ParameterSpace) -> None:
        output_names = [
            model_item.name for model_item in named_items(model.document, Selection()).values()
        ]
        self._space, self._function = space, request.objective
        self._model = build_fitted_model(model, request, request.steps, output_names)

    def costs(self, points: Array) -> Array:
        """Return the value of the user's objective function at each point."""
        outputs = self._model.outputs(self._space.values(points))
        outputs_by_member = (
            {name: values[k] for name, values in outputs.items()} for k in range(len(points))
        )
        return np.array(
            [self._to_cost(self._function(member_outputs)) for member_outputs in outputs_by_member]
        )

    def _to_cost(self, value: Any) -> float:
        """Convert the return value of the user's objective function to a float.

        Raises:
            InputError: The value is no number.
        """
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(f"the objective gave {value!r}, which is no number"[:200]) from None
