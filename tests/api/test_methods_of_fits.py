"""Least-squares fits refuse random outputs, and a warning names outputs with jumps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from tests.conftest import document_of
from tests.models.fitted import CELL, DECISION, DT, FREE, compiled, trace

WALK = """
nodes:
  walk:
    parameters:
      pull: {value: 0.5}
      x: {default_initial_value: 0.0, value: 'pull * x + numpy.random.normal()'}
      y: {default_initial_value: 1.0, value: 'pull * y'}
      n: {default_initial_value: 0.0, value: 'n + (y > 0.1)'}
    output_ports: {x: {value: x}, y: {value: y}, n: {value: n}, fires: {value: 'x > 0.2'}}
"""
PULL = {"walk.pull": (0.1, 0.9)}
QUICK = {"points": 8, "polish": 1, "steps": 10}


@pytest.fixture(scope="module")
def walk() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(document_of(WALK))


@pytest.mark.parametrize("method", [None, "differential_evolution"])
@pytest.mark.parametrize("output", ["walk.x", "walk.fires"])
def test_squares_of_draws_are_refused(
    walk: mdf_loop.CompiledModel, method: str | None, output: str
) -> None:
    with pytest.raises(InputError, match=f"'{output}' is drawn") as caught:
        walk.fit({output: np.ones(10)}, PULL, method=method, **QUICK)
    assert "likelihood" in str(caught.value)
    assert "objective" in str(caught.value)
    subjects = {"s": {output: np.ones(10)}}
    with pytest.raises(InputError, match="subject 's'"):
        walk.fit(subjects, PULL, method=method, **QUICK)


def test_one_evaluation_that_draws_is_refused() -> None:
    data = {"ddm.rt": np.ones(1)}
    with pytest.raises(InputError, match=r"'ddm\.rt' is drawn"):
        compiled(DECISION).fit(data, {"ddm.drift": (0.0, 3.0)}, steps=1)


def test_squares_of_draws_that_are_given_explicitly_are_fitted(
    walk: mdf_loop.CompiledModel,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        data = {"walk.x": np.asarray(walk.run(steps=10, seed=0)["walk.x"])}
        assert walk.fit(data, PULL, method="least_squares", **QUICK).sse < 1e-9
        subjects = {"s": data, "t": data}
        assert walk.fit(subjects, PULL, method="least_squares", shared=["walk.pull"], **QUICK)


def test_an_output_beside_draws_is_fitted(walk: mdf_loop.CompiledModel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit = walk.fit({"walk.y": 0.7 ** np.arange(1, 11)}, PULL, **QUICK)
    assert fit.estimates["walk.pull"] == pytest.approx(0.7)


def test_an_output_that_jumps_is_named(walk: mdf_loop.CompiledModel) -> None:
    data = {"walk.n": np.asarray(walk.run(steps=10)["walk.n"])}
    with pytest.warns(UserWarning, match=r"'walk\.n' jumps.*differential_evolution"):
        walk.fit(data, PULL, **QUICK)
    objective = {"walk.n": "sum"}
    with pytest.warns(UserWarning, match=r"'walk\.n' jumps.*differential_evolution"):
        walk.fit(None, PULL, objective=objective, **QUICK)


def test_smooth_outputs_are_fitted_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        cell = compiled(CELL)
        assert cell.fit(trace(cell), FREE, dt=DT, points=8, polish=1).converged
