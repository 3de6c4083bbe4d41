"""Fits of reaction times: what made the data is found, and the same again."""

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
def ddm() -> mdf_loop.Compiled:
    return compiled(DECISION)


def observed(ddm: mdf_loop.Compiled, count: int = 1000) -> dict[str, np.ndarray]:
    made = ddm.run(set=TRUE, trials=count, seed=77, progress=False)
    return {name: np.asarray(made[output]).astype(float) for name, output in OF.items()}


@pytest.mark.slow
def test_drift_and_threshold_are_found(ddm: mdf_loop.Compiled) -> None:
    data = observed(ddm)
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
    told = fit.to_dict()
    assert [told["trials"], told["steps"], told["dt"]] == [400, None, None]
    assert [len(each["expected"]) for each in told["bins"]] == [8, 10]
    assert "trials          400" in str(fit).splitlines()


@pytest.mark.slow
def test_an_interval_that_reaches_beyond_a_bound_is_told(ddm: mdf_loop.Compiled) -> None:
    bounds = {"ddm.drift": (0.0, 3.0), "ddm.threshold": (0.85, 0.95)}
    fit = ddm.fit(observed(ddm, 200), bounds, likelihood=OF, seed=1, **FEW)
    lower, upper = fit.intervals["ddm.threshold"]
    assert lower < 0.85 or upper > 0.95
    assert fit.beyond_bounds == tuple(fit.to_dict()["beyond_bounds"]) == ("ddm.threshold",)


@pytest.mark.slow
def test_times_without_choices_from_near(ddm: mdf_loop.Compiled) -> None:
    data = {"rt": observed(ddm)["rt"]}
    words = {"likelihood": {"rt": "rt"}, "start": {"ddm.threshold": 1.0}, **FEW}
    fit = ddm.fit(data, {"ddm.threshold": (0.4, 2.0)}, set={"ddm.drift": 1.2}, **words)
    assert fit.estimates["ddm.threshold"] == pytest.approx(0.9, rel=0.05)
    (bins,) = fit.distributions
    assert bins.choice is None


@pytest.mark.parametrize(
    ("words", "said"),
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
def test_what_is_refused(ddm: mdf_loop.Compiled, words: dict[str, object], said: str) -> None:
    data = {"rt": [0.5, 0.7, 0.9], "choice": [1, 0, 1]}
    given = {"data": data, "free": FREE, "likelihood": OF, **FEW, **words}
    with pytest.raises(LoopError, match=said):
        ddm.fit(given.pop("data"), given.pop("free"), **given)
