"""Clients of a cluster: processes of this machine, a running scheduler, or a cluster described in a file.

    with connect(2) as client:                    two processes of this machine
    with connect("tcp://head:8786") as client:    the workers of that scheduler
    with connect("slurm.yaml") as client:         jobs that are started for this block
    with connect(client) as client:               the given client, which stays open

Processes and jobs end with the block that started them.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mdf_loop.arguments import is_whole
from mdf_loop.cluster.cluster_file import read_cluster
from mdf_loop.cluster.libraries import check_installed, import_library
from mdf_loop.errors import InputError, RunError

SCHEDULER_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS = 10, 120
"""Seconds to wait for a scheduler, and for the first process that is started on this machine."""

PRELOAD_MODULE = "mdf_loop.api.cluster_job"
"""Module that each process imports before it accepts work."""

_NO_MONITORING = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
}
"""Settings that avoid the monitoring of processes, which takes a twentieth of their time."""

_MAX_PROCESSES = 4096

_ALLOWED_CLUSTERS = (
    "give how many processes, tcp://host:8786, a dask.distributed.Client, or a YAML file"
)


@contextmanager
def connect(cluster: Any) -> Iterator[Any]:
    """Yield a `distributed.Client` of a cluster. Processes and jobs that were started for it end afterwards.

    Raises:
        InputError: The value describes no cluster, or the cluster cannot be reached.
        RunError: The processes of the cluster do not start.
    """
    distributed = import_library("distributed")
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    logging.getLogger("distributed.batched").setLevel(
        logging.ERROR
    )  # it logs the end of every connection
    target = _target(distributed, cluster)
    started_cluster = None if isinstance(target, str) else target
    try:
        with _client(distributed, target, cluster) as client:
            if is_whole(cluster):
                _await_first_process(client)
            yield client
    finally:
        if started_cluster is not None:
            with suppress(Exception):  # its processes end in any case
                started_cluster.close()


def check_cluster(cluster: Any) -> None:
    """Check that a value describes a cluster, without starting anything.

    Raises:
        InputError: The value describes no cluster, or its libraries are not installed.
    """
    check_installed("distributed")
    if "distributed" in sys.modules and isinstance(cluster, sys.modules["distributed"].Client):
        return
    if is_whole(cluster):
        if not 1 <= cluster <= _MAX_PROCESSES:
            raise InputError(f"a cluster cannot have {cluster} processes", hint=_ALLOWED_CLUSTERS)
    elif not isinstance(cluster, str | Path):
        raise InputError(f"cluster cannot be {cluster!r}"[:200], hint=_ALLOWED_CLUSTERS)
    elif "://" not in str(cluster):
        if Path(cluster).suffix.lower() not in (".yaml", ".yml"):
            raise InputError(f"'{cluster}' is no cluster", hint=_ALLOWED_CLUSTERS)
        read_cluster(cluster)


def _target(distributed: Any, cluster: Any) -> Any:
    """Return the address of a scheduler, or a started cluster."""
    check_cluster(cluster)
    if is_whole(cluster):
        return _start_processes(distributed, int(cluster))
    if "://" in str(cluster):
        return str(cluster)
    return read_cluster(cluster).start()


@contextmanager
def _client(distributed: Any, target: Any, cluster: Any) -> Iterator[Any]:
    """Yield a client of a scheduler or cluster, and close it afterwards."""
    try:
        client = distributed.Client(target, timeout=SCHEDULER_TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"the scheduler of the cluster '{cluster}' does not answer: {error}",
            hint="is it running, and may this machine connect to it? 'dask scheduler' starts one",
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may have ended
            client.close(timeout=2)


def _await_first_process(client: Any) -> None:
    """Wait for the first process. A process that cannot start prints the reason, and is not restarted."""
    try:
        client.wait_for_workers(1, timeout=START_TIMEOUT_SECONDS)
    except TimeoutError:
        raise RunError(
            f"none of the cluster's processes has started within {START_TIMEOUT_SECONDS} s",
            hint="the lines above say why; without cluster the run needs none",
        ) from None


def _start_processes(distributed: Any, count: int) -> Any:
    """Start processes of this machine with one thread each, which accept only local connections.

    They are separate programs, so that the user's script is not executed again in each of them.
    """
    from distributed.deploy.subprocess import SubprocessWorker

    options = {
        "host": "127.0.0.1",
        "nthreads": 1,
        "silence_logs": logging.CRITICAL,
        "preload": [PRELOAD_MODULE],
        "config": _NO_MONITORING,
    }
    worker = {
        "cls": SubprocessWorker,
        "options": {"worker_class": "distributed.Nanny", "worker_kwargs": options},
    }
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {
            "host": "127.0.0.1",
            "dashboard_address": "127.0.0.1:0",
            "dashboard": _has_dashboard(),
            "allowed_failures": 0,
        },
    }
    return distributed.SpecCluster(
        workers=dict.fromkeys(range(count), worker),
        scheduler=scheduler,
        worker=worker,
        name=f"mdf_loop {os.getpid()}",
        silence_logs=logging.CRITICAL,
    )


def _has_dashboard() -> bool:
    """Return True if the library of the dashboard is installed."""
    return importlib.util.find_spec("bokeh") is not None


def dashboard_text(client: Any) -> str:
    """Return the address of the cluster's dashboard as text, or an empty text without dashboard."""
    with suppress(Exception):  # the scheduler may have ended, or have no dashboard
        if "dashboard" in client.scheduler_info()["services"]:
            return f"dashboard {client.dashboard_link}"
    return ""
