"""First passages of drift diffusion against closed forms, in 100 000 trials.

A particle observed in discrete steps passes a threshold later than one observed continuously. The delay
corresponds to a threshold that is 0.5826 sigma sqrt(dt) further out (D. Siegmund, Sequential Analysis, 1985).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop

MODEL = Path(__file__).parents[2] / "benchmarks" / "decision.yaml"
TRIALS = 100_000
SIGMAS = 5.0
DT = 1e-3

CASES = [(1.0, 1.0), (0.5, 0.8), (2.0, 0.6)]
"""Pairs of drift and threshold, for noise of strength 1."""


def error_rate(v: float, a: float) -> float:
    return 1 / (1 + np.exp(2 * a * v))


def mean(v: float, a: float) -> float:
    return a / v * np.tanh(a * v)


def variance(v: float, a: float) -> float:
    return a / v**3 * (np.tanh(a * v) - a * v / np.cosh(a * v) ** 2)


def distribution(t: np.ndarray, v: float, a: float) -> np.ndarray:
    """Return the distribution of times at either threshold, by the series for large times (W. Feller)."""
    k = np.arange(1, 2000)[:, np.newaxis]
    rate = (v**2 + (k * np.pi / (2 * a)) ** 2) / 2
    terms = k * np.sin(k * np.pi / 2) / (2 * rate) * np.exp(-rate * t)
    return 1 - np.pi / a**2 * np.cosh(a * v) * terms.sum(axis=0)


@pytest.fixture(scope="module")
def compiled() -> Any:
    return mdf_loop.compile(MODEL)


@pytest.mark.slow
@pytest.mark.parametrize(("v", "a"), CASES)
def test_first_passages_equal_closed_forms(compiled: Any, v: float, a: float) -> None:
    passages = compiled.run(trials=TRIALS, set={"ddm.drift": v, "ddm.threshold": a}, seed=1)
    times, correct = passages["rt"], passages["choice"]
    reach = a + 0.5826 * np.sqrt(DT)
    missed = error_rate(v, reach)
    assert abs((~correct).mean() - missed) < SIGMAS * np.sqrt(missed * (1 - missed) / TRIALS)
    spread = times.std()
    assert abs(times.mean() - mean(v, reach)) < SIGMAS * spread / np.sqrt(TRIALS)
    fourth = ((times - times.mean()) ** 4).mean()
    deviation = np.sqrt((fourth - spread**4) / TRIALS)
    assert abs(times.var() - variance(v, reach)) < SIGMAS * deviation
    # The times at both thresholds have the same distribution.
    apart = times[correct].mean() - times[~correct].mean()
    assert abs(apart) < SIGMAS * spread * np.sqrt(1 / correct.sum() + 1 / (~correct).sum())
    places = np.quantile(times, [0.05, 0.25, 0.5, 0.75, 0.95])
    share = distribution(places, v, reach)
    below = np.array([(times <= place).mean() for place in places])
    assert (np.abs(below - share) < SIGMAS * np.sqrt(share * (1 - share) / TRIALS) + 1e-3).all()


def test_a_few_trials_equal_the_same_trials_among_many(compiled: Any) -> None:
    all_trials = compiled.run(trials=2000)
    for some in ([1999], range(500, 507), range(100)):
        passages = compiled.run(trials=some)
        np.testing.assert_array_equal(passages["rt"], all_trials["rt"][list(some)])
        np.testing.assert_array_equal(passages["choice"], all_trials["choice"][list(some)])
    single_run = compiled.run()
    assert single_run["rt"] == all_trials["rt"][0]
    report = all_trials.loops["ddm.decide"]
    np.testing.assert_allclose(report.iterations * DT, all_trials["rt"], rtol=1e-12)


def test_statistics_over_batches(compiled: Any) -> None:
    all_trials = compiled.run(trials=3000)
    statistics = compiled.run(
        trials=3000, over_trials={"rt": ["mean", {"quantiles": [0.1, 0.9]}]}, by="choice"
    )
    for k, choice in enumerate((False, True)):
        times = all_trials["rt"][all_trials["choice"] == choice]
        np.testing.assert_allclose(statistics["rt.mean"][k], times.mean(), rtol=1e-12)
        np.testing.assert_array_equal(statistics["rt.quantiles"][k], np.quantile(times, [0.1, 0.9]))
