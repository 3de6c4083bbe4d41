"""Tests of searches: errors of cost functions pass through scipy unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import InputError, LoopError, OperandError
from mdf_loop.fitting.search import minimize_by_evolution


@pytest.mark.parametrize(
    "error", [ValueError("of a user"), InputError("of a run"), OperandError("of a model")]
)
@pytest.mark.parametrize("generation", [1, 2])
def test_evolution_raises_the_error_of_the_cost_function(error: Exception, generation: int) -> None:
    generations: list[int] = []

    def costs(points: Any) -> Any:
        generations.append(len(points))
        if len(generations) == generation:
            raise error
        return (points**2).sum(axis=1)

    with pytest.raises(type(error)) as caught:
        minimize_by_evolution(costs, 2, seed=0)
    assert caught.value is error


def test_evolution_gives_up_if_no_point_has_a_finite_cost() -> None:
    with pytest.raises(LoopError, match=r"gives no number at any of \d+ points"):
        minimize_by_evolution(lambda points: np.full(len(points), np.inf), 2, seed=0)


def test_evolution_ignores_points_without_a_finite_cost() -> None:
    optimum = minimize_by_evolution(lambda p: np.where(p[:, 0] > 0.5, p[:, 0], np.inf), 1, seed=0)
    assert optimum.cost == pytest.approx(0.5, abs=1e-2)
