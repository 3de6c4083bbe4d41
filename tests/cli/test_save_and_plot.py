"""`mdf-loop run --output --plot`, for a model over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray

from mdf_loop.results.data import Results

DECAY = """
Decay:
    format: ModECI MDF v0.4
    graphs:
        decay:
            nodes:
                cell:
                    parameters:
                        tau: {value: 2.0}
                        v:
                            default_initial_value: 1.0
                            time_derivative: -v
                    output_ports:
                        v: {value: v}
"""


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    path = tmp_path / "decay.yaml"
    path.write_text(DECAY)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".json", ".csv", ".h5", ".nc"])
def test_output_formats(cli, decay, tmp_path, suffix):
    target = tmp_path / f"out{suffix}"
    assert cli("run", decay, "--steps", 3, "--dt", 0.5, "--output", target).code == 0
    assert target.stat().st_size > 0


def test_output_has_time_and_values(cli, decay, tmp_path):
    cli("run", decay, "--steps", 3, "--dt", 0.5, "--output", tmp_path / "out.nc")
    with xarray.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as dataset:
        assert dataset["time"].values.tolist() == [0.0, 0.5, 1.0]
        np.testing.assert_array_equal(dataset["cell.v"], [1.0, 0.5, 0.25])
    cli("run", decay, "--steps", 2, "--output", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "step,cell.v"


def test_json_has_axes_over_time_only(cli, decay):
    assert cli("run", decay, "--steps", 2, "--dt", 0.5, "--json").json["axes"] == {"time": [0, 0.5]}
    assert cli("run", decay, "--steps", 2, "--json").json["axes"] == {"step": [0, 1]}
    assert "axes" not in cli("run", decay, "--json").json


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_plot(cli, decay, tmp_path, suffix):
    target = tmp_path / f"out{suffix}"
    assert cli("run", decay, "--steps", 3, "--dt", 0.5, "--plot", target).code == 0
    assert target.stat().st_size > 0


def test_recorded_values_are_plotted(cli, decay, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Results, "plot", lambda self, path, **how: drawn.append(list(self)))
    for arguments in ((), ("--record", "v"), ("--record", "cell.tau"), ("--only", "cell.tau")):
        assert cli("run", decay, "--steps", 3, *arguments, "--plot", tmp_path / "x.svg").code == 0
    assert drawn == [["cell.v"], ["cell.v"], ["cell.v", "cell.tau"], ["cell.tau"]]


@pytest.mark.slow
def test_a_sweep_without_time_can_be_plotted(cli, decay, tmp_path):
    for option in ("--sweep", "--grid"):
        arguments = (option, "cell.v=0:1:5", "--plot", tmp_path / f"{option}.png")
        assert cli("run", decay, *arguments).code == 0
        assert (tmp_path / f"{option}.png").stat().st_size > 0


def test_plot_needs_time(cli, decay, tmp_path):
    outcome = cli("run", decay, "--plot", tmp_path / "out.png")
    assert (outcome.code, outcome.out) == (2, "")
    assert "the results have no axis of time" in outcome.err


@pytest.mark.parametrize(
    ("option", "name", "sentence"),
    [
        ("--output", "out.txt", "cannot save results as '.txt'"),
        ("--output", "no/out.npz", "there is no folder"),
        ("--plot", "out.gif", "cannot save a plot as '.gif'"),
        ("--plot", "no/out.png", "there is no folder"),
    ],
)
def test_invalid_files_are_refused_before_the_run(cli, tmp_path, option, name, sentence):
    outcome = cli("run", tmp_path / "there_is_no_model.yaml", option, tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
