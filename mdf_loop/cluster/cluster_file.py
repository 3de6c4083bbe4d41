"""Description of a cluster in a YAML file: SLURM jobs, or processes started by SSH.

    slurm:                          ssh:
      queue: normal                   hosts: [head, node1, node2]
      cores: 1                        worker_options: {nthreads: 1}
      memory: 4GB
      walltime: "02:00:00"
      jobs: 40

`jobs` is the number of jobs. All other keys are arguments of `dask_jobqueue.SLURMCluster`, or of
`dask.distributed.SSHCluster`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from mdf_loop.cluster.libraries import import_library
from mdf_loop.errors import InputError
from mdf_loop.name_suggestions import suggest

JOBS_KEY = "jobs"
"""Key for the number of SLURM jobs."""

_EXCLUDED_ARGUMENTS = {
    *("asynchronous", "loop", "name", "config_name", "scheduler", "scheduler_cls", "job_cls"),
    *("worker_class", "security", "n_workers", "project", "env_extra", "extra", "header_skip"),
    *("job_extra", "host", "dashboard_address"),
}
"""Arguments that are Python objects, that are set by this program, or that are deprecated."""

_EXAMPLE_HINT = "see docs/how-to/run-on-a-cluster.md for an example"


class ClusterFile(Struct, frozen=True):
    """Content of a cluster file, with the kind of cluster and the arguments of its Dask class."""

    path: Path
    cluster_kind: str
    arguments: Mapping[str, Any]

    def start(self) -> Any:
        """Start the Dask cluster that the file describes.

        Raises:
            InputError: The cluster does not start. The message has the reason.
        """
        arguments = dict(self.arguments)
        job_count = arguments.pop(JOBS_KEY, None)
        try:
            dask_cluster = _CLUSTER_CLASSES[self.cluster_kind]()(**arguments)
            if job_count is not None:
                dask_cluster.scale(jobs=job_count)
        except Exception as error:  # noqa: BLE001 - the libraries that start it raise any exception
            raise InputError(
                f"the cluster of '{self.path}' does not start: {error}",
                hint="try its arguments in Python with the same class of Dask",
            ) from None
        return dask_cluster


def read_cluster(path: str | Path) -> ClusterFile:
    """Read the description of a cluster from a YAML file.

    Raises:
        InputError: The file cannot be read, or has an unknown key.
    """
    file_path = Path(path)
    try:
        file_content = yaml.safe_load(file_path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the cluster file '{path}': {error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"the cluster file '{path}' is no YAML: {error}") from None
    if not isinstance(file_content, Mapping) or len(file_content) != 1:
        raise InputError(
            f"'{path}' describes no cluster: it needs one of slurm, ssh", hint=_EXAMPLE_HINT
        )
    ((cluster_kind, arguments),) = file_content.items()
    if cluster_kind not in _CLUSTER_CLASSES:
        raise InputError(
            f"'{path}' describes a cluster of the unknown kind '{cluster_kind}'",
            hint=suggest(str(cluster_kind), _CLUSTER_CLASSES) or "give slurm or ssh",
        )
    if not isinstance(arguments, Mapping):
        raise InputError(f"'{path}': {cluster_kind} needs arguments by name", hint=_EXAMPLE_HINT)
    _check_keys(file_path, cluster_kind, arguments)
    return ClusterFile(file_path, cluster_kind, arguments)


def _check_keys(path: Path, kind: str, arguments: Mapping[str, Any]) -> None:
    """Raise InputError if a cluster file has unknown or missing arguments.

    Raises:
        InputError: An argument is unknown, or the number of jobs is missing or invalid.
    """
    allowed_names = _allowed_arguments(kind)
    for name in arguments:
        if name not in allowed_names:
            raise InputError(
                f"'{path}': {kind} takes no '{name}'",
                hint=suggest(str(name), allowed_names)
                or f"it takes {', '.join(sorted(allowed_names))}",
            )
    job_count = arguments.get(JOBS_KEY)
    if kind == "slurm" and (type(job_count) is not int or job_count < 1):
        raise InputError(f"'{path}': slurm needs the number of jobs, a whole number above 0")


def _allowed_arguments(kind: str) -> set[str]:
    """Return the names of the arguments that a cluster file may set for a kind of cluster."""
    cluster_class: Any = _CLUSTER_CLASSES[kind]()
    if kind == "ssh":
        return _argument_names(cluster_class) - _EXCLUDED_ARGUMENTS
    classes = (*cluster_class.__mro__, *cluster_class.job_cls.__mro__)
    job_classes = [
        base_class for base_class in classes if base_class.__module__.startswith("dask_jobqueue")
    ]
    return set().union({JOBS_KEY}, *map(_argument_names, job_classes)) - _EXCLUDED_ARGUMENTS


def _argument_names(function: Callable[..., Any]) -> set[str]:
    """Return the names of a function's arguments, except `*args` and `**kwargs`."""
    parameters = inspect.signature(function).parameters.values()
    return {
        parameter.name
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def _slurm_class() -> Any:
    """Return the class `dask_jobqueue.SLURMCluster`."""
    return import_library("dask_jobqueue").SLURMCluster


def _ssh_class() -> Any:
    """Return the class `distributed.SSHCluster`."""
    return import_library("distributed").SSHCluster


_CLUSTER_CLASSES: Mapping[str, Callable[[], Any]] = {"slurm": _slurm_class, "ssh": _ssh_class}
