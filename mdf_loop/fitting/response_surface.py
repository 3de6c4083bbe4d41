"""Response surface method, which refines the minimum of a noisy cost by a paraboloid.

Sample points lie around the best known point. The cost of each point is computed with several sets of
random numbers. All points share these sets, so that little of the difference between two points is
noise. The next sample points lie around the minimum of the fitted paraboloid, at a distance that its
curvature determines. The curvature of a negative log likelihood also gives the standard errors. No
derivative of the model is needed.

A cost may be a sum of terms, where each term depends on some elements of the point only. This is the
case for subjects that share some parameters. Each term then has a paraboloid in its own elements, and
the paraboloids are added.

Source: Box and Wilson, On the experimental attainment of optimum conditions (1951).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mdf_loop.fitting.search import Optimum
from mdf_loop.fitting.uncertainty import Uncertainty, uncertainty_with_undetermined_directions
from mdf_loop.ir import Array

MIN_ROUNDS, MAX_ROUNDS = 3, 5
"""Least and largest number of rounds, each with new sample points.

Rounds beyond the least number follow while the curvature in some direction is too small.
"""

INITIAL_RADIUS = 0.15
"""Radius of the first sample, as a share of the bounds."""

RADIUS_IN_STANDARD_ERRORS = 3.0
"""Radius of the later samples, in standard errors."""

MIN_SHRINK_FACTOR = 0.25
"""Least ratio of a radius to the radius of the round before."""

MAX_RADIUS = 0.5
"""Largest radius of a sample, as a share of the bounds."""

FITTED_POINT_SHARE = 0.7
"""Share of the points, those with the lowest costs, to which the paraboloid is fitted."""

MIN_RELATIVE_CURVATURE = 1e-3
"""Least curvature, relative to the steepest direction, of a direction that counts as known."""


CostTerm = tuple[Array, Callable[[Array], Array]]
"""Term of a cost, with the indices of its elements in a point, and a function of its costs."""


def refine_noisy_minimum(
    best_point: Array, terms: Sequence[CostTerm], seed: int
) -> tuple[Array, Uncertainty]:
    """Refine the minimum of a noisy cost near a point, and return the minimum with its uncertainty.

    Args:
        best_point: The best known point.
        terms: The terms of the cost.
        seed: The seed of the sample points.
    """
    rng = np.random.default_rng(seed)
    element_count = len(best_point)
    radii, directions = np.full(element_count, INITIAL_RADIUS), np.eye(element_count)
    for round_number in range(1, MAX_ROUNDS + 1):
        gradient, hessian = np.zeros(element_count), np.zeros((element_count, element_count))
        for parameter_indices, compute_costs in terms:
            points = _sample_points(
                best_point[parameter_indices],
                _project_spread(parameter_indices, directions * radii),
                rng,
            )
            term_gradient, term_hessian = _fit_paraboloid(
                points - best_point[parameter_indices], compute_costs(points)
            )
            gradient[parameter_indices] += term_gradient
            hessian[np.ix_(parameter_indices, parameter_indices)] += term_hessian
        eigenvalues, directions = np.linalg.eigh(hessian)
        is_determined = eigenvalues > max(MIN_RELATIVE_CURVATURE * eigenvalues[-1], 0.0)
        inverse_hessian = (directions[:, is_determined] / eigenvalues[is_determined]) @ directions[
            :, is_determined
        ].T
        max_step = min(2 * radii.max(), MAX_RADIUS)
        best_point = np.clip(
            best_point + np.clip(-inverse_hessian @ gradient, -max_step, max_step), 0.0, 1.0
        )
        standard_error_radii = RADIUS_IN_STANDARD_ERRORS / np.sqrt(
            np.where(is_determined, eigenvalues, np.inf)
        )
        radii = np.clip(
            np.where(is_determined, standard_error_radii, max_step),
            MIN_SHRINK_FACTOR * radii.min(),
            max_step,
        )
        if round_number >= MIN_ROUNDS and is_determined.all():
            break
    return best_point, uncertainty_with_undetermined_directions(
        inverse_hessian, directions[:, ~is_determined].T
    )


def _project_spread(indices: Array, spread: Array) -> Array:
    """Return the ellipsoid of sample points, projected onto a subset of the coordinates."""
    if len(indices) == len(spread):
        return spread[indices]
    axis_directions, axis_lengths, _ = np.linalg.svd(spread[indices], full_matrices=False)
    projected_spread: Array = axis_directions * axis_lengths
    return projected_spread


def _sample_points(best: Array, spread: Array, rng: np.random.Generator) -> Array:
    """Draw sample points uniformly in an ellipsoid, and clip them to the bounds.

    The number of points suffices to fit a paraboloid.
    """
    element_count = len(best)
    point_count = 6 + 3 * _coefficient_count(element_count)
    random_directions = rng.standard_normal((point_count, element_count))
    random_directions /= np.linalg.norm(random_directions, axis=1, keepdims=True)
    radii = rng.random((point_count, 1)) ** (1 / element_count)
    sample_points: Array = np.clip(best + (radii * random_directions) @ spread.T, 0.0, 1.0)
    return sample_points


def _coefficient_count(dimension: int) -> int:
    """Return the number of coefficients of a quadratic polynomial in `dimension` variables."""
    return 1 + dimension + dimension * (dimension + 1) // 2


def _fit_paraboloid(displacements: Array, costs: Array) -> tuple[Array, Array]:
    """Fit a paraboloid to costs by least squares, and return its gradient and Hessian."""
    element_count = displacements.shape[1]
    index_pairs = [(i, j) for i in range(element_count) for j in range(i, element_count)]
    quadratic_terms = [
        displacements[:, i] * displacements[:, j] * (0.5 if i == j else 1.0) for i, j in index_pairs
    ]
    design_matrix = np.column_stack([np.ones(len(displacements)), displacements, *quadratic_terms])
    column_scales = np.maximum(np.abs(design_matrix).max(axis=0), np.finfo(float).tiny)
    is_low_cost = costs <= np.quantile(costs, FITTED_POINT_SHARE)
    coefficients = (
        np.linalg.lstsq(design_matrix[is_low_cost] / column_scales, costs[is_low_cost], rcond=None)[
            0
        ]
        / column_scales
    )
    hessian = np.zeros((element_count, element_count))
    for (i, j), coefficient in zip(index_pairs, coefficients[1 + element_count :], strict=True):
        hessian[i, j] = hessian[j, i] = coefficient
    return coefficients[1 : 1 + element_count], hessian


def refined_optimum(point: Array, cost: float, uncertainty: Uncertainty, start: Array) -> Optimum:
    """Return the optimum of a refinement, marked as converged if standard errors are finite."""
    has_finite_errors = bool(np.isfinite(uncertainty.standard_errors).all())
    convergence_reason = "settled" if has_finite_errors else "some directions are flat"
    return Optimum(point, cost, start, has_finite_errors, convergence_reason)
