"""Fits to a user-defined objective: reduction words with a gradient, or a function of the outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.fitted import CELL, DT, STEPS, compiled, trace

FREE = {"cell.tau": (0.5, 5.0), "cell.gain": (1.0, 6.0)}


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return compiled(CELL)


def test_reduction_words_use_gradient_descent(cell: mdf_loop.CompiledModel) -> None:
    data = trace(cell, tau=1.5, gain=2.5)
    words = {"steps": STEPS, "dt": DT}
    fit = cell.fit(None, FREE, objective={"cell.V": {"sse": data["cell.V"]}}, **words)
    squares = cell.fit(data, FREE, "cell.V", **words)
    assert fit.estimates == pytest.approx(squares.estimates, rel=1e-4)
    assert fit.cost == pytest.approx(squares.sse)
    assert fit.method == "descent by the gradient"
    assert fit.standard_errors == {}
    assert list(fit.table().columns) == ["estimate"]


def test_a_function_of_outputs(cell: mdf_loop.CompiledModel) -> None:
    def off(outputs: Mapping[str, np.ndarray]) -> float:
        assert outputs["cell.both"].shape == (STEPS, 2)
        return float((outputs["cell.V"][-1] - 3.0) ** 2)

    fit = cell.fit(None, {"cell.gain": (1.0, 6.0)}, objective=off, steps=STEPS, dt=DT)
    results = fit.model.run(steps=STEPS, dt=DT, progress=False)
    assert results["cell.V"][-1] == pytest.approx(3.0, abs=1e-3)
    assert fit.method == "differential evolution"


def test_an_objective_that_returns_text_is_refused(cell: mdf_loop.CompiledModel) -> None:
    with pytest.raises(LoopError, match="the objective gave 'high', which is no number"):
        cell.fit(None, FREE, objective=lambda outputs: "high", steps=STEPS, dt=DT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"objective": 3.0}, "an objective is a function of outputs, or words"),
        ({"method": "least_squares"}, "cannot be fitted by least_squares"),
        ({"data": {"time": [0.0]}}, "an objective is computed without data"),
        ({"free": {"cell.unread": (0.0, 1.0)}}, "'cell.unread' changes nothing"),
    ],
)
def test_invalid_options_are_refused(
    cell: mdf_loop.CompiledModel, words: dict[str, object], message: str
) -> None:
    options = {"data": None, "free": FREE, "objective": {"cell.V": "mean"}, **words}
    with pytest.raises(LoopError, match=message):
        cell.fit(options.pop("data"), options.pop("free"), steps=STEPS, dt=DT, **options)
