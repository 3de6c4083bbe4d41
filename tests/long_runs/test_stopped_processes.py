"""Commands stopped by a signal, a limit or their own values save all completed steps."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.long_runs.processes import (
    ENDLESS,
    GROWING,
    WALK,
    Ended,
    Process,
    checkpoint_parts,
    forks,
    mdf_loop,
    saved,
    stored_rows,
    ticks,
)

pytestmark = pytest.mark.slow

FOREVER = 10**8
"""More steps than there is time for; there is room for their rows."""

OFTEN = ("--checkpoint", "run.checkpoint", "--checkpoint-every", "50ms")

GO_ON = "to resume, run the same command with --resume 'run.checkpoint'\n"

SENTENCES = {
    "interrupted": "the run was interrupted",
    "time_limit": "the time limit of the run was over",
    "max_iterations": "it reached the bound that was set for this run (max_iterations)",
}


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    return saved(tmp_path, WALK)


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return saved(tmp_path, ENDLESS)


def run(model: Path, *words: Any) -> Ended:
    return mdf_loop("run", model.name, "--device", "cpu", *words, cwd=model.parent)


def interrupted(model: Path, *words: Any) -> Ended:
    """Send Ctrl-C after at least two checkpoints and return the ended process."""
    process = Process("run", model.name, "--device", "cpu", *words, *OFTEN, cwd=model.parent)
    path = model.parent / "run.checkpoint"
    save_times: set[int] = set()

    def twice() -> bool:
        if path.exists():
            save_times.add(path.stat().st_mtime_ns)
        return len(save_times) >= 2

    process.wait_until(twice)
    return process.send(signal.SIGINT)


def unbroken(model: Path, steps: int) -> Any:
    assert run(model, "--steps", steps, "--output", "unbroken.npz").code == 0
    with np.load(model.parent / "unbroken.npz") as arrays:
        return arrays["walk.x"]


def printed_stop(ended: Ended) -> tuple[int, str]:
    """Return the printed step count and stop reason."""
    match = re.search(
        r"^stopped: (\d+) (?:of \d+ steps|iterations? of A\.loop); (.*)$", ended.out, re.M
    )
    assert match is not None, ended
    return int(match[1]), match[2]


def iterations_text(count: int) -> str:
    """Return a number of iterations as the command line prints it."""
    return "1 iteration" if count == 1 else f"{count} iterations"


def same(actual: Any, expected: Any) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


# --- over time --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("output", ["rows.npz", "rows.zarr"])
def test_ctrl_c_saves_completed_steps(walk, output):
    process = interrupted(walk, "--steps", FOREVER, "--output", output)
    count, stop_reason = printed_stop(process)
    assert (process.code, process.err, stop_reason) == (130, GO_ON, SENTENCES["interrupted"])
    rows = _rows(walk.parent / output)
    assert len(rows) == count
    parts = checkpoint_parts(walk.parent / "run.checkpoint")
    assert parts["course"]["done"] == count
    unbroken_run = unbroken(walk, count + 100_000)
    same(rows, unbroken_run[:count])

    on = run(walk, "--steps", len(unbroken_run), "--output", output, "--resume", "run.checkpoint")
    assert on.code == 0, on.err
    same(_rows(walk.parent / output), unbroken_run)


def _rows(path: Path) -> Any:
    if path.suffix == ".zarr":
        return stored_rows(path, "walk.x")
    with np.load(path) as arrays:
        return arrays["walk.x"]


@pytest.mark.slow
def test_a_time_limit_saves_completed_steps(walk):
    process = run(walk, "--steps", FOREVER, "--output", "rows.npz", "--time-limit", "500ms")
    count, stop_reason = printed_stop(process)
    assert (process.code, process.err, stop_reason) == (0, "", SENTENCES["time_limit"])
    rows = _rows(walk.parent / "rows.npz")
    assert len(rows) == count > 0
    same(rows, unbroken(walk, count))


@pytest.mark.slow
def test_json_has_the_stop_reason_and_the_rows(walk):
    words = ("--steps", FOREVER, "--time-limit", "100ms", "--only", "walk.x")
    process = run(walk, *words, "--json")
    document = process.json
    assert (process.code, document["stopped_by"]) == (0, "time_limit")
    rows = document["outputs"]["walk.x"]["data"]
    assert document["reason"] == f"{len(rows)} of {FOREVER} steps; {SENTENCES['time_limit']}"
    same(np.array(rows), unbroken(walk, len(rows)))


@pytest.mark.slow
@pytest.mark.parametrize(("nan", "code"), [("stop", 0), ("error", 2)])
def test_a_value_that_is_not_finite(tmp_path, nan, code):
    model = saved(tmp_path, GROWING)
    words = ("--steps", FOREVER, "--output", "rows.zarr", "--nan", nan)
    process = run(model, *words, *OFTEN)
    assert process.code == code, process.err
    rows = stored_rows(tmp_path / "rows.zarr", "grow.x")
    assert np.isfinite(rows[:-1]).all()
    assert np.isinf(rows[-1])
    sentence = f"'grow.x' was infinite at step {len(rows) - 1}"
    if nan == "stop":
        assert process.out.endswith(f"stopped: {len(rows)} of {FOREVER} steps; {sentence}\n")
    else:
        assert process.err.startswith(f"NotFiniteError: {sentence}\n")
        assert "hint: 'rows.zarr' has the partial results" in process.err
    expected = run(model, "--steps", len(rows), "--output", "unbroken.npz")
    assert expected.code == 0
    with np.load(tmp_path / "unbroken.npz") as arrays:
        same(rows, arrays["grow.x"])


@pytest.mark.slow
def test_ctrl_c_is_obeyed_at_once(walk):
    """Check that Ctrl-C ends a run without a noticeable delay.

    `benchmarks/chunking.py` measures the delay.
    """
    waited = []
    with forks() as server:
        for _ in range(5):
            words = {"steps": FOREVER, "reduce": {"walk.x": "mean"}}
            assert server.run(walk, 0.5, signal.SIGINT, **words) == 0
            assert SENTENCES["interrupted"] in (walk.parent / "said").read_text()
            waited.append(ticks(walk.parent)[-1][0] - server.signalled)
    assert sorted(waited)[2] < 0.5


@pytest.mark.slow
def test_a_value_that_is_not_finite_in_json(tmp_path):
    document = run(saved(tmp_path, GROWING), "--steps", FOREVER, "--nan", "stop", "--json").json
    assert document["stopped_by"] == "not_finite"
    count = document["outputs"]["grow.x"]["shape"][0]
    sentence = f"'grow.x' was infinite at step {count - 1}"
    assert document["reason"] == f"{count} of {FOREVER} steps; {sentence}"
    assert document["outputs"]["grow.x"]["data"][-1] == "inf"


# --- a while-loop that would never end ----------------------------------------------------------


def loop_rows(path: Path) -> Any:
    with np.load(path) as arrays:
        return arrays["A.r1"]


@pytest.mark.slow
def test_the_iteration_bound_ends_an_endless_loop(endless):
    words = ("--max-iterations", 200_000)
    process = run(endless, *words, "--output", "rows.npz")
    assert (process.code, process.err) == (0, "")
    assert printed_stop(process) == (200_000, SENTENCES["max_iterations"])
    assert f"loop A.loop: 200000 iterations; {SENTENCES['max_iterations']}" in process.out
    assert len(loop_rows(endless.parent / "rows.npz")) == 200_000
    document = run(endless, *words, "--json").json
    assert document["stopped_by"] == "max_iterations"
    assert document["loops"] == {"A.loop": {"iterations": 200_000, "stopped_by": "max_iterations"}}
    assert document["outputs"]["A.n"]["data"] == 200_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("50ms", ()),
        ("2s", ("--native", "off")),
    ],  # in segments at once; after an attempt to run whole there are few rows
)
def test_a_time_limit_ends_an_endless_loop(endless, limit, words):
    process = run(endless, *words, "--time-limit", limit, "--output", "rows.npz")
    assert (process.code, process.err) == (0, "")
    count, stop_reason = printed_stop(process)
    assert stop_reason == SENTENCES["time_limit"]
    assert f"loop A.loop: {iterations_text(count)}; {stop_reason}" in process.out
    rows = loop_rows(endless.parent / "rows.npz")
    assert len(rows) == count
    words = (*words, "--max-iterations", count)
    assert run(endless, *words, "--output", "capped.npz").code == 0
    same(rows, loop_rows(endless.parent / "capped.npz"))


@pytest.mark.slow
def test_a_time_limit_in_json(endless):
    document = run(endless, "--time-limit", "200ms", "--native", "off", "--json").json  # few rows
    count = document["outputs"]["A.n"]["data"]
    assert document["stopped_by"] == "time_limit"
    assert document["reason"] == f"{count} iterations of A.loop; {SENTENCES['time_limit']}"
    assert document["loops"] == {"A.loop": {"iterations": count, "stopped_by": "time_limit"}}
    assert len(document["outputs"]["A.r1"]["data"]) == count


def test_ctrl_c_ends_an_endless_loop_which_can_be_resumed(endless):
    cap = ("--max-iterations", FOREVER, "--native", "off")  # few rows, which are read quickly
    process = interrupted(endless, *cap, "--output", "rows.npz")
    count, stop_reason = printed_stop(process)
    assert (process.code, process.err, stop_reason) == (130, GO_ON, SENTENCES["interrupted"])
    assert f"loop A.loop: {iterations_text(count)}; {stop_reason}" in process.out
    rows = loop_rows(endless.parent / "rows.npz")
    assert len(rows) == count

    process = run(
        endless,
        *cap,
        *OFTEN,
        "--resume",
        "run.checkpoint",
        "--time-limit",
        "300ms",
        "--output",
        "rows.npz",
    )
    further, stop_reason = printed_stop(process)
    assert stop_reason == SENTENCES["time_limit"]
    assert further > count
    assert run(endless, "--max-iterations", further, "--output", "capped.npz").code == 0
    unbroken_run = loop_rows(endless.parent / "capped.npz")
    same(loop_rows(endless.parent / "rows.npz"), unbroken_run)
    same(rows, unbroken_run[:count])


def test_json_of_a_loop_ended_by_ctrl_c(endless):
    words = ("--native", "off", "--json")  # few rows, which are read quickly
    process = interrupted(endless, "--max-iterations", FOREVER, *words)
    document = process.json
    count = document["outputs"]["A.n"]["data"]
    assert (process.code, document["stopped_by"]) == (130, "interrupted")
    assert document["reason"] == f"{count} iterations of A.loop; {SENTENCES['interrupted']}"
