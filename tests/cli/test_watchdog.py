"""Signals during start-up, imports and endless operations, with a stand-in for one function per test."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdf_loop.cli.ending import EXIT_CODES
from mdf_loop.signals import REASONS
from tests.soak import times

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.slow,
]

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
CODES = {number: EXIT_CODES[reason] for number, reason in REASONS.items()}

STEPS = "m: {graphs: {g: {nodes: {n: {parameters: {x: {default_initial_value: 0.0, value: x + 1}}, output_ports: {y: {value: x}}}}}}}\n"
"""Text of a model that counts."""

CALL_MAIN = """
import sys
from mdf_loop.cli import main
sys.argv = ["mdf-loop", *sys.argv[1:]]
main()
"""

HEEDED = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
"""What makes a program heed SIGHUP where the tests run under `nohup`."""

READY = "print('ready', file=sys.stderr, flush=True)\n"

STUCK = """
import ctypes, sys, time
import mdf_loop.cli.check_command as check_command
def stuck(*_):
    print("ready", file=sys.stderr, flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:  # signals interrupt `sleep`
        ctypes.CDLL(None).sleep(60)
check_command.open_model = stuck
"""
"""Stand-in for code of C++ that does not return, and in which Python runs no handler."""


def outcome(program: str, numbers: Any, *arguments: object, pause: float = 0.0) -> tuple[int, str]:
    """Send signals to a program once it prints `ready`; return its exit code and later standard error."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEEDED + program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        for number in numbers:
            process.send_signal(number)
            time.sleep(pause)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.yaml"
    path.write_text(STEPS)
    return path


@pytest.mark.parametrize("number", CODES)
def test_a_signal_before_the_commands_are_imported(number: int) -> None:
    """Check a signal sent while `main` imports its first module."""
    program = f"""
import os, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "mdf_loop.cli.commands":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
{READY}{CALL_MAIN}"""
    assert outcome(program, (), "--version") == (CODES[number], f"{WORDS[number]}\n")


@pytest.mark.parametrize("number", CODES)
def test_a_signal_during_an_import_is_raised_after_it(tmp_path: Path, number: int) -> None:
    """Check that the import completes before the signal is raised."""
    (tmp_path / "slow_module.py").write_text(
        f"import os, sys\nos.kill(os.getpid(), {number})\n"
        "sum(range(10_000))\nprint('imported', file=sys.stderr)\n"
    )
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import mdf_loop.cli.check_command as check_command
def imports(*_):
    import slow_module
    import time
    time.sleep(30)
check_command.open_model = imports
{READY}{CALL_MAIN}"""
    code, err = outcome(program, (), "check", "m.yaml")
    assert (code, err) == (CODES[number], f"imported\n{WORDS[number]}\n")


@pytest.mark.parametrize("number", CODES)
def test_code_that_does_not_return_is_ended(model: Path, number: int) -> None:
    began = time.monotonic()
    assert outcome(STUCK + CALL_MAIN, (number,), "check", model) == (
        CODES[number],
        f"{WORDS[number]}\n",
    )
    assert time.monotonic() - began < 30, "the stand-in takes 60 s"


@pytest.mark.parametrize("number", CODES)
def test_a_slow_end_after_a_signal_writes_the_word_once(model: Path, number: int) -> None:
    """Check that the message appears once if the watchdog ends a slow process."""
    program = f"""
import os, sys, time
import mdf_loop.cli.check_command as check_command
from mdf_loop.cli import commands
commands.ignore_repetitions = lambda: time.sleep(30)
check_command.open_model = lambda *_: os.kill(os.getpid(), {number})
{READY}{CALL_MAIN}"""
    assert outcome(program, (), "check", model) == (CODES[number], f"{WORDS[number]}\n")


def test_an_echo_is_no_second_signal(model: Path) -> None:
    patient = "import mdf_loop.cli.watchdog as watchdog\nwatchdog.SECOND_RESPONSE_SECONDS = 40\n"
    numbers = (signal.SIGTERM, signal.SIGTERM)
    began = time.monotonic()
    code, _ = outcome(patient + STUCK + CALL_MAIN, numbers, "check", model, pause=0.1)
    assert code == 143
    assert time.monotonic() - began < 30


SAVING = """
import sys, time
import mdf_loop.results.saving as saving
def write(stream, arrays, whole=saving.write_arrays):
    print("ready", file=sys.stderr, flush=True)
    sys.stdin.readline()
    whole(stream, arrays)
saving.write_arrays = write
"""


def test_what_was_computed_has_time_to_be_saved(model: Path, tmp_path: Path) -> None:
    impatient = "import mdf_loop.cli.watchdog as watchdog\nwatchdog.RESPONSE_SECONDS = 0.0\n"
    arguments = ("--steps", "3", "--output", str(tmp_path / "out.npz"))
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING + impatient + CALL_MAIN, "run", str(model), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(0.4)  # several checks of the watchdog
    assert process.poll() is None
    out, err = process.communicate("\n", timeout=60)
    assert (process.returncode, err) == (143, "terminated\n")
    assert "n.y" in out
    assert (tmp_path / "out.npz").exists()


ENDLESS_OPERATION = """
import ctypes, sys, time
from mdf_loop.run.onnxruntime.device import PlacedModel
run, calls = PlacedModel.run, []
def run_slowly(*operands):
    calls.append(0)
    if len(calls) == 4:
        print("ready", file=sys.stderr, flush=True)
        ctypes.CDLL(None).sleep(60)
    return run(*operands)
PlacedModel.run = run_slowly
"""
"""Stand-in for an operation of ONNX Runtime that takes long, in the fourth call."""


@pytest.mark.parametrize("number", CODES)
def test_rows_before_an_endless_operation_are_saved(
    model: Path, tmp_path: Path, number: int
) -> None:
    target = tmp_path / "out.npz"
    program = ENDLESS_OPERATION + CALL_MAIN
    arguments = ("run", model, "--steps", 10**8, "--every", 1000, "--output", target)
    begun = time.monotonic()
    code, err = outcome(program, (number,), *arguments)
    assert code == CODES[number], err
    assert time.monotonic() - begun < 30
    rows = np.load(target)["n.y"]
    assert len(rows) > 0
    np.testing.assert_array_equal(rows, 1 + 1000.0 * np.arange(len(rows)))


def test_the_time_limit_holds_during_an_endless_operation(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.npz"
    program = ENDLESS_OPERATION + CALL_MAIN
    arguments = ("run", model, "--steps", 10**8, "--every", 1000, "--output", target)
    code, err = outcome(program, (), *arguments, "--time-limit", "2")
    assert code == 0, err
    assert len(np.load(target)["n.y"]) > 0


def test_nothing_is_left_of_a_command_within_a_program(capsys) -> None:
    from mdf_loop.cli import main

    state_before = {number: signal.getsignal(number) for number in CODES}
    bell = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(bell)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert {number: signal.getsignal(number) for number in CODES} == state_before
    assert signal.set_wakeup_fd(bell) == bell
    for thread in threading.enumerate():
        if thread.name == "mdf_loop watchdog":
            thread.join(60)
            assert not thread.is_alive()


ENDLESS = ("--steps", str(10**13), "--every", str(10**10))


@pytest.mark.soak
def test_signals_at_random_moments_of_start_up_and_run(model: Path) -> None:
    chosen = random.Random(0)
    for _ in range(times(3, 200)):
        number = chosen.choice(list(CODES))
        process = subprocess.Popen(
            [sys.executable, "-c", HEEDED + READY_FIRST + CALL_MAIN, "run", str(model), *ENDLESS],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(chosen.uniform(0.0, 1.2))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == CODES[number], err
        assert err == ("" if "stopped: " in out else f"{WORDS[number]}\n")


READY_FIRST = """
import sys, mdf_loop.cli, mdf_loop.cli.ending
def ready(*given, whole=mdf_loop.cli.handling_signals, **named):
    context = whole(*given, **named)
    class Within:
        def __enter__(self):
            context.__enter__()
            print('ready', file=sys.stderr, flush=True)
        def __exit__(self, *error):
            return context.__exit__(*error)
    return Within()
mdf_loop.cli.handling_signals = ready
"""
"""A program that says so when it heeds signals."""
