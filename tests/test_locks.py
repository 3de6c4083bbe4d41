"""Locks work in both processes after a fork."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mdf_loop import locks
from mdf_loop.locks import ForkSafeLock, LockHeldOverForks

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")

CHILD_TIMEOUT = 60
"""Seconds after which a signal ends a child that hangs."""


def exit_code_of_child(check: Callable[[], bool]) -> int:
    """Fork, call a function in the child and return the child's exit code: 0 if the function returned True."""
    import signal

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork with threads
        process = os.fork()
    if process == 0:
        signal.alarm(CHILD_TIMEOUT)
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@contextmanager
def held_by_a_thread(lock: ForkSafeLock) -> Iterator[None]:
    """Hold the lock in another thread inside this context."""
    is_held, must_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            must_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    try:
        yield
    finally:
        must_end.set()
        thread.join()


# --- locks that are renewed in the child ----------------------------------------------------------


def test_a_lock_of_another_thread_is_free_in_the_child() -> None:
    lock = ForkSafeLock()
    with held_by_a_thread(lock):
        assert not lock.acquire(blocking=False)
        assert exit_code_of_child(lambda: lock.acquire(blocking=False)) == 0
        assert not lock.acquire(blocking=False)


def test_a_lock_of_the_forking_thread_stays_locked_in_the_child() -> None:
    lock = ForkSafeLock()

    def is_refused_until_it_is_released() -> bool:
        answers: list[bool] = []

        def try_once() -> None:
            answers.append(lock.acquire(blocking=False))

        for release in (False, True):
            if release:
                lock.release()
            thread = threading.Thread(target=try_once)
            thread.start()
            thread.join()
        return answers == [False, True]

    with lock:
        assert exit_code_of_child(is_refused_until_it_is_released) == 0
    with lock, lock:
        pass
    with held_by_a_thread(lock):
        assert not lock.acquire(blocking=False)


# --- locks that a fork waits for ------------------------------------------------------------------


def test_a_fork_waits_for_the_end_of_a_critical_section(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, is_held, is_forking = LockHeldOverForks(), threading.Event(), threading.Event()
    state = ["whole"]

    class Signalling:
        """Lock that signals when the fork acquires the locks."""

        def acquire(self) -> None:
            is_forking.set()

        def release(self) -> None:
            pass

    monkeypatch.setattr(locks, "_LOCKS_HELD_OVER_FORKS", [Signalling(), lock])

    def change() -> None:
        with lock:
            state[0] = "half changed"
            is_held.set()
            is_forking.wait()
            state[0] = "changed"

    def is_changed_and_free() -> bool:
        with lock:
            return state == ["changed"]

    thread = threading.Thread(target=change)
    thread.start()
    is_held.wait()
    assert exit_code_of_child(is_changed_and_free) == 0
    thread.join()
    with lock:  # the lock is also free in the parent
        pass


def test_a_fork_waits_for_imports_of_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_continue = threading.Event(), threading.Event()
    (tmp_path / "slow_to_import.py").write_text(
        "from events_of_the_import import begun, may_continue\n\nbegun.set()\nmay_continue.wait()\nvalue = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    events = SimpleNamespace(begun=begun, may_continue=may_continue)
    monkeypatch.setitem(sys.modules, "events_of_the_import", events)
    monkeypatch.setattr(locks.time, "sleep", lambda _: may_continue.set())
    thread = threading.Thread(target=importlib.import_module, args=("slow_to_import",))
    thread.start()
    begun.wait()
    try:
        code = exit_code_of_child(lambda: importlib.import_module("slow_to_import").value == 7)
    finally:
        may_continue.set()
        thread.join()
        del sys.modules["slow_to_import"]
    assert code == 0


def test_a_fork_waits_for_imports_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_is_importing_elsewhere", lambda: True)
    monkeypatch.setattr(locks, "MAX_IMPORT_WAIT_SECONDS", 0.0)
    assert exit_code_of_child(lambda: True) == 0


# --- the package ----------------------------------------------------------------------------------


def test_the_package_uses_only_fork_safe_locks() -> None:
    """Check that only two modules use locks of the standard library or `functools.cached_property`."""
    lock_classes = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Barrier"}
    users = set()
    for path in (ROOT / "mdf_loop").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name, module = node.attr, node.value.id
                if (module in ("threading", "multiprocessing") and name in lock_classes) or (
                    module == "functools" and name == "cached_property"
                ):
                    users.add(path.name)
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                if (node.module == "threading" and names & lock_classes) or (
                    node.module == "functools" and "cached_property" in names
                ):
                    users.add(path.name)
    assert users == {"locks.py", "cached_property.py"}


BUSY = """
import os, signal, threading, warnings

import numpy as np

import mdf_loop

warnings.simplefilter("ignore")


def model(number):
    node = {
        "parameters": {
            "v": {
                "default_initial_value": [0.1, 0.2],
                "value": f"{number}.7 * v * (1 - v) + 1e-9 * numpy.tanh(v)",
            }
        },
        "output_ports": {"v": {"value": "v"}},
    }
    return {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}


def run(number):
    mdf_loop.compile(model(number), native="require").run(steps=3, progress=False)


is_over = threading.Event()


def compile_models(first):
    number = first
    while not is_over.is_set():
        run(number)
        number += 1


threads = [threading.Thread(target=compile_models, args=(1000 * k,)) for k in range(2)]
for thread in threads:
    thread.start()
codes = []
for k in range(FORKS):
    is_over.wait(0.05 * (k % 3))
    process = os.fork()
    if process == 0:
        signal.alarm(120)
        run(10**6 + k)
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
is_over.set()
for thread in threads:
    thread.join()
print(codes)
"""


@pytest.mark.slow
@pytest.mark.soak
def test_children_of_a_busy_process_compile_and_run() -> None:
    """Fork while threads import and compile models; the children must compile and run."""
    from tests.soak import times

    count = times(5, 100)
    process = subprocess.run(
        [sys.executable, "-c", BUSY.replace("FORKS", str(count))],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert process.stdout.split() == str([0] * count).split()
