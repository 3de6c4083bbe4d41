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

ENDLESS_STEPS = 1_000_000_000
CALL_MAIN = "from mdf_loop.cli import main\nmain()\n"
IMPORTS = "import mdf_loop.api.compiled, onnxruntime, matplotlib.figure, sys\n"
PRINT_READY = "print('ready', file=sys.stderr, flush=True)\n"

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
PAUSE_AT_EXIT = """
import atexit

@atexit.register
def over():
    print("over", file=sys.stderr, flush=True)
    sys.stdin.readline()
"""
SIGNAL_AFTER_WRITING = SLOW_DISK.replace('write(b"half")', "flush()").replace(
    "time.sleep(60)", "sys.stdin.readline()\n    whole(stream, arrays)"
)
REPORT_BEGIN = """
from mdf_loop.run.control.stopping import Stopping

def register_computation(self, *computation, whole=Stopping.register_computation):
    whole(self, *computation)
    print("begun", file=sys.stderr, flush=True)
    Stopping.register_computation = whole

Stopping.register_computation = register_computation
"""
OUTCOMES = {
    signal.SIGINT: (130, "interrupted", "the run was interrupted"),
    signal.SIGTERM: (143, "terminated", "the run was terminated (SIGTERM)"),
    signal.SIGHUP: (129, "hung up", "the terminal of the run was closed (SIGHUP)"),
}
"""Exit code of a command by signal, its message without results, and its stop reason with results."""


class Process:
    """Running `mdf-loop run` process with some arguments, started after all imports."""

    def __init__(self, *arguments: Any, before: str = "") -> None:
        self.running = subprocess.Popen(
            [
                sys.executable,
                "-c",
                IMPORTS + before + PRINT_READY + CALL_MAIN,
                "run",
                *map(str, arguments),
            ],
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
        """Return the next line on standard error."""
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
        """Send Ctrl-C or another signal."""
        self.running.send_signal(number)

    def outcome(self) -> tuple[int, str, str]:
        """Return the exit code and the printed texts."""
        out, err = self.running.communicate(timeout=60)
        return self.running.returncode, out, err


@pytest.fixture
def start_process() -> Iterator[Callable[..., Process]]:
    """Start processes that are killed at the end of the test."""
    processes: list[Process] = []

    def start(*arguments: Any, before: str = "") -> Process:
        processes.append(Process(*arguments, before=before))
        return processes[-1]

    yield start
    for process in processes:
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
def test_an_interrupted_loop_prints_its_results(start_process, endless):
    arguments = ("--max-iterations", 2**62, "--device", "cpu", "--json")
    process = start_process(endless, *arguments, before=REPORT_BEGIN)
    process.wait_for("begun")
    time.sleep(0.3)
    assert process.running.poll() is None, "the loop should still run"
    process.interrupt()
    code, out, err = process.outcome()
    assert (code, err) == (130, "")
    content = json.loads(out)
    assert content["stopped_by"] == "interrupted"
    assert content["reason"].endswith("the run was interrupted")
    iterations = content["loops"]["grow.f"]["iterations"]
    assert content["outputs"]["grow.x_final"]["data"] == 1 + iterations > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "as_json"),
    [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, False)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_an_interrupted_run_saves_its_results(start_process, decay, tmp_path, number, as_json):
    names = {"--output": "out.npz", "--final-state": "state.npz", "--plot": "plot.png"}
    files = [word for name, file in names.items() for word in (name, tmp_path / file)]
    arguments = (
        "--steps",
        ENDLESS_STEPS,
        "--dt",
        1e-6,
        "--every",
        1000,
        "--checkpoint-every",
        "20ms",
        "--native",
        "off",
    )
    process = start_process(
        *(decay, *arguments, "--checkpoint", tmp_path / "checkpoint", *files),
        *(["--json"] if as_json else []),
    )
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt(number)
    if number != signal.SIGINT:  # `timeout` and closed terminals send their signal twice
        time.sleep(0.1)
        process.interrupt(number)
    code, out, err = process.outcome()
    go_on = f"to resume, run the same command with --resume '{tmp_path / 'checkpoint'}'\n"
    assert (code, err) == (OUTCOMES[number][0], go_on)
    with np.load(tmp_path / "state.npz") as archive:
        step_count = int(archive["step"])
    reason = f"{step_count} of {ENDLESS_STEPS} steps; {OUTCOMES[number][2]}"
    with np.load(tmp_path / "out.npz") as archive:
        rows = archive["cell.v"]
    assert len(rows) == len(range(0, step_count, 1000))
    assert (tmp_path / "plot.png").stat().st_size > 0
    if as_json:
        content = json.loads(out)
        assert content["outputs"]["cell.v"]["data"] == rows.tolist()
        assert (content["stopped_by"], content["reason"]) == ("terminated", reason)
    else:
        assert out.splitlines()[-1] == f"stopped: {reason}"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_without_results(start_process, tmp_path, number):
    model = tmp_path / "pipe.json"
    os.mkfifo(model)  # a reader of the named pipe waits
    process = start_process(model)
    time.sleep(0.3)
    process.interrupt(number)
    code, word, _ = OUTCOMES[number]
    assert process.outcome() == (code, "", f"{word}\n")


@pytest.mark.slow
def test_a_second_interruption_leaves_no_partial_file(start_process, decay, tmp_path):
    checkpoint_path = tmp_path / "out.npz"
    checkpoint_path.write_text("what was there")
    arguments = ("--steps", ENDLESS_STEPS, "--every", 1000, "--device", "cpu", "--json")
    files = (
        "--output",
        checkpoint_path,
        "--checkpoint",
        tmp_path / "checkpoint",
        "--checkpoint-every",
        "20ms",
    )
    process = start_process(decay, *arguments, *files, before=SLOW_DISK)
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt()
    process.wait_for("saving")
    process.interrupt()
    assert process.outcome() == (130, "", "interrupted\n")
    assert checkpoint_path.read_text() == "what was there"
    assert {path.name for path in tmp_path.iterdir()} == {"decay.yaml", "out.npz", "checkpoint"}


@pytest.mark.slow
def test_an_interruption_while_saving_finishes_the_file(start_process, decay, tmp_path):
    arguments = (
        "--steps",
        3,
        "--output",
        tmp_path / "out.npz",
        "--plot",
        tmp_path / "a.png",
        "--json",
    )
    process = start_process(decay, *arguments, "--device", "cpu", before=SIGNAL_AFTER_WRITING)
    process.wait_for("saving")
    process.interrupt(signal.SIGTERM)
    time.sleep(0.1)
    process.running.stdin.write("\n")
    process.running.stdin.flush()
    code, out, err = process.outcome()
    assert (code, err) == (143, "terminated\n")
    assert json.loads(out)["outputs"]["cell.v"]["data"] == [1.0, 1.0, 1.0]
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["cell.v"].tolist() == [1.0, 1.0, 1.0]
    assert (tmp_path / "a.png").stat().st_size > 0


@pytest.mark.slow
def test_a_repeated_signal_at_exit(start_process, decay, tmp_path):
    patient = (
        "from mdf_loop import signals\nsignals.REPETITION_SECONDS = 60\n"  # machines may be slow
    )
    process = start_process(
        *(
            decay,
            "--steps",
            ENDLESS_STEPS,
            "--checkpoint",
            tmp_path / "checkpoint",
            "--checkpoint-every",
            "20ms",
        ),
        *("--native", "off", "--output", tmp_path / "a.npz"),
        before=PAUSE_AT_EXIT + patient,
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
    assert process.outcome()[0] == 143


@pytest.mark.slow
def test_nohup_ignores_hang_ups(start_process, decay, tmp_path):
    ignored = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    arguments = ("--steps", ENDLESS_STEPS, "--every", 1000, "--device", "cpu", "--json")
    files = ("--checkpoint", tmp_path / "checkpoint", "--checkpoint-every", "20ms")
    process = start_process(decay, *arguments, *files, before=ignored)
    process.wait_for_file(tmp_path / "checkpoint")
    process.interrupt(signal.SIGHUP)
    time.sleep(0.2)
    assert process.running.poll() is None
    process.interrupt(signal.SIGTERM)
    assert process.outcome()[0] == 143


@pytest.mark.slow
def test_a_terminal_that_is_closed(decay, tmp_path):
    """Check that the results are saved although the terminal for progress and output is gone."""
    process, terminal = pty.fork()
    if process == 0:
        arguments = (
            "--steps",
            ENDLESS_STEPS,
            "--every",
            1000,
            "--native",
            "off",
            "--checkpoint-every",
            "20ms",
        )
        files = ("--output", tmp_path / "out.npz", "--checkpoint", tmp_path / "checkpoint")
        code = IMPORTS + CALL_MAIN
        os.execv(
            sys.executable,
            [sys.executable, "-c", code, "run", *map(str, (decay, *arguments, *files))],
        )
    line = b""
    while b"steps/s" not in line:
        line += os.read(terminal, 1000)
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    with np.load(tmp_path / "out.npz") as archive:
        assert len(archive["cell.v"]) >= 1  # how many depends on how busy the machine is
    names = {"decay.yaml", "out.npz", "checkpoint"}
    assert {path.name for path in tmp_path.iterdir()} == names
