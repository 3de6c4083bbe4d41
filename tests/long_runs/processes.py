"""Runs in separate processes, which tests measure, interrupt and kill.

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
    """Write a model file from a whole document or from graphs by name."""
    path = folder / "model.yaml"
    whole = {"model": {"format": "ModECI MDF v0.4", "graphs": model}}
    path.write_text(yaml.safe_dump(model if "model" in model else whole, sort_keys=False))
    return path


# --- one command ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and printed texts of an ended process."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The single JSON object on stdout."""
        return json.loads(self.out)


class Process:
    """Running `mdf-loop` process with some arguments."""

    def __init__(self, *words: Any, cwd: Path, within: Sequence[str] = ()) -> None:
        self._running = subprocess.Popen(
            [*within, *MDF_LOOP, *map(str, words)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until(self, is_reached: Callable[[], bool]) -> None:
        """Wait until the condition `is_reached` holds; fail if the process ends before."""
        end = time.monotonic() + PATIENCE
        while not is_reached():
            if self._running.poll() is not None:
                raise AssertionError(f"it ended before: {self.ended()}")
            assert time.monotonic() < end, "it does not come so far"
            time.sleep(0.01)

    def send(self, number: int) -> Ended:
        """Send a signal, and wait for the end of the process."""
        self._running.send_signal(number)
        return self.ended()

    def ended(self) -> Ended:
        """Wait for the end of the process, and return its exit code and texts."""
        try:
            out, err = self._running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._running.kill()
            raise
        return Ended(self._running.returncode, out, err)


def mdf_loop(*words: Any, cwd: Path, within: Sequence[str] = ()) -> Ended:
    """Run `mdf-loop` with some arguments to its end."""
    return Process(*words, cwd=cwd, within=within).ended()


_MEASURING = """
import os, sys
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(process, 0)
open(sys.argv[1], "w").write(str(used.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_of(*words: Any, cwd: Path) -> float:
    """Return the peak memory of `mdf-loop` with some arguments, in MB.

    A small process starts the command, since the kernel adds the memory of the parent process.
    """
    measuring = (sys.executable, "-S", "-E", "-c", _MEASURING, "peak")
    process = subprocess.run(
        [*measuring, *MDF_LOOP, *map(str, words)],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    kilobytes = int((cwd / "peak").read_text())
    return kilobytes * 1024 / 1e6


# --- many runs, forked ------------------------------------------------------------------------

_TICK = struct.Struct("dq")


class Forks:
    """Server process that has imported all modules and forks one process per run."""

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
        """Return the exit code of a run that gets a signal after some seconds.

        The run is `compile(model, **options).run(**words)` in the folder of the model. Its printed
        text is in the file `said` of this folder, and its progress is in the file `ticks`.
        """
        request = {
            "model": str(model),
            "options": {"native": "off", **(options or {})},
            "words": words,
        }
        process = int(self._ask(request))
        if after is not None:
            time.sleep(after)
            os.kill(process, number)  # the process number is not reused before the next request
            self.signalled = time.monotonic()
        return int(self._ask(None))

    def _ask(self, request: Any) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline()

    def close(self) -> None:
        """End the server process."""
        self._server.communicate(timeout=PATIENCE)


@contextmanager
def forks() -> Iterator[Forks]:
    """Yield a `Forks` server and close it at the end."""
    new_forks = Forks()
    try:
        yield new_forks
    finally:
        new_forks.close()


def ticks(folder: Path) -> list[tuple[float, int]]:
    """Return the recorded progress of the last run as pairs of clock seconds and completed steps.

    A kill does not undo the record.
    """
    data = (folder / "ticks").read_bytes()
    return [tuple(tick) for tick in _TICK.iter_unpack(data)]


def _serve() -> None:
    """Fork a run for each request and report first the process number and then, on request, the exit code."""
    import onnxruntime  # noqa: F401
    import zarr  # noqa: F401

    import mdf_loop.results.saving
    import mdf_loop.run.control.progress
    import mdf_loop.run.recording.stream

    mdf_loop.compile(WALK["g"]).to_onnx()  # imports all required modules

    signal.signal(signal.SIGINT, signal.default_int_handler)
    mdf_loop.run.control.progress.SAMPLE_SECONDS = 0.0  # each chunk is reported
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
    """Execute one run and end the process without a Python traceback."""
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
    """Read the parts of a checkpoint with plain NumPy."""
    with np.load(path) as archive:
        contents = json.loads(archive["mdf_loop.checkpoint"].tobytes())
        numbers = iter(range(len(archive.files)))
        return {
            part: {name: archive[str(next(numbers))] for name in named}
            for part, named in contents["parts"].items()
        }


def stored_rows(path: Path, name: str) -> Any:
    """Read the rows of a Zarr store with xarray."""
    import xarray

    with xarray.open_zarr(path) as dataset:
        return dataset[name].to_numpy()


if __name__ == "__main__":
    _serve()
