"""Data that no trial of a model is like: choices in other words, times in another unit."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.fitting.apart import refuse_apart
from mdf_loop.fitting.reaction_times import ReactionTimes
from mdf_loop.ir import Array

TIMES = np.linspace(0.3, 2.0, 40)
CHOICES = np.tile([0.0, 1.0], 20)


def compare(times: Array, choices: Array | None, *, near: Array = CHOICES) -> None:
    """Compare data with trials: one point near, and one that has all of them."""

    def trials(points: Array) -> tuple[Array, Array | None]:
        rows = np.tile(TIMES, (len(points), 1))
        given = np.tile(CHOICES, (len(points), 1))
        given[0] = near
        return rows, None if choices is None else given

    observed = ReactionTimes.of(times, choices)
    refuse_apart(observed, trials, np.zeros((1, 1)), lambda: np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (2 * CHOICES - 1, "choice -1, which the model never gives: in 80 trials .* are 0, 1"),
        (CHOICES + 1, "choice 2, which"),
        (2 * CHOICES + 3, "choice 3, 5, which"),
        (np.arange(40.0) + 2, "choice 2, 3, 4, 5, 6, 7 and 34 more, which"),
    ],
)
def test_choices_that_the_model_never_gives(choices: Array, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        compare(TIMES, choices)
    assert "(choice + 1) / 2 makes 0 and 1 of -1 and 1" in refused.value.findings[0].hint


def test_a_choice_that_is_rare_where_the_model_fits_best_is_one() -> None:
    compare(TIMES, CHOICES, near=np.ones(40))


@pytest.mark.parametrize("choices", [None, CHOICES])
@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_times_of_another_unit(choices: Array | None, factor: float) -> None:
    said = f"{0.3 * factor:.4g} to {2 * factor:.4g}, are not .* within the bounds, 0.3 to 2"
    with pytest.raises(InputError, match=said) as refused:
        compare(factor * TIMES, choices)
    assert "are the units the same?" in refused.value.findings[0].hint


def test_both_are_said_at_once() -> None:
    with pytest.raises(InputError) as refused:
        compare(1000 * TIMES, 2 * CHOICES - 1)
    assert len(refused.value.findings) == 2


def test_times_of_which_some_lie_outside() -> None:
    compare(np.where(np.arange(40) < 36, TIMES + 5, TIMES), CHOICES)


def test_trials_that_do_not_end_say_nothing() -> None:
    def trials(points: Array) -> tuple[Array, None]:
        return np.full((len(points), 3), np.nan), None

    observed = ReactionTimes.of(TIMES, None)
    refuse_apart(observed, trials, np.zeros((1, 1)), lambda: np.zeros((2, 1)))
