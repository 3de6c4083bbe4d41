"""Tests of the check that choices and times of the data lie within the range of the model."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.fitting.data_range import check_data_within_model_range
from mdf_loop.fitting.reaction_times import ReactionTimeData
from mdf_loop.ir import Array

TIMES = np.linspace(0.3, 2.0, 40)
CHOICES = np.tile([0.0, 1.0], 20)


def compare(times: Array, choices: Array | None, *, near: Array = CHOICES) -> None:
    """Compare data with trials at two points, of which the first has the choices `near`."""

    def trials(points: Array) -> tuple[Array, Array | None]:
        rows = np.tile(TIMES, (len(points), 1))
        model_choices = np.tile(CHOICES, (len(points), 1))
        model_choices[0] = near
        return rows, None if choices is None else model_choices

    observed = ReactionTimeData.of(times, choices)
    check_data_within_model_range(observed, trials, np.zeros((1, 1)), lambda: np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (2 * CHOICES - 1, "choice -1, which the model never gives: in 80 trials .* are 0, 1"),
        (CHOICES + 1, "choice 2, which"),
        (2 * CHOICES + 3, "choice 3, 5, which"),
        (np.arange(40.0) + 2, "choice 2, 3, 4, 5, 6, 7 and 34 more, which"),
    ],
)
def test_choices_without_a_trial_are_refused(choices: Array, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        compare(TIMES, choices)
    assert "(choice + 1) / 2 makes 0 and 1 of -1 and 1" in caught.value.findings[0].hint


def test_choice_that_is_rare_at_the_best_points_is_accepted() -> None:
    compare(TIMES, CHOICES, near=np.ones(40))


@pytest.mark.parametrize("choices", [None, CHOICES])
@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_times_in_another_unit_are_refused(choices: Array | None, factor: float) -> None:
    message = f"{0.3 * factor:.4g} to {2 * factor:.4g}, are not .* within the bounds, 0.3 to 2"
    with pytest.raises(InputError, match=message) as caught:
        compare(factor * TIMES, choices)
    assert "are the units the same?" in caught.value.findings[0].hint


def test_message_names_choices_and_times_together() -> None:
    with pytest.raises(InputError) as caught:
        compare(1000 * TIMES, 2 * CHOICES - 1)
    assert len(caught.value.findings) == 2


def test_data_with_some_times_in_range_are_accepted() -> None:
    compare(np.where(np.arange(40) < 36, TIMES + 5, TIMES), CHOICES)


def test_unfinished_trials_are_ignored() -> None:
    def trials(points: Array) -> tuple[Array, None]:
        return np.full((len(points), 3), np.nan), None

    observed = ReactionTimeData.of(TIMES, None)
    check_data_within_model_range(observed, trials, np.zeros((1, 1)), lambda: np.zeros((2, 1)))
