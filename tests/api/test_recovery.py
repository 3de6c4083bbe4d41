"""Parameter recovery: intervals contain the true parameters as often as their confidence level states."""

from __future__ import annotations

import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.fitted import CELL, DECISION, DT, FREE, STEPS, compiled


@pytest.mark.slow
@pytest.mark.parametrize("free", [FREE, {"cell.tau": (0.5, 5.0), "cell.offset": (-1.0, 1.0)}])
def test_intervals_contain_the_true_parameters(free: dict[str, tuple[float, float]]) -> None:
    words = {"against": "cell.V", "steps": STEPS, "dt": DT, "noise": 0.05, "times": 20}
    recovery = mdf_loop.recover(compiled(CELL), free, **words)
    assert recovery.true.shape == recovery.estimates.shape == (20, 2)
    assert (recovery.covered.sum(axis=0) >= 17).all()
    assert list(recovery.table().columns) == ["bias", "sd", "largest", "held"]
    assert str(recovery).endswith("20 data sets")


@pytest.mark.slow
def test_of_decisions() -> None:
    words = {"likelihood": {"rt": "rt", "choice": "choice"}, "trials": 300, "data_trials": 500}
    free = {"ddm.drift": (0.5, 2.0), "ddm.threshold": (0.6, 1.4)}
    recovery = mdf_loop.recover(compiled(DECISION), free, **words, times=3, points=32)
    assert abs(recovery.estimates / recovery.true - 1).max() < 0.3
    assert recovery.covered.mean() > 0.6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"times": 0}, "times must be a whole number above 0"),
        ({"noise": -1.0}, "noise is a standard deviation above 0"),
        ({"noise": None}, "needs noise for curves, or a likelihood"),
    ],
)
def test_invalid_options_are_refused(words: dict[str, object], message: str) -> None:
    options = {"noise": 0.1, "steps": STEPS, "dt": DT, **words}
    with pytest.raises(LoopError, match=message):
        mdf_loop.recover(compiled(CELL), FREE, **options)
