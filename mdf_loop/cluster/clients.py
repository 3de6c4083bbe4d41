"""Connecting to those who compute: processes of this machine, a scheduler, or a cluster of a file.

with connected(2) as client:                    two processes of this machine
with connected("tcp://head:8786") as client:    whoever that scheduler has
with connected("slurm.yaml") as client:         jobs that are started for this
with connected(client) as client:               the same; nothing is closed
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
from mdf_loop.cluster.described import read_cluster
from mdf_loop.cluster.needed import check_needed, needed
from mdf_loop.errors import InputError, RunError

PATIENCE, STARTING = 10, 120
"""Seconds to wait for a scheduler, and for the first of processes that are started here."""

JOB = "mdf_loop.api.cluster_job"
"""What each process reads before it takes work."""

_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
}
"""What else takes processes of this machine a twentieth of their time: looking at themselves."""

_MOST = 4096

_WORDS = "give how many processes, tcp://host:8786, a dask.distributed.Client, or a YAML file"


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A `distributed.Client` for what `cluster` means; what was started for it is ended.

    Raises:
        InputError: it means nothing, or cannot be reached.
        RunError: its processes do not start.
    """
    distributed = needed("distributed")
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    logging.getLogger("distributed.batched").setLevel(logging.ERROR)  # each end of a connection
    target = _target(distributed, cluster)
    started = None if isinstance(target, str) else target
    try:
        with _client(distributed, target, cluster) as client:
            if is_whole(cluster):
                _await_one(client)
            yield client
    finally:
        if started is not None:
            with suppress(Exception):  # it is ended in any case
                started.close()


def check_cluster(cluster: Any) -> None:
    """Refuse what means no cluster; nothing is started.

    Raises:
        InputError: it means nothing, or its libraries are not installed.
    """
    check_needed("distributed")
    if "distributed" in sys.modules and isinstance(cluster, sys.modules["distributed"].Client):
        return
    if is_whole(cluster):
        if not 1 <= cluster <= _MOST:
            raise InputError(f"a cluster of {cluster} processes cannot be", hint=_WORDS)
    elif not isinstance(cluster, str | Path):
        raise InputError(f"cluster cannot be {cluster!r}"[:200], hint=_WORDS)
    elif "://" not in str(cluster):
        if Path(cluster).suffix.lower() not in (".yaml", ".yml"):
            raise InputError(f"'{cluster}' is no cluster", hint=_WORDS)
        read_cluster(cluster)


def _target(distributed: Any, cluster: Any) -> Any:
    """An address, or a cluster that was started."""
    check_cluster(cluster)
    if is_whole(cluster):
        return _processes(distributed, int(cluster))
    if "://" in str(cluster):
        return str(cluster)
    return read_cluster(cluster).started()


@contextmanager
def _client(distributed: Any, target: Any, cluster: Any) -> Iterator[Any]:
    try:
        client = distributed.Client(target, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"the scheduler of the cluster '{cluster}' does not answer: {error}",
            hint="is it running, and may this machine connect to it? 'dask scheduler' starts one",
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # a scheduler that is gone
            client.close(timeout=2)


def _await_one(client: Any) -> None:
    """Wait for the first process; each that cannot start says why, and is not tried again."""
    try:
        client.wait_for_workers(1, timeout=STARTING)
    except TimeoutError:
        raise RunError(
            f"none of the cluster's processes has started within {STARTING} s",
            hint="the lines above say why; without cluster the run needs none",
        ) from None


def _processes(distributed: Any, count: int) -> Any:
    """So many processes of this machine, of one thread each, that heed nobody else.

    They are started as programs of their own: a script of a user is not run once more in each.
    """
    from distributed.deploy.subprocess import SubprocessWorker

    options = {
        "host": "127.0.0.1",
        "nthreads": 1,
        "silence_logs": logging.CRITICAL,
        "preload": [JOB],
        "config": _QUIET,
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
            "dashboard": _draws_itself(),
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


def _draws_itself() -> bool:
    """Whether what draws the dashboard is installed."""
    return importlib.util.find_spec("bokeh") is not None


def dashboard(client: Any) -> str:
    """Where the cluster shows what it does; "" if it shows nothing."""
    with suppress(Exception):  # a scheduler that is gone, or shows nothing
        if "dashboard" in client.scheduler_info()["services"]:
            return f"dashboard {client.dashboard_link}"
    return ""
