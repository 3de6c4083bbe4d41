"""Connections to a Dask cluster: local processes, a running scheduler, or a cluster file.

    with connect(2) as connection:                    two processes of this machine
    with connect("tcp://head:8786") as connection:    the workers of that scheduler
    with connect("slurm.yaml") as connection:         jobs that are started for this block
    with connect(client) as connection:               the given client, which stays open

Processes and jobs end with the block that started them. Processes of this machine and their scheduler
connect by TLS, with a key that exists only for the block. On a machine with several users, an open
scheduler would run code of all of them.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from mdf_loop.arguments import is_whole
from mdf_loop.cluster.addresses import (
    POLL_SECONDS,
    SCHEDULER_TIMEOUT_SECONDS,
    check_address,
    check_listener,
    check_scheduler,
    unreachable_error,
)
from mdf_loop.cluster.cluster_file import read_cluster
from mdf_loop.cluster.libraries import check_installed, import_library, missing_library
from mdf_loop.cluster.local_processes import WorkerProcesses
from mdf_loop.errors import InputError, RunError

CLOSING_SECONDS = 10.0
"""Seconds to wait for the end of a connection: a queue may take a while to cancel jobs."""

HASTY_CLOSING_SECONDS = 1.0
"""Seconds to wait for the end of a connection after a signal."""

_MAX_PROCESSES = 4096

_ALLOWED_CLUSTERS = (
    "give how many processes, tcp://host:8786, a dask.distributed.Client, or a YAML file"
)


class Connection:
    """Open connection to a cluster.

    Attributes:
        client: `distributed.Client` of the cluster.
        deadline: Value of `time.monotonic` at which the work on the cluster must end, or None.
    """

    def __init__(self, client: Any, processes: WorkerProcesses | None = None) -> None:
        self.client = client
        self.deadline: float | None = None
        self._processes = processes

    @property
    def is_overdue(self) -> bool:
        """True if the deadline of the work on the cluster has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def check(self) -> None:
        """Raise an error if the cluster has local worker processes that cannot start.

        Raises:
            RunError: The processes cannot start.
        """
        if self._processes is not None:
            self._processes.check()


class ConnectionThread:
    """Thread that opens a connection to a Dask cluster, keeps it open, and closes it.

    Meanwhile, the main thread continues and reacts to signals.

    Args:
        cluster: Number of processes, address, file or client of a cluster.
        is_stopped: Function that returns True if the connection is no longer needed.
        head_start: Seconds to wait for `begin` before the connection is opened.
    """

    def __init__(
        self, cluster: Any, is_stopped: Callable[[], bool], head_start: float = 0.0
    ) -> None:
        self._cluster, self._head_start_seconds = cluster, head_start
        self._is_stopped = is_stopped
        self._may_begin, self._is_over = Event(), Event()
        self._outcome: Future[Connection] = Future()
        self._thread = Thread(target=self._hold, name="mdf_loop cluster", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Let the thread open the connection now, even if `head_start` has not passed."""
        self._may_begin.set()

    def connection(self, report: Callable[[], object] = lambda: None) -> Connection | None:
        """Wait for the connection, or return None once `is_stopped` returns True.

        `report` is called repeatedly meanwhile.

        Raises:
            InputError: The value describes no cluster, or the cluster cannot be reached.
            RunError: The processes of the cluster do not start.
        """
        self.begin()
        with suppress(_StoppedError):  # the thread may notice the stop before this loop
            while not self._is_stopped():
                with suppress(TimeoutError):
                    return self._outcome.result(timeout=POLL_SECONDS)
                if self._outcome.done():
                    return self._outcome.result()
                report()
        return None

    def close(self, seconds: float) -> None:
        """Close the connection, and wait at most `seconds` until it is closed."""
        self._is_over.set()
        self.begin()
        self._thread.join(seconds)

    def _hold(self) -> None:
        self._may_begin.wait(self._head_start_seconds)
        try:
            with _open_connection(
                self._cluster, lambda: self._is_over.is_set() or self._is_stopped()
            ) as connection:
                self._outcome.set_result(connection)
                self._is_over.wait()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            if not self._outcome.done():
                self._outcome.set_exception(error)


@contextmanager
def connect(cluster: Any, time_limit: float | None = None) -> Iterator[Connection]:
    """Yield a connection to a cluster, and stop the cluster's own processes and jobs at exit.

    Args:
        cluster: Number of processes, address, file or client of a cluster.
        time_limit: Seconds until the deadline of the connection.

    Raises:
        InputError: The value describes no cluster, or the cluster cannot be reached.
        RunError: The processes of the cluster do not start, or not before the deadline.
    """
    check_cluster(cluster)
    deadline = None if time_limit is None else time.monotonic() + time_limit
    connection_thread = ConnectionThread(
        cluster, lambda: deadline is not None and time.monotonic() >= deadline
    )
    closing_seconds = CLOSING_SECONDS
    try:
        connection = connection_thread.connection()
        if connection is None:
            raise RunError(
                "the time limit was over before the cluster had a process",
                hint="give it more time, or leave cluster out",
            )
        connection.deadline = deadline
        yield connection
    except KeyboardInterrupt:
        closing_seconds = HASTY_CLOSING_SECONDS
        raise
    finally:
        connection_thread.close(closing_seconds)


def check_cluster(cluster: Any) -> None:
    """Check that a value describes a cluster, without starting the cluster.

    Raises:
        InputError: The value describes no cluster, its libraries are not installed, or no scheduler
            listens at its address.
    """
    check_installed("distributed")
    if _is_client(cluster):
        return
    if is_whole(cluster):
        if not 1 <= cluster <= _MAX_PROCESSES:
            raise InputError(f"a cluster cannot have {cluster} processes", hint=_ALLOWED_CLUSTERS)
        check_installed("cryptography")
    elif not isinstance(cluster, str | Path):
        raise InputError(f"cluster cannot be {cluster!r}"[:200], hint=_ALLOWED_CLUSTERS)
    elif _is_address(cluster):
        check_address(str(cluster))
        check_listener(str(cluster))
    else:
        if Path(cluster).suffix.lower() not in (".yaml", ".yml"):
            raise InputError(f"'{cluster}' is no cluster", hint=_ALLOWED_CLUSTERS)
        read_cluster(cluster)


def _is_client(cluster: Any) -> bool:
    """Return True for a `distributed.Client`, without importing Dask."""
    return "distributed" in sys.modules and isinstance(cluster, sys.modules["distributed"].Client)


def _is_address(cluster: Any) -> bool:
    """Return True if a value is the address of a scheduler, such as `tcp://head:8786`."""
    return isinstance(cluster, str | Path) and "://" in str(cluster)


# --- one connection -------------------------------------------------------------------------------


class _StoppedError(Exception):
    """Exception that cancels the opening of a connection which is no longer needed."""


def _check_needed(is_stopped: Callable[[], bool]) -> None:
    """Raise _StoppedError if the connection is no longer needed."""
    if is_stopped():
        raise _StoppedError


@contextmanager
def _open_connection(cluster: Any, is_stopped: Callable[[], bool]) -> Iterator[Connection]:
    """Yield a connection to the cluster that a valid `cluster` argument describes.

    Raises:
        InputError: The cluster cannot be reached, or does not start.
        RunError: The processes of the cluster do not start.
        _StoppedError: `is_stopped` returned True.
    """
    _check_needed(is_stopped)
    distributed = import_library("distributed")
    _check_needed(is_stopped)
    if isinstance(cluster, distributed.Client):
        yield Connection(cluster)
        return
    # This logger reports the end of every connection.
    logger = logging.getLogger("distributed.batched")
    logger.setLevel(logging.ERROR)
    if is_whole(cluster):
        with _open_local_connection(distributed, int(cluster), is_stopped) as connection:
            yield connection
    elif _is_address(cluster):
        check_scheduler(str(cluster))
        with _open_client(distributed, str(cluster), str(cluster)) as client:
            yield Connection(client)
    else:
        dask_cluster = read_cluster(cluster).start()
        try:
            with _open_client(distributed, dask_cluster, str(cluster)) as client:
                yield Connection(client)
        finally:
            with suppress(Exception):  # its jobs end without a scheduler in any case
                dask_cluster.close()


@contextmanager
def _open_client(distributed: Any, target: Any, name: str) -> Iterator[Any]:
    """Yield a Dask client of a scheduler or cluster, and close the client at exit."""
    try:
        client = distributed.Client(target, timeout=SCHEDULER_TIMEOUT_SECONDS, set_as_default=False)
    except Exception as error:  # noqa: BLE001 - the libraries of a connection raise any exception
        raise unreachable_error(name, str(error) or type(error).__name__) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may have ended
            client.close(timeout=HASTY_CLOSING_SECONDS)


@contextmanager
def _open_local_connection(
    distributed: Any, count: int, is_stopped: Callable[[], bool]
) -> Iterator[Connection]:
    """Yield a connection to a scheduler and worker processes on this machine.

    At least one process has started.
    """
    security = _temporary_security(distributed)
    _check_needed(is_stopped)
    dask_cluster = _start_scheduler(distributed, security)
    try:
        scheduler = dask_cluster.scheduler
        with (
            WorkerProcesses(
                scheduler.address,
                _worker_security_arguments(security),
                count,
                lambda: bool(scheduler.workers),
            ) as worker_processes,
            _open_client(distributed, dask_cluster, f"{count} processes") as client,
        ):
            connection = Connection(client, worker_processes)
            while not scheduler.workers:
                _check_needed(is_stopped)
                connection.check()
                time.sleep(POLL_SECONDS)
            yield connection
    finally:
        with suppress(Exception):
            dask_cluster.close(timeout=CLOSING_SECONDS)


def _temporary_security(distributed: Any) -> Any:
    """Return a TLS certificate and key for Dask that exist only in memory.

    Raises:
        InputError: The library for certificates is missing.
    """
    try:
        return distributed.Security.temporary()
    except ImportError as error:
        raise missing_library("cryptography", f"cannot be imported: {error}") from None


def _worker_security_arguments(security: Any) -> dict[str, Any]:
    """Return the arguments of `distributed.Security` for worker processes."""
    return {
        "require_encryption": True,
        "tls_ca_file": security.tls_ca_file,
        "tls_worker_cert": security.tls_worker_cert,
        "tls_worker_key": security.tls_worker_key,
    }


def _start_scheduler(distributed: Any, security: Any) -> Any:
    """Start a Dask scheduler in a thread, which accepts only local connections by TLS."""
    scheduler_options = {
        "host": "127.0.0.1",
        "security": security,
        "dashboard_address": "127.0.0.1:0",
        "dashboard": _has_dashboard(),
        "allowed_failures": 0,
    }
    try:
        return distributed.SpecCluster(
            scheduler={"cls": distributed.Scheduler, "options": scheduler_options},
            security=security,
            name=f"mdf_loop {os.getpid()}",
            silence_logs=logging.CRITICAL,
            shutdown_on_close=False,
        )
    except Exception as error:  # noqa: BLE001 - the system may refuse sockets, or threads
        raise RunError(
            f"the scheduler of the cluster does not start: {error}",
            hint="without cluster the run needs none",
        ) from None


def _has_dashboard() -> bool:
    """Return True if the library of Dask's dashboard is installed."""
    return importlib.util.find_spec("bokeh") is not None


def dashboard_text(client: Any) -> str:
    """Return the address of a cluster's Dask dashboard as text, or "" without a dashboard."""
    with suppress(Exception):  # the scheduler may have ended, or have no dashboard
        if "dashboard" in client.scheduler_info()["services"]:
            return f"dashboard {client.dashboard_link}"
    return ""
