"""Processes are killed: nothing is lost, and nothing is computed twice but what was being computed."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.api.compiled import Compiled
from mdf_loop.cluster import clients
from mdf_loop.cluster.clients import connected
from mdf_loop.errors import RunError
from mdf_loop.ir import StoppedBy
from tests.soak import some, times

pytestmark = pytest.mark.slow  # processes are started

MODEL = Path(__file__).resolve().parents[2] / "examples" / "parameter_sweep" / "model.yaml"
MEMBERS = 240
SWEEP = {"current": np.linspace(0, 2, MEMBERS)}
LONG = {"sweep": SWEEP, "steps": 200_000, "dt": 0.001, "every": 2000, "progress": False}
"""About 1.5 s on one core."""

BLOCK = 8


@pytest.fixture(scope="module")
def wanted(neuron: Compiled) -> np.ndarray:
    """What one process gives."""
    return np.asarray(neuron.run(**LONG)["v"])


def chunks(store: Path) -> dict[str, tuple[int, int]]:
    """What tells whether somebody has written a chunk again."""
    found = (store / "fn.v" / "c").rglob("*") if (store / "fn.v").exists() else ()
    files = [path for path in found if path.is_file() and path.name.isdecimal()]
    return {str(p.relative_to(store)): (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


def readable(store: Path, wanted: np.ndarray) -> int:
    """How many members the store says that it has; these are right."""
    with xarray.open_zarr(store, chunks=None) as found:
        there = found["computed"].values == 1
        np.testing.assert_array_equal(found["fn.v"].values[there], wanted[there])
    return int(there.sum())


# --- workers --------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(times(1, 5)))
def test_workers_that_are_killed(
    neuron: Compiled, wanted: np.ndarray, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    store = tmp_path / "s.zarr"
    kills: list[float] = []
    with connected(2) as client:
        client.wait_for_workers(2)

        def kill(progress: Any) -> None:
            moment = draw.uniform(0.1, 0.5)
            if len(kills) < 4 and (not kills or time.monotonic() - kills[-1] > moment):
                workers = client.run(os.getpid, on_error="ignore")
                if workers:
                    os.kill(draw.choice(list(workers.values())), signal.SIGKILL)
                kills.append(time.monotonic())
                if store.exists():
                    readable(store, wanted)

        given = {**LONG, "cluster": client, "block": BLOCK, "output": store, "progress": kill}
        made = neuron.run(**given, retries=20)
    assert len(kills) == 4
    np.testing.assert_array_equal(np.asarray(made["v"]), wanted)


def test_a_block_whose_worker_always_dies_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    from mdf_loop.cluster.tasks import Tasks, WorkerDiedError

    with connected(1) as client:
        tasks: Tasks[int, int] = Tasks(client, _dies_at_three, None, retries=1)
        outcomes = {each.item: each for each in tasks.outcomes(range(6), lambda: None)}
    assert isinstance(outcomes[3].error, WorkerDiedError)
    assert "died 2 times" in str(outcomes[3].error)
    kept = [item for item, each in outcomes.items() if each.result == item * 2]
    assert {0, 1, 5} <= set(kept)


def _dies_at_three(_: Any, item: int) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * 2


class Burdened:
    """What kills the process that unpacks it, the first two times."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __reduce__(self) -> Any:
        return _unpack_burdened, (self.marks,)


def _unpack_burdened(marks: Path) -> Burdened:
    if (count := len(list(marks.iterdir()))) < 2:
        (marks / str(count)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Burdened(marks)


def test_what_is_shared_is_sent_again_when_workers_died_with_it(tmp_path: Path) -> None:
    from mdf_loop.cluster.tasks import Tasks

    with connected(1) as client:
        tasks: Tasks[int, int] = Tasks(client, _doubled, Burdened(tmp_path), retries=3)
        outcomes = {each.item: each.result for each in tasks.outcomes(range(3), lambda: None)}
    assert outcomes == {0: 0, 1: 2, 2: 4}


def _doubled(_: Any, item: int) -> int:
    return item * 2


# --- the scheduler --------------------------------------------------------------------------------


@contextmanager
def scheduler(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler with a worker, or two in `make soak`, as people start them."""
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
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.soak
def test_a_scheduler_that_is_killed(neuron: Compiled, wanted: np.ndarray, tmp_path: Path) -> None:
    store, port = tmp_path / "s.zarr", free_port()
    given = {**LONG, "cluster": f"tcp://127.0.0.1:{port}", "block": BLOCK, "output": store}
    with scheduler(port) as head:

        def kill(progress: Any) -> None:
            if progress.done > MEMBERS // 4:
                head.kill()

        with pytest.raises(RunError, match="scheduler of the cluster is gone") as caught:
            neuron.run(**{**given, "progress": kill})
    assert "resume" in str(caught.value)
    before = chunks(store)
    assert MEMBERS // 4 < readable(store, wanted) < MEMBERS
    with scheduler(port):
        made = neuron.run(**given, resume=True)
    np.testing.assert_array_equal(np.asarray(made["v"]), wanted)
    again = [name for name, mark in chunks(store).items() if before.get(name, mark) != mark]
    assert len(again) <= 4  # those in flight, a chunk each


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
def test_a_client_that_is_killed(
    neuron: Compiled, wanted: np.ndarray, tmp_path: Path, how: signal.Signals
) -> None:
    store = tmp_path / "s.zarr"
    program = PROGRAM.format(members=MEMBERS, block=BLOCK)
    arguments = [sys.executable, "-c", program, str(MODEL), str(store)]
    client = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while len(chunks(store)) < MEMBERS // BLOCK // 3 and time.monotonic() < until:
        time.sleep(0.02)
        if (store / "zarr.json").exists():
            readable(store, wanted)
    client.send_signal(how)
    _, said = client.communicate(timeout=60)
    last = said.decode().strip().splitlines()[-1:]  # a script that is interrupted says so
    assert [line.split(":")[0] for line in last] == ["KeyboardInterrupt"] * (how is signal.SIGINT)
    time.sleep(1)  # workers end what they do
    before = chunks(store)
    there = readable(store, wanted)
    assert 0 < there < MEMBERS
    made = neuron.run(**LONG, cluster=2, output=store, resume=True)
    assert made.stopped_by is StoppedBy.COMPLETED
    np.testing.assert_array_equal(np.asarray(made["v"]), wanted)
    again = [name for name, mark in chunks(store).items() if before.get(name, mark) != mark]
    assert len(again) <= 4  # those in flight, a chunk each


def test_a_run_that_is_stopped_keeps_what_is_done(
    neuron: Compiled, wanted: np.ndarray, client: Any
) -> None:
    given = {**LONG, "cluster": client, "block": BLOCK}
    limits = ({"time_limit": 0.5 * 2**k} for k in range(8))  # machines may be slow
    for asked in ([{"progress": lambda p: p.done < 100}], limits):
        runs = (neuron.run(**{**given, **more}) for more in asked)
        made = next(made for made in runs if not np.isnan(np.asarray(made["v"])).all())
        assert made.stopped_by in (StoppedBy.INTERRUPTED, StoppedBy.TIME_LIMIT)
        rows = np.asarray(made["v"])
        there = ~np.isnan(rows[:, 0])
        assert 0 < there.sum() < MEMBERS
        assert f"{there.sum()} of {MEMBERS} members" in made.reason
        np.testing.assert_array_equal(rows[there], wanted[there])


def test_a_store_that_was_replaced_meanwhile_is_left_alone(
    neuron: Compiled, client: Any, tmp_path: Path
) -> None:
    store = tmp_path / "s.zarr"
    given = {"sweep": SWEEP, "steps": 50, "dt": 0.1, "cluster": client, "output": store}
    neuron.run(**given)
    with pytest.raises(mdf_loop.errors.InputError, match="has the rows of run"):
        neuron.run(**given)
    with pytest.raises(mdf_loop.errors.InputError, match="steps = 50, not 60"):
        neuron.run(**{**given, "steps": 60}, resume=True)
    with pytest.raises(mdf_loop.errors.InputError, match="other values of the sweep 'current'"):
        neuron.run(**{**given, "sweep": {"current": np.linspace(0, 1, MEMBERS)}}, resume=True)
    neuron.run(**given, overwrite=True)


# --- processes that cannot start ------------------------------------------------------------------


def test_processes_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "STARTING", 5)
    monkeypatch.setattr(clients, "JOB", "a_module_that_nobody_has")
    with pytest.raises(RunError, match="none of the cluster's processes has started within 5 s"):
        mdf_loop.compile(MODEL).run(sweep=SWEEP, steps=3, dt=0.1, cluster=1)
