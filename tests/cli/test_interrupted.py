"""Ctrl-C and other signals in `mdf-loop run`, sent to real processes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]

LONG = 1_000_000_000
MAIN = "from mdf_loop.cli import main\nmain()\n"
IMPORTED = "import mdf_loop.api.compiled, onnxruntime, matplotlib.figure, sys\n"
READY = "print('ready', file=sys.stderr, flush=True)\n"

SLOW_DISK = """
import time
import mdf_loop.results.saving as saving

def write(stream, arrays, whole=saving.write_arrays):
    stream.write(b"half")
    stream.flush()
    print("saving", file=sys.stderr, flush=True)
    time.sleep(60)

saving.write_arrays = write
"""
AT_EXIT = """
import atexit

@atexit.register
def over():
    print("over", file=sys.stderr, flush=True)
    sys.stdin.readline()
"""
LATE = SLOW_DISK.replace('write(b"half")', "flush()").replace(
    "time.sleep(60)", "sys.stdin.readline()\n    whole(stream, arrays)"
)
BEGUN = """
from mdf_loop.run.control.stopping import Stopping

def begins(self, *computation, whole=Stopping.begins):
    whole(self, *computation)
    print("begun", file=sys.stderr, flush=True)
    Stopping.begins = whole

Stopping.begins = begins
"""
ENDS = {
    signal.SIGINT: (130, "interrupted", "the run was interrupted"),
    signal.SIGTERM: (143, "terminated", "the run was terminated (SIGTERM)"),
    signal.SIGHUP: (129, "hung up", "the terminal of the run was closed (SIGHUP)"),
}
"""How a command ends: its exit code, what it says where nothing was reached, and else."""


class Process:
    """`mdf-loop run` with these words, as soon as everything is imported."""

    def __init__(self, *words: Any, before: str = "") -> None:
        self.running = subprocess.Popen(
            [sys.executable, "-c", IMPORTED + before + READY + MAIN, "run", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.wait_for("ready")

    def wait_for(self, word: str) -> None:
        """Wait for a line on standard error."""
        assert self.line() == f"{word}\n"

    def line(self) -> str:
        """The next line on standard error."""
        assert self.running.stderr is not None
        return self.running.stderr.readline()

    def wait_for_file(self, path: Path) -> None:
        """Wait until the run has written a file."""
        end = time.monotonic() + 60
        while not path.exists():
            assert self.running.poll() is None, self.running.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Ctrl-C, or another signal."""
        self.running.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """The exit code, and what was printed."""
        out, err = self.running.communicate(timeout=60)
        return self.running.returncode, out, err


@pytest.fixture
def started() -> Iterator[Callable[..., Process]]:
    """Start processes, which do not outlive the test."""
    made: list[Process] = []

    def start(*words: Any, before: str = "") -> Process:
        made.append(Process(*words, before=before))
        return made[-1]

    yield start
    for process in made:
        process.running.kill()
        process.running.communicate()


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    path = tmp_path / "decay.yaml"
    path.write_text(
        "Decay: {format: ModECI MDF v0.4, graphs: {g: {nodes: {cell: {\n"
        "  parameters: {v: {default_initial_value: 1.0, time_derivative: -v}},\n"
        "  output_ports: {v: {value: v}}}}}}}\n"
    )
    return path


@pytest.mark.slow
def test_a_loop_gives_what_it_has_reached(started, endless):
    words = ("--max-iterations", 2**62, "--device", "cpu", "--json")
    process = started(endless, *words, before=BEGUN)
    process.wait_for("begun")
    time.sleep(0.3)
    assert process.running.poll() is None, "the loop should still run"
    process.interrupt()
    code, out, err = process.ended()
    assert (code, err) == (130, "")
    found = json.loads(out)
    assert found["stopped_by"] == "interrupted"
    assert found["reason"].endswith("the run was interrupted")
    iterations = found["loops"]["grow.f"]["iterations"]
    assert found["outputs"]["grow.x_final"]["data"] == 1 + iterations > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "as_json"),
    [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, False)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_run_over_time_gives_and_saves_what_it_has_reached(
    started, decay, tmp_path, number, as_json
):
    names = {"--output": "out.npz", "--final-state": "state.npz", "--plot": "plot.png"}
    files = [word for name, file in names.items() for word in (name, tmp_path / file)]
    words = ("--steps", LONG, "--dt", 1e-6, "--every", 1000, "--every", "20ms", "--native", "off")
    process = started(
        *(decay, *words, "--checkpoint", tmp_path / "checkpoint", *files),
        *(["--json"] if as_json else []),
    )
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt(number)
    if number != signal.SIGINT:  # `timeout` and closed terminals send theirs twice
        time.sleep(0.1)
        process.interrupt(number)
    code, out, err = process.ended()
    go_on = f"to go on, give the same command with --resume '{tmp_path / 'checkpoint'}'\n"
    assert (code, err) == (ENDS[number][0], go_on)
    with np.load(tmp_path / "state.npz") as archive:
        done = int(archive["step"])
    reason = f"{done} of {LONG} steps; {ENDS[number][2]}"
    with np.load(tmp_path / "out.npz") as archive:
        rows = archive["cell.v"]
    assert len(rows) == len(range(0, done, 1000))
    assert (tmp_path / "plot.png").stat().st_size > 0
    if as_json:
        found = json.loads(out)
        assert found["outputs"]["cell.v"]["data"] == rows.tolist()
        assert (found["stopped_by"], found["reason"]) == ("terminated", reason)
    else:
        assert out.splitlines()[-1] == f"stopped: {reason}"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_reached_is_interrupted(started, tmp_path, number):
    model = tmp_path / "pipe.json"
    os.mkfifo(model)  # whoever reads the model waits for it
    process = started(model)
    time.sleep(0.3)
    process.interrupt(number)
    code, word, _ = ENDS[number]
    assert process.ended() == (code, "", f"{word}\n")


@pytest.mark.slow
def test_a_second_ctrl_c_while_saving_leaves_no_halves(started, decay, tmp_path):
    saved = tmp_path / "out.npz"
    saved.write_text("what was there")
    words = ("--steps", LONG, "--every", 1000, "--device", "cpu", "--json")
    files = ("--output", saved, "--checkpoint", tmp_path / "checkpoint", "--every", "20ms")
    process = started(decay, *words, *files, before=SLOW_DISK)
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt()
    process.wait_for("saving")
    process.interrupt()
    assert process.ended() == (130, "", "interrupted\n")
    assert saved.read_text() == "what was there"
    assert {path.name for path in tmp_path.iterdir()} == {"decay.yaml", "out.npz", "checkpoint"}


@pytest.mark.slow
def test_what_is_being_saved_is_finished(started, decay, tmp_path):
    words = ("--steps", 3, "--output", tmp_path / "out.npz", "--plot", tmp_path / "a.png", "--json")
    process = started(decay, *words, "--device", "cpu", before=LATE)
    process.wait_for("saving")
    process.interrupt(signal.SIGTERM)
    time.sleep(0.1)
    process.running.stdin.write("\n")
    process.running.stdin.flush()
    code, out, err = process.ended()
    assert (code, err) == (143, "terminated\n")
    assert json.loads(out)["outputs"]["cell.v"]["data"] == [1.0, 1.0, 1.0]
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["cell.v"].tolist() == [1.0, 1.0, 1.0]
    assert (tmp_path / "a.png").stat().st_size > 0


@pytest.mark.slow
def test_a_signal_sent_again_while_the_program_ends(started, decay, tmp_path):
    patient = "from mdf_loop import signals\nsignals.ECHO = 60\n"  # machines may be slow
    process = started(
        *(decay, "--steps", LONG, "--checkpoint", tmp_path / "checkpoint", "--every", "20ms"),
        *("--native", "off", "--output", tmp_path / "a.npz"),
        before=AT_EXIT + patient,
    )
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt(signal.SIGTERM)
    while process.line() != "over\n":
        assert process.running.poll() is None
    process.interrupt(signal.SIGTERM)
    time.sleep(0.1)
    assert process.running.stdin is not None
    process.running.stdin.write("\n")
    process.running.stdin.flush()
    assert process.ended()[0] == 143


@pytest.mark.slow
def test_nohup_is_heeded(started, decay, tmp_path):
    ignored = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    words = ("--steps", LONG, "--every", 1000, "--device", "cpu", "--json")
    files = ("--checkpoint", tmp_path / "checkpoint", "--every", "20ms")
    process = started(decay, *words, *files, before=ignored)
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt(signal.SIGHUP)
    time.sleep(0.2)
    assert process.running.poll() is None
    process.interrupt(signal.SIGTERM)
    assert process.ended()[0] == 143


@pytest.mark.slow
def test_a_terminal_that_is_closed(decay, tmp_path):
    """Its progress and its output have nowhere to go; what was reached is saved."""
    process, terminal = pty.fork()
    if process == 0:
        words = ("--steps", LONG, "--every", 1000, "--native", "off", "--every", "20ms")
        files = ("--output", tmp_path / "out.npz", "--checkpoint", tmp_path / "checkpoint")
        code = IMPORTED + MAIN
        os.execv(
            sys.executable,
            [sys.executable, "-c", code, "run", *map(str, (decay, *words, *files))],
        )
    shown = b""
    while b"steps/s" not in shown:
        shown += os.read(terminal, 1000)
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    with np.load(tmp_path / "out.npz") as archive:
        assert len(archive["cell.v"]) > 10
    names = {"decay.yaml", "out.npz", "checkpoint"}
    assert {path.name for path in tmp_path.iterdir()} == names
