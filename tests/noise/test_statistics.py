"""Statistics of noisy models against closed forms; the seeds are fixed, so the tests are deterministic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import mdf_loop

TRIALS = 100_000
SIGMAS = 5.0


def run(parameters: dict[str, Any], **options: Any) -> Any:
    """Run a model of one node with these parameters."""
    node = {
        "parameters": {
            name: value if isinstance(value, dict) else {"value": value}
            for name, value in parameters.items()
        },
        "output_ports": {name: {"value": name} for name in parameters},
    }
    return mdf_loop.compile({"g": {"nodes": {"A": node}}}).run(**options)


def assert_near(actual: Any, expected: Any, deviation: Any) -> None:
    """Check that a statistic is within `SIGMAS` standard deviations of its expectation."""
    apart = np.abs(np.asarray(actual) - expected) / deviation
    assert np.max(apart) < SIGMAS


def assert_mean_near(values: np.ndarray, expected: float, variance: float) -> None:
    assert_near(values.mean(axis=0), expected, np.sqrt(variance / len(values)))


DISTRIBUTIONS: dict[str, Any] = {
    "numpy.random.normal(1.0, 2.0)": stats.norm(1.0, 2.0),
    "numpy.random.uniform(-1.0, 3.0)": stats.uniform(-1.0, 4.0),
    "numpy.random.exponential(0.5)": stats.expon(scale=0.5),
    "numpy.random.lognormal(0.2, 0.4)": stats.lognorm(0.4, scale=np.exp(0.2)),
    "numpy.random.laplace(1.0, 0.5)": stats.laplace(1.0, 0.5),
    "numpy.random.standard_gamma(0.01)": stats.gamma(0.01),
    "numpy.random.gamma(0.1, 2.0)": stats.gamma(0.1, scale=2.0),
    "numpy.random.gamma(1.0)": stats.gamma(1.0),
    "numpy.random.gamma(5.99)": stats.gamma(5.99),
    "numpy.random.gamma(6.0)": stats.gamma(6.0),
    "numpy.random.gamma(1e4, 0.5)": stats.gamma(1e4, scale=0.5),
    "numpy.random.gamma(1e6)": stats.gamma(1e6),
    "random.gammavariate(2.5, 3.0)": stats.gamma(2.5, scale=3.0),
    "numpy.random.chisquare(1.0)": stats.chi2(1.0),
    "numpy.random.beta(0.1, 0.2)": stats.beta(0.1, 0.2),
    "numpy.random.beta(1.0, 1.0)": stats.uniform(),
    "numpy.random.beta(2.0, 1e4)": stats.beta(2.0, 1e4),
    "random.betavariate(7.0, 9.0)": stats.beta(7.0, 9.0),
    "numpy.random.f(3.0, 20.0)": stats.f(3.0, 20.0),
    "numpy.random.standard_t(12.0)": stats.t(12.0),
    "numpy.random.weibull(0.7)": stats.weibull_min(0.7),
    "random.weibullvariate(2.0, 3.0)": stats.weibull_min(3.0, scale=2.0),
    "numpy.random.pareto(9.0)": stats.lomax(9.0),
    "random.paretovariate(9.0)": stats.pareto(9.0),
    "numpy.random.power(0.5)": stats.powerlaw(0.5),
    "random.expovariate(4.0)": stats.expon(scale=0.25),
    "random.lognormvariate(0.2, 0.4)": stats.lognorm(0.4, scale=np.exp(0.2)),
    "numpy.random.rayleigh(2.0)": stats.rayleigh(scale=2.0),
    "numpy.random.gumbel(1.0, 2.0)": stats.gumbel_r(1.0, 2.0),
    "numpy.random.logistic(1.0, 2.0)": stats.logistic(1.0, 2.0),
    "numpy.random.triangular(-1.0, 0.0, 3.0)": stats.triang(0.25, -1.0, 4.0),
    "random.triangular()": stats.triang(0.5),
    "numpy.random.wald(2.0, 3.0)": stats.invgauss(2.0 / 3.0, scale=3.0),
}
WITHOUT_MOMENTS: dict[str, Any] = {
    "numpy.random.standard_cauchy()": stats.cauchy(),
    "numpy.random.standard_t(0.5)": stats.t(0.5),
    "numpy.random.f(1.0, 0.5)": stats.f(1.0, 0.5),
    "numpy.random.pareto(0.1)": stats.lomax(0.1),
}
WHOLE: dict[str, Any] = {
    "numpy.random.randint(3, 9)": stats.randint(3, 9),
    "numpy.random.binomial(1, 0.3)": stats.binom(1, 0.3),
    "numpy.random.binomial(12, 0.3)": stats.binom(12, 0.3),
    "numpy.random.poisson(0.2)": stats.poisson(0.2),
    "numpy.random.poisson(7.5)": stats.poisson(7.5),
    "numpy.random.geometric(0.02)": stats.geom(0.02),
    "numpy.random.geometric(0.7)": stats.geom(0.7),
    "numpy.random.choice(4, p=[0.1, 0.2, 0.3, 0.4])": stats.rv_discrete(
        values=(range(4), [0.1, 0.2, 0.3, 0.4])
    ),
}


@pytest.mark.parametrize("expression", DISTRIBUTIONS)
def test_samples_fit_their_distribution(expression: str) -> None:
    true = DISTRIBUTIONS[expression]
    draws = run({"x": expression}, trials=TRIALS)["x"]
    assert_mean_near(draws, true.mean(), true.var())
    fourth = float(true.stats(moments="k")) + 3.0
    assert_near(draws.var(), true.var(), true.var() * np.sqrt((fourth - 1) / TRIALS))
    assert stats.kstest(draws, true.cdf).pvalue > 1e-4


@pytest.mark.parametrize("expression", WITHOUT_MOMENTS)
def test_samples_without_moments_fit_their_distribution(expression: str) -> None:
    draws = run({"x": expression}, trials=TRIALS)["x"]
    assert stats.kstest(draws, WITHOUT_MOMENTS[expression].cdf).pvalue > 1e-4


@pytest.mark.parametrize("alpha", [[0.1, 0.4, 0.2], [0.5, 8.0, 20.0], [7.0, 6.0, 9.0]])
def test_dirichlet_samples_fit_their_distribution(alpha: list[float]) -> None:
    true = stats.dirichlet(alpha)
    draws = run({"x": f"numpy.random.dirichlet({alpha})"}, trials=TRIALS)["x"]
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-15)
    assert_near(draws.mean(axis=0), true.mean(), np.sqrt(true.var() / TRIALS))
    for k, a in enumerate(alpha):
        assert stats.kstest(draws[:, k], stats.beta(a, sum(alpha) - a).cdf).pvalue > 1e-4
    assert_near(
        np.cov(draws.T), true.cov(), 2.0 * np.sqrt(np.outer(true.var(), true.var()) / TRIALS)
    )


@pytest.mark.parametrize("expression", WHOLE)
def test_frequencies_of_discrete_draws(expression: str) -> None:
    true = WHOLE[expression]
    draws = run({"x": expression}, trials=TRIALS)["x"]
    assert_mean_near(draws, true.mean(), true.var())
    values, counts = np.unique(draws, return_counts=True)
    share = true.pmf(values)
    often = share > 20 / TRIALS
    spread = np.sqrt(share * (1 - share) / TRIALS) + 1e-12
    assert_near((counts / TRIALS)[often], share[often], spread[often])


def test_covariances_of_multivariate_draws() -> None:
    square = np.array([[4.0, 2.0, 0.5], [2.0, 5.0, -1.0], [0.5, -1.0, 1.0]])
    draws = run(
        {"x": f"numpy.random.multivariate_normal([1, 2, 3], {square.tolist()})"}, trials=TRIALS
    )["x"]
    variances = np.diag(square)
    assert_near(draws.mean(axis=0), [1.0, 2.0, 3.0], np.sqrt(variances / TRIALS))
    spread = np.sqrt((np.outer(variances, variances) + square**2) / TRIALS)
    assert_near(np.cov(draws.T), square, spread)


def correlations(rows: np.ndarray) -> np.ndarray:
    """Return the correlations of different rows."""
    return np.corrcoef(rows)[np.triu_indices(len(rows), 1)]


def test_independent_draws_are_uncorrelated() -> None:
    parameters = {"x": "numpy.random.normal(size=4)", "y": "numpy.random.normal(size=4)"}
    steps, trials = 40, 2500
    draws_by_seed = {
        seed: run(parameters, steps=steps, trials=trials, seed=seed) for seed in (0, 1)
    }
    x, y = draws_by_seed[0]["x"], draws_by_seed[0]["y"]
    bound = SIGMAS / np.sqrt(x.size // 4)
    sites = np.stack([x.ravel(), y.ravel()])
    assert np.abs(correlations(sites)).max() < SIGMAS / np.sqrt(x.size)
    assert np.abs(correlations(np.moveaxis(x, -1, 0).reshape(4, -1))).max() < bound
    seeds = np.stack([x.ravel(), draws_by_seed[1]["x"].ravel()])
    assert np.abs(correlations(seeds)).max() < SIGMAS / np.sqrt(x.size)
    by_step = np.moveaxis(x, 1, 0).reshape(steps, -1)
    assert np.abs(correlations(by_step)).max() < SIGMAS / np.sqrt(by_step.shape[1])
    by_trial = x[:200].reshape(200, -1)
    assert np.abs(correlations(by_trial)).max() < 1.1 * SIGMAS / np.sqrt(by_trial.shape[1])


def test_the_statistics_of_an_ornstein_uhlenbeck_process() -> None:
    tau, sigma, steps, dt = 2.0, 0.8, 60, 0.1
    walk = {
        "default_initial_value": 0.0,
        "value": f"x - {dt / tau} * x + {sigma * np.sqrt(2 * dt / tau)} * numpy.random.normal()",
    }
    paths = run({"x": walk}, trials=20_000, steps=steps)["x"]
    decay = 1 - dt / tau
    noise = sigma**2 * 2 * dt / tau
    ages = np.arange(1, steps + 1)
    variance = noise * (1 - decay ** (2 * ages)) / (1 - decay**2)
    assert_near(paths.mean(axis=0), 0.0, np.sqrt(variance / len(paths)))
    assert_near(paths.var(axis=0), variance, variance * np.sqrt(2 / len(paths)))
    lag = (paths[:, -1] * paths[:, -11]).mean()
    true = variance[-11] * decay**10
    assert_near(lag, true, np.sqrt((variance[-1] * variance[-11] + true**2) / len(paths)))


def test_the_statistics_of_poisson_spikes() -> None:
    rate, dt, steps = 40.0, 1e-3, 500
    spikes = run({"spikes": f"numpy.random.rand(10) < {rate * dt}"}, steps=steps, trials=1000)[
        "spikes"
    ]
    counts = spikes.sum(axis=1).ravel()
    share = rate * dt
    assert_mean_near(counts, steps * share, steps * share * (1 - share))
    true = stats.binom(steps, share)
    assert_near(counts.var(), true.var(), true.var() * np.sqrt(2.2 / counts.size))
    assert (np.diff(np.flatnonzero(spikes[0, :, 0])) > 0).all()
