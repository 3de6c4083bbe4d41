"""Models that state their unit of time: the meaning of `dt`, and the places that show the unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.errors import InputError, NotFiniteError

MS = {"time_unit": "ms"}


def decay(metadata: dict[str, Any] | None = None, derivative: str = "-v / 10") -> dict[str, Any]:
    v = {"default_initial_value": 1.0, "time_derivative": derivative}
    cell = {"parameters": {"v": v}, "output_ports": {"o": {"value": "v"}}}
    return {"g": {"nodes": {"cell": cell}, **({"metadata": metadata} if metadata else {})}}


def test_in_a_model_without_a_unit_a_text_is_in_seconds() -> None:
    results = mdf_loop.compile(decay()).run(steps=3, dt="0.5ms")
    same = mdf_loop.compile(decay()).run(steps=3, dt=0.0005)
    assert results.time.tolist() == same.time.tolist() == [0, 0.0005, 0.001]
    assert results["o"].tolist() == same["o"].tolist()
    assert results.units == {"time": "s"}


@pytest.mark.parametrize("dt", [0.5, "0.5", "0.5ms", "0.0005s", "500 us"])
def test_in_a_model_with_a_unit_times_are_in_the_unit(dt: float | str) -> None:
    results = mdf_loop.compile(decay(MS)).run(steps=3, dt=dt)
    assert results.time.tolist() == [0, 0.5, 1.0]
    assert results["o"].tolist() == [1.0, 0.95, 0.9025]
    assert results.units == {"time": "ms"}


def test_dt_without_steps_is_refused() -> None:
    with pytest.raises(InputError, match="dt needs steps"):
        mdf_loop.compile(decay(MS)).run(dt="0.5ms")


def test_the_engine_and_the_interpreter_do_the_same() -> None:
    compiled = mdf_loop.compile(decay(MS))
    ours = compiled.run(steps=3, dt="500us")
    for engine in ("interpreter", "modeci"):
        theirs = compiled.run(steps=3, dt="500us", engine=engine)
        assert theirs.units == {"time": "ms"}
        assert theirs.time.tolist() == ours.time.tolist()
        assert theirs["o"].tolist() == ours["o"].tolist()
    assert mdf_loop.verify(decay(MS), steps=3, dt="500us").bit_for_bit


def test_derivatives_and_fits_take_the_same_words() -> None:
    compiled = mdf_loop.compile(decay(MS))
    words = {"of": {"cell.o": "last"}, "wrt": ["cell.v"], "steps": 5}
    assert (
        compiled.gradient(**words, dt="500us")["cell.v"]
        == compiled.gradient(**words, dt=0.5)["cell.v"]
    )
    data = {"time": np.array([0.0, 0.5, 1.0]), "o": np.array([2.0, 1.9, 1.805])}
    fit = compiled.fit(data, {"cell.v": (0, 5)}, dt="500us", points=4, polish=1)
    assert fit.estimates["cell.v"] == pytest.approx(2.0)
    assert fit.curves[0].time_unit == "ms"
    assert fit.plot().axes[-1].get_xlabel() == "time (ms)"


def test_pictures_and_files_have_the_unit(tmp_path: Path) -> None:
    results = mdf_loop.compile(decay(MS)).run(steps=3, dt="0.5ms")
    assert results.plot().axes[0].get_xlabel() == "time (ms)"
    for suffix in ("h5", "nc", "zarr"):
        results.save(tmp_path / f"r.{suffix}")
    with h5py.File(tmp_path / "r.h5") as file:
        assert file["time"].attrs["units"] == "ms"
    for path, engine in ((tmp_path / "r.nc", "h5netcdf"), (tmp_path / "r.zarr", "zarr")):
        with xarray.open_dataset(path, engine=engine) as data:
            assert data["time"].attrs["units"] == "ms"
            assert data["time"].values.tolist() == [0, 0.5, 1.0]
    assert results.to_xarray()["time"].attrs == {"units": "ms"}
    assert results.to_dict()["time_unit"] == "ms"


def test_rows_that_are_streamed_have_the_unit(tmp_path: Path) -> None:
    mdf_loop.compile(decay(MS)).run(steps=3, dt="0.5ms", output=tmp_path / "r.zarr")
    with xarray.open_dataset(tmp_path / "r.zarr", engine="zarr") as data:
        assert data["time"].attrs["units"] == "ms"


def test_errors_state_the_time_in_the_unit() -> None:
    model = mdf_loop.compile(decay(MS, "1e200 * v * v"))
    with pytest.raises(NotFiniteError, match=r"was infinite at step \d+ \(time [0-9.]+ ms\)"):
        model.run(steps=9, dt=0.5, nan="error")
