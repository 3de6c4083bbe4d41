"""Sweeps over paired values, grids and Sobol points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.fitted import CELL, DECISION, DT, compiled

TAU, GAIN = np.array([0.5, 1.0, 2.0]), np.array([1.0, 3.0])
RUN = {"steps": 7, "dt": DT}


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return compiled(CELL)


@pytest.fixture(scope="module")
def each() -> mdf_loop.Grid:
    return mdf_loop.grid({"cell.tau": TAU, "cell.gain": GAIN})


def test_a_grid_has_all_combinations() -> None:
    grid = mdf_loop.grid({"a": [0, 1], "b": [5.0, 6.0, 7.0]})
    assert grid.shape == (2, 3)
    assert {name: list(rows) for name, rows in grid.items()} == {
        "a": [0, 0, 0, 1, 1, 1],
        "b": [5, 6, 7, 5, 6, 7],
    }
    assert (grid["a"].dtype, grid["b"].dtype) == (np.int64, np.float64)


def test_results_of_a_grid_have_an_axis_per_parameter(
    cell: mdf_loop.CompiledModel, each: mdf_loop.Grid
) -> None:
    results = cell.run(sweep=each, **RUN)
    flat = cell.run(sweep=dict(each), **RUN)
    assert results["V"].shape == (3, 2, 7)
    assert results["both"].shape == (3, 2, 7, 2)
    assert np.array_equal(results["V"].reshape(6, 7), flat["V"])
    single_run = cell.run(set={"cell.tau": 2.0, "cell.gain": 1.0}, **RUN)
    assert np.array_equal(results["V"][2, 0], single_run["V"])
    assert [axis.name for axis in results.axes] == ["cell.tau", "cell.gain", "time"]
    dataset = results.to_xarray()
    assert dataset["cell.V"].dims == ("cell.tau", "cell.gain", "time")
    selection = dataset["cell.V"].sel({"cell.tau": 2.0, "cell.gain": 1.0})
    assert np.array_equal(selection, single_run["V"])


def test_a_grid_of_one_evaluation(cell: mdf_loop.CompiledModel) -> None:
    results = cell.run(sweep=mdf_loop.grid({"drive": [1.0, 2.0], "cell.offset": [0.0, 0.5, 1.0]}))
    assert results["V"].shape == (2, 3)
    assert results.to_xarray()["cell.V"].dims == ("drive", "cell.offset")


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".json", ".nc", ".h5"])
def test_grids_are_written_to_files(
    cell: mdf_loop.CompiledModel, each: mdf_loop.Grid, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"run{suffix}"
    results = cell.run(sweep=each, only=["cell.V"], output=path, **RUN)
    if suffix == ".csv":
        lines = path.read_text().splitlines()
        assert lines[0] == "time,cell.gain,cell.tau,cell.V"
        assert lines[1 + 7].startswith("0.0,3.0,0.5,")
        assert len(lines) == 1 + 3 * 2 * 7
        assert lines[1].startswith("0.0,1.0,0.5,")
    elif suffix == ".npz":
        with np.load(path) as file:
            assert np.array_equal(file["cell.V"], results["V"])
            assert np.array_equal(file["cell.tau"], TAU)
    assert path.stat().st_size > 0


def test_a_grid_is_drawn(cell: mdf_loop.CompiledModel, each: mdf_loop.Grid) -> None:
    figure = cell.run(sweep=each, **RUN).plot()
    assert figure.axes[-1].get_ylabel() == "member of the sweep"
    one = cell.run(sweep=mdf_loop.grid({"cell.tau": TAU}), only=["cell.V"], **RUN).plot()
    assert one.axes[-1].get_ylabel() == "cell.tau"


def test_a_grid_with_trials_and_statistics() -> None:
    walk = compiled(DECISION)
    each = mdf_loop.grid({"ddm.drift": [0.5, 1.0], "ddm.threshold": [0.5, 0.75, 1.0]})
    results = walk.run(sweep=each, trials=4)
    assert results["rt"].shape == (2, 3, 4)
    one = walk.run(set={"ddm.drift": 1.0, "ddm.threshold": 0.5}, trials=4)
    assert np.array_equal(results["rt"][1, 0], one["rt"])
    assert [np.shape(report.iterations) for report in results.loops.values()] == [(2, 3, 4)]
    means = walk.run(sweep=each, trials=4, over_trials={"ddm.rt": "mean"})
    assert means["ddm.rt.mean"] == pytest.approx(results["rt"].mean(axis=-1))
    by = walk.run(sweep=each, trials=4, over_trials={"ddm.rt": "count"}, by="ddm.choice")
    assert by["ddm.rt.count"].sum(axis=-1).tolist() == [[4, 4, 4]] * 2


def test_a_swept_parameter_with_the_name_of_an_output(cell: mdf_loop.CompiledModel) -> None:
    both = mdf_loop.grid({"cell.tau": TAU})
    results = cell.run(sweep=both, record=["cell.tau"], steps=2, dt=DT)
    assert results.to_xarray()["cell.tau"].dims == ("cell.tau (swept)", "time")


def test_derivatives_of_a_grid(cell: mdf_loop.CompiledModel, each: mdf_loop.Grid) -> None:
    slope = cell.differentiate({"cell.V": "mean"}, ["cell.tau"], **RUN)
    gradient, flat = slope.run(sweep=each), slope.run(sweep=dict(each))
    assert gradient["cell.tau"].shape == np.shape(gradient.value) == (3, 2)
    assert np.array_equal(gradient["cell.tau"].ravel(), flat["cell.tau"])


def test_paired_values_equal_a_dict_of_values(cell: mdf_loop.CompiledModel) -> None:
    values = {"cell.tau": [1.0, 2.0], "cell.gain": [3.0, 1.0]}
    results = cell.run(sweep=mdf_loop.paired(values), **RUN)
    assert np.array_equal(results["V"], cell.run(sweep=values, **RUN)["V"])


def test_sobol_fills_the_space_evenly() -> None:
    points = mdf_loop.sobol({"a": (0.0, 1.0), "b": (-2.0, 2.0)}, 64, seed=3)
    assert {name: len(rows) for name, rows in points.items()} == {"a": 64, "b": 64}
    assert np.histogram(points["a"], 8, (0, 1))[0].tolist() == [8] * 8
    assert np.histogram(points["b"], 8, (-2, 2))[0].tolist() == [8] * 8
    again = mdf_loop.sobol({"a": (0.0, 1.0), "b": (-2.0, 2.0)}, 64, seed=3)
    assert all(np.array_equal(points[name], again[name]) for name in points)
    assert len(mdf_loop.sobol({"a": (0, 1)}, 5)["a"]) == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mdf_loop.grid({"a": [[1, 2]]}), "'a' has no list of numbers in the grid"),
        (lambda: mdf_loop.grid({"a": []}), "'a' has no list of numbers in the grid"),
        (lambda: mdf_loop.grid({"a": "x"}), "'a' has no list of numbers in the grid"),
        (lambda: mdf_loop.grid({"a": [[1], [2, 3]]}), "'a' has no list of numbers in the grid"),
        (lambda: mdf_loop.grid({}), "a grid of nothing"),
        (lambda: mdf_loop.grid([1]), "a grid"),
        (lambda: mdf_loop.paired({"a": [1], "b": [1, 2]}), "'a' has 1, 'b' has 2"),
        (lambda: mdf_loop.paired({"a": 3}), "'a' has 0"),
        (lambda: mdf_loop.sobol({"a": (1, 0)}, 4), "'a' has no bounds"),
        (lambda: mdf_loop.sobol({"a": 1}, 4), "'a' has no bounds"),
        (lambda: mdf_loop.sobol({"a": (0, 1)}, 0), "count must be a whole number from 1 on"),
        (lambda: mdf_loop.sobol({"a": (0, 1)}, 4, seed=-1), "seed must be a whole number"),
    ],
)
def test_invalid_sweeps_are_refused(make, message: str) -> None:
    with pytest.raises(LoopError, match=message):
        make()


def test_a_grid_cannot_be_streamed(
    cell: mdf_loop.CompiledModel, each: mdf_loop.Grid, tmp_path: Path
) -> None:
    with pytest.raises(LoopError, match="a grid is not written to a Zarr store while it runs"):
        cell.run(sweep=each, output=tmp_path / "run.zarr", **RUN)
    assert not (tmp_path / "run.zarr").exists()
