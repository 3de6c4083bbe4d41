"""Tests of bins of reaction times and of the share of trials in each bin."""

from __future__ import annotations

import numpy as np

from mdf_loop.fitting.reaction_times import MAX_BINS, TRIALS_ADDED_TO_BIN, ReactionTimeData


def test_bins_hold_equally_many_times() -> None:
    times = np.random.default_rng(0).exponential(size=500)
    (bins,) = ReactionTimeData.of(times, None).bins
    assert len(bins.data_counts) == MAX_BINS
    assert bins.data_counts.tolist() == [50] * MAX_BINS


def test_each_choice_has_its_own_bins() -> None:
    times = np.arange(80.0)
    data = ReactionTimeData.of(times, np.repeat([0, 1], [55, 25]))
    assert [len(each.data_counts) for each in data.bins] == [5, 2]
    assert data.count == 80


def test_log_shares_of_trials() -> None:
    data = ReactionTimeData.of(np.arange(40.0), np.repeat([0, 1], 20))
    times = np.array([[3.0, 15.0, 25.0, np.nan], [3.0, 3.0, 3.0, 3.0]])
    choices = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 2.0]])
    trial_counts = np.array([[1, 1, 1, 0], [3, 0, 0, 0]])
    expected = np.log((trial_counts + TRIALS_ADDED_TO_BIN) / (4 + 4 * TRIALS_ADDED_TO_BIN))
    np.testing.assert_allclose(data.log_shares(times, choices), expected)


def test_equal_times_are_in_one_bin() -> None:
    (bins,) = ReactionTimeData.of(np.repeat(0.5, 100), None).bins
    assert bins.data_counts.sum() == 100


def test_nan_is_dropped() -> None:
    data = ReactionTimeData.of(np.array([1.0, np.nan, 3.0]), np.array([0.0, 1.0, np.nan]))
    assert data.count == 1
