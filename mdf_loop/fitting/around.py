"""The least of a noisy number, and how sure it is: a paraboloid through many points around it.

Points lie around the best one that is known; each is tried with several sets of random numbers, which
are the same for all of them, so that little of what distinguishes points is noise. Where the paraboloid
is least the next ones are tried, as far around it as it tells. How much it bends gives the standard
errors of a likelihood. Nothing is differentiated.

A cost may be a sum whose terms have some of the numbers each, as those of subjects that share the
others: then each term has a paraboloid of its own numbers, and they are added.

Source: Box and Wilson, On the experimental attainment of optimum conditions (1951).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.fitting.search import Optimum
from mdf_loop.fitting.uncertainty import Uncertainty, with_lost
from mdf_loop.ir import Array

ROUNDS, MOST_ROUNDS = 3, 5
"""How often points are tried, each time around what the last ones say; more often while a direction
looks flat."""

FIRST = 0.15
"""How far the first ones are around the best one, in parts of the bounds."""

REACH = 3.0
"""How far the others are, in standard errors."""

SHRINKS = 0.25
"""The least part of how far points were before."""

WIDEST = 0.5
"""How far they are at most, in parts of the bounds."""

NEAREST = 0.7
"""The part of the points, those that cost least, through which the paraboloid goes."""

FLAT = 1e-3
"""A paraboloid that is flatter than this part of its steepest direction says nothing there."""


Term = tuple[Array, Callable[[Array], Array]]
"""A term of a cost: which numbers of a point it has, and what points of these alone cost."""


def settled(best: Array, terms: Sequence[Term], seed: int) -> tuple[Array, Uncertainty]:
    """Where the cost is least near a point, and how sure that is.

    Args:
        best: the best point that is known.
        terms: of the cost.
        seed: that of the points.
    """
    rng = np.random.default_rng(seed)
    size = len(best)
    radius, ways = np.full(size, FIRST), np.eye(size)
    for done in range(1, MOST_ROUNDS + 1):
        slope, bend = np.zeros(size), np.zeros((size, size))
        for own, costs in terms:
            points = _near(best[own], _seen_by(own, ways * radius), rng)
            more, bends = _paraboloid(points - best[own], costs(points))
            slope[own] += more
            bend[np.ix_(own, own)] += bends
        values, ways = np.linalg.eigh(bend)
        certain = values > max(FLAT * values[-1], 0.0)
        inverse = (ways[:, certain] / values[certain]) @ ways[:, certain].T
        most = min(2 * radius.max(), WIDEST)
        best = np.clip(best + np.clip(-inverse @ slope, -most, most), 0.0, 1.0)
        told = REACH / np.sqrt(np.where(certain, values, np.inf))
        radius = np.clip(np.where(certain, told, most), SHRINKS * radius.min(), most)
        if done >= ROUNDS and certain.all():
            break
    return best, with_lost(inverse, ways[:, ~certain].T)


def _seen_by(own: Array, spread: Array) -> Array:
    """What stretches a ball of some numbers alone as far as the spread does that of all."""
    if len(own) == len(spread):
        return spread[own]
    ways, lengths, _ = np.linalg.svd(spread[own], full_matrices=False)
    made: Array = ways * lengths
    return made


def _near(best: Array, spread: Array, rng: np.random.Generator) -> Array:
    """Points evenly in a ball that the spread stretches, within the bounds; enough for a paraboloid."""
    size = len(best)
    count = 6 + 3 * _terms(size)
    ways = rng.standard_normal((count, size))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    radii = rng.random((count, 1)) ** (1 / size)
    made: Array = np.clip(best + (radii * ways) @ spread.T, 0.0, 1.0)
    return made


def _terms(size: int) -> int:
    return 1 + size + size * (size + 1) // 2


def _paraboloid(moves: Array, costs: Array) -> tuple[Array, Array]:
    """The slope and the second derivatives of the paraboloid that is nearest to costs."""
    size = moves.shape[1]
    pairs = [(i, j) for i in range(size) for j in range(i, size)]
    squares = [moves[:, i] * moves[:, j] * (0.5 if i == j else 1.0) for i, j in pairs]
    design = np.column_stack([np.ones(len(moves)), moves, *squares])
    scale = np.maximum(np.abs(design).max(axis=0), np.finfo(float).tiny)
    kept = costs <= np.quantile(costs, NEAREST)
    found = np.linalg.lstsq(design[kept] / scale, costs[kept], rcond=None)[0] / scale
    bend = np.zeros((size, size))
    for (i, j), value in zip(pairs, found[1 + size :], strict=True):
        bend[i, j] = bend[j, i] = value
    return found[1 : 1 + size], bend


def as_found(point: Array, cost: float, uncertainty: Uncertainty, start: Array) -> Optimum:
    """Where a search has ended, after it was settled."""
    known = bool(np.isfinite(uncertainty.standard_errors).all())
    reason = "settled" if known else "some directions are flat"
    return Optimum(point, cost, start, known, reason)
