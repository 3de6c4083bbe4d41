"""PsyNeuLink's DriftDiffusionAnalytical: times, error rates and moments compared with PsyNeuLink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "drift_diffusions.numbers.json").read_text())
ROUNDING_ERROR = 2e-14
"""Rounding error of a sum of about 100."""


def model(x: str = "x", **arguments: float) -> dict[str, Any]:
    function = {
        "metadata": {"type": "DriftDiffusionAnalytical"},
        "function": "driftdiffusionanalytical",
        "args": {"variable0": x, **arguments},
    }
    port = {"shape": [1, 1], "type": "float64"}
    node = {
        "input_ports": {"x": port},
        "functions": {"f": function},
        "output_ports": {"all": {"value": "f"}, "time": {"value": "f[0]"}},
    }
    return {"g": {"graphs": {"g": {"nodes": {"ddm": node}}}}}


def rounding_errors(arguments: dict[str, float], x: float, row: np.ndarray) -> np.ndarray:
    """Return the rounding errors of the results in both implementations.

    Moments are scaled differences of nearly equal numbers, which amplifies their rounding errors.
    """
    drift = arguments["drift_rate"] * x
    scale = (arguments["noise"] / (drift if abs(drift) >= 0.01 else 0.01)) ** 2
    errors = np.full(8, 1e-12 * np.abs(row))
    for mean in (2, 5):
        variance, skew = max(row[mean + 1], 1e-100), row[mean + 2]
        errors[mean] += ROUNDING_ERROR * scale
        errors[mean + 1] += ROUNDING_ERROR * scale**2
        errors[mean + 2] += 10 * ROUNDING_ERROR * scale**3 / variance**1.5
        errors[mean + 2] += 3 * abs(skew) * errors[mean + 1] / variance
    return errors


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "rows"), CASES)
def test_results_equal_psyneulink(arguments: dict[str, float], rows: list[Any]) -> None:
    compiled = mdf_loop.compile(model(**arguments), device="cpu")
    for x, numbers in rows:
        results = compiled.run({"x": [[x]]})
        actual, row = results["all"].ravel(), np.array(numbers, float)
        assert results["all"].shape == (8, 1)
        differences, errors = np.abs(actual - row), rounding_errors(arguments, x, row)
        same = (actual == row) | (np.isnan(actual) & np.isnan(row)) | (differences <= errors)
        assert same.all(), (x, actual, row, errors)


def test_tolerances_are_small() -> None:
    """Check that the tolerated errors are small in most cases."""
    is_precise = [
        rounding_errors(arguments, x, np.array(row, float)) < 1e-6 * np.abs(np.array(row, float))
        for arguments, rows in CASES
        for x, row in rows
    ]
    assert np.mean(is_precise) > 0.7


def test_times_without_noise_are_nan() -> None:
    """Check the result nan without noise, for which PsyNeuLink raises ZeroDivisionError."""
    arguments = {"drift_rate": 1.0, "threshold": 1.0, "starting_value": 0.0}
    compiled = mdf_loop.compile(model(noise=0.0, non_decision_time=0.2, **arguments))
    assert np.isnan(compiled.run({"x": [[1.0]]})["time"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.5, -1.25, 0.0, 400.0])
def test_derivatives_equal_finite_differences(x: float) -> None:
    arguments = {"threshold": 1.0, "noise": 0.5, "starting_value": 0.2, "non_decision_time": 0.2}
    compiled = mdf_loop.compile(model(drift_rate=1.0, **arguments), device="cpu")
    (slope,) = compiled.gradient({"ddm.time": "sum"}, ["x"], inputs={"x": [[x]]}).values()
    near = [compiled.run({"x": [[x + h]]})["time"].item() for h in (-1e-5, 1e-5)]
    expected = (near[1] - near[0]) / 2e-5
    if x:  # without drift PsyNeuLink returns the limit, which is a constant
        assert slope.item() == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert np.isfinite(slope).all()
