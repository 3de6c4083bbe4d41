"""Runs in processes of their own: to measure them, to interrupt them, to kill them.

python -m tests.long_runs.processes     a process that forks one run for each line of stdin
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import yaml

from tests.models.loops import loop_model
from tests.models.timed import graph

ROOT = Path(__file__).parents[2]
_MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
from mdf_loop.cli import main
main()
"""
MDF_LOOP = (sys.executable, "-c", _MAIN)
PATIENCE = 120.0
"""Seconds after which a test gives up: something hangs."""

# --- models -----------------------------------------------------------------------------------

WALK = graph(
    walk={
        "parameters": {"x": {"default_initial_value": 0.25, "value": "3.9 * x * (1 - x)"}},
        "output_ports": {"x": {"value": "x"}},
    }
)
"""A chaotic map: whatever goes wrong with a bit of its state is seen soon."""

GROWING = graph(
    grow={
        "parameters": {"x": {"default_initial_value": 1.0, "value": "1.01 * x"}},
        "output_ports": {"x": {"value": "x"}},
    }
)
"""It is infinite after 71 333 steps."""

_WALKING = {"x_next": "3.9 * x * (1 - x)", "row": "x"}

ENDLESS = loop_model(
    {"cond": True, "v_initial": "(0.25,)"}, _WALKING, carried="x", recorded="row", go="x < 2"
)
"""A while-loop that never ends; it records a scalar."""


def saved(folder: Path, model: Mapping[str, Any]) -> Path:
    """A file with a model: a whole document, or graphs by name."""
    path = folder / "model.yaml"
    whole = {"model": {"format": "ModECI MDF v0.4", "graphs": model}}
    path.write_text(yaml.safe_dump(model if "model" in model else whole, sort_keys=False))
    return path


# --- one command ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object that was printed."""
        return json.loads(self.out)


class Process:
    """`mdf-loop` with these words, running."""

    def __init__(self, *words: Any, cwd: Path, within: Sequence[str] = ()) -> None:
        self._running = subprocess.Popen(
            [*within, *MDF_LOOP, *map(str, words)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Wait until the run has come so far."""
        end = time.monotonic() + PATIENCE
        while not is_reached():
            if self._running.poll() is not None:
                raise AssertionError(f"it ended before: {self.ended()}")
            assert time.monotonic() < end, "it does not come so far"
            time.sleep(0.01)

    def send(self, number: int) -> Ended:
        """Send a signal, and wait for the end."""
        self._running.send_signal(number)
        return self.ended()

    def ended(self) -> Ended:
        """Wait for the end."""
        try:
            out, err = self._running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._running.kill()
            raise
        return Ended(self._running.returncode, out, err)


def mdf_loop(*words: Any, cwd: Path, within: Sequence[str] = ()) -> Ended:
    """`mdf-loop` with these words, to its end."""
    return Process(*words, cwd=cwd, within=within).ended()


_MEASURING = """
import os, sys
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(process, 0)
open(sys.argv[1], "w").write(str(used.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_of(*words: Any, cwd: Path) -> float:
    """The peak memory in MB of `mdf-loop` with these words.

    A small process starts it, since the kernel counts the memory of who starts a process as its own.
    """
    measuring = (sys.executable, "-S", "-E", "-c", _MEASURING, "peak")
    ended = subprocess.run(
        [*measuring, *MDF_LOOP, *map(str, words)],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    kilobytes = int((cwd / "peak").read_text())
    return kilobytes * 1024 / 1e6


# --- many runs, forked ------------------------------------------------------------------------

_TICK = struct.Struct("dq")


class Forks:
    """A process that has imported everything, and forks one run after the other."""

    def __init__(self) -> None:
        self.signalled = 0.0
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.long_runs.processes"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        model: Path,
        after: float | None = None,
        number: int = signal.SIGKILL,
        *,
        options: Mapping[str, Any] | None = None,
        **words: Any,
    ) -> int:
        """The exit code of a run, to which a signal is sent after so many seconds.

        It is `compile(model, **options).run(**words)`, in the folder of the model. What it printed
        is in `said` there, how far it was and when in `ticks`.
        """
        request = {
            "model": str(model),
            "options": {"native": "off", **(options or {})},
            "words": words,
        }
        process = int(self._ask(request))
        if after is not None:
            time.sleep(after)
            os.kill(process, number)  # its number is its own until the next line is written
            self.signalled = time.monotonic()
        return int(self._ask(None))

    def _ask(self, request: Any) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline()

    def close(self) -> None:
        """End."""
        self._server.communicate(timeout=PATIENCE)


@contextmanager
def forks() -> Iterator[Forks]:
    """A `Forks`, ended at the end."""
    new_forks = Forks()
    try:
        yield new_forks
    finally:
        new_forks.close()


def ticks(folder: Path) -> list[tuple[float, int]]:
    """When the last run was how far: seconds of a clock, steps. A kill does not undo them."""
    data = (folder / "ticks").read_bytes()
    return [tuple(tick) for tick in _TICK.iter_unpack(data)]


def _serve() -> None:
    """Fork a run for each request, tell its number, and then, when asked, how it ended."""
    import onnxruntime  # noqa: F401
    import zarr  # noqa: F401

    import mdf_loop.results.saving
    import mdf_loop.run.control.progress
    import mdf_loop.run.recording.stream

    mdf_loop.compile(WALK["g"]).to_onnx()  # all that it takes is imported

    signal.signal(signal.SIGINT, signal.default_int_handler)
    mdf_loop.run.control.progress.SAMPLED = 0.0  # every chunk is told
    for line in sys.stdin:
        request = json.loads(line)
        process = os.fork()
        if process == 0:
            _run(request)
        print(process, flush=True)  # noqa: T201
        sys.stdin.readline()
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


def _run(request: Any) -> NoReturn:
    """One run; the process ends without a word of Python's."""
    import mdf_loop
    from mdf_loop.run.states import save_state

    code = 1
    model = Path(request["model"])
    os.chdir(model.parent)
    log = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    ticks_file = os.open("ticks", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def tell(progress: Any) -> None:
        os.write(ticks_file, _TICK.pack(time.monotonic(), progress.done))

    try:
        results = mdf_loop.compile(model, device="cpu", **request["options"]).run(
            progress=tell, on_interrupt="return", **request["words"]
        )
        if results.state is not None:
            save_state("state.npz", results.state)
        print(results.reason, flush=True)  # noqa: T201
        code = 0
    except BaseException:  # noqa: BLE001 - told to the test
        import traceback

        traceback.print_exc()
    os._exit(code)


# --- what is in files -------------------------------------------------------------------------


def checkpoint_parts(path: Path) -> dict[str, dict[str, Any]]:
    """What a checkpoint holds, read by plain numpy."""
    with np.load(path) as archive:
        contents = json.loads(archive["mdf_loop.checkpoint"].tobytes())
        numbers = iter(range(len(archive.files)))
        return {
            part: {name: archive[str(next(numbers))] for name in named}
            for part, named in contents["parts"].items()
        }


def stored_rows(path: Path, name: str) -> Any:
    """The rows of a Zarr store, read as a user would."""
    import xarray

    with xarray.open_zarr(path) as dataset:
        return dataset[name].to_numpy()


if __name__ == "__main__":
    _serve()
