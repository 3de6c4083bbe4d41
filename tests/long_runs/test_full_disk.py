"""Full disks: the rows so far are saved, and the run continues once there is space."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

from tests.long_runs.processes import (
    WALK,
    Ended,
    checkpoint_parts,
    mdf_loop,
    saved,
    stored_rows,
)

STEPS = 500_000
"""Their rows are 4 MB."""


@dataclass(frozen=True)
class Disk:
    """Small file system in memory that only processes within its name space see.

    Other processes see the files in `folder`.
    """

    model: Path
    place: Path
    folder: Path
    within: tuple[str, ...]

    def run(self, *words: Any) -> Ended:
        """Run `mdf-loop run` with the model, with the disk mounted at `disk`."""
        return mdf_loop(
            "run",
            "model.yaml",
            "--device",
            "cpu",
            *words,
            cwd=self.model.parent,
            within=self.within,
        )

    def resize(self, size: str) -> None:
        """Change the size of the disk."""
        options = f"remount,size={size}"
        subprocess.run([*self.within, "mount", "-o", options, self.place], check=True)


def may_mount() -> bool:
    tried = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None
        and shutil.which("nsenter") is not None
        and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    )


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not may_mount(), reason="needs a user name space, to mount a disk"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    model = saved(tmp_path, WALK)
    place = tmp_path / "disk"
    place.mkdir()
    script = f"mount -t tmpfs -o size=3m tmpfs '{place}' && echo && exec sleep 1000"
    command = ["unshare", "-Urm", "sh", "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        within = ("nsenter", "--preserve-credentials", "-U", "-m", "-w", "-t", str(holder.pid))
        yield Disk(model, place, Path(f"/proc/{holder.pid}/root{place}"), within)
        holder.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = saved(tmp_path_factory.mktemp("unbroken"), WALK)
    words = ("run", model, "--steps", STEPS, "--output", "rows.npz", "--device", "cpu")
    assert mdf_loop(*words, cwd=model.parent).code == 0
    with np.load(model.parent / "rows.npz") as arrays:
        return arrays["walk.x"]


def same(actual: Any, expected: Any) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


def full(ended: Ended, saved_at: str) -> str:
    """Return the error message about a full disk and check its hint."""
    first, hint = ended.err.splitlines()
    assert ended.code == 2
    assert hint == f"  hint: free disk space, and continue with --resume '{saved_at}'"
    return first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved_at", "every"), [("run.checkpoint", "50ms"), ("disk/run.checkpoint", "1h")]
)
def test_rows_that_are_streamed(disk, unbroken, saved_at, every):
    """Check streamed rows on a full disk, where the last checkpoint still has space."""
    words = ("--steps", STEPS, "--output", "disk/rows.zarr", "--checkpoint", saved_at)
    words += ("--native", "off")
    process = disk.run(*words, "--checkpoint-every", every)
    rows = stored_rows(disk.folder / "rows.zarr", "walk.x")
    assert 50_000 < len(rows) < STEPS
    same(rows, unbroken[: len(rows)])
    reason = f"the disk is full; 'disk/rows.zarr' has the first {len(rows)} rows"
    if saved_at.startswith("disk/") and "run.checkpoint': No space" in process.err:
        reason = f"cannot write '{disk.place}/run.checkpoint': No space left on device"
    assert full(process, saved_at) == f"DiskFullError: {reason}"
    stopped = f"stopped: {len(rows)} of {STEPS} steps; {reason.split(';')[0]}"
    assert process.out.splitlines()[-1].startswith(stopped)
    done = checkpoint_parts(disk.folder.parent / saved_at)["course"]["done"]
    assert done == len(rows)

    disk.resize("20m")
    process = disk.run(*words, "--resume", saved_at)
    assert process.code == 0, process.err
    same(stored_rows(disk.folder / "rows.zarr", "walk.x"), unbroken)


@pytest.mark.slow
def test_the_checkpoint(disk, unbroken):
    words = ("--steps", STEPS, "--output", "rows.npz", "--checkpoint", "disk/run.checkpoint")
    words += ("--native", "off")
    process = disk.run(*words, "--checkpoint-every", "50ms", "--json")
    sentence = f"cannot write '{disk.place}/run.checkpoint': No space left on device"
    assert full(process, "disk/run.checkpoint") == f"DiskFullError: {sentence}"
    rows = _npz(disk.model.parent / "rows.npz")
    assert 50_000 < len(rows) < STEPS
    same(rows, unbroken[: len(rows)])
    assert process.json["stopped_by"] == "disk_full"
    assert process.json["reason"] == f"{len(rows)} of {STEPS} steps; {sentence}"
    recorded = checkpoint_parts(disk.folder / "run.checkpoint")["kept"]["rows walk.x"]
    assert 10_000 < len(recorded) <= len(rows)
    same(recorded, unbroken[: len(recorded)])
    assert [path.name for path in disk.folder.iterdir()] == ["run.checkpoint"]

    disk.resize("40m")
    process = disk.run(*words, "--resume", "disk/run.checkpoint")
    assert process.code == 0, process.err
    same(_npz(disk.model.parent / "rows.npz"), unbroken)


@pytest.mark.slow
def test_a_checkpoint_that_was_never_written_is_not_named(disk):
    disk.resize("4k")
    words = (
        "--steps",
        STEPS,
        "--checkpoint",
        "disk/run.checkpoint",
        "--checkpoint-every",
        "1h",
        "--json",
    )
    process = disk.run(*words)
    assert process.code == 2
    advice = "free disk space, and start again: there was no space for a checkpoint"
    assert process.err.endswith(f"No space left on device\n  hint: {advice}\n")
    assert list(disk.folder.iterdir()) == []


# --- files that are written at the end ----------------------------------------------------------


def _npz(path: Path) -> Any:
    with np.load(path) as arrays:
        return arrays["walk.x"]


def _h5(path: Path) -> Any:
    with h5py.File(path) as file:
        return file["walk.x"][...]


def _nc(path: Path) -> Any:
    with xarray.open_dataset(path) as dataset:
        return dataset["walk.x"].to_numpy()


def _csv(path: Path) -> Any:
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)


def _json(path: Path) -> Any:
    return np.array(json.loads(path.read_text())["outputs"]["walk.x"]["data"])


@pytest.mark.slow
@pytest.mark.parametrize("read", [_npz, _h5, _nc, _csv, _json])
def test_files_written_at_the_end_of_a_run(disk, unbroken, read):
    output = f"disk/rows.{read.__name__[1:]}"
    words = ("--steps", STEPS, "--output", output, "--checkpoint", "run.checkpoint")
    process = disk.run(*words)
    sentence = f"cannot write '{output}': No space left on device"
    assert full(process, "run.checkpoint") == f"DiskFullError: {sentence}"
    assert list(disk.folder.iterdir()) == []

    disk.resize("80m")
    process = disk.run(*words, "--resume", "run.checkpoint")
    assert process.code == 0, process.err
    same(read(disk.folder.parent / output), unbroken)
