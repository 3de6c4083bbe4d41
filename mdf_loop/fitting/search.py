"""Where the least is: many points at once, then the best of them polished.

    starts      a Sobol sequence through the bounds, or what the user gives
    polished    the best of them, by least squares with the Jacobian, or by the gradient
    evolved     differential evolution: a generation is one sweep

scipy's optimisers, imported when a fit begins. Points lie between 0 and 1 in each number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.errors import InputError
from mdf_loop.fitting.watch import Halted, Watch
from mdf_loop.ir import Array, StoppedBy
from mdf_loop.signals import count_interrupt

EXACT = 1e-13
"""Least squares end where neither the sum, nor the point, nor the gradient changes by more."""

AGREE = 1e-6
"""Starts agree whose least is that of the best, but for this part; and which are as near to it."""

PLACE = 1e-3
"""How near that is, in parts of the bounds."""

HOPELESS = 256
"""Points without a number after which differential evolution gives up."""

Costs = Callable[[Array], Array]
"""The cost of each of some points."""

Numbers = Callable[[Array], Array]
"""Residuals, or their derivatives, at a point."""


class Optimum(Struct, frozen=True):
    """Where a search has ended: the point and its cost, from which point, and whether it is done."""

    point: Array
    cost: float
    start: Array
    converged: bool
    reason: str


def ranked(points: Array, costs: Costs) -> Array:
    """The points at which the model gives numbers, the best first.

    Raises:
        InputError: there is none.
    """
    found = costs(points)
    order = np.argsort(found, kind="stable")
    made: Array = points[order[np.isfinite(found[order])]]
    if not len(made):
        raise _no_number(len(points))
    return made


def _no_number(points: int) -> InputError:
    return InputError(
        f"the model gives no number at any of {points} points within the bounds",
        hint="give narrower bounds",
    )


def least_squares(start: Array, residuals: Numbers, jacobian: Numbers) -> Optimum:
    """The least sum of squares near a point."""
    from scipy.optimize import least_squares as solve

    inside = np.clip(start, 1e-10, 1 - 1e-10)
    made = solve(
        residuals,
        inside,
        jacobian,
        bounds=(0.0, 1.0),
        xtol=EXACT,
        ftol=EXACT,
        gtol=EXACT,
        max_nfev=200,
    )
    found = Optimum(made.x, 2 * float(made.cost), start, made.status > 0, str(made.message))
    snapped = np.where(made.active_mask < 0, 0.0, np.where(made.active_mask > 0, 1.0, made.x))
    if bool((snapped != made.x).any()):
        rows = residuals(snapped)
        if float(rows @ rows) <= found.cost:
            return replace(found, point=snapped, cost=float(rows @ rows))
    return found


def descent(start: Array, value_and_gradient: Callable[[Array], tuple[float, Array]]) -> Optimum:
    """The least value near a point, by its gradient."""
    from scipy.optimize import minimize

    made = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(start),
        options={"ftol": EXACT, "gtol": 1e-10, "maxiter": 1000},
    )
    return Optimum(made.x, float(made.fun), start, bool(made.success), str(made.message))


def evolution(
    costs: Costs, size: int, seed: int, generations: int = 1000, first: Array | None = None
) -> Optimum:
    """Return the least cost, by differential evolution; a generation is computed at once.

    Raises:
        InputError: the model gives no number at any point.
        Exception: `costs` has raised it; scipy would put an error of its own in its place.
    """
    from scipy.optimize import differential_evolution

    points_seen, has_number = 0, False

    def of_generation(points: Array) -> Array:
        nonlocal points_seen, has_number
        members = points.reshape(size, -1).T
        try:
            energies = costs(members)
            points_seen, has_number = (
                points_seen + len(members),
                has_number or _any_number(energies),
            )
            if points_seen >= HOPELESS and not has_number:
                raise _no_number(points_seen)
        except (TypeError, ValueError) as error:
            raise _FailedCosts(error) from None
        return energies

    try:
        made = differential_evolution(
            of_generation,
            [(0.0, 1.0)] * size,
            rng=seed,
            polish=False,
            vectorized=True,
            updating="deferred",
            maxiter=generations,
            init="sobol" if first is None else first,
            tol=1e-3,
        )
    except _FailedCosts as failed:
        raise failed.error from None
    return Optimum(made.x, float(made.fun), made.x, bool(made.success), str(made.message))


def _any_number(costs: Array) -> bool:
    return bool(np.isfinite(costs).any())


class _FailedCosts(Exception):  # noqa: N818 - it carries the error of what was computed
    """Costs that could not be computed, in a form that scipy lets pass."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Searched(Struct, frozen=True):
    """All that a search has found, the best first, and what has ended it."""

    found: tuple[Optimum, ...]
    stopped_by: StoppedBy = StoppedBy.COMPLETED

    @property
    def best(self) -> Optimum:
        """Where the cost is least."""
        return self.found[0]

    def agrees(self, found: Optimum) -> bool:
        """Whether a start has come to the best one's cost and place."""
        return self._costs_as_little(found) and self._is_near(found)

    def ties(self, found: Optimum) -> bool:
        """Whether a start has come to the best one's cost at another place."""
        return self._costs_as_little(found) and not self._is_near(found)

    def _costs_as_little(self, found: Optimum) -> bool:
        least = self.best.cost
        return found.cost - least <= AGREE * max(abs(least), np.finfo(float).tiny)

    def _is_near(self, found: Optimum) -> bool:
        return bool(np.abs(found.point - self.best.point).max() <= PLACE)


def searched(search: Callable[[], Sequence[Optimum]], watch: Watch) -> Searched:
    """Return what a search finds, or the best that it has seen by then where something ends it.

    Raises:
        KeyboardInterrupt: a signal has ended it before there was anything.
    """
    watch.begin()
    try:
        return Searched(tuple(sorted(search(), key=lambda found: found.cost)))
    except Halted as halted:
        stopped_by, ended = halted.reason, None
    except KeyboardInterrupt as signal:
        stopped_by, ended = getattr(signal, "reason", StoppedBy.INTERRUPTED), signal
        watch.ended = stopped_by
        count_interrupt()
    cost, point = watch.best
    if point is None:
        raise ended or InputError(
            f"{stopped_by.value} before there was any result", hint="give it more time"
        )
    return Searched((Optimum(point, cost, point, False, stopped_by.value),), stopped_by)
