"""Runs on a cluster that continue a store with links, forged metadata or damaged files."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import InputError
from mdf_loop.run.recording.region_layout import metadata_digest
from tests.models.timed import graph
from tests.soak import soaking, times
from tests.strategies.file_damages import damages
from tests.strategies.inline_cluster import compute_inline

B = np.linspace(0.2, 1.4, 10)
GIVEN: dict[str, Any] = {"sweep": {"n.b": B}, "steps": 6, "every": 2, "progress": False}


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    """Return a compiled model with one output that differs in all members."""
    node = {
        "parameters": {
            "b": {"value": 1.0},
            "x": {"default_initial_value": 0.25, "value": "b * x * (2 - x)"},
        },
        "output_ports": {"x": {"value": "x"}},
    }
    return mdf_loop.compile(graph(n=node)["g"], device="cpu")


@pytest.fixture(scope="module")
def unbroken(model: CompiledModel) -> np.ndarray:
    return np.asarray(model.run(**GIVEN)["n.x"])


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the computed blocks. Blocks are computed in this process."""
    return compute_inline(monkeypatch)


@pytest.fixture(scope="module")
def original(model: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("stores") / "original.zarr"
    with pytest.MonkeyPatch.context() as patch:
        compute_inline(patch)
        model.run(**GIVEN, cluster=1, block=3, output=store)
    return store


@pytest.fixture
def store(original: Path, tmp_path: Path, blocks: list[int]) -> Path:
    """Copy the original store, in which all members are computed."""
    return Path(shutil.copytree(original, tmp_path / "s.zarr"))


def resumed(model: CompiledModel, store: Path) -> mdf_loop.Results:
    return model.run(**GIVEN, cluster=1, block=3, output=store, resume=True)


def contents(place: Path) -> dict[str, Any]:
    """Return the bytes of each file and the target of each link in a folder."""
    return {
        str(file): os.readlink(file) if file.is_symlink() else file.is_file() and file.read_bytes()
        for file in place.rglob("*")
    }


def check_refused(model: CompiledModel, store: Path, sentence: str) -> None:
    """Check that a run is refused by one error before a file is changed."""
    state_before = contents(store.parent)
    with pytest.raises(InputError, match=sentence):
        resumed(model, store)
    assert contents(store.parent) == state_before


def edit(file: Path, change: Callable[[Any], Any]) -> None:
    """Change the metadata of a store or of an array, and their digest."""
    document = json.loads(file.read_text())
    change(document)
    if "sweep" in document["attributes"]:
        document["attributes"]["sweep"]["digest"] = metadata_digest(document)
    file.write_text(json.dumps(document))


def test_a_whole_store_is_read_without_a_run(
    model: CompiledModel, unbroken: np.ndarray, store: Path, blocks: list[int]
) -> None:
    results = resumed(model, store)
    assert np.asarray(results["n.x"]).tobytes() == unbroken.tobytes()
    assert not blocks


# --- links and forged metadata --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n.x", "n.x/c", "n.x/c/1", "n.x/c/0/0", "computed", "zarr.json"])
def test_nothing_is_written_through_links(model: CompiledModel, store: Path, name: str) -> None:
    for flags in (store / "computed" / "c").iterdir():
        flags.unlink()
    (store / name).rename(store.parent / "victim")
    (store / name).symlink_to(store.parent / "victim")
    check_refused(
        model, store, rf"'{name}' in it is no plain file: nothing is written through links"
    )


def test_a_worker_writes_through_no_link(model: CompiledModel, store: Path) -> None:
    from mdf_loop.run.recording.regions import Regions

    root = json.loads((store / "zarr.json").read_text())["attributes"]
    regions = Regions(store, root["run"], (10,), ("n.x",), "computed", True)
    for name in ("n.x/c", "n.x", "computed"):
        (store / name).rename(store.parent / "victim")
        (store / name).symlink_to(store.parent / "victim")
        with pytest.raises(InputError, match=rf"'{name}' in it is a link"):
            regions.write([(slice(0, 3),)], {"n.x": np.zeros((3, 3))}, np.ones(3, np.int8))
        (store / name).unlink()
        (store.parent / "victim").rename(store / name)


FORGED: dict[str, tuple[str, Any]] = {
    **{f"shape {value}": ("shape", value) for value in ([10**9], [-1], ["a"], [5], [2, 5], [])},
    **{f"chunk {value}": ("chunk", value) for value in (0, -5, 11, 3, 1 << 80, None, 1.5)},
    **{f"axis {value}": ("axis", value) for value in (7, -1, "0")},
    **{f"chunks in a block {value}": ("chunks_in_block", value) for value in (0, 7, "x")},
    **{
        f"outputs {value}": ("outputs", value)
        for value in (["../../x"], [], "n.x", ["n.x", "n.x"], ["computed"], ["step"], [7])
    },
    **{
        f"flags {value}": ("flags", value)
        for value in ("", "n.x", "step", "../victim/computed", "..", None)
    },
    **{f"native {value}": ("native", value) for value in (5, None, {"a": 1})},
    **{f"run {value}": ("run", value) for value in (None, {}, {"model": 1}, [])},
    "members": ("members", -1),
    "other members": ("members", 11),
    "blocks": ("blocks", None),
    "seed": ("seed", "x"),
    "draws": ("draws", None),
    "failed": ("failed", ["a"]),
    "not finite": ("not_finite", {"name": 1}),
}


@pytest.mark.parametrize(("word", "value"), FORGED.values(), ids=FORGED)
def test_forged_records_are_refused(
    model: CompiledModel, store: Path, word: str, value: Any
) -> None:
    shutil.copytree(store / "computed", store.parent / "victim" / "computed")

    def change(document: Any) -> None:
        document["attributes"]["sweep"][word] = value

    edit(store / "zarr.json", change)
    check_refused(model, store, r"cannot continue|is of (a run|another model)")


@pytest.mark.parametrize(
    "name", ["../victim", "..", ".", "", "/tmp/victim", "a/b", "zarr.json", "x\0"]
)
def test_array_names_outside_the_store_are_refused(
    model: CompiledModel, store: Path, name: str
) -> None:
    def change(document: Any) -> None:
        arrays = document["consolidated_metadata"]["metadata"]
        arrays[name] = arrays["n.x"]

    edit(store / "zarr.json", change)
    check_refused(model, store, "is no name of an array")


ARRAYS: dict[str, tuple[str, Any]] = {
    "shape": ("shape", [10, 7]),
    "fewer members": ("shape", [9, 4]),
    "dtype": ("data_type", "nonsense"),
    "codecs": ("codecs", [{"name": "nonsense", "configuration": {}}]),
    "fill value": ("fill_value", 5.0),
    "dimensions": ("dimension_names", ["a", "b"]),
    "no dimensions": ("dimension_names", None),
}


@pytest.mark.parametrize(("word", "value"), ARRAYS.values(), ids=ARRAYS)
def test_metadata_of_an_array(
    model: CompiledModel, unbroken: np.ndarray, store: Path, word: str, value: Any
) -> None:
    """Check that array metadata are repaired from the store and forged store metadata are refused."""
    edit(store / "n.x" / "zarr.json", lambda document: document.update({word: value}))
    (store / "computed" / "c" / "1").unlink()
    assert np.asarray(resumed(model, store)["n.x"]).tobytes() == unbroken.tobytes()

    def change(document: Any) -> None:
        document["consolidated_metadata"]["metadata"]["n.x"][word] = value

    edit(store / "zarr.json", change)
    check_refused(model, store, "cannot continue")


# --- damaged files --------------------------------------------------------------------------------


def check_resumed(
    model: CompiledModel, options: Any, expected: mdf_loop.Results, store: Path
) -> str:
    """Check that a run that continues a store returns the expected numbers or raises one error."""
    try:
        results = model.run(**options, output=store, resume=True)
    except mdf_loop.LoopError as error:
        return str(error)
    for name in expected:
        assert np.asarray(results[name]).tobytes() == np.asarray(expected[name]).tobytes()
    dataset, expected_dataset = results.to_xarray(), expected.to_xarray()
    for name, coordinate in expected_dataset.coords.items():
        np.testing.assert_array_equal(dataset.coords[name].values, coordinate.values)
    with xarray.open_zarr(store, chunks=None) as stored:
        assert (stored["computed"].values == 1).all()
        for name in expected_dataset.variables:
            assert stored[name].values.tobytes() == expected_dataset[name].values.tobytes()
    return ""


GRID = {
    **GIVEN,
    "sweep": mdf_loop.grid({"n.b": [0.2, 0.5, 1.0], "n.x": [0.1, 0.2, 0.3, 0.4, 0.5]}),
}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("words", [GIVEN, GRID], ids=["sweep", "grid"])
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_damaged_files_give_exact_numbers_or_one_error(
    model: CompiledModel, tmp_path: Path, blocks: list[int], words: dict[str, Any], seed: int
) -> None:
    options = {**words, "cluster": 1, "block": 3}
    expected = model.run(**words)
    original, store = tmp_path / "original.zarr", tmp_path / "s.zarr"
    model.run(**options, output=original)
    shutil.copytree(original, store)
    rng = random.Random(seed)
    ways = [*damages(store, rng)]
    for what, damage in ways if soaking() else rng.sample(ways, 40):
        damage()
        blocks.clear()
        error = check_resumed(model, options, expected, store)
        file = what.split()[0]
        assert not error or file == str(store / "zarr.json") or "with" in what, (what, error)
        shutil.rmtree(store)
        shutil.copytree(original, store)


@pytest.mark.parametrize("way", ["emptied", "cut", "flipped", "gone"])
@pytest.mark.parametrize("name", ["n.x/c/1/0", "computed/c/1", "computed/checksums/2"])
def test_a_damaged_block_is_computed_again(
    model: CompiledModel, unbroken: np.ndarray, store: Path, blocks: list[int], name: str, way: str
) -> None:
    damage = next(d for what, d in damages(store, random.Random(1)) if f"{name} {way}" in what)
    damage()
    results = resumed(model, store)
    assert np.asarray(results["n.x"]).tobytes() == unbroken.tobytes()
    assert blocks == [1]


@pytest.mark.parametrize("name", ["n.b", "step"])
def test_a_damaged_coordinate_is_written_again(
    model: CompiledModel, store: Path, blocks: list[int], name: str
) -> None:
    (store / name / "c" / "0").unlink()
    coordinate = resumed(model, store).to_xarray().coords[name].values
    assert coordinate.tolist() == (B.tolist() if name == "n.b" else [0, 2, 4])
    assert not blocks
    state_before = contents(store)
    resumed(model, store)
    assert contents(store / name) == {k: v for k, v in state_before.items() if f"/{name}/" in k}


def test_damaged_metadata_of_the_store_are_one_error(model: CompiledModel, store: Path) -> None:
    text = (store / "zarr.json").read_text()
    (store / "zarr.json").write_text(text.replace('"native"', '"nativf"'))
    check_refused(model, store, "cannot continue .*: its attribute 'sweep' is damaged")
    (store / "zarr.json").write_text(text.replace('"device": "', '"device": "x'))
    check_refused(model, store, "cannot continue .*: its 'zarr.json' is not as it was written")


def test_data_reach_the_disk_before_flags(
    model: CompiledModel, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdf_loop.run.recording import region_record

    (store / "computed" / "c" / "1").unlink()
    events: list[str] = []
    sync = region_record.sync
    monkeypatch.setattr(region_record, "sync", lambda p: (events.append(str(p)), sync(p)))
    resumed(model, store)
    files = [p.relative_to(store).as_posix() for p in store.rglob("*") if p.is_file()]
    assert "computed/checksums/2" in files
    paths = ("n.x/c/1/0", "n.x/c/1", "computed/checksums", "computed/c/1")
    places = [events.index(str(store / path)) for path in paths[:1] + paths[2:]]
    assert places == sorted(places)
    assert str(store / paths[1]) in events


def test_a_store_without_checksums_is_continued_without_them(
    model: CompiledModel, unbroken: np.ndarray, store: Path, blocks: list[int]
) -> None:
    """Check that chunks which cannot be decoded are computed again in a store without checksums."""
    shutil.rmtree(store / "computed" / "checksums")
    document = json.loads((store / "zarr.json").read_text())
    for name, about in document["consolidated_metadata"]["metadata"].items():
        about["codecs"].pop()
        (store / name / "zarr.json").write_text(json.dumps(about))
        for chunk in (file for file in (store / name / "c").rglob("*") if file.is_file()):
            chunk.write_bytes(chunk.read_bytes()[:-4])
    del document["attributes"]["sweep"]["checksums"], document["attributes"]["sweep"]["digest"]
    (store / "zarr.json").write_text(json.dumps(document))
    (store / "n.x" / "c" / "2" / "0").write_bytes(b"")
    (store / "n.b" / "c" / "0").unlink()
    results = resumed(model, store)
    assert np.asarray(results["n.x"]).tobytes() == unbroken.tobytes()
    assert results.to_xarray().coords["n.b"].values.tolist() == B.tolist()
    assert blocks == [2]
    assert not (store / "computed" / "checksums").exists()
