"""Local worker processes: ended workers are replaced, and an error explains why no worker can start."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mdf_loop.cluster import local_processes
from mdf_loop.cluster.local_processes import WorkerProcesses
from mdf_loop.errors import RunError

pytestmark = [
    pytest.mark.slow,  # processes are started
    pytest.mark.skipif(sys.platform == "win32", reason="the programs are scripts of sh"),
]
pytest.importorskip("dask")

SECURITY = {"tls_worker_key": "-----BEGIN PRIVATE KEY-----\nsecret\n"}


@pytest.fixture
def run_script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that replaces the command of workers by a shell script."""
    return lambda script: monkeypatch.setattr(
        local_processes, "WORKER_COMMAND", ("sh", "-c", script)
    )


def processes(count: int = 1, *, is_connected: bool = False) -> WorkerProcesses:
    """Return worker processes for a scheduler that does not exist."""
    return WorkerProcesses("tls://127.0.0.1:1", SECURITY, count, lambda: is_connected)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def failure(started: WorkerProcesses) -> str:
    """Wait for the error of processes that cannot start, and return its text."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            started.check()
        except RunError as error:
            return str(error)
        time.sleep(0.01)
    raise AssertionError("there was no error")


def test_settings_are_on_no_command_line(
    run_script: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDF_LOOP_TEST_FOLDER", str(tmp_path))
    run_script('cat > "$MDF_LOOP_TEST_FOLDER/part"; cd "$MDF_LOOP_TEST_FOLDER"; mv part whole; cat')
    with processes():
        wait_until((tmp_path / "whole").exists)
    settings = json.loads((tmp_path / "whole").read_text())
    assert settings["address"] == "tls://127.0.0.1:1"
    assert settings["security"] == SECURITY
    assert settings["arguments"]["host"] == "127.0.0.1"
    assert not any("secret" in part for part in local_processes.WORKER_COMMAND)
    assert "secret" not in str(local_processes._environment())


def test_a_process_that_ends_is_replaced(
    run_script: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDF_LOOP_TEST_FOLDER", str(tmp_path))
    run_script('touch "$MDF_LOOP_TEST_FOLDER/$$"; exec sleep 60')
    killed: set[int] = set()
    with processes(2, is_connected=True) as workers:
        for _ in range(4):
            wait_until(lambda: len({*map(int, os.listdir(tmp_path))} - killed) == 2)
            process = min({*map(int, os.listdir(tmp_path))} - killed)
            os.kill(process, signal.SIGKILL)
            killed.add(process)
        wait_until(lambda: len({*map(int, os.listdir(tmp_path))} - killed) == 2)
        workers.check()
        folder = workers._folder
        assert folder.exists()
    assert not folder.exists()
    for process in {*map(int, os.listdir(tmp_path))}:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_processes_that_exit_by_themselves(
    run_script: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    run_script("echo many lines >&2; echo the reason >&2; exit 7")
    with processes(2) as workers:
        text = failure(workers)
    assert "no process of the cluster can start: the last one ended with exit code 7" in text
    assert ": the reason" in text
    assert capfd.readouterr() == ("", "")


def test_processes_that_are_killed_for_too_long(
    run_script: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_processes, "START_TIMEOUT_SECONDS", 0.5)
    run_script("kill -9 $$")
    with processes() as workers:
        text = failure(workers)
    assert "the cluster has had no process for 0 s" in text
    assert "the last one that ended did so by SIGKILL" in text


def test_processes_that_take_too_long(
    run_script: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_processes, "START_TIMEOUT_SECONDS", 0.3)
    run_script("exec sleep 60")
    with processes() as workers:
        assert "none of the cluster's processes has started within 0 s" in failure(workers)


def test_processes_that_exit_while_others_are_connected(run_script: Callable[[str], None]) -> None:
    run_script("exit 1")
    with processes(2, is_connected=True) as workers:
        wait_until(lambda: workers._start_count >= 8)
        workers.check()


def test_a_module_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_processes, "PRELOAD_MODULE", "a_module_that_nobody_has")
    monkeypatch.setattr(local_processes, "_MAX_OWN_EXIT_COUNT", 1)
    with processes() as workers:
        assert "No module named 'a_module_that_nobody_has'" in failure(workers)
