"""Models that name axes: outputs share the axes, also in files and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray

import mdf_loop
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis

CELL = {"dims": ["cell"]}


def model() -> dict[str, Any]:
    v = {"default_initial_value": [0.0, 1.0, 2.0], "time_derivative": "1 - v", "metadata": CELL}
    ports = {
        "v": {"value": "v"},
        "spikes": {"value": "v > 0.9", "metadata": CELL},
        "w": {"value": "numpy.outer(v, v[:2])", "metadata": {"dims": ["cell", "synapse"]}},
        "own": {"value": "2 * v"},
    }
    copy = {"input_ports": {"x": {"shape": [3]}}, "output_ports": {"y": {"value": "x"}}}
    edge = {"sender": "A", "sender_port": "v", "receiver": "B", "receiver_port": "x"}
    nodes = {"A": {"parameters": {"v": v}, "output_ports": ports}, "B": copy}
    return {"g": {"nodes": nodes, "edges": {"e": edge}}}


EXPECTED = {
    "A.spikes": ("time", "cell"),
    "A.w": ("time", "cell", "synapse"),
    "A.own": ("time", "A.own_0"),
    "B.y": ("time", "cell"),
    "A.v": ("time", "cell"),
}


def dims(data: xarray.Dataset) -> dict[str, tuple[str, ...]]:
    return {str(name): tuple(map(str, variable.dims)) for name, variable in data.items()}


def test_outputs_share_the_axes_that_the_model_names(tmp_path: Path) -> None:
    compiled = mdf_loop.compile(model())
    results = compiled.run(steps=3, dt=0.1, record=["A.v"])
    assert dims(results.to_xarray()) == EXPECTED
    assert dict(results.to_xarray().sizes) == {"time": 3, "cell": 3, "synapse": 2, "A.own_0": 3}
    assert dims(compiled.run(steps=3, record=["A.v"], engine="modeci").to_xarray()) == EXPECTED
    results.save(tmp_path / "r.nc")
    compiled.run(steps=3, dt=0.1, record=["A.v"], output=tmp_path / "r.zarr")
    for path, engine in ((tmp_path / "r.nc", "h5netcdf"), (tmp_path / "r.zarr", "zarr")):
        with xarray.open_dataset(path, engine=engine) as data:
            assert dims(data) == EXPECTED
    results.save(tmp_path / "r.h5")
    with h5py.File(tmp_path / "r.h5") as file:
        assert [dim.label for dim in file["A.w"].dims] == ["time", "cell", "synapse"]


def test_names_in_one_evaluation_sweeps_and_reductions() -> None:
    compiled = mdf_loop.compile(model())
    assert dims(compiled.run(only=["A.spikes"]).to_xarray()) == {"A.spikes": ("cell",)}
    swept = {"A.v": [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]}
    results = compiled.run(steps=2, sweep=swept, only=["A.w"], reduce={"A.spikes": "last"})
    axis_names = dims(results.to_xarray())
    assert axis_names["A.w"] == ("batch", "time", "cell", "synapse")
    assert axis_names["A.spikes.last"] == ("batch", "cell")


def test_an_axis_of_another_length_has_its_own_name() -> None:
    arrays = {"A.a": np.zeros((2, 3)), "A.b": np.zeros((2, 4)), "A.c": np.zeros((2, 5, 1))}
    stated = {"A.a": ("cell",), "A.b": ("cell",), "A.c": ("other",)}
    time = Axis("time", {"step": np.arange(2)})
    dataset = Results(arrays, {}, "cpu", "float64", axes=(time,), dims=stated).to_xarray()
    assert dims(dataset) == {
        "A.a": ("time", "A.a_0"),
        "A.b": ("time", "A.b_0"),
        "A.c": ("time", "A.c_0", "A.c_1"),
    }


def test_pictures_use_the_names() -> None:
    arrays = {"A.s": np.ones((2, 6), bool), "A.many": np.ones((2, 5, 6))}
    stated = {"A.s": ("cell",), "A.many": ("post", "pre")}
    time = Axis("time", {"step": np.arange(2)})
    axes = Results(arrays, {}, "cpu", "float64", axes=(time,), dims=stated).plot().axes
    assert axes[0].get_ylabel() == "A.s\ncell"
    assert axes[1].get_ylabel() == "post, pre\n(5×6, row by row)"
