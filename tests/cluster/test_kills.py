"""Random kills of the client and of its worker processes: a resumed command gives the exact numbers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray

from mdf_loop.api.compiled import CompiledModel
from tests.soak import times

pytestmark = [
    pytest.mark.slow,  # processes are started
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc"),
]
pytest.importorskip("distributed")

MODEL = Path(__file__).resolve().parents[2] / "examples" / "parameter_sweep" / "model.yaml"
MEMBERS = 240
STEPS, DT, EVERY = times(400_000, 2_000_000), 0.0001, 20_000

KILLS_PER_RUN = 2
RUNS = int(os.environ.get("MDF_LOOP_KILLS", times(2, 200))) // KILLS_PER_RUN
"""Number of commands that are killed, which the environment may set by the number of kills."""

SHORTEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1.0, 6.0
"""Bounds on the random time to the next kill.

Workers start after about 2 s, and a run takes about 6 s (in `make soak`). Signals during the imports of a command are
tested elsewhere.
"""

EXIT_CODES = {signal.SIGKILL: {-9, 0}, signal.SIGINT: {130, 0}, signal.SIGTERM: {143, 0}}
"""Exit codes of a command by the signal that was sent: 0 if it was complete before."""

COMMAND = (
    *(sys.executable, "-m", "mdf_loop", "run", str(MODEL)),
    *("--sweep", f"current=0:2:{MEMBERS}", "--steps", str(STEPS), "--dt", str(DT)),
    *("--every", str(EVERY), "--cluster", "2", "--block", "8", "--quiet", "--resume"),
)


@pytest.fixture(scope="module")
def expected(neuron: CompiledModel) -> np.ndarray:
    """Return the voltages that one process computes."""
    sweep = {"current": np.linspace(0, 2, MEMBERS)}
    return np.asarray(neuron.run(sweep=sweep, steps=STEPS, dt=DT, every=EVERY)["v"])


def children(process: int) -> Iterator[int]:
    """Yield the process ids of the child processes of a process."""
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        yield from map(int, task.read_text().split())


def kill(command: subprocess.Popen[str], draw: random.Random) -> signal.Signals | None:
    """Kill a random process of a command and return the signal if the command itself was killed."""
    target = draw.choice(["command", "one worker", "all workers"])
    if target == "command":
        number = draw.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        command.send_signal(number)
        return number
    workers = list(children(command.pid)) if command.poll() is None else []
    for worker in draw.sample(workers, min(len(workers), 1 if target == "one worker" else 99)):
        os.kill(worker, signal.SIGKILL)
    return None


def computed(store: Path, expected: np.ndarray) -> int:
    """Return the number of members that a store marks as computed, after a check of their numbers."""
    if not (store / "computed" / "zarr.json").exists():
        return 0
    with xarray.open_zarr(store, chunks=None) as dataset:
        is_computed = dataset["computed"].values == 1
        np.testing.assert_array_equal(dataset["fn.v"].values[is_computed], expected[is_computed])
    return int(is_computed.sum())


@pytest.mark.parametrize("seed", range(RUNS))
def test_killed_commands(expected: np.ndarray, tmp_path: Path, seed: int) -> None:
    draw, store = random.Random(seed), tmp_path / "s.zarr"
    arguments = [*COMMAND, "--output", str(store)]
    kills, before = 0, 0
    while True:
        command = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        sent = None
        while kills < KILLS_PER_RUN and sent is None and command.poll() is None:
            time.sleep(draw.uniform(SHORTEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS))
            sent = kill(command, draw)
            kills += 1
        _, errors = command.communicate(timeout=240)
        after = computed(store, expected)
        assert after >= before, "computed members were lost"
        before = after
        if sent is None:
            break
        assert command.returncode in EXIT_CODES[sent], errors
        assert "Traceback" not in errors
    assert (command.returncode, errors) == (0, "")
    assert computed(store, expected) == MEMBERS
