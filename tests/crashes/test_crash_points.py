"""Processes that are killed at each point where they change a file, and the files afterwards.

Each file has its complete old content or its complete new content. The next run gives the same
rows, bit for bit, and leaves no temporary files. The same holds after a power loss that empties
each file which was not forced to the disk.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.crashes.points import lose_power
from tests.crashes.scenarios import prepare
from tests.crashes.server import Server, server
from tests.long_runs.processes import stored_rows
from tests.soak import times

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux"),
]

MOST = 1000
"""More points than there are."""

SUFFIXES = ("json", "npz", "h5", "nc", "csv")
HDF5 = ("rows.h5", "rows.nc")


@pytest.fixture(scope="module")
def processes() -> Iterator[Server]:
    with server() as process_server:
        yield process_server


class Scene:
    """Scenario that is repeated from one initial folder, with its expected final files."""

    def __init__(self, processes: Server, name: str, place: Path) -> None:
        self.here = place / "here"
        self.log = place / "log"
        self._processes = processes
        self._name = name
        self._before = place / "before"
        self._before.mkdir()
        prepare(name, self._before)
        self.old = contents(self._before)
        self.restore_initial_files()
        self.run_to_end()
        self.new = contents(self.here)
        self.count = len(self.log.read_text().splitlines())

    def restore_initial_files(self) -> None:
        """Restore the initial folder."""
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self._before, self.here)

    def use_current_files(self) -> None:
        """Use the current files as the initial folder of the next repetition."""
        shutil.rmtree(self._before)
        shutil.copytree(self.here, self._before)

    def is_killed(self, point: int) -> bool:
        """Return True if the scenario reached the point and was killed there."""
        self.restore_initial_files()
        code = self._processes.run_scenario(self._name, self.here, point)
        assert code in (0, -9), self.printed_text
        return code == -9

    def run_to_end(self) -> None:
        """Run the scenario from the current files to its end."""
        assert self._processes.run_scenario(self._name, self.here) == 0, self.printed_text

    def refusal(self) -> str:
        """Run the scenario, check that it fails, and return the printed message."""
        assert self._processes.run_scenario(self._name, self.here) == 1
        return self.printed_text

    @property
    def printed_text(self) -> str:
        """Text that the process printed."""
        return (self.here.parent / "said").read_text()

    def points(self, usual: int) -> Iterator[int]:
        """Yield points at which the process was killed: some points, or all points in `make soak`."""
        step = max(1, times(self.count // usual, 1))
        for point in range(step // 2, MOST, step):
            if not self.is_killed(point):
                return
            yield point


@pytest.fixture
def scene(processes: Server, tmp_path: Path) -> Callable[[str], Scene]:
    return lambda name: Scene(processes, name, tmp_path)


def contents(folder: Path) -> Mapping[str, bytes]:
    """Return the bytes of all files in a folder by relative path."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def is_damaged(store: Path) -> bool:
    """Return True if the metadata file of the store is empty."""
    return (store / "zarr.json").exists() and not (store / "zarr.json").read_bytes()


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
@pytest.mark.parametrize("begun", [False, True], ids=["from the beginning", "resumed"])
def test_a_run_that_streams(scene, begun, power):
    crash_scene = scene("streamed")
    rows = stored_rows(crash_scene.here / "rows.zarr", "walk.x")
    mean = stored_rows(crash_scene.here / "rows.zarr", "walk.x.mean")
    if begun:  # the killed process resumes a killed run
        assert crash_scene.is_killed(crash_scene.count // 2)
        crash_scene.use_current_files()
    for point in crash_scene.points(2):
        store = crash_scene.here / "rows.zarr"
        if power:
            lose_power(crash_scene.log)
        elif store.exists():
            stored_content = stored_rows(store, "walk.x")
            assert stored_content.tobytes() == rows[: len(stored_content)].tobytes(), point
        if power and not (crash_scene.here / "run.checkpoint").exists() and is_damaged(store):
            assert "its metadata are damaged: zarr.json: it is empty" in crash_scene.refusal()
            shutil.rmtree(store)
        crash_scene.run_to_end()
        assert stored_rows(store, "walk.x").tobytes() == rows.tobytes(), point
        assert stored_rows(store, "walk.x.mean") == mean
        assert names(crash_scene.here) == {"rows.zarr", "run.checkpoint"}, point
        left = {file.name for file in store.rglob("*") if file.is_file()}
        assert left == {"zarr.json", "c", "0", "1", "2", "3"}, point


@pytest.mark.soak
@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
def test_a_run_in_memory(scene, power):
    crash_scene = scene("in_memory")
    for point in crash_scene.points(1):
        if power:
            lose_power(crash_scene.log)
        for name in ("rows.npz", "state.npz"):
            assert contents(crash_scene.here).get(name) in (None, crash_scene.new[name]), point
        crash_scene.run_to_end()
        files = contents(crash_scene.here)
        assert set(files) == set(crash_scene.new), point
        assert all(files[name] == crash_scene.new[name] for name in ("rows.npz", "state.npz")), (
            point
        )


# --- files ----------------------------------------------------------------------------------------


def without_run(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the files of a store without the metadata that contain the run number."""
    return {name: data for name, data in files.items() if not name.endswith("rows.zarr/zarr.json")}


@pytest.mark.soak
@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
@pytest.mark.parametrize("name", ["anew", "saved_store"])
def test_a_store_that_replaces_another(scene, name, power):
    """Check that the store is the old one or the new one; a store of a run can have part of the new rows."""
    crash_scene = scene(name)
    old, new = without_run(crash_scene.old), without_run(crash_scene.new)
    for point in crash_scene.points(1):
        if power:
            lose_power(crash_scene.log)
        files = {
            n: data for n, data in contents(crash_scene.here).items() if n.startswith("rows.zarr/")
        }
        stored_content = without_run(files)
        if name == "saved_store":
            assert stored_content in (old, new), point
        else:
            assert stored_content == old or "rows.zarr/walk.x/zarr.json" in stored_content, point
        if power and is_damaged(crash_scene.here / "rows.zarr"):
            assert "its metadata are damaged: zarr.json: it is empty" in crash_scene.refusal()
            shutil.rmtree(crash_scene.here / "rows.zarr")
        crash_scene.run_to_end()
        assert without_run(contents(crash_scene.here)) == new, point
        assert names(crash_scene.here) == {"rows.zarr"}, point


def without_times(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the contents of files without the creation times that some versions of HDF5 write."""
    return {name: _arrays(data) if name in HDF5 else data for name, data in files.items()}


def _arrays(data: bytes) -> dict[str, bytes]:
    with h5py.File(io.BytesIO(data)) as file:
        return {name: file[name][()].tobytes() for name in file}


@pytest.mark.soak
@pytest.mark.parametrize("power", [True, False], ids=["power lost", "killed"])
def test_files_that_replace_others(scene, power):
    crash_scene = scene("files")
    old, new = without_times(crash_scene.old), without_times(crash_scene.new)
    for point in crash_scene.points(2):
        if power:
            lose_power(crash_scene.log)
        files = without_times(contents(crash_scene.here))
        for name in (f"rows.{suffix}" for suffix in SUFFIXES):
            assert files[name] in (old[name], new[name]), (point, name)
        for name in ("model.yaml", "model.npz"):
            assert files.get(name) in (None, new[name]), (point, name)
        assert "model.npz" in files or "model.yaml" not in files
        # The file could belong to another program.
        if "model.npz" in files and "model.yaml" not in files:
            assert "give the model another name, or remove the file" in crash_scene.refusal()
            (crash_scene.here / "model.npz").unlink()
        crash_scene.run_to_end()
        assert without_times(contents(crash_scene.here)) == new, point


@pytest.mark.slow
def test_lose_power_empties_unsynced_files(tmp_path):
    """Check that files renamed after a write without a sync are emptied."""
    for name in ("a", "b", "c", "d/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    done = [("+", "x"), (">", "x", "a"), ("+", "b"), ("-", "b"), ("+", "c"), ("-", "c"), ("+", "c")]
    done += [("+", "y/e"), (">", "y", "d")]
    lines = ("\t".join([what, *(str(tmp_path / file) for file in files)]) for what, *files in done)
    (tmp_path / "log").write_text("\n".join(lines))
    assert [file.name for file in lose_power(tmp_path / "log")] == ["a", "c", "e"]
    assert np.sum([(tmp_path / name).stat().st_size for name in ("a", "b", "c", "d/e")]) == 1
