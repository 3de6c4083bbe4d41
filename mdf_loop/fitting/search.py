"""Search for the minimum of a cost function within bounds.

    starts      points of a Sobol sequence within the bounds, or the user's start values
    polish      least squares with the Jacobian, or descent along the gradient, from the best starts
    evolution   differential evolution, where a generation is one sweep

The optimisers of scipy are imported when a fit begins. Each element of a point lies between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.errors import InputError
from mdf_loop.fitting.watch import FitMonitor, SearchStopped
from mdf_loop.ir import Array, StopReason
from mdf_loop.signals import count_interrupt

SEARCH_TOLERANCE = 1e-13
"""Relative change of the sum, the point and the gradient below which least squares end."""

COST_AGREEMENT = 1e-6
"""Relative difference of costs below which two starts have the same minimum."""

POINT_AGREEMENT = 1e-3
"""Distance below which two starts have ended at the same point, as a share of the bounds."""

MAX_POINTS_WITHOUT_FINITE_COST = 256
"""Number of points with nan or infinite costs after which differential evolution gives up."""

CostFunction = Callable[[Array], Array]
"""Function that returns the cost of each point."""

PointFunction = Callable[[Array], Array]
"""Function that returns the residuals at a point, or their derivatives."""


class Optimum(Struct, frozen=True):
    """Best point that a search for a minimum found, with its cost, start and convergence."""

    point: Array
    cost: float
    start_point: Array
    is_converged: bool
    end_reason: str


def rank_points(points: Array, costs: CostFunction) -> Array:
    """Return the points at which a cost is finite, sorted by cost.

    Raises:
        InputError: No point has a finite cost.
    """
    point_costs = costs(points)
    cost_order = np.argsort(point_costs, kind="stable")
    finite_points: Array = points[cost_order[np.isfinite(point_costs[cost_order])]]
    if not len(finite_points):
        raise _no_finite_cost_error(len(points))
    return finite_points


def _no_finite_cost_error(points: int) -> InputError:
    """Return the error for a model whose cost is nan or infinite at all points."""
    return InputError(
        f"the model gives no number at any of {points} points within the bounds",
        hint="give narrower bounds",
    )


def least_squares(start: Array, residuals: PointFunction, jacobian: PointFunction) -> Optimum:
    """Find a local minimum of a sum of squares within bounds, from a start point."""
    from scipy.optimize import least_squares as solve

    interior_start = np.clip(start, 1e-10, 1 - 1e-10)
    solution = solve(
        residuals,
        interior_start,
        jacobian,
        bounds=(0.0, 1.0),
        xtol=SEARCH_TOLERANCE,
        ftol=SEARCH_TOLERANCE,
        gtol=SEARCH_TOLERANCE,
        max_nfev=200,
    )
    optimum = Optimum(
        solution.x, 2 * float(solution.cost), start, solution.status > 0, str(solution.message)
    )
    point_on_bounds = np.where(
        solution.active_mask < 0, 0.0, np.where(solution.active_mask > 0, 1.0, solution.x)
    )
    if bool((point_on_bounds != solution.x).any()):
        residuals_on_bounds = residuals(point_on_bounds)
        if float(residuals_on_bounds @ residuals_on_bounds) <= optimum.cost:
            return replace(
                optimum,
                point=point_on_bounds,
                cost=float(residuals_on_bounds @ residuals_on_bounds),
            )
    return optimum


def minimize_along_gradient(
    start: Array, value_and_gradient: Callable[[Array], tuple[float, Array]]
) -> Optimum:
    """Find a local minimum of a function by L-BFGS-B, from a start point."""
    from scipy.optimize import minimize

    solution = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(start),
        options={"ftol": SEARCH_TOLERANCE, "gtol": 1e-10, "maxiter": 1000},
    )
    return Optimum(
        solution.x, float(solution.fun), start, bool(solution.success), str(solution.message)
    )


def minimize_by_evolution(
    costs: CostFunction,
    size: int,
    seed: int,
    generations: int = 1000,
    population: Array | None = None,
) -> Optimum:
    """Find the minimum of a cost function by differential evolution.

    Each generation is evaluated by one call.

    Args:
        costs: A function that returns the cost of each point.
        size: The number of elements of a point.
        seed: The seed of the search.
        generations: The largest number of generations.
        population: The initial points. By default a Sobol sequence.

    Raises:
        InputError: The model gives no number at any point.
        Exception: The error that `costs` raised, in place of scipy's own error.
    """
    from scipy.optimize import differential_evolution

    point_count, has_finite_cost = 0, False

    def generation_costs(points: Array) -> Array:
        nonlocal point_count, has_finite_cost
        member_points = points.reshape(size, -1).T
        try:
            member_costs = costs(member_points)
            point_count, has_finite_cost = (
                point_count + len(member_points),
                has_finite_cost or _has_finite_cost(member_costs),
            )
            if point_count >= MAX_POINTS_WITHOUT_FINITE_COST and not has_finite_cost:
                raise _no_finite_cost_error(point_count)
        except (TypeError, ValueError) as error:
            raise _CostError(error) from None
        return member_costs

    try:
        solution = differential_evolution(
            generation_costs,
            [(0.0, 1.0)] * size,
            rng=seed,
            polish=False,
            vectorized=True,
            updating="deferred",
            maxiter=generations,
            init="sobol" if population is None else population,
            tol=1e-3,
        )
    except _CostError as failure:
        raise failure.error from None
    return Optimum(
        solution.x, float(solution.fun), solution.x, bool(solution.success), str(solution.message)
    )


def _has_finite_cost(costs: Array) -> bool:
    return bool(np.isfinite(costs).any())


class _CostError(Exception):
    """Wrapper around a cost function's error, which scipy would otherwise replace by its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class SearchResult(Struct, frozen=True):
    """Optima that a search found, in order of cost, and the reason for the end of the search."""

    optima: tuple[Optimum, ...]
    stopped_by: StopReason = StopReason.COMPLETED

    @property
    def best(self) -> Optimum:
        """Optimum with the lowest cost."""
        return self.optima[0]

    def agrees(self, optimum: Optimum) -> bool:
        """Return True if an optimum equals the best one in cost and point, within tolerances."""
        return self._has_best_cost(optimum) and self._is_at_best_point(optimum)

    def ties(self, optimum: Optimum) -> bool:
        """Return True if an optimum equals the best one in cost, but lies at another point."""
        return self._has_best_cost(optimum) and not self._is_at_best_point(optimum)

    def _has_best_cost(self, optimum: Optimum) -> bool:
        best_cost = self.best.cost
        return optimum.cost - best_cost <= COST_AGREEMENT * max(
            abs(best_cost), np.finfo(float).tiny
        )

    def _is_at_best_point(self, optimum: Optimum) -> bool:
        return bool(np.abs(optimum.point - self.best.point).max() <= POINT_AGREEMENT)


def run_search(search: Callable[[], Sequence[Optimum]], monitor: FitMonitor) -> SearchResult:
    """Run a search, and return its optima, or the best point so far after an interruption.

    Raises:
        KeyboardInterrupt: A signal stopped the search before it had evaluated any point.
    """
    monitor.reset_best()
    try:
        return SearchResult(tuple(sorted(search(), key=lambda optimum: optimum.cost)))
    except SearchStopped as stop:
        stopped_by, signal_error = stop.reason, None
    except KeyboardInterrupt as signal:
        stopped_by, signal_error = getattr(signal, "reason", StopReason.INTERRUPTED), signal
        monitor.end_reason = stopped_by
        count_interrupt()
    best_cost, best_point = monitor.best
    if best_point is None:
        raise signal_error or InputError(
            f"{stopped_by.value} before there was any result", hint="give it more time"
        )
    return SearchResult(
        (Optimum(best_point, best_cost, best_point, False, stopped_by.value),), stopped_by
    )
