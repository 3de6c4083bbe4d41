"""Systems that forbid a process to execute memory that it has written: loops are standard there."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.cli import main
from mdf_loop.errors import UnsupportedError
from mdf_loop.native import executable_memory, loop_decisions, machine
from mdf_loop.native.executable_memory import executable_memory_problem
from mdf_loop.ops.native.code import NotNative
from tests.models.timed import NEURON

ROOT = Path(__file__).parents[2]
LONG_STEP_COUNT = 100_000
REASON = "this system does not allow memory that can be executed (Permission denied)"

HARDENING_CODE = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
    sys.exit(77)
"""
NATIVE_RUNS_CODE = """
import mdf_loop
from tests.models.timed import NEURON

results = mdf_loop.compile(NEURON).run(steps=100_000, dt=0.1)
print(results.native["time"])
try:
    mdf_loop.compile(NEURON, native="require").run(steps=3, dt=0.1)
except mdf_loop.LoopError as error:
    print(len(error.findings), error.findings[0].what)
"""
DOCTOR_CODE = """
from mdf_loop.cli import main
main(["doctor"])
"""
LATE_HARDENING_CODE = """
results = mdf_loop.compile(NEURON, native="require").run(steps=3, dt=0.1)
print(results.native["time"])
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
    sys.exit(77)
results = mdf_loop.compile(PAIR).run(steps=100_000, dt=0.1)
print(results.native["time"])
"""


def refuse() -> None:
    raise PermissionError(13, os.strerror(13))


@pytest.fixture
def hardened(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a system that refuses to make a written page executable."""
    monkeypatch.setattr(executable_memory, "_make_page_executable", refuse)
    for cached_function in (loop_decisions.reason_unavailable, machine.compilation_problem):
        cached_function.cache_clear()
    yield
    for cached_function in (loop_decisions.reason_unavailable, machine.compilation_problem):
        cached_function.cache_clear()


def printed_lines(script: str) -> list[str]:
    """Return the lines that a script prints in a new process; skip on Linux before 6.3."""
    if sys.platform != "linux":
        pytest.skip("prctl is a function of Linux")
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if process.returncode == 77:
        pytest.skip("this Linux does not know PR_SET_MDWE")
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_memory_can_be_executed_here() -> None:
    """Check that this machine allows executable memory, 100 times, since a check could leak a page."""
    for _ in range(100):
        assert executable_memory_problem() is None


def test_a_failing_mprotect_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a failing `mprotect` call is reported."""

    class System:
        @staticmethod
        def mprotect(*_: object) -> int:
            ctypes.set_errno(13)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: System)
    assert executable_memory_problem() == REASON


@pytest.mark.usefixtures("hardened")
def test_loops_are_standard_without_executable_memory() -> None:
    results = mdf_loop.compile(NEURON, device="cpu").run(steps=LONG_STEP_COUNT, dt=0.1)
    assert results.native == {"time": f"standard: {REASON}"}
    expected = mdf_loop.compile(NEURON, device="cpu", native="off").run(
        steps=LONG_STEP_COUNT, dt=0.1
    )
    for port in expected:
        np.testing.assert_array_equal(results[port], expected[port])


@pytest.mark.usefixtures("hardened")
def test_require_gives_one_error() -> None:
    with pytest.raises(UnsupportedError) as error:
        mdf_loop.compile(NEURON, device="cpu", native="require").run(steps=3, dt=0.1)
    (finding,) = error.value.findings
    assert finding.what == f"the loop 'time' cannot be native: {REASON}"


@pytest.mark.usefixtures("hardened")
def test_doctor_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor"])
    (line,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("native"))
    assert line == f"native loops     off: {REASON}"


@pytest.mark.usefixtures("hardened")
def test_compilation_fails_without_executable_memory() -> None:
    with pytest.raises(NotNative, match="memory that can be executed"):
        machine.compile_llvm(machine.SAMPLE_CODE, ("sample",))


@pytest.mark.slow
def test_a_hardened_process_runs_standard_loops() -> None:
    native_line, required_line, *doctor_lines = printed_lines(
        HARDENING_CODE + NATIVE_RUNS_CODE + DOCTOR_CODE
    )
    assert native_line == f"standard: {REASON}"
    assert required_line == f"1 the loop 'time' cannot be native: {REASON}"
    assert f"native loops     off: {REASON}" in doctor_lines
    assert not any("not usable" in line for line in doctor_lines if not line.startswith("cuda"))


@pytest.mark.slow
def test_a_process_is_hardened_after_its_first_native_run() -> None:
    imports = "import ctypes, sys, mdf_loop\nfrom tests.models.timed import NEURON, PAIR\n"
    assert printed_lines(imports + LATE_HARDENING_CODE) == ["native", f"standard: {REASON}"]
