"""A reduction is written once: as a class in the table of reductions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.cli import cli
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.recording import statistics
from mdf_loop.run.recording.reduction import Maximum, Minimum, Reduction

NOISE = """
m:
  graphs:
    g:
      nodes:
        A:
          output_ports:
            y: {value: "numpy.random.normal()"}
"""


class Spread(Reduction):
    """Difference of the maximum and the minimum."""

    def __init__(self) -> None:
        super().__init__()
        self._extremes = {"min": Minimum(), "max": Maximum()}

    def _add_rows(self, rows: Array) -> None:
        for extreme in self._extremes.values():
            extreme.add(rows)

    def _compute_value(self) -> Array:
        return np.asarray(self._extremes["max"].value() - self._extremes["min"].value())

    def _state_arrays(self) -> dict[str, Array]:
        return {
            f"{name} {key}": array
            for name, extreme in self._extremes.items()
            for key, array in extreme.snapshot().items()
        }

    def _restore_state(self, snapshot: Snapshot, shape: tuple[int, ...]) -> None:
        self._set_shape(shape)
        for name, extreme in self._extremes.items():
            extreme.restore(snapshot.with_prefix(f"{name} "))


def test_a_reduction_is_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(statistics.REDUCTIONS, "spread", Spread)  # type: ignore[arg-type]
    path = tmp_path / "m.yaml"
    path.write_text(NOISE)
    model = mdf_loop.compile(path)
    rows = model.run(steps=50)["A.y"]
    assert model.run(steps=50, reduce={"A.y": "spread"})["A.y.spread"] == np.ptp(rows)
    trials = model.run(trials=50)["A.y"]
    results = model.run(trials=50, over_trials={"A.y": ["spread", "count"]})
    assert (results["A.y.spread"], results["A.y.count"]) == (np.ptp(trials), 50)
    checkpoint = tmp_path / "run.ckpt"
    options = {"reduce": {"A.y": "spread"}, "checkpoint": checkpoint}
    model.run(steps=20, **options)
    resumed = model.run(steps=50, **{**options, "checkpoint": None}, resume=checkpoint)
    assert resumed["A.y.spread"] == np.ptp(rows)
    arguments = ["run", str(path), "--steps", "50", "--reduce", "A.y=spread"]
    assert f"{np.ptp(rows):.6f}"[:6] in CliRunner().invoke(cli, arguments).output
    with pytest.raises(InputError, match="cannot be reduced to 'spred'") as error:
        model.run(steps=5, reduce={"A.y": "spred"})
    assert "spread" in error.value.findings[0].hint
