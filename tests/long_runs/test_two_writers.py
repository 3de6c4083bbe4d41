"""Two processes that write to one store: the store has the rows of exactly one of them."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from msgspec.structs import asdict, replace

from mdf_loop.cli import cli
from mdf_loop.run.recording.lock import SILENT_SECONDS, describe_this_process
from tests.long_runs.processes import Forks, Process, forks, saved
from tests.models.timed import ADDING
from tests.soak import times

pytestmark = pytest.mark.slow

STEPS = 300_000
"""They take a second or so."""

FOREVER = 100_000_000
WRITTEN = "'../x.zarr' is being written by run"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Forks, Forks]]:
    with forks() as first, forks() as second:
        yield first, second


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """Write the same model into two folders beside the store."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = (saved(folder, ADDING) for folder in folders)
    return first, second


def printed_text(model: Path) -> str:
    return (model.parent / "said").read_text()


def rows_of(store: Path, every: int = 1) -> tuple[float, int]:
    """Return the parameter of the run that wrote the store and the row count, and check the rows.

    A killed run may have written the last rows of one array and not yet of the other.
    """
    by = zarr.open_array(store / "add.by", mode="r")[...]
    x = zarr.open_array(store / "add.x", mode="r")[...]
    assert len(set(by)) <= 1
    whose = float(next(iter((*by[:1], *x[:1])), 0.0))
    np.testing.assert_array_equal(x, whose * (1 + every * np.arange(len(x))))
    return whose, min(len(by), len(x))


def both(
    servers: tuple[Forks, Forks],
    models: tuple[Path, Path],
    words: tuple[dict[str, Any], dict[str, Any]],
    starts: tuple[float, float] = (0.0, 0.0),
    kills: tuple[float | None, float | None] = (None, None),
) -> list[int]:
    """Start two runs after delays, kill them after further delays, and return their exit codes."""

    def one(number: int) -> int:
        time.sleep(starts[number])
        options = {"output": "../x.zarr", "steps": STEPS, **words[number]}
        return servers[number].run(models[number], kills[number], **options)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, (0, 1)))


# --- the same command twice ---------------------------------------------------------------------


def test_a_second_writer_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, ADDING)
    words = ["run", "model.yaml", "--device", "cpu", "--output", "x.zarr", "--every", "100"]
    words += ["--steps", str(FOREVER)]
    first = Process(*words, cwd=tmp_path)
    first.wait_until(Path("x.zarr").exists)
    owner = json.loads(Path("x.zarr.lock").read_text())["mdf_loop_lock"][0]
    second = CliRunner().invoke(cli, [*words, "--overwrite"])
    assert (second.exit_code, second.stdout) == (2, "")
    holder = f"run {owner['run']} (process {owner['process']} on {owner['host']}, since"
    assert second.stderr.startswith(f"InputError: 'x.zarr' is being written by {holder}")
    assert len(second.stderr.splitlines()) == 2
    assert first.send(signal.SIGINT).code == 130
    assert rows_of(tmp_path / "x.zarr", 100)[1] > 1
    assert {path.name for path in tmp_path.iterdir()} == {"model.yaml", "x.zarr"}


def test_two_runs_that_go_on_from_one_checkpoint(servers, models, tmp_path):
    words = {"checkpoint": "../c", "output": "../x.zarr", "every": 100}
    assert servers[0].run(models[0], steps=1000, **words) == 0
    goes_on = {**words, "resume": "../c", "checkpoint_every": 0.2, "steps": FOREVER}
    codes = both(servers, models, (goes_on, goes_on), kills=(1.5, 1.5))
    assert sorted(codes) == [-signal.SIGKILL, 1], [printed_text(model) for model in models]
    assert WRITTEN in printed_text(models[codes.index(1)])
    by, count = rows_of(tmp_path / "x.zarr", 100)
    assert by == 1.0
    assert servers[1].run(models[1], **words, resume="../c", steps=100 * count + STEPS) == 0
    assert rows_of(tmp_path / "x.zarr", 100) == (1.0, count + STEPS // 100)
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "c", "x.zarr"}


# --- owners that are gone -----------------------------------------------------------------------


def test_the_store_of_a_run_that_was_killed(servers, models, tmp_path):
    words = ({"steps": FOREVER}, {"set": {"add.by": 2.0}})
    first, second = both(servers, models, words, starts=(0.0, 1.5), kills=(1.0, None))
    assert (first, second) == (-signal.SIGKILL, 0), printed_text(models[1])
    assert rows_of(tmp_path / "x.zarr") == (2.0, STEPS)
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "x.zarr"}


def test_the_store_of_a_run_on_another_host(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, ADDING)
    words = ["run", "model.yaml", "--device", "cpu", "--output", "x.zarr", "--steps", "10"]
    far = replace(describe_this_process("20260101-000000-00000000"), host="far", system="far 1 2")
    for silent, code in ((SILENT_SECONDS - 10, 2), (SILENT_SECONDS + 1, 0)):
        there = {"mdf_loop_lock": [asdict(replace(far, heard=time.time() - silent))]}
        Path("x.zarr.lock").write_text(json.dumps(there))
        ended = CliRunner().invoke(cli, words)
        assert ended.exit_code == code
        assert Path("x.zarr").exists() is (code == 0)
    assert rows_of(tmp_path / "x.zarr") == (1.0, 10)
    assert not Path("x.zarr.lock").exists()


# --- at any moment ------------------------------------------------------------------------------


@pytest.mark.soak
def test_pairs_of_runs_that_begin_and_end_at_any_moment(servers, models, tmp_path):
    rng = np.random.default_rng(12)
    for _ in range(times(2, 50)):
        words = [
            {"set": {"add.by": by}, **({"overwrite": True} if rng.random() < 0.5 else {})}
            for by in (1.0, 2.0)
        ]
        starts = tuple(rng.uniform(0, 1, 2) * rng.choice([0.01, 0.5]))
        kills = [rng.uniform(0, 1) if rng.random() < 0.3 else None for _ in range(2)]
        codes = both(servers, models, tuple(words), starts, tuple(kills))
        details = [codes, words, starts, kills, [printed_text(model) for model in models]]
        for code, model in zip(codes, models, strict=True):
            assert (
                code in (0, -signal.SIGKILL) or WRITTEN in printed_text(model) or _has_rows(model)
            ), details
        if (tmp_path / "x.zarr").exists():
            _, count = rows_of(tmp_path / "x.zarr")
            assert count == STEPS or -signal.SIGKILL in codes, details
            if rng.random() < 0.7:
                shutil.rmtree(tmp_path / "x.zarr")


def _has_rows(model: Path) -> bool:
    return "'../x.zarr' has the rows of run" in printed_text(model)
