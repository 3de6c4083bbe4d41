"""Tests of the refinement of a noisy minimum by a fitted paraboloid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdf_loop.fitting.response_surface import CostTerm, refine_noisy_minimum

HESSIAN = np.array([[2000.0, 600.0], [600.0, 900.0]])
MINIMUM = np.array([0.43, 0.61])


def noisy_paraboloid(points: np.ndarray, noise: float = 0.0) -> np.ndarray:
    offset = points - MINIMUM
    rng = np.random.default_rng(len(points))
    return 0.5 * np.sum(offset @ HESSIAN * offset, axis=1) + noise * rng.standard_normal(
        len(points)
    )


def single_term(costs: Callable[[np.ndarray], np.ndarray]) -> list[CostTerm]:
    return [(np.arange(2), costs)]


def test_exact_paraboloid_is_recovered() -> None:
    point, uncertainty = refine_noisy_minimum(
        np.array([0.5, 0.5]), single_term(noisy_paraboloid), 0
    )
    np.testing.assert_allclose(point, MINIMUM, atol=1e-9)
    np.testing.assert_allclose(uncertainty.covariance, np.linalg.inv(HESSIAN), rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_averaged_out(seed: int) -> None:
    point, uncertainty = refine_noisy_minimum(
        np.array([0.5, 0.5]), single_term(lambda p: noisy_paraboloid(p, 0.5)), seed
    )
    relative_error = (point - MINIMUM) / uncertainty.standard_errors
    assert np.abs(relative_error).max() < 0.6
    np.testing.assert_allclose(
        uncertainty.standard_errors, np.sqrt(np.diag(np.linalg.inv(HESSIAN))), rtol=0.5
    )


def test_minimum_beyond_a_bound_is_moved_to_the_bound() -> None:
    beyond = np.array([-0.1, 0.5])
    costs = single_term(lambda p: 500 * np.sum((p - beyond) ** 2, axis=1))
    point, _ = refine_noisy_minimum(np.array([0.1, 0.5]), costs, 0)
    assert point[0] == 0.0
    assert point[1] == pytest.approx(0.5, abs=0.02)


def test_flat_direction_has_an_infinite_error() -> None:
    point, uncertainty = refine_noisy_minimum(
        np.array([0.5, 0.5]), single_term(lambda p: 800 * (p[:, 0] - 0.4) ** 2), 0
    )
    assert point[0] == pytest.approx(0.4)
    assert np.isinf(uncertainty.standard_errors[1])
    assert uncertainty.standard_errors[0] == pytest.approx(0.025)


@pytest.mark.parametrize("seed", range(8))
def test_nearly_flat_direction_is_sampled_over_a_larger_radius(seed: int) -> None:
    rotation = np.array([[0.8, -0.6], [0.6, 0.8]])
    hessian = rotation @ np.diag([8000.0, 60.0]) @ rotation.T
    rng = np.random.default_rng(seed)

    def costs(points: np.ndarray) -> np.ndarray:
        offset = points - MINIMUM
        return 0.5 * np.sum(offset @ hessian * offset, axis=1) + rng.standard_normal(len(points))

    point, uncertainty = refine_noisy_minimum(np.array([0.5, 0.5]), single_term(costs), seed)
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert np.isfinite(uncertainty.standard_errors).all()
    assert np.abs((point - MINIMUM) / errors).max() < 1.5


def test_terms_share_elements() -> None:
    rng = np.random.default_rng(0)
    minimum, index_sets = rng.uniform(0.4, 0.6, 5), [np.array([0, 1, 2]), np.array([0, 3, 4])]
    factors = [rng.standard_normal((3, 3)) for _ in index_sets]
    hessians = [1000 * (half @ half.T + np.eye(3)) for half in factors]
    total_hessian = np.zeros((5, 5))
    for indices, hessian in zip(index_sets, hessians, strict=True):
        total_hessian[np.ix_(indices, indices)] += hessian

    def term(indices: np.ndarray, hessian: np.ndarray) -> CostTerm:
        return (
            indices,
            lambda p: (
                0.5 * np.sum((p - minimum[indices]) @ hessian * (p - minimum[indices]), axis=1)
            ),
        )

    terms = [term(indices, hessian) for indices, hessian in zip(index_sets, hessians, strict=True)]
    point, uncertainty = refine_noisy_minimum(np.full(5, 0.5), terms, 0)
    np.testing.assert_allclose(point, minimum, atol=1e-9)
    np.testing.assert_allclose(uncertainty.covariance, np.linalg.inv(total_hessian), rtol=1e-6)
