"""Results files: reading restores what was saved, and a failure leaves no partial file."""

from __future__ import annotations

import csv
import json
import resource
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

from mdf_loop.errors import InputError
from mdf_loop.results.data import Results
from mdf_loop.results.saving import FORMATS
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording.labels import escape_name

NAMES = ("A.v", "A.n", "/A/Add.x.11", "A.100%2F", "A.yes", "A.word", "A.small", "A.none", "ä.µ x")


def arrays(*extents: int) -> dict[str, Any]:
    """Return arrays of every dtype, shape and kind of name, with values that rounding would change."""
    rng = np.random.default_rng(7)
    floats = rng.standard_normal((*extents, 2, 3))
    floats.flat[:2] = np.nan, -np.inf
    texts = np.array(["a, b", 'quoted "x"', "µ\nline"], dtype=object)
    return dict(
        zip(
            NAMES,
            (
                floats,
                rng.integers(-(2**62), 2**62, extents),
                rng.standard_normal(extents),
                rng.standard_normal((*extents, 1)) * 1e-300,
                rng.random((*extents, 2)) < 0.5,
                texts[rng.integers(0, 3, (*extents, 2))],
                rng.standard_normal(extents).astype(np.float32),
                np.zeros((*extents, 0)),
                rng.integers(0, 255, (*extents, 2), dtype=np.uint8),
            ),
            strict=True,
        )
    )


TIME = Axis("time", {"time": np.arange(4) * 0.1})
BATCH = Axis("batch", {"A.gain": np.array([0.1, 0.2, 0.3])})
FILES = [suffix for suffix in FORMATS if suffix != ".zarr"]
CASES = {
    "over time": ((4,), (TIME,)),
    "in steps": ((4,), (Axis("time", {"step": np.arange(4)}),)),
    "a sweep over time": ((3, 4), (BATCH, TIME)),
    "one evaluation": ((), ()),
}


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"))
def results(request) -> Results:
    front, axes = CASES[request.param]
    units = {"A.v": "mV", "/A/Add.x.11": "nA"}
    return Results(arrays(*front), {}, "cpu", "float64", axes=axes, units=units)


def coordinates(results: Results) -> dict[str, Any]:
    return {name: array for axis in results.axes for name, array in axis.coordinates.items()}


def check_equal(read: Any, saved: Any) -> None:
    """Check that two arrays are equal in shape, dtype and every element. Texts are compared as strings."""
    read, saved = (
        a.astype(object).astype(str) if a.dtype.kind in "OT" else a
        for a in map(np.asarray, (read, saved))
    )
    assert read.shape == saved.shape
    assert read.dtype.kind == saved.dtype.kind
    if saved.dtype.kind != "U":
        assert read.dtype == saved.dtype
    np.testing.assert_array_equal(read, saved)


# --- formats ------------------------------------------------------------------------------------


def test_npz(tmp_path, results):
    results.save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz", allow_pickle=False) as archive:
        assert archive.files == [*coordinates(results), *results]
        for name, array in {**coordinates(results), **results}.items():
            check_equal(archive[name], array)


def random_results(seed: int | None, axes: tuple[Axis, ...] = (), *, draws: bool = True) -> Results:
    arrays_by_name = {"A.x": np.zeros([axis.length for axis in axes])}
    return Results(arrays_by_name, {}, "cpu", "float64", axes=axes, seed=seed, draws=draws)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_npz_has_the_seed(tmp_path, seed):
    random_results(seed).save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as archive:
        assert archive.files == ["A.x", "seed"]
        assert int(archive["seed"]) == seed


def test_npz_has_no_seed_without_random_numbers(tmp_path):
    random_results(1, draws=False).save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as archive:
        assert archive.files == ["A.x"]


@pytest.mark.parametrize(("seed", "name"), [(5, ["seed_"]), (None, [])])
def test_npz_with_a_swept_parameter_called_seed(tmp_path, seed, name):
    random_results(seed, (Axis("batch", {"seed": np.array([7, 8])}),)).save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as archive:
        assert archive.files == ["seed", "A.x", *name]
        assert archive["seed"].tolist() == [7, 8]


def test_json(tmp_path, results):
    results.save(tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text())
    assert content == json.loads(results.to_json())
    for name, entry in content["outputs"].items():
        dtype = np.str_ if entry["dtype"] == "string" else entry["dtype"]
        check_equal(np.array(entry["data"], dtype).reshape(entry["shape"]), results[name])
    read = content.get("axes", {})
    assert {name: list(array) for name, array in coordinates(results).items()} == read


def test_csv(tmp_path, results):
    results.save(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    names = {
        "A.v": ["A.v[0,0]", "A.v[0,1]", "A.v[0,2]", "A.v[1,0]", "A.v[1,1]", "A.v[1,2]"],
        "A.none": [],
        "/A/Add.x.11": ["/A/Add.x.11"],
        "A.n": ["A.n"],
        "A.small": ["A.small"],
        "A.100%2F": ["A.100%2F[0]"],
    }
    expected = [c for name in results for c in names.get(name, [f"{name}[0]", f"{name}[1]"])]
    inner_first = [name for axis in reversed(results.axes) for name in axis.coordinates]
    assert header == [*inner_first, *expected]
    columns = dict(zip(header, np.array(rows, dtype=object).T, strict=True))
    front = results["A.n"].shape
    for name, array in results.items():
        read = [columns[column] for column in names.get(name, [f"{name}[0]", f"{name}[1]"])]
        if read:
            texts = np.array(read).T.reshape(array.shape)
            check_equal(
                texts == "True" if array.dtype == bool else texts.astype(array.dtype), array
            )
    grid = np.meshgrid(*coordinates(results).values(), indexing="ij")
    for name, values in zip(coordinates(results), grid, strict=True):
        check_equal(columns[name].astype(values.dtype).reshape(front), values)


def test_csv_of_one_evaluation_is_one_row(tmp_path):
    results = Results({"A.x": np.array(1.5), "A.y": np.array([1, 2])}, {}, "cpu", "float64")
    results.save(tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_bytes() == b"A.x,A.y[0],A.y[1]\n1.5,1,2\n"


def test_csv_of_a_sweep_begins_with_the_time(tmp_path):
    axes = (Axis("batch", {"A.a": np.array([5, 6])}), Axis("time", {"time": np.array([0.0, 0.5])}))
    array = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32) / 10
    Results({"A.x": array}, {}, "cpu", "float64", axes=axes).save(tmp_path / "r.csv")
    text = "time,A.a,A.x\n0.0,5,0.1\n0.5,5,0.2\n0.0,6,0.3\n0.5,6,0.4\n"
    assert (tmp_path / "r.csv").read_text() == text


def test_h5(tmp_path, results):
    results.save(tmp_path / "r.h5")
    with h5py.File(tmp_path / "r.h5") as file:
        assert list(file) == [escape_name(name) for name in (*coordinates(results), *results)]
        for name, array in {**coordinates(results), **results}.items():
            read = file[escape_name(name)]
            check_equal(read.asstr()[()] if array.dtype == object else read[()], array)
            assert read.attrs.get("units", "") == results.units.get(name, "")
            assert read.attrs.get("long_name", name) == name
        assert dict(file.attrs)["device"] == "cpu"
        for position, axis in enumerate(results.axes):
            assert file["A.v"].dims[position].label == axis.name
            assert list(file["A.v"].dims[position].keys()) == list(axis.coordinates)


def check_dataset(dataset, results):
    assert list(dataset.data_vars) == [escape_name(name) for name in results]
    assert set(dataset.coords) == set(coordinates(results))
    for name, array in {**coordinates(results), **results}.items():
        read = dataset[escape_name(name)]
        check_equal(read.values, array)
        assert read.attrs.get("units", "") == results.units.get(name, "")
        assert read.attrs.get("long_name", name) == name


def test_nc(tmp_path, results):
    results.save(tmp_path / "r.nc")
    with xarray.open_dataset(tmp_path / "r.nc", engine="h5netcdf") as dataset:
        check_dataset(dataset, results)
        assert dataset.attrs["precision"] == "float64"


@pytest.mark.filterwarnings("error")
def test_zarr(tmp_path, results):
    results.save(tmp_path / "r.zarr")
    with xarray.open_zarr(tmp_path / "r.zarr") as dataset:
        check_dataset(dataset, results)
        assert dataset["A.v"].dims[: len(results.axes)] == tuple(axis.name for axis in results.axes)
        assert dataset.attrs["precision"] == "float64"


def test_different_names_have_different_safe_names():
    names = ["a/b", "a%2Fb", "a.b", "a%b", "/", "a\0b"]
    assert [escape_name(name) for name in names[:3]] == ["a%2Fb", "a%252Fb", "a.b"]
    assert len({escape_name(name) for name in names}) == len(names)


@pytest.mark.parametrize("suffix", FORMATS)
def test_uppercase_suffix(tmp_path, suffix):
    path = tmp_path / f"r{suffix.upper()}"
    Results({"A.x": np.array(1.0)}, {}, "cpu", "float64").save(path)
    assert path.stat().st_size > 0


# --- files that cannot be written -----------------------------------------------------------------


@pytest.fixture
def small() -> Results:
    return Results({"A.x": np.zeros(20_000)}, {}, "cpu", "float64")


@pytest.mark.parametrize("name", ["r.txt", "r"])
def test_unknown_suffixes_are_refused(tmp_path, small, name):
    with pytest.raises(InputError, match=r"cannot save results as") as error:
        small.save(tmp_path / name)
    assert "use .npz, .json, .csv, .h5, .nc or .zarr" in str(error.value)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_missing_folder_is_refused(tmp_path, small, suffix):
    with pytest.raises(InputError, match=r"cannot write '.*': there is no folder '.*missing'"):
        small.save(tmp_path / "missing" / f"r{suffix}")


@pytest.mark.parametrize("suffix", FILES)
def test_a_folder_as_target_is_refused(tmp_path, small, suffix):
    (tmp_path / f"r{suffix}").mkdir()
    with pytest.raises(InputError, match=r"cannot write '.*': it is no file"):
        small.save(tmp_path / f"r{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"r{suffix}"]


@pytest.mark.parametrize("suffix", FILES)
def test_a_full_disk_preserves_the_old_file(tmp_path, small, suffix):
    target: Path = tmp_path / f"r{suffix}"
    target.write_text("what was there")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(InputError, match=r"cannot write '.*': File too large"):
            small.save(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_only_zarr_stores_are_replaced(tmp_path, small, make):
    make(tmp_path / "r.zarr")
    with pytest.raises(InputError, match=r"is there already, and is no Zarr store of mdf_loop"):
        small.save(tmp_path / "r.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["r.zarr"]


def test_a_failed_save_preserves_the_old_store(tmp_path, small):
    target = tmp_path / "r.zarr"
    for number in (1.0, 2.0):
        Results({"A.x": np.array(number)}, {}, "cpu", "float64").save(target)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(InputError, match=r"cannot write '.*': File too large"):
            small.save(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert xarray.open_zarr(target)["A.x"].values == 2.0
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupted_save_leaves_no_file(tmp_path, small, monkeypatch):
    def interrupted(*_arguments: Any, **_arrays: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small.save(tmp_path / "r.npz")
    assert list(tmp_path.iterdir()) == []
