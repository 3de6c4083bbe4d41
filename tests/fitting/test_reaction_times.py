"""Bins of reaction times, and shares of trials in them."""

from __future__ import annotations

import numpy as np

from mdf_loop.fitting.reaction_times import FLOOR, MOST_BINS, ReactionTimes


def test_bins_hold_about_equally_many() -> None:
    times = np.random.default_rng(0).exponential(size=500)
    (bins,) = ReactionTimes.of(times, None).bins
    assert len(bins.observed) == MOST_BINS
    assert bins.observed.tolist() == [50] * MOST_BINS


def test_choices_have_bins_of_their_own() -> None:
    times = np.arange(80.0)
    made = ReactionTimes.of(times, np.repeat([0, 1], [55, 25]))
    assert [len(each.observed) for each in made.bins] == [5, 2]
    assert made.count == 80


def test_shares_of_trials() -> None:
    made = ReactionTimes.of(np.arange(40.0), np.repeat([0, 1], 20))
    times = np.array([[3.0, 15.0, 25.0, np.nan], [3.0, 3.0, 3.0, 3.0]])
    choices = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 2.0]])
    inside = np.array([[1, 1, 1, 0], [3, 0, 0, 0]])
    expected = np.log((inside + FLOOR) / (4 + 4 * FLOOR))
    np.testing.assert_allclose(made.log_shares(times, choices), expected)


def test_equal_times_are_one_bin() -> None:
    (bins,) = ReactionTimes.of(np.repeat(0.5, 100), None).bins
    assert bins.observed.sum() == 100


def test_nan_is_left_out() -> None:
    made = ReactionTimes.of(np.array([1.0, np.nan, 3.0]), np.array([0.0, 1.0, np.nan]))
    assert made.count == 1
