"""Runs that continue in a damaged or forged store repair the store or give one error without any change."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import InputError
from mdf_loop.files import write_arrays
from mdf_loop.run.recording.resuming import StoreCheckpoint
from mdf_loop.run.recording.stream import Stream
from tests.models.timed import graph
from tests.soak import soaking, times
from tests.strategies.file_damages import damages

REACHED, STEPS = 200_000, 300_000
"""How many steps are in the checkpoint, and in the store. A chunk has 65 536 rows."""

Damage = Callable[[Path], Any]


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    """Return a model with three outputs: rows of two numbers, integers, and rows of one or two numbers."""
    walk = {
        "parameters": {
            "x": {"default_initial_value": [0.25, 0.5], "value": "3.9 * x * (1 - x)"},
            "n": {"default_initial_value": 1, "value": "n + 1"},
        },
        "output_ports": {"x": {"value": "x"}, "n": {"value": "n"}},
    }
    return mdf_loop.compile(graph(walk=walk)["g"], device="cpu")


@pytest.fixture(scope="module")
def unbroken(model: CompiledModel) -> dict[str, Any]:
    results = model.run(steps=STEPS)
    return {name: np.asarray(results[name]) for name in results}


@pytest.fixture(scope="module")
def original(model: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a store and a checkpoint that is older than the last rows of the store."""
    # A checkpoint identifies its store by its path.
    folder = tmp_path_factory.mktemp("stores") / "here"
    folder.mkdir()
    store, checkpoint_path = folder / "rows.zarr", folder / "run.checkpoint"
    model.run(steps=REACHED, output=store, checkpoint=checkpoint_path)
    shutil.copy(checkpoint_path, folder / "earlier")
    model.run(steps=STEPS, output=store, resume=checkpoint_path)
    (folder / "earlier").replace(checkpoint_path)
    return folder.rename(folder.with_name("original"))


@pytest.fixture
def place(original: Path) -> Iterator[Path]:
    here = original.with_name("here")
    shutil.copytree(original, here)
    yield here
    shutil.rmtree(here)


def resumed(model: CompiledModel, place: Path) -> mdf_loop.Results:
    saved = place / "run.checkpoint"
    return model.run(steps=STEPS, output=place / "rows.zarr", resume=saved)


def contents(place: Path) -> dict[str, Any]:
    """Return the bytes of all files and the targets of all links in a folder."""
    return {
        str(file): os.readlink(file) if file.is_symlink() else file.is_file() and file.read_bytes()
        for file in place.rglob("*")
    }


def same_rows(place: Path, expected: dict[str, Any]) -> None:
    with xarray.open_zarr(place / "rows.zarr") as dataset:
        assert set(dataset) == set(expected)
        for name, rows in expected.items():
            assert dataset[name].to_numpy().tobytes() == rows.tobytes()
    for name, rows in expected.items():  # read each array without the metadata of the store
        assert zarr_rows(place / "rows.zarr" / name) == rows.tobytes()


def zarr_rows(array: Path) -> bytes:
    import zarr

    return np.asarray(zarr.open_array(array, mode="r")[...]).tobytes()


# --- what is damaged, and what becomes of it ------------------------------------------------------


def empty_files(*names: str) -> Damage:
    """Return a function that empties files of a store, as a power loss can do."""

    def damage(store: Path) -> None:
        for name in names:
            (store / name).write_bytes(b"")

    return damage


def zero_files(name: str) -> Damage:
    return lambda store: (store / name).write_bytes(bytes((store / name).stat().st_size))


def truncate_files(name: str) -> Damage:
    return lambda store: os.truncate(store / name, (store / name).stat().st_size // 2)


def flip_bit(name: str, at: float = 0.6) -> Damage:
    """Return a function that changes one bit of a file of a store."""

    def damage(store: Path) -> None:
        content = bytearray((store / name).read_bytes())
        content[int(at * len(content))] ^= 4
        (store / name).write_bytes(content)

    return damage


def swap_files(one: str, other: str) -> Damage:
    """Return a function that exchanges two files of a store."""

    def damage(store: Path) -> None:
        (store / one).rename(store / "between")
        (store / other).rename(store / one)
        (store / "between").rename(store / other)

    return damage


def remove_files(name: str) -> Damage:
    def damage(store: Path) -> None:
        if (store / name).is_dir():
            shutil.rmtree(store / name)
        else:
            (store / name).unlink()

    return damage


def edit_metadata(change: Callable[[Any], Any], *names: str) -> Damage:
    """Return a function that changes the metadata of a store or of the named arrays."""

    def damage(store: Path) -> None:
        for name in names or ("",):
            file = store / name / "zarr.json"
            document = json.loads(file.read_text())
            change(document)
            file.write_text(json.dumps(document))

    return damage


def array(name: str, word: str, value: Any) -> Damage:
    """Return a function that changes a metadata entry of an array of a store."""

    def change(document: Any) -> None:
        document["consolidated_metadata"]["metadata"][name][word] = value

    return edit_metadata(change)


def edit_attribute(word: str, value: Any) -> Damage:
    return edit_metadata(lambda document: document["attributes"].__setitem__(word, value))


def without(*path: str) -> Damage:
    def change(document: Any) -> None:
        *outer, last = path
        for word in outer:
            document = document[word]
        del document[last]

    return edit_metadata(change)


WHOLE = "consolidated_metadata", "metadata"
BAD_CODECS = [{"name": "bytes"}, {"name": "unknown"}]
BAD_GRID = {"name": "regular", "configuration": {"chunk_shape": [1 << 50, 1 << 50]}}

MENDED: dict[str, Damage] = {
    "nothing": lambda store: None,
    "metadata of the whole emptied": empty_files("zarr.json"),
    "metadata of the whole cut off": truncate_files("zarr.json"),
    "metadata of the whole zeroed": zero_files("zarr.json"),
    "metadata of an array emptied": empty_files("walk.x/zarr.json"),
    "all metadata emptied": empty_files("zarr.json", "step/zarr.json", "walk.x/zarr.json"),
    "chunks after the checkpoint emptied": empty_files("step/c/3", "walk.n/c/4", "walk.x/c/3/0"),
    "a chunk after the checkpoint removed": remove_files("walk.x/c/3"),
    "a chunk after the checkpoint cut off": truncate_files("step/c/3"),
    "an array's own metadata of another type": edit_metadata(
        lambda document: document.update(data_type="float32"), "walk.n"
    ),
    "left by a kill": lambda store: (store / "walk.x/c/1/0.partial").write_text("half"),
}

REFUSED: dict[str, tuple[Damage, str]] = {
    "no store": (lambda store: shutil.rmtree(store), "its rows were in .* which is not there"),
    "a file": (
        lambda store: (shutil.rmtree(store), store.write_text("")),
        "is there already, and is no Zarr store|cannot be read: Not a directory",
    ),
    "no metadata": (
        remove_files("zarr.json"),
        "is no Zarr store of mdf_loop|'zarr.json' cannot be",
    ),
    "no metadata of ours": (without("attributes"), "no Zarr store"),
    "not streamed": (without("attributes", "streamed_along"), "no Zarr store that a run was"),
    "along nothing": (
        edit_attribute("streamed_along", "nothing"),
        "is 'nothing', which it has not",
    ),
    "along an output": (
        edit_attribute("streamed_along", "walk.x"),
        "is 'walk.x', which has 2 axes",
    ),
    "along another": (edit_attribute("streamed_along", "walk.n"), "grows along 'step'"),
    "along a list": (edit_attribute("streamed_along", [1]), "its attributes are"),
    "no arrays": (without("consolidated_metadata"), "does not say what its arrays are"),
    "an array fewer": (without(*WHOLE, "walk.n"), "not the one that was written .* no 'walk.n'"),
    "no coordinate": (without(*WHOLE, "step"), "streamed_along of it is 'step', which it has not"),
    "no shape": (without(*WHOLE, "walk.x", "shape"), "the shape of 'walk.x' is missing"),
    "no codecs": (without(*WHOLE, "walk.x", "codecs"), "the codecs of 'walk.x' are missing"),
    "no dimensions": (without(*WHOLE, "walk.x", "dimension_names"), "dimensions of 'walk.x' are m"),
    "unknown codec": (array("walk.x", "codecs", BAD_CODECS), "the codecs of 'walk.x' are"),
    "unknown dtype": (array("walk.x", "data_type", "r8"), "the dtype of 'walk.x' is 'r8'"),
    "another dtype": (array("walk.n", "data_type", "uint64"), "'walk.n' is uint64.*, not int64"),
    "another shape": (array("walk.x", "shape", [STEPS, 3]), r"'walk.x' is \[300000, 3\], not"),
    "too short": (array("walk.x", "shape", [5, 2]), "only 5 rows .* the checkpoint says 200000"),
    "shape of texts": (array("walk.x", "shape", ["5", 2]), "the shape of 'walk.x' is"),
    "more axes": (array("walk.x", "shape", [STEPS, 2, 2]), "do not go together"),
    "less than nothing": (array("walk.x", "shape", [-1, 2]), "the shape of 'walk.x' is"),
    "huge chunks": (array("walk.x", "chunk_grid", BAD_GRID), "the chunk shape of 'walk.x' is"),
    "another grid": (
        array("walk.x", "chunk_grid", {"name": "odd"}),
        "chunk shape of .* is missing",
    ),
    "another fill value": (array("walk.x", "fill_value", 3.5), "fill value of 'walk.x' is 3.5"),
    "a whole chunk emptied": (empty_files("walk.x/c/0/0"), "'walk.x/c/0/0' is empty"),
    "a whole chunk zeroed": (zero_files("walk.x/c/0/0"), "'walk.x/c/0/0' is damaged"),
    "a whole chunk cut off": (truncate_files("step/c/0"), "'step/c/0' is damaged"),
    **{
        f"a bit of a whole chunk at {at}": (
            flip_bit("walk.x/c/0/0", at),
            "'walk.x/c/0/0' is damaged",
        )
        for at in (0.0001, 0.01, 0.3, 0.7, 0.999999)
    },
    "chunks that changed places": (
        swap_files("walk.x/c/0/0", "walk.x/c/1/0"),
        "'walk.x/c/0/0' is another chunk than the one that was written",
    ),
    "a whole chunk removed": (remove_files("step/c/0"), "the chunk 'step/c/0' is missing"),
    "an array removed": (remove_files("walk.n"), "the chunk 'walk.n/c/0' is missing"),
    "metadata of another program": (
        lambda store: (store / "zarr.json").write_text("[1, 2]"),
        "no Zarr store",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", MENDED.values(), ids=MENDED)
def test_missing_files_are_computed_again(model, unbroken, place, damage):
    damage(place / "rows.zarr")
    assert resumed(model, place)["walk.x"].shape == (STEPS, 2)
    same_rows(place, unbroken)
    assert not list(place.rglob("*.partial"))


@pytest.mark.parametrize(("damage", "sentence"), REFUSED.values(), ids=REFUSED)
def test_losses_are_reported_before_any_change(model, place, damage, sentence):
    damage(place / "rows.zarr")
    state_before = contents(place)
    with pytest.raises(InputError, match=sentence):
        resumed(model, place)
    assert contents(place) == state_before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (empty_files("walk.x/c/0/0"), "damaged"),
        (truncate_files("walk.x/c/0/0"), "damaged"),
        (flip_bit("walk.x/c/0/0"), "damaged"),
        (remove_files("walk.x/c/0"), "missing"),
    ],
)
def test_results_over_a_damaged_store(model, unbroken, place, damage, what):
    results = resumed(model, place)
    damage(place / "rows.zarr")
    sentence = rf"'c/0/0' of 'walk.x' in '.*rows.zarr' is {what}"
    with pytest.raises(InputError, match=sentence):
        np.asarray(results["walk.x"])
    with pytest.raises(InputError, match=sentence):
        results.save(place / "rows.npz")
    assert results["walk.n"][-2:].tolist() == unbroken["walk.n"][-2:].tolist()


# --- stores of earlier versions -------------------------------------------------------------------


def without_checksums(place: Path) -> None:
    """Change the store and the checkpoint to those of a version that wrote no checksums."""
    store = place / "rows.zarr"
    for name in ("step", "walk.x", "walk.n"):
        for chunk in (file for file in (store / name / "c").rglob("*") if file.is_file()):
            chunk.write_bytes(chunk.read_bytes()[:-4])
        edit = edit_metadata(lambda document: document["codecs"].pop(), name)
        edit(store)
        codecs = json.loads((store / name / "zarr.json").read_text())["codecs"]
        array(name, "codecs", codecs)(store)
    with np.load(place / "run.checkpoint") as saved:
        entries = dict(saved)
    contents = json.loads(entries.pop("mdf_loop.checkpoint").tobytes())
    numbers = iter(range(len(entries)))
    parts, plain_entries = {}, []
    for part, names in contents["parts"].items():
        parts[part] = {}
        for name, how in names.items():
            entry = entries[str(next(numbers))]
            if name == "rows checksums":
                continue
            if name == "rows ":
                document = json.loads(entry.tobytes())
                for about in document["consolidated_metadata"]["metadata"].values():
                    about["codecs"] = about["codecs"][:2]
                entry = np.frombuffer(json.dumps(document).encode(), np.uint8)
            parts[part][name] = how
            plain_entries.append(entry)
    text = json.dumps({**contents, "parts": parts}).encode()
    with (place / "run.checkpoint").open("wb") as stream:
        arrays = {"mdf_loop.checkpoint": np.frombuffer(text, np.uint8)}
        write_arrays(stream, {**arrays, **{str(k): entry for k, entry in enumerate(plain_entries)}})


def test_a_store_without_checksums_is_continued_without_them(model, unbroken, place):
    without_checksums(place)
    resumed(model, place)
    same_rows(place, unbroken)
    codecs = json.loads((place / "rows.zarr" / "walk.x" / "zarr.json").read_text())["codecs"]
    assert [codec["name"] for codec in codecs] == ["bytes", "blosc"]


def test_damages_of_a_store_without_checksums(model, unbroken, place):
    """Check that a chunk which cannot be decoded is one error; changed numbers stay undetected."""
    without_checksums(place)
    results = model.run(steps=STEPS, output=place / "rows.zarr", resume=place / "run.checkpoint")
    chunk = place / "rows.zarr" / "walk.x" / "c" / "0" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:16] + b"\xff" * 400 + content[416:])
    with pytest.raises(InputError, match=r"'c/0/0' of 'walk.x' .* is damaged"):
        np.asarray(results["walk.x"])
    with pytest.raises(InputError, match=r"'walk.x/c/0/0' is damaged"):
        resumed(model, place)


# --- forged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../victim", "..", ".", "", "/tmp/victim", "a/b", "zarr.json", "x\0"]
)
def test_names_that_lead_out_of_the_store(model, place, name):
    victim = place / "victim"
    shutil.copytree(place / "rows.zarr" / "walk.x", victim)

    def forged(document: Any) -> None:
        arrays = document["consolidated_metadata"]["metadata"]
        arrays[name] = {**arrays["walk.x"], "shape": [0, 2]}

    edit_metadata(forged)(place / "rows.zarr")
    state_before = contents(place)
    with pytest.raises(InputError, match=r"is no name of an array"):
        resumed(model, place)
    assert contents(place) == state_before


@pytest.mark.parametrize("name", ["walk.x", "walk.x/c", "walk.x/c/0", "walk.x/c/3/0", "zarr.json"])
def test_links_out_of_the_store(model, place, name):
    victim = place / "victim"
    linked = place / "rows.zarr" / name
    linked.rename(victim)
    linked.symlink_to(victim)
    state_before = contents(place)
    with pytest.raises(InputError, match=rf"'{name}' in it is no plain file"):
        resumed(model, place)
    assert contents(place) == state_before


def test_a_store_behind_a_link(model, unbroken, place):
    (place / "rows.zarr").rename(place / "elsewhere")
    (place / "rows.zarr").symlink_to(place / "elsewhere")
    resumed(model, place)
    same_rows(place, unbroken)
    assert (place / "rows.zarr").is_symlink()


def test_a_run_that_was_done_is_made_longer_with_its_reductions(model, tmp_path):
    store, checkpoint_path = tmp_path / "r.zarr", tmp_path / "c"
    reduce = {"walk.n": "mean", "walk.x": "max"}
    for steps in (100, 300, 300):
        results = model.run(
            steps=steps,
            output=store,
            checkpoint=checkpoint_path,
            resume=checkpoint_path,
            reduce=reduce,
        )
        assert results["walk.n.mean"] == (steps + 3) / 2
    with xarray.open_zarr(store) as dataset:
        assert dataset["walk.n.mean"] == 151.5
        assert dataset["walk.x.max"].shape == (2,)


def test_a_checkpoint_of_more_steps_touches_no_store(model, place):
    state_before = contents(place)
    with pytest.raises(InputError, match=r"of 200000 steps, more than the 1000"):
        model.run(steps=1000, output=place / "rows.zarr", resume=place / "run.checkpoint")
    assert contents(place) == state_before


FORGED: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "another place": (
        lambda about, tails: about["consolidated_metadata"]["metadata"].update({"../victim": {}}),
        "'../victim' is no name of an array",
    ),
    "no metadata": (lambda about, tails: about.clear(), "it is none of mdf_loop"),
    "no rows": (lambda about, tails: tails.clear(), "the last rows of 'walk.x' are not as they"),
    "fewer rows": (lambda about, tails: tails.update(step=tails["step"][1:]), "rows of 'step'"),
    "rows of another type": (
        lambda about, tails: tails.update({"walk.n": tails["walk.n"].astype(float)}),
        "the last rows of 'walk.n'",
    ),
    "an output fewer": (
        lambda about, tails: about["consolidated_metadata"]["metadata"].pop("walk.n"),
        "it is of other outputs",
    ),
}


@pytest.mark.parametrize(("forge", "sentence"), FORGED.values(), ids=FORGED)
def test_a_checkpoint_that_contradicts_the_store(place, forge, sentence):
    opened_stream = Stream(place / "rows.zarr")
    opened_stream._stored_count = REACHED
    snapshot = opened_stream.checkpoint()
    about, tails = json.loads(json.dumps(snapshot.store_metadata)), dict(snapshot.tails)
    forge(about, tails)
    state_before = contents(place)
    with pytest.raises(InputError, match=rf"checkpoint is damaged in what it says .*{sentence}"):
        Stream.resume(
            place / "rows.zarr", REACHED, StoreCheckpoint(about, tails), ["walk.x", "walk.n"]
        )
    assert contents(place) == state_before


def test_a_run_that_begins_does_not_replace_a_store_that_is_damaged(model, place):
    (place / "rows.zarr" / "zarr.json").write_bytes(b"")
    state_before = contents(place)
    with pytest.raises(InputError, match=r"there already, and its metadata are damaged: .* empty"):
        model.run(steps=10, output=place / "rows.zarr", overwrite=True)
    assert contents(place) == state_before


@pytest.mark.slow
@pytest.mark.soak
def test_bytes_that_are_changed_at_random(model, unbroken, place):
    """Check that random changes of metadata and of chunk ends give the same rows or one error."""
    rng = np.random.default_rng(12)
    store = place / "rows.zarr"
    original_files = contents(place)
    files = [file for file in store.rglob("*") if file.name == "zarr.json"]
    for _ in range(times(5, 500)):
        file = files[rng.integers(len(files))]
        data = bytearray(file.read_bytes())
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(data)))
            data[at : at + int(rng.integers(0, 3))] = rng.bytes(int(rng.integers(0, 3)))
        file.write_bytes(data)
        try:
            resumed(model, place)
            same_rows(place, unbroken)
        except InputError:
            pass
        shutil.rmtree(store)
        for name, content in original_files.items():
            if content is not False:
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_bytes(content)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(times(1, 6)))
def test_each_file_is_damaged(model, unbroken, place, seed):
    """Check that emptying, cutting, flipping, removing or swapping any file gives equal rows or one error."""
    store = place / "rows.zarr"
    shutil.copytree(place, place.with_name("before"))
    rng = random.Random(seed)
    ways = [*damages(store, rng)]
    errors = 0
    for _, damage in ways if soaking() else rng.sample(ways, 12):
        damage()
        try:
            resumed(model, place)
        except InputError:
            errors += 1
        else:
            same_rows(place, unbroken)
        shutil.rmtree(place)
        shutil.copytree(place.with_name("before"), place)
    shutil.rmtree(place.with_name("before"))
    assert 0 < errors < len(ways)
