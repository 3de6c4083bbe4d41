"""Sweeps over arrays and over inputs over time: members have numbers and separate coordinate arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.results.saving import MAX_CSV_ELEMENTS

CELL = {
    "g": {
        "nodes": {
            "cell": {
                "input_ports": {"I": {"default_value": 0.0}},
                "parameters": {
                    "w": {"value": [1.0, 2.0]},
                    "k": {"value": 1.0},
                    "v": {"default_initial_value": [0.0, 0.0], "time_derivative": "k * w * I - v"},
                },
                "output_ports": {"v": {"value": "v"}},
            }
        }
    }
}
WEIGHTS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
DRIVES = np.arange(12.0).reshape(3, 4)
GAINS = np.array([0.5, 1.0, 2.0])
SWEEPS: dict[str, dict[str, Any]] = {
    "an array": {"cell.w": WEIGHTS},
    "an input over time": {"I": DRIVES},
    "an array and a number": {"cell.w": WEIGHTS, "cell.k": GAINS},
    "both": {"cell.w": WEIGHTS, "I": DRIVES},
}
ASKED: dict[str, dict[str, Any]] = {
    "rows": {},
    "every second row": {"every": 2},
    "a mean": {"reduce": {"cell.v": "mean"}},
    "what is swept, too": {"record": ["cell.w"]},
}


def swept(sweep: dict[str, Any], **more: Any) -> mdf_loop.Results:
    return mdf_loop.compile(CELL).run(sweep=sweep, steps=4, dt=0.1, **more)


@pytest.fixture(scope="module", params=[(s, a) for s in SWEEPS for a in ASKED], ids=" ".join)
def results(request) -> mdf_loop.Results:
    sweep, options = request.param
    return swept(SWEEPS[sweep], **ASKED[options])


def values(results: mdf_loop.Results) -> dict[str, Any]:
    """Return the swept arrays, with a suffix where an output has the same name."""
    output_names = set(results)
    return {
        f"{n} (swept)" if n in output_names else n: v
        for n, v in results.axes[0].coordinates.items()
    }


# --- one sweep of each kind, everywhere ---------------------------------------------------------


def test_xarray_numbers_the_members(results):
    data = results.to_xarray()
    assert data.indexes["batch"].tolist() == [0, 1, 2]
    for name, array in values(results).items():
        own = tuple(f"{name}_{k}" for k in range(array.ndim - 1))
        assert data.coords[name].dims == ("batch", *own)
        np.testing.assert_array_equal(data.coords[name], array)
    for name in results:
        np.testing.assert_array_equal(data[name].sel(batch=1), results[name][1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coordinate '.*' has a space in its name")
def test_files_have_the_numbers_and_the_values(results, tmp_path):
    for suffix in ("npz", "json", "csv", "h5", "nc", "zarr"):
        results.save(tmp_path / f"x.{suffix}")
    with np.load(tmp_path / "x.npz") as archive:
        assert archive["batch"].tolist() == [0, 1, 2]
        for name, array in {**values(results), **results}.items():
            np.testing.assert_array_equal(archive[name], array)
    axes = json.loads((tmp_path / "x.json").read_text())["axes"]
    assert axes["batch"] == [0, 1, 2]
    with h5py.File(tmp_path / "x.h5") as file:
        first = next(iter(results))
        assert "batch" in file[first].dims[0]
        for name, array in values(results).items():
            assert axes[name] == array.tolist()
            np.testing.assert_array_equal(file[name][...], array)
            if array.ndim > 1:
                assert file[name].dims[0].label == "batch"
    expected = results.to_xarray().reset_coords(drop=False)
    for opened in (xarray.open_dataset(tmp_path / "x.nc"), xarray.open_zarr(tmp_path / "x.zarr")):
        with opened as data:
            xarray.testing.assert_equal(data.load().reset_coords(), expected)


def test_a_csv_has_a_column_for_each_element_that_is_swept(tmp_path):
    header, *rows = _csv(swept({"cell.w": WEIGHTS, "cell.k": GAINS}), tmp_path)
    assert header == ["time", "batch", "cell.w[0]", "cell.w[1]", "cell.k", "cell.v[0]", "cell.v[1]"]
    assert len(rows) == 12
    assert rows[4][1:5] == ["1", "3.0", "4.0", "1.0"]


def test_a_csv_has_only_the_number_of_what_is_long(tmp_path):
    steps = MAX_CSV_ELEMENTS + 1
    results = mdf_loop.compile(CELL).run(sweep={"I": np.zeros((2, steps))}, steps=steps)
    header, *rows = _csv(results, tmp_path)
    assert header == ["step", "batch", "cell.v[0]", "cell.v[1]"]
    assert [row[1] for row in rows] == ["0"] * steps + ["1"] * steps


def _csv(results: mdf_loop.Results, folder: Path) -> list[list[str]]:
    results.save(folder / "x.csv")
    return [line.split(",") for line in (folder / "x.csv").read_text().splitlines()]


@pytest.mark.parametrize("sweep", SWEEPS)
def test_streamed_rows_have_member_numbers_and_values(sweep, tmp_path):
    stored = swept(SWEEPS[sweep], output=tmp_path / "x.zarr")
    with xarray.open_zarr(tmp_path / "x.zarr") as data:
        xarray.testing.assert_equal(data.load(), stored.to_xarray())
        assert data.indexes["batch"].tolist() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_picture_is_coloured_by_the_number_of_the_member(sweep):
    figure = swept(SWEEPS[sweep]).plot()
    assert figure.axes[-1].get_ylabel() == "member of the sweep"


def test_one_evaluation(tmp_path):
    results = mdf_loop.compile(CELL).run(sweep={"cell.w": WEIGHTS})
    assert results.to_xarray().indexes["batch"].tolist() == [0, 1, 2]
    assert _csv(results, tmp_path)[0] == [
        "batch",
        "cell.w[0]",
        "cell.w[1]",
        "cell.v[0]",
        "cell.v[1]",
    ]


def test_scalar_sweeps_have_no_batch_coordinate():
    assert "batch" not in swept({"cell.k": GAINS}).to_xarray().variables
