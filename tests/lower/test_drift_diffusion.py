"""modeci_mdf's drift diffusion integrator, compared with its own definition for the same random numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from modeci_mdf.functions.ddm import drift_diffusion_integrator

import mdf_loop
from mdf_loop import streams
from mdf_loop.errors import LoopError, OperandError

SITE = streams.site("g.A.rt.body.particle#0")
DEFAULTS: dict[str, Any] = {
    "starting_point": 0.0,
    "non_decision_time": 0.2,
    "drift_rate": 0.5,
    "threshold": 1.0,
    "noise": 1.0,
    "dt": 0.01,
}


def model(**args: Any) -> dict[str, Any]:
    node = {
        "functions": {
            "rt": {"function": "drift_diffusion_integrator", "args": {**DEFAULTS, **args}}
        },
        "parameters": {"d": {"value": 0.5}},
        "output_ports": {"rt": {"value": "rt"}},
    }
    return {"g": {"nodes": {"A": node}}}


def reference(
    monkeypatch: pytest.MonkeyPatch, count: int, seed: int = 0, **args: Any
) -> list[float]:
    """Return results of modeci_mdf's function with the random numbers of the site."""
    key, counter = streams.keys(seed, SITE), itertools.count()

    def normal(loc: float, scale: float) -> Any:
        return loc + scale * streams.normal(streams.uniform(streams.squares(next(counter), key)))

    monkeypatch.setattr(np.random, "normal", normal)
    return [drift_diffusion_integrator(**{**DEFAULTS, **args}) for _ in range(count)]


@pytest.mark.parametrize("native", ["auto", "off"])
def test_200_decisions(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = mdf_loop.compile(model(drift_rate="d"), native=native)
    times = compiled.run(steps=200, seed=4)["rt"]
    assert times.tolist() == reference(monkeypatch, 200, 4)
    assert (times < 0).any()
    assert (times > 0).any()


@pytest.mark.parametrize(
    "args",
    [
        {"starting_point": 1.0},
        {"starting_point": -1.0},
        {"starting_point": 2.5},
        {"threshold": 0.0},
        {"noise": 0.0, "drift_rate": 1.0, "dt": 0.25},
        {"noise": 0.0, "drift_rate": -1.0, "dt": 0.25},
        {"noise": 0.0, "drift_rate": 2.0, "dt": 0.3},
    ],
    ids=str,
)
def test_first_passages_equal_the_reference(
    args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    time = mdf_loop.compile(model(**args)).run()["rt"]
    assert [time] == reference(monkeypatch, 1, **args)


def test_results_list_the_loop() -> None:
    results = mdf_loop.compile(model(noise=0.0, drift_rate=1.0, dt=0.3)).run()
    assert results.loops["A.rt"].iterations == 4
    assert results["rt"] == 0.2 + 4 * 0.3


def test_omitted_arguments_have_defaults() -> None:
    document = model()
    args = document["g"]["nodes"]["A"]["functions"]["rt"]["args"]
    times = mdf_loop.compile(document).run(steps=3)["rt"]
    del args["noise"], args["dt"]
    assert mdf_loop.compile(document).run(steps=3)["rt"].tolist() == times.tolist()
    del args["threshold"]
    with pytest.raises(OperandError, match="needs the argument 'threshold'"):
        mdf_loop.compile(document).run()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"drift_rate": [1.0, 2.0]}, "'drift_rate' of the function .* must be one number"),
        ({"drift": 1.0}, "has no argument 'drift'"),
    ],
)
def test_invalid_arguments_are_refused(args: dict[str, Any], message: str) -> None:
    with pytest.raises(LoopError, match=message):
        mdf_loop.compile(model(**args)).run()


def test_max_iterations_bounds_an_endless_decision() -> None:
    compiled = mdf_loop.compile(model(noise=0.0, drift_rate=0.0), max_iterations=50)
    results = compiled.run()
    assert results.loops["A.rt"].iterations == 50
    assert results.stopped_by is mdf_loop.StopReason.MAX_ITERATIONS
