"""A countdown compared with half a step lasts the right number of steps for every time and `dt`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop
from tests.documents import blocks

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "parameter-conditions.md"


def model() -> dict:
    """Return the model of the page."""
    (text,) = (
        b.text for b in blocks(PAGE.read_text(encoding="utf-8")) if b.name == "refractory.yaml"
    )
    return yaml.safe_load(text)


@pytest.mark.parametrize("dt", [0.1, 0.05, 0.025, 0.2, 1e-4, 0.3])
def test_the_neuron_is_silent_for_the_whole_refractory_time(dt: float) -> None:
    steps = np.array([*range(1, 121)])
    times = np.round(steps * dt, 10)
    compiled = mdf_loop.compile(model(), device="cpu")
    results = compiled.run(
        steps=300, dt=dt, set={"cell.dt": dt, "cell.v": 6.0}, sweep={"cell.refractory": times}
    )
    silent = [int(np.argmax(v != 0)) for v in results["v"]]
    np.testing.assert_array_equal(silent, steps)
