"""PsyNeuLink's DriftDiffusionAnalytical: times, misses and moments, against the numbers of its own Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "drift_diffusions.numbers.json").read_text())
ROUNDED = 2e-14
"""What a sum of about 100, of rounded terms, may be off."""


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


def lost(arguments: dict[str, float], x: float, row: np.ndarray) -> np.ndarray:
    """How much of the moments is lost, here and there: differences of nearly equal numbers are scaled up."""
    drift = arguments["drift_rate"] * x
    scale = (arguments["noise"] / (drift if abs(drift) >= 0.01 else 0.01)) ** 2
    off = np.full(8, 1e-12 * np.abs(row))
    for mean in (2, 5):
        variance, skew = max(row[mean + 1], 1e-100), row[mean + 2]
        off[mean] += ROUNDED * scale
        off[mean + 1] += ROUNDED * scale**2
        off[mean + 2] += 10 * ROUNDED * scale**3 / variance**1.5
        off[mean + 2] += 3 * abs(skew) * off[mean + 1] / variance
    return off


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "rows"), CASES)
def test_numbers_are_those_of_psyneulink(arguments: dict[str, float], rows: list[Any]) -> None:
    compiled = mdf_loop.compile(model(**arguments), device="cpu")
    for x, numbers in rows:
        results = compiled.run({"x": [[x]]})
        actual, row = results["all"].ravel(), np.array(numbers, float)
        assert results["all"].shape == (8, 1)
        apart, off = np.abs(actual - row), lost(arguments, x, row)
        same = (actual == row) | (np.isnan(actual) & np.isnan(row)) | (apart <= off)
        assert same.all(), (x, actual, row, off)


def test_most_of_the_moments_are_compared() -> None:
    """What may be off says something in most cases."""
    is_precise = [
        lost(arguments, x, np.array(row, float)) < 1e-6 * np.abs(np.array(row, float))
        for arguments, rows in CASES
        for x, row in rows
    ]
    assert np.mean(is_precise) > 0.7


def test_no_noise_at_all_is_no_time() -> None:
    """PsyNeuLink divides by 0 there, which is an error of Python's."""
    arguments = {"drift_rate": 1.0, "threshold": 1.0, "starting_value": 0.0}
    compiled = mdf_loop.compile(model(noise=0.0, non_decision_time=0.2, **arguments))
    assert np.isnan(compiled.run({"x": [[1.0]]})["time"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.5, -1.25, 0.0, 400.0])
def test_it_can_be_differentiated(x: float) -> None:
    arguments = {"threshold": 1.0, "noise": 0.5, "starting_value": 0.2, "non_decision_time": 0.2}
    compiled = mdf_loop.compile(model(drift_rate=1.0, **arguments), device="cpu")
    (slope,) = compiled.gradient({"ddm.time": "sum"}, ["x"], inputs={"x": [[x]]}).values()
    near = [compiled.run({"x": [[x + h]]})["time"].item() for h in (-1e-5, 1e-5)]
    expected = (near[1] - near[0]) / 2e-5
    if x:  # at a standstill PsyNeuLink takes the limit, which is a constant
        assert slope.item() == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert np.isfinite(slope).all()
