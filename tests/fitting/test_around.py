"""The least of a noisy number, found by a paraboloid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdf_loop.fitting.around import Term, settled

BEND = np.array([[2000.0, 600.0], [600.0, 900.0]])
LEAST = np.array([0.43, 0.61])


def bowl(points: np.ndarray, noise: float = 0.0) -> np.ndarray:
    off = points - LEAST
    rng = np.random.default_rng(len(points))
    return 0.5 * np.sum(off @ BEND * off, axis=1) + noise * rng.standard_normal(len(points))


def of_all(costs: Callable[[np.ndarray], np.ndarray]) -> list[Term]:
    return [(np.arange(2), costs)]


def test_a_paraboloid_is_found_as_it_is() -> None:
    point, sure = settled(np.array([0.5, 0.5]), of_all(bowl), 0)
    np.testing.assert_allclose(point, LEAST, atol=1e-9)
    np.testing.assert_allclose(sure.covariance, np.linalg.inv(BEND), rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_noise_averages_out(seed: int) -> None:
    point, sure = settled(np.array([0.5, 0.5]), of_all(lambda p: bowl(p, 0.5)), seed)
    off = (point - LEAST) / sure.standard_errors
    assert np.abs(off).max() < 0.6
    np.testing.assert_allclose(
        sure.standard_errors, np.sqrt(np.diag(np.linalg.inv(BEND))), rtol=0.5
    )


def test_the_least_beyond_a_bound_is_at_it() -> None:
    beyond = np.array([-0.1, 0.5])
    costs = of_all(lambda p: 500 * np.sum((p - beyond) ** 2, axis=1))
    point, _ = settled(np.array([0.1, 0.5]), costs, 0)
    assert point[0] == 0.0
    assert point[1] == pytest.approx(0.5, abs=0.02)


def test_a_flat_direction_is_unknown() -> None:
    point, sure = settled(np.array([0.5, 0.5]), of_all(lambda p: 800 * (p[:, 0] - 0.4) ** 2), 0)
    assert point[0] == pytest.approx(0.4)
    assert np.isinf(sure.standard_errors[1])
    assert sure.standard_errors[0] == pytest.approx(0.025)


@pytest.mark.parametrize("seed", range(8))
def test_a_direction_that_is_nearly_flat_is_looked_at_from_farther(seed: int) -> None:
    ways = np.array([[0.8, -0.6], [0.6, 0.8]])
    bend = ways @ np.diag([8000.0, 60.0]) @ ways.T
    rng = np.random.default_rng(seed)

    def costs(points: np.ndarray) -> np.ndarray:
        off = points - LEAST
        return 0.5 * np.sum(off @ bend * off, axis=1) + rng.standard_normal(len(points))

    point, sure = settled(np.array([0.5, 0.5]), of_all(costs), seed)
    errors = np.sqrt(np.diag(np.linalg.inv(bend)))
    assert np.isfinite(sure.standard_errors).all()
    assert np.abs((point - LEAST) / errors).max() < 1.5


def test_terms_share_numbers() -> None:
    rng = np.random.default_rng(0)
    least, places = rng.uniform(0.4, 0.6, 5), [np.array([0, 1, 2]), np.array([0, 3, 4])]
    halves = [rng.standard_normal((3, 3)) for _ in places]
    bends = [1000 * (half @ half.T + np.eye(3)) for half in halves]
    whole = np.zeros((5, 5))
    for own, bend in zip(places, bends, strict=True):
        whole[np.ix_(own, own)] += bend

    def term(own: np.ndarray, bend: np.ndarray) -> Term:
        return own, lambda p: 0.5 * np.sum((p - least[own]) @ bend * (p - least[own]), axis=1)

    terms = [term(own, bend) for own, bend in zip(places, bends, strict=True)]
    point, sure = settled(np.full(5, 0.5), terms, 0)
    np.testing.assert_allclose(point, least, atol=1e-9)
    np.testing.assert_allclose(sure.covariance, np.linalg.inv(whole), rtol=1e-6)
