"""Runs that are killed (`kill -9`) and resumed: no file is corrupt, and few steps are lost."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.long_runs.processes import (
    ENDLESS,
    WALK,
    Forks,
    Process,
    checkpoint_parts,
    forks,
    mdf_loop,
    saved,
    stored_rows,
    ticks,
)
from tests.soak import times

pytestmark = pytest.mark.slow

EVERY = 0.1
"""Seconds between two checkpoints."""

STEPS = 1_000_000

FILES = {"model.yaml", "run.checkpoint", "said", "state.npz", "ticks"}


@pytest.fixture(scope="module")
def server() -> Iterator[Forks]:
    with forks() as process_server:
        yield process_server


@pytest.fixture(scope="module")
def unbroken(server: Forks, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Return the rows and the final state of an undisturbed run."""
    model = saved(tmp_path_factory.mktemp("unbroken"), WALK)
    assert server.run(model, steps=STEPS, output="rows.npz") == 0
    return np.load(model.parent / "rows.npz")["walk.x"], _state(model.parent)


def _state(folder: Path) -> dict[str, Any]:
    return dict(np.load(folder / "state.npz"))


def _same(actual: Any, expected: Any) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


def _lost_little(folder: Path, count: int) -> None:
    """Check that each save began as soon as the save interval was over.

    All but the last tick belong to completed chunks. Chunks that are not in the checkpoint must end
    within the save interval, or within the duration of a save if that duration is longer.
    """
    progress = ticks(folder)
    later = [k for k, (_, done) in enumerate(progress[:-1]) if done > count]
    if later:
        first = later[0]
        save = progress[first][0] - progress[first - 1][0]
        assert progress[later[-1]][0] - progress[first][0] < max(EVERY, save)


# --- a hundred kills ---------------------------------------------------------------------------


def _kill_and_resume(
    server: Forks,
    model: Path,
    kills: int,
    seed: int,
    look: Callable[[], int],
    **words: Any,
) -> Iterator[None]:
    """Kill a run repeatedly at random moments and resume it; yield after each completed run.

    `look` checks what is there after a kill, and says how many steps are safe.
    """
    moments = np.random.default_rng(seed)
    safe = killed = 0
    while killed < kills or safe:
        delay = moments.uniform(0.0, 0.5) if killed < kills else None
        code = server.run(
            model,
            delay,
            **words,
            checkpoint="run.checkpoint",
            checkpoint_every=EVERY,
            resume="run.checkpoint",
        )
        if code == 0:
            yield
            safe = 0
            continue
        assert code == -9, (model.parent / "said").read_text()
        killed += 1
        saved = look()
        assert saved >= safe
        safe = saved
        _lost_little(model.parent, safe)


def _reached(folder: Path) -> int:
    """Return the number of steps in the checkpoint."""
    path = folder / "run.checkpoint"
    return int(checkpoint_parts(path)["course"]["done"]) if path.exists() else 0


def _streamed(folder: Path) -> Any:
    """Return the stored rows, or the rows of the checkpoint before the store exists."""
    if (folder / "rows.zarr").exists():
        return stored_rows(folder / "rows.zarr", "walk.x")
    path = folder / "run.checkpoint"
    return checkpoint_parts(path)["kept"]["rows walk.x"] if path.exists() else np.zeros(0)


@pytest.mark.soak
def test_kills_of_a_run_that_streams(server, unbroken, tmp_path):
    rows, state = unbroken
    model = saved(tmp_path, WALK)
    store = tmp_path / "rows.zarr"

    def look() -> int:
        safe = _reached(tmp_path)
        stored = _streamed(tmp_path)
        assert len(stored) >= safe
        _same(stored, rows[: len(stored)])
        return safe

    words = {"steps": STEPS, "output": "rows.zarr"}
    for _ in _kill_and_resume(server, model, times(3, 100), 1, look, **words):
        _same(stored_rows(store, "walk.x"), rows)
        assert _state(tmp_path) == state
        assert {path.name for path in tmp_path.iterdir()} == FILES | {"rows.zarr"}
        shutil.rmtree(store)
        (tmp_path / "run.checkpoint").unlink()


@pytest.mark.soak
def test_kills_of_a_run_in_memory(server, unbroken, tmp_path):
    rows, state = unbroken
    model = saved(tmp_path, WALK)

    def look() -> int:
        safe = _reached(tmp_path)
        if safe:
            recorded = checkpoint_parts(tmp_path / "run.checkpoint")["kept"]["rows walk.x"]
            _same(recorded, rows[:safe])
        if (tmp_path / "rows.npz").exists():  # killed after the last write, or never
            with np.load(tmp_path / "rows.npz") as arrays:
                _same(arrays["walk.x"], rows)
        return safe

    words = {"steps": STEPS, "output": "rows.npz", "only": ["walk.x"]}
    words |= {"reduce": {"walk.x": ["max", "last"]}}
    for _ in _kill_and_resume(server, model, times(5, 100), 2, look, **words):
        with np.load(tmp_path / "rows.npz") as arrays:
            _same(arrays["walk.x"], rows)
            assert (arrays["walk.x.max"], arrays["walk.x.last"]) == (rows.max(), rows[-1])
        assert _state(tmp_path) == state
        assert {path.name for path in tmp_path.iterdir()} == FILES | {"rows.npz"}
        (tmp_path / "rows.npz").unlink()
        (tmp_path / "run.checkpoint").unlink()


@pytest.mark.soak
def test_kills_of_a_while_loop(server, tmp_path):
    model = saved(tmp_path, ENDLESS)
    words = {"options": {"max_iterations": STEPS}, "output": "rows.npz"}
    assert server.run(model, **words) == 0
    path = tmp_path / "rows.npz"
    with np.load(path) as arrays:
        whole = dict(arrays)
    path.unlink()

    def look() -> int:
        saved_at = tmp_path / "run.checkpoint"
        if not saved_at.exists():
            return 0
        stepper = checkpoint_parts(saved_at)["course"]
        safe = int(stepper["iterations"])
        (rows,) = (array for name, array in stepper.items() if name.startswith("rows of "))
        _same(rows, whole["A.r1"][:safe])
        return safe

    for _ in _kill_and_resume(server, model, times(4, 60), 3, look, **words):
        with np.load(path) as arrays:
            assert list(arrays) == list(whole)
            for name, array in whole.items():
                _same(arrays[name], array)
        path.unlink()
        (tmp_path / "run.checkpoint").unlink()


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_command_goes_on(unbroken, tmp_path):
    """Check that one command line starts a run and also continues it after each kill."""
    rows, _ = unbroken
    model = saved(tmp_path, WALK)
    path = tmp_path / "run.checkpoint"
    command = ("run", model.name, "--steps", STEPS, "--output", "rows.zarr", "--device", "cpu")
    go_on = ("--checkpoint", path.name, "--resume", path.name, "--checkpoint-every", "50ms")
    safe = 0
    for _ in range(2):
        process = Process(*command, *go_on, cwd=tmp_path)
        process.wait_until(lambda before=safe: path.exists() and _reached(tmp_path) > before)
        assert process.send(signal.SIGKILL).code == -signal.SIGKILL
        safe = _reached(tmp_path)
        stored = _streamed(tmp_path)
        assert safe <= len(stored) < STEPS
        _same(stored, rows[: len(stored)])
    ended = mdf_loop(*command, *go_on, cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    _same(stored_rows(tmp_path / "rows.zarr", "walk.x"), rows)
