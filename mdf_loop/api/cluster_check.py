"""Check of the workers of a cluster: library versions, native loops, and speed."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.running import run_without_files
from mdf_loop.cluster.clients import connect
from mdf_loop.cluster.environment import environment_versions
from mdf_loop.errors import InputError
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.request.run_options import RunOptions
from mdf_loop.run.device import Placement
from mdf_loop.specification import specify

FIRST_WORKER_SECONDS = 60.0
"""Seconds to wait for the first worker."""

_STEP_COUNT, _MEMBER_COUNT = 2000, 256
"""Numbers of steps and of members in the run that measures the speed of a worker."""

_NEURON_MODEL = {
    "neuron": {
        "nodes": {
            "cell": {
                "input_ports": {"current": {"default_value": 0.5}},
                "parameters": {
                    "v": {
                        "default_initial_value": -1.0,
                        "time_derivative": "v - v * v * v / 3 - w + current",
                    },
                    "w": {
                        "default_initial_value": 0.0,
                        "time_derivative": "(v + 0.7 - 0.8 * w) / 12.5",
                    },
                },
                "output_ports": {"v": {"value": "v"}},
            }
        }
    }
}
"""FitzHugh-Nagumo neuron whose run measures the speed of a worker."""


class WorkerReport(Struct, frozen=True):
    """Report about one worker of a cluster: versions of libraries, native loops, and speed.

    Attributes:
        address: Address of the worker.
        thread_count: Number of threads of the worker.
        library_versions: Versions of libraries and availability of native loops.
        steps_per_second: Simulated steps of one neuron per second.
    """

    address: str
    thread_count: int
    library_versions: Mapping[str, str]
    steps_per_second: float


def check_workers(cluster: Any) -> list[WorkerReport]:
    """Return a report about each worker of a cluster, with its library versions and its speed.

    Raises:
        InputError: The cluster cannot be reached or has no worker.
    """
    with connect(cluster) as connection:
        client = connection.client
        try:
            client.wait_for_workers(1, timeout=FIRST_WORKER_SECONDS)
        except TimeoutError:
            raise InputError(
                f"the cluster '{cluster}' has no worker after {FIRST_WORKER_SECONDS:.0f} s",
                hint="'dask worker ADDRESS' starts one; of jobs that wait the queue knows more",
            ) from None
        if isinstance(cluster, int):
            client.wait_for_workers(cluster, timeout=FIRST_WORKER_SECONDS)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        futures = {
            address: client.submit(_measure_speed, workers=[address], pure=False)
            for address in workers
        }
        return [
            _read_report(address, workers[address], futures[address]) for address in sorted(futures)
        ]


def _read_report(address: str, worker: Mapping[str, Any], future: Any) -> WorkerReport:
    """Return the report about a cluster's worker from its measured speed and versions.

    Raises:
        InputError: The worker lacks a library.
    """
    try:
        library_versions, steps_per_second = future.result()
    except ModuleNotFoundError as error:
        raise InputError(
            f"the worker '{address}' lacks a library: {error}",
            hint="install mdf-loop[cluster] there, in the environment that starts the worker",
        ) from None
    return WorkerReport(address, worker["nthreads"], library_versions, steps_per_second)


def _measure_speed() -> tuple[dict[str, str], float]:
    """Return this process's library versions and speed, in steps of a model neuron per second."""
    prepared_model = PreparedModel(open_document(_NEURON_MODEL), Placement("cpu"), Options())
    spec = specify(
        RunOptions(
            sweep={"current": np.linspace(0, 1, _MEMBER_COUNT)},
            steps=_STEP_COUNT,
            dt=0.1,
            progress=False,
        )
    )
    run_without_files(prepared_model, spec)
    start_time = perf_counter()
    run_without_files(prepared_model, spec)
    return environment_versions(), _STEP_COUNT * _MEMBER_COUNT / (perf_counter() - start_time)
