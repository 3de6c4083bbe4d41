"""Worker processes on this machine for a Dask scheduler, which are restarted when they end.

    with WorkerProcesses(address, security, count=2, is_connected=...) as processes:
        ...
        processes.check()          raises an error if no process can start

A thread watches the processes. Each process is a separate program (`worker_process`), so the user's script
is not executed again. Each process leads its own session, so Ctrl-C on the terminal does not reach it. At
the end of the context, the processes are killed, since they hold no data that is still needed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from mdf_loop.errors import RunError
from mdf_loop.memory_limit import default_limit

WORKER_COMMAND = (sys.executable, "-m", "mdf_loop.cluster.worker_process")
"""Command line of a worker process."""

PRELOAD_MODULE = "mdf_loop.api.cluster_job"
"""Module that each process imports before it accepts tasks."""

START_TIMEOUT_SECONDS = 120.0
"""Seconds without a connected process after which the start counts as failed."""

_MAX_OWN_EXIT_COUNT = 3
"""Number of consecutive processes that may exit by themselves while no process is connected."""

_WATCH_INTERVAL_SECONDS = 0.1
"""Seconds between two checks of the processes."""

_SHORT_LIFE_SECONDS = 5.0
"""Lifetime in seconds below which a process is restarted with a delay, which doubles each time."""

_FIRST_RESTART_DELAY_SECONDS, _MAX_RESTART_DELAY_SECONDS = 0.1, 2.0

_MIN_MEMORY_BYTES = 10**9
"""Memory limit of a process on the smallest machine."""

_MAX_ERROR_BYTES = 4096
"""Number of bytes at the end of a process's standard error that are read for its last line."""

_DASK_SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    **{f"distributed.worker.memory.{word}": False for word in ("target", "spill", "pause")},
}
"""Settings of Dask in each process.

The first two avoid the monitoring of processes, which takes a twentieth of their time. The others
replace Dask's reactions to a lack of memory by the memory limit of the run.
"""


class _Slot(Struct):
    """Place for one of the concurrent worker processes, refilled when its process ends."""

    slot_number: int
    process: subprocess.Popen[bytes] | None = None
    start_time: float = 0.0
    short_life_count: int = 0
    next_start_time: float = 0.0


class WorkerProcesses:
    """Worker processes on this machine that compute for a Dask scheduler.

    Args:
        address: Address of the scheduler.
        security: Arguments of `distributed.Security` in the processes.
        count: Number of processes.
        is_connected: Function that returns True if a process is connected to the scheduler.
    """

    def __init__(
        self,
        address: str,
        security: Mapping[str, Any],
        count: int,
        is_connected: Callable[[], bool],
    ) -> None:
        self._address, self._security = address, dict(security)
        self._is_connected = is_connected
        self._memory_bytes = max(_MIN_MEMORY_BYTES, default_limit() // count)
        self._slots = [_Slot(slot_number) for slot_number in range(count)]
        self._folder = Path(tempfile.mkdtemp(prefix="mdf_loop_cluster_"))
        self._start_count = 0
        self._own_exit_count = 0
        self._last_exit_reason = ""
        self._last_connection_time = time.monotonic()
        self._failure: RunError | None = None
        self._is_closing = threading.Event()
        self._watcher = threading.Thread(
            target=self._watch, name="mdf_loop cluster processes", daemon=True
        )

    def __enter__(self) -> WorkerProcesses:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing.set()
        self._watcher.join()
        for slot in self._slots:
            if slot.process is not None:
                slot.process.kill()
        for slot in self._slots:
            if slot.process is not None:
                slot.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def check(self) -> None:
        """Raise an error if worker processes cannot start.

        Raises:
            RunError: The processes end before they connect, or no process connects for too long.
        """
        if self._failure is not None:
            raise self._failure

    # --- the watching thread ----------------------------------------------------------------------

    def _watch(self) -> None:
        """Start all worker processes, and restart processes that have ended."""
        while not self._is_closing.is_set() and self._failure is None:
            if self._is_connected():
                self._last_connection_time, self._own_exit_count = time.monotonic(), 0
            for slot in self._slots:
                self._renew(slot)
            self._failure = self._problem()
            self._is_closing.wait(_WATCH_INTERVAL_SECONDS)

    def _renew(self, slot: _Slot) -> None:
        """Start a slot's worker process, unless the process is running or the restart must wait."""
        now = time.monotonic()
        if slot.process is not None:
            if (exit_code := slot.process.poll()) is None:
                return
            self._note_end(slot, exit_code, now)
        if now >= slot.next_start_time:
            slot.start_time = now
            slot.process = self._start(slot)

    def _note_end(self, slot: _Slot, exit_code: int, now: float) -> None:
        """Record how a worker process ended, and when its successor may start at the earliest."""
        slot.process = None
        is_short_life = now - slot.start_time < _SHORT_LIFE_SECONDS
        slot.short_life_count = slot.short_life_count + 1 if is_short_life else 0
        restart_delay = _FIRST_RESTART_DELAY_SECONDS * 2.0 ** min(slot.short_life_count, 10)
        slot.next_start_time = now + min(restart_delay, _MAX_RESTART_DELAY_SECONDS)
        if exit_code >= 0:
            self._own_exit_count += 1
            self._last_exit_reason = f"exit code {exit_code}{self._last_error_line(slot)}"
        else:
            self._last_exit_reason = _signal_name(-exit_code)

    def _start(self, slot: _Slot) -> subprocess.Popen[bytes]:
        """Start a worker process, and send the process its settings."""
        self._start_count += 1
        with open(self._error_file(slot), "wb") as error_file:
            process = subprocess.Popen(
                WORKER_COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=error_file,
                env=_environment(),
                start_new_session=True,
            )
        assert process.stdin is not None
        with suppress(OSError), process.stdin:  # the process may have been killed
            process.stdin.write(json.dumps(self._process_settings()).encode())
        return process

    def _process_settings(self) -> dict[str, Any]:
        """Return the settings of the next worker process."""
        return {
            "address": self._address,
            "security": self._security,
            "preload": PRELOAD_MODULE,
            "config": _DASK_SETTINGS,
            "arguments": {
                "name": f"{os.getpid()}-{self._start_count}",
                "host": "127.0.0.1",
                "dashboard_address": "127.0.0.1:0",
                "nthreads": 1,
                "memory_limit": self._memory_bytes,
                "death_timeout": START_TIMEOUT_SECONDS,
                "silence_logs": logging.CRITICAL,
                "local_directory": str(self._folder),
            },
        }

    def _error_file(self, slot: _Slot) -> Path:
        """Return the path of the file that contains the standard error of a worker process."""
        return self._folder / f"process_{slot.slot_number}.txt"

    def _last_error_line(self, slot: _Slot) -> str:
        """Return ": " and the last line of a process's standard error, or "" without output."""
        with suppress(OSError), open(self._error_file(slot), "rb") as error_file:
            error_file.seek(max(0, os.fstat(error_file.fileno()).st_size - _MAX_ERROR_BYTES))
            error_lines = error_file.read().decode(errors="replace").strip().splitlines()
            if error_lines:
                return f": {error_lines[-1].strip()}"
        return ""

    def _problem(self) -> RunError | None:
        """Return an error if all worker processes fail to start, or None."""
        hint = "without cluster the run needs no other process"
        if self._own_exit_count >= _MAX_OWN_EXIT_COUNT:
            return RunError(
                f"no process of the cluster can start: the last one ended with {self._last_exit_reason}",
                hint=hint,
            )
        if time.monotonic() - self._last_connection_time < START_TIMEOUT_SECONDS:
            return None
        if not self._last_exit_reason:
            return RunError(
                f"none of the cluster's processes has started within {START_TIMEOUT_SECONDS:.0f} s",
                hint=hint,
            )
        return RunError(
            f"the cluster has had no process for {START_TIMEOUT_SECONDS:.0f} s: "
            f"{self._start_count} were started, and the last one that ended did so by {self._last_exit_reason}",
            hint=hint,
        )


def _environment() -> dict[str, str]:
    """Return the environment variables of a worker process.

    Variables of this process override Dask's settings.

    Dask's settings limit the threads of numerical libraries to one.
    """
    import dask

    environment_settings = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {**{name: str(value) for name, value in environment_settings.items()}, **os.environ}


def _signal_name(number: int) -> str:
    """Return the name of a signal number, such as `SIGKILL` for 9."""
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
