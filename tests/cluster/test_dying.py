"""Killed processes: no results are lost, and only interrupted blocks are computed again."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.cluster import local_processes
from mdf_loop.cluster.clients import connect
from mdf_loop.errors import RunError
from mdf_loop.ir import StopReason
from tests.soak import some, times

pytestmark = pytest.mark.slow  # processes are started

MODEL = Path(__file__).resolve().parents[2] / "examples" / "parameter_sweep" / "model.yaml"
MEMBERS = 240
SWEEP = {"current": np.linspace(0, 2, MEMBERS)}
LONG = {"sweep": SWEEP, "steps": 200_000, "dt": 0.001, "every": 2000, "progress": False}
"""Options of a run that takes about 1.5 s on one core."""

BLOCK = 8


@pytest.fixture(scope="module")
def expected(neuron: CompiledModel) -> np.ndarray:
    """Return the voltages that one process computes."""
    return np.asarray(neuron.run(**LONG)["v"])


def chunks(store: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of each chunk, which change when a chunk is written again."""
    paths = (store / "fn.v" / "c").rglob("*") if (store / "fn.v").exists() else ()
    files = [path for path in paths if path.is_file() and path.name.isdecimal()]
    return {str(p.relative_to(store)): (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


def readable(store: Path, expected: np.ndarray) -> int:
    """Return the number of members that the store marks as computed, after a check of their voltages."""
    with xarray.open_zarr(store, chunks=None) as dataset:
        is_computed = dataset["computed"].values == 1
        np.testing.assert_array_equal(dataset["fn.v"].values[is_computed], expected[is_computed])
    return int(is_computed.sum())


# --- workers --------------------------------------------------------------------------------------


@pytest.mark.soak
def test_workers_killed_in_turn(
    neuron: CompiledModel, expected: np.ndarray, tmp_path: Path
) -> None:
    draw, store, kill_count = random.Random(0), tmp_path / "s.zarr", times(4, 30)
    kills: list[int] = []
    with connect(2) as connection:
        client = connection.client

        def kill(progress: Any) -> None:
            if len(kills) < kill_count and (not kills or progress.done > kills[-1]):
                workers = client.run(os.getpid, on_error="ignore")
                if workers:
                    os.kill(draw.choice(list(workers.values())), signal.SIGKILL)
                    kills.append(progress.done)
                if store.exists():
                    readable(store, expected)

        options = {**LONG, "cluster": client, "block": 2, "output": store, "progress": kill}
        results = neuron.run(**options)
    assert len(kills) == kill_count
    np.testing.assert_array_equal(np.asarray(results["v"]), expected)


def test_a_block_whose_worker_always_dies_is_named(tmp_path: Path) -> None:
    from mdf_loop.cluster.tasks import Tasks, WorkerDiedError

    with connect(1) as connection:
        tasks: Tasks[int, int] = Tasks(connection, _die_at_three, None, retries=1)
        outcomes = {outcome.item: outcome for outcome in tasks.outcomes(range(6), lambda: None)}
    assert isinstance(outcomes[3].error, WorkerDiedError)
    assert "died 2 times" in str(outcomes[3].error)
    correct_items = [item for item, outcome in outcomes.items() if outcome.result == item * 2]
    assert {0, 1, 5} <= set(correct_items)


def _die_at_three(_: Any, item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * 2


class KillsTwice:
    """Object that kills the first two processes that unpickle it."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __reduce__(self) -> Any:
        return _unpickle_or_die, (self.marks,)


def _unpickle_or_die(marks: Path) -> KillsTwice:
    if (count := len(list(marks.iterdir()))) < 2:
        (marks / str(count)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return KillsTwice(marks)


def test_shared_data_is_sent_again(tmp_path: Path) -> None:
    from mdf_loop.cluster.tasks import Tasks

    with connect(1) as connection:
        tasks: Tasks[int, int] = Tasks(connection, _double, KillsTwice(tmp_path), retries=3)
        outcomes = {
            outcome.item: outcome.result for outcome in tasks.outcomes(range(3), lambda: None)
        }
    assert outcomes == {0: 0, 1: 2, 2: 4}


def _double(_: Any, item: int) -> int:
    return item * 2


# --- the scheduler --------------------------------------------------------------------------------


@contextmanager
def scheduler(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a scheduler with one worker (two in `make soak`) as users start them."""
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "dask"]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    head = subprocess.Popen(
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
        **options,  # type: ignore[call-overload]
    )
    command = [*dask, "worker", address, "--nthreads", "1", "--no-dashboard"]
    workers = [
        subprocess.Popen([*command, "--death-timeout", "60"], **options)  # type: ignore[call-overload]
        for _ in range(times(1, 2))
    ]
    try:
        yield head
    finally:
        for process in (*workers, head):
            process.terminate()
        for process in (*workers, head):
            process.wait(timeout=30)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.soak
def test_a_killed_scheduler(neuron: CompiledModel, expected: np.ndarray, tmp_path: Path) -> None:
    store, port = tmp_path / "s.zarr", free_port()
    options = {**LONG, "cluster": f"tcp://127.0.0.1:{port}", "block": BLOCK, "output": store}
    with scheduler(port) as head:

        def kill(progress: Any) -> None:
            if progress.done > MEMBERS // 4:
                head.kill()

        with pytest.raises(RunError, match="scheduler of the cluster is gone") as caught:
            neuron.run(**{**options, "progress": kill})
    assert "resume" in str(caught.value)
    before = chunks(store)
    assert MEMBERS // 4 < readable(store, expected) < MEMBERS
    with scheduler(port):
        results = neuron.run(**options, resume=True)
    np.testing.assert_array_equal(np.asarray(results["v"]), expected)
    rewritten = [name for name, mark in chunks(store).items() if before.get(name, mark) != mark]
    assert len(rewritten) <= 4  # one chunk for each block in progress


# --- the client -----------------------------------------------------------------------------------

PROGRAM = """
import numpy as np, sys, mdf_loop
mdf_loop.compile(sys.argv[1]).run(
    sweep={{"current": np.linspace(0, 2, {members})}}, steps=200_000, dt=0.001, every=2000,
    progress=False, cluster=2, block={block}, output=sys.argv[2],
)
"""


@pytest.mark.soak
@pytest.mark.parametrize("how", some([signal.SIGKILL, signal.SIGINT], 2))
def test_a_killed_client(
    neuron: CompiledModel, expected: np.ndarray, tmp_path: Path, how: signal.Signals
) -> None:
    store = tmp_path / "s.zarr"
    program = PROGRAM.format(members=MEMBERS, block=BLOCK)
    arguments = [sys.executable, "-c", program, str(MODEL), str(store)]
    client = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while len(chunks(store)) < MEMBERS // BLOCK // 3 and time.monotonic() < until:
        time.sleep(0.02)
        if (store / "zarr.json").exists():
            readable(store, expected)
    client.send_signal(how)
    _, stderr_text = client.communicate(timeout=60)
    last = stderr_text.decode().strip().splitlines()[-1:]  # an interrupted script prints an error
    assert [line.split(":")[0] for line in last] == ["KeyboardInterrupt"] * (how is signal.SIGINT)
    time.sleep(1)  # workers complete their current block
    before = chunks(store)
    computed = readable(store, expected)
    assert 0 < computed < MEMBERS
    results = neuron.run(**LONG, cluster=2, output=store, resume=True)
    assert results.stopped_by is StopReason.COMPLETED
    np.testing.assert_array_equal(np.asarray(results["v"]), expected)
    rewritten = [name for name, mark in chunks(store).items() if before.get(name, mark) != mark]
    assert len(rewritten) <= 4  # one chunk for each block in progress


def test_a_stopped_run_has_computed_members(
    neuron: CompiledModel, expected: np.ndarray, client: Any
) -> None:
    options = {**LONG, "cluster": client, "block": BLOCK}
    limits = ({"time_limit": 0.5 * 2**k} for k in range(8))  # machines may be slow
    for stop_options in ([{"progress": lambda p: p.done < 100}], limits):
        results = _run_until_a_member_is_computed(neuron, options, stop_options)
        assert results.stopped_by in (StopReason.INTERRUPTED, StopReason.TIME_LIMIT)
        rows = np.asarray(results["v"])
        computed = ~np.isnan(rows[:, 0])
        assert 0 < computed.sum() < MEMBERS
        assert f"{computed.sum()} of {MEMBERS} members" in results.reason
        np.testing.assert_array_equal(rows[computed], expected[computed])


def _run_until_a_member_is_computed(
    neuron: CompiledModel, options: dict[str, Any], stop_options: Iterable[dict[str, Any]]
) -> Any:
    """Return the results of the first of several runs that computes a member before it is stopped."""
    for extra_options in stop_options:
        with suppress(RunError):
            return neuron.run(**{**options, **extra_options})
    raise AssertionError("no run has computed a member")


def test_a_replaced_store_is_not_overwritten(
    neuron: CompiledModel, client: Any, tmp_path: Path
) -> None:
    store = tmp_path / "s.zarr"
    options = {"sweep": SWEEP, "steps": 50, "dt": 0.1, "cluster": client, "output": store}
    neuron.run(**options)
    with pytest.raises(mdf_loop.errors.InputError, match="has the rows of run"):
        neuron.run(**options)
    with pytest.raises(mdf_loop.errors.InputError, match="steps = 50, not 60"):
        neuron.run(**{**options, "steps": 60}, resume=True)
    with pytest.raises(mdf_loop.errors.InputError, match="other values of the sweep 'current'"):
        neuron.run(**{**options, "sweep": {"current": np.linspace(0, 1, MEMBERS)}}, resume=True)
    neuron.run(**options, overwrite=True)


# --- processes that do not come -------------------------------------------------------------------

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="the program is a script of sh")


@posix_only
def test_processes_that_cannot_start(
    neuron: CompiledModel, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_processes, "WORKER_COMMAND", ("sh", "-c", "echo why >&2; exit 3"))
    options = {"sweep": SWEEP, "steps": 3, "dt": 0.1, "progress": False}
    with pytest.raises(RunError, match=r"no process of the cluster can start: .* code 3: why") as e:
        neuron.run(**options, cluster=1, block=8)
    assert np.isfinite(e.value.results["v"]).any(axis=1).sum() > 0  # the first members
    assert capfd.readouterr() == ("", "")


@posix_only
def test_a_time_limit_holds_while_all_processes_are_killed(
    neuron: CompiledModel, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_processes, "WORKER_COMMAND", ("sh", "-c", "kill -9 $$"))
    options = {"sweep": SWEEP, "steps": 3, "dt": 0.1, "progress": False}
    results = neuron.run(**options, cluster=2, block=8, time_limit=3)
    assert results.stopped_by is StopReason.TIME_LIMIT
    assert "of 240 members; the time limit of the run was over" in results.reason
    assert results.reason.endswith("; the cluster had no worker yet")
    data = {"time": [0.1, 0.2, 0.3], "v": [0.1, 0.2, 0.3]}
    with pytest.raises(RunError, match="the time limit was over before the cluster had a process"):
        neuron.fit(data, {"fn.a": (0.5, 0.9)}, against="v", dt=0.1, cluster=1, time_limit=1)
    assert capfd.readouterr() == ("", "")


def test_a_time_limit_holds_in_the_first_member(neuron: CompiledModel, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    options = {"sweep": SWEEP, "steps": 10**11, "every": 10**9, "dt": 0.1, "progress": False}
    with pytest.raises(RunError, match="was over before the first member was computed"):
        neuron.run(**options, cluster=1, time_limit=0.5, output=store)
    assert not chunks(store)
