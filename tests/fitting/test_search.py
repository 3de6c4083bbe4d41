"""Searches: errors of what is computed come out of scipy as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import InputError, LoopError, OperandError
from mdf_loop.fitting.search import evolution


@pytest.mark.parametrize(
    "error", [ValueError("of a user"), InputError("of a run"), OperandError("of a model")]
)
@pytest.mark.parametrize("generation", [1, 2])
def test_evolution_raises_the_error_of_its_costs(error: Exception, generation: int) -> None:
    generations: list[int] = []

    def costs(points: Any) -> Any:
        generations.append(len(points))
        if len(generations) == generation:
            raise error
        return (points**2).sum(axis=1)

    with pytest.raises(type(error)) as caught:
        evolution(costs, 2, seed=0)
    assert caught.value is error


def test_evolution_gives_up_where_no_point_has_a_number() -> None:
    with pytest.raises(LoopError, match=r"gives no number at any of \d+ points"):
        evolution(lambda points: np.full(len(points), np.inf), 2, seed=0)


def test_evolution_goes_on_where_some_points_have_none() -> None:
    found = evolution(lambda p: np.where(p[:, 0] > 0.5, p[:, 0], np.inf), 1, seed=0)
    assert found.cost == pytest.approx(0.5, abs=1e-2)
