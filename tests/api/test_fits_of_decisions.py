"""Fits of reaction times recover the parameters of simulated data, and repeated fits are equal."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.fitted import DECISION, compiled

OF = {"rt": "ddm.rt", "choice": "ddm.choice"}
FREE = {"ddm.drift": (0.0, 3.0), "ddm.threshold": (0.4, 2.0)}
TRUE = {"ddm.drift": 1.2, "ddm.threshold": 0.9}
FEW = {"trials": 400, "points": 32}


@pytest.fixture(scope="module")
def ddm() -> mdf_loop.CompiledModel:
    return compiled(DECISION)


def simulate_data(
    ddm: mdf_loop.CompiledModel, count: int = 1000, seed: int = 77, **other: float
) -> dict[str, np.ndarray]:
    true = {**TRUE, **{f"ddm.{name}": value for name, value in other.items()}}
    results = ddm.run(set=true, trials=count, seed=seed, progress=False)
    return {name: np.asarray(results[output]).astype(float) for name, output in OF.items()}


@pytest.mark.slow
def test_drift_and_threshold_are_found(ddm: mdf_loop.CompiledModel) -> None:
    data = simulate_data(ddm)
    fit, again = (ddm.fit(data, FREE, likelihood=OF, seed=1, **FEW) for _ in range(2))
    assert fit.estimates == again.estimates
    for name, true in TRUE.items():
        lower, upper = fit.intervals[name]
        assert lower < true < upper
        assert upper - lower < 0.35 * true
    assert fit.log_likelihood == -fit.cost
    assert fit.aic == pytest.approx(2 * 2 + 2 * fit.cost)
    assert fit.count == 1000
    assert [each.choice for each in fit.distributions] == [0.0, 1.0]
    assert sum(int(each.observed.sum()) for each in fit.distributions) == 1000
    assert sum(each.expected.sum() for each in fit.distributions) == pytest.approx(1000)
    assert fit.sse is None
    summary = fit.to_dict()
    assert [summary["trials"], summary["steps"], summary["dt"]] == [400, None, None]
    assert [len(each["expected"]) for each in summary["bins"]] == [8, 10]
    assert "trials          400" in str(fit).splitlines()


@pytest.mark.slow
def test_an_interval_beyond_a_bound_is_reported(ddm: mdf_loop.CompiledModel) -> None:
    bounds = {"ddm.drift": (0.0, 3.0), "ddm.threshold": (0.85, 0.95)}
    fit = ddm.fit(simulate_data(ddm, 200), bounds, likelihood=OF, seed=1, **FEW)
    lower, upper = fit.intervals["ddm.threshold"]
    assert lower < 0.85 or upper > 0.95
    assert fit.beyond_bounds == tuple(fit.to_dict()["beyond_bounds"]) == ("ddm.threshold",)


@pytest.mark.slow
def test_times_without_choices_from_near(ddm: mdf_loop.CompiledModel) -> None:
    data = {"rt": simulate_data(ddm)["rt"]}
    words = {"likelihood": {"rt": "rt"}, "start": {"ddm.threshold": 1.0}, **FEW}
    fit = ddm.fit(data, {"ddm.threshold": (0.4, 2.0)}, set={"ddm.drift": 1.2}, **words)
    assert fit.estimates["ddm.threshold"] == pytest.approx(0.9, rel=0.05)
    (bins,) = fit.distributions
    assert bins.choice is None


@pytest.fixture(scope="module")
def conditions(ddm: mdf_loop.CompiledModel) -> dict[str, dict[str, np.ndarray]]:
    return {
        "hard": simulate_data(ddm, 500, 1, drift=0.6),
        "easy": simulate_data(ddm, 500, 2, drift=1.8),
    }


@pytest.mark.slow
def test_conditions_share_a_threshold(
    ddm: mdf_loop.CompiledModel, conditions: dict[str, dict[str, np.ndarray]]
) -> None:
    words = {"likelihood": OF, "seed": 1, **FEW}
    tied = ddm.fit(conditions, FREE, shared=["ddm.threshold"], **words)
    assert tied.shared == ("ddm.threshold",)
    hard, easy = tied["hard"], tied["easy"]
    assert hard.estimates["ddm.threshold"] == easy.estimates["ddm.threshold"]
    for fit, drift in ((hard, 0.6), (easy, 1.8)):
        for name, true in (("ddm.drift", drift), ("ddm.threshold", 0.9)):
            assert abs(fit.estimates[name] - true) < 3 * fit.standard_errors[name]
        assert fit.converged
        assert fit.count == 500
        assert sum(each.expected.sum() for each in fit.distributions) == pytest.approx(500)
    assert hard.cost == easy.cost == pytest.approx(-hard.log_likelihood - easy.log_likelihood)
    single_run = ddm.fit(conditions, FREE, **words)
    errors = [each.standard_errors["ddm.threshold"] for each in (*single_run.values(), hard)]
    assert errors[2] < min(errors[:2])


@pytest.mark.slow
def test_sharing_all_parameters_equals_one_fit_of_both_conditions(
    ddm: mdf_loop.CompiledModel,
) -> None:
    halves = {"first": simulate_data(ddm, 500, 3), "second": simulate_data(ddm, 500, 4)}
    words = {"likelihood": OF, "seed": 1, **FEW}
    tied = ddm.fit(halves, FREE, shared=list(FREE), **words)
    whole = {name: np.concatenate([half[name] for half in halves.values()]) for name in OF}
    one = ddm.fit(whole, FREE, **words)
    for name, error in one.standard_errors.items():
        assert tied["second"].estimates == tied["first"].estimates
        assert abs(tied["first"].estimates[name] - one.estimates[name]) < error


def test_what_ends_one_search_ends_the_shared_fit(
    ddm: mdf_loop.CompiledModel, conditions: dict[str, dict[str, np.ndarray]]
) -> None:
    def told(progress: mdf_loop.FitProgress) -> bool:
        return progress.evaluations < 40

    words = {"likelihood": OF, "shared": ["ddm.threshold"], "progress": told, **FEW}
    fits = ddm.fit(conditions, FREE, **words)
    for fit in fits.values():
        assert not fit.converged
        assert fit.stopped_by is mdf_loop.StopReason.INTERRUPTED
        assert fit.standard_errors == {}
        assert fit.estimates["ddm.threshold"] == fits["hard"].estimates["ddm.threshold"]


def test_an_error_names_the_condition(
    ddm: mdf_loop.CompiledModel, conditions: dict[str, dict[str, np.ndarray]]
) -> None:
    late = {**conditions, "late": {"rt": [0.5]}}
    with pytest.raises(LoopError, match=r"subject 'late': the data have no column 'choice'"):
        ddm.fit(late, FREE, likelihood=OF, shared=["ddm.threshold"], **FEW)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"trials": None}, "a likelihood needs trials"),
        ({"likelihood": {"choice": "ddm.choice"}}, "a likelihood is of 'rt'"),
        ({"likelihood": {"rt": "ddm.rt", "x": "ddm.rt"}}, "a likelihood is of 'rt'"),
        ({"likelihood": {"rt": "ddm.r"}}, "no output 'ddm.r'"),
        ({"method": "least_squares"}, "cannot be fitted by least_squares"),
        ({"data": {"rt": [0.5]}}, "no column 'choice' for 'ddm.choice'"),
        ({"data": {"rt": [np.nan], "choice": [1]}}, "the data have no reaction time"),
        ({"data": {"rt": [0.5], "choice": [1]}}, "2 numbers are free, but there are only 1 data"),
        ({"data": {"ddm.rt": [0.5]}}, "they have 'ddm.rt'; rename the one of 'ddm.rt' to 'rt'"),
        (
            {"data": {"rt": [0.5] * 3, "choice": [1, -1, 1]}},
            "choice -1, which the model never gives",
        ),
        ({"data": {"rt": [500, 700, 900], "choice": [1, 0, 1]}}, r"are the units the same\?"),
        ({"points": 4}, "points=4 are too few for a likelihood"),
        ({"shared": ["ddm.drift"]}, "the data are of one"),
    ],
)
def test_invalid_options_are_refused(
    ddm: mdf_loop.CompiledModel, words: dict[str, object], message: str
) -> None:
    data = {"rt": [0.5, 0.7, 0.9], "choice": [1, 0, 1]}
    options = {"data": data, "free": FREE, "likelihood": OF, **FEW, **words}
    with pytest.raises(LoopError, match=message):
        ddm.fit(options.pop("data"), options.pop("free"), **options)
