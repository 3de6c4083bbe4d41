"""A cluster that a YAML file describes: jobs of SLURM, or processes by SSH.

    slurm:                          ssh:
      queue: normal                   hosts: [head, node1, node2]
      cores: 1                        worker_options: {nthreads: 1}
      memory: 4GB
      walltime: "02:00:00"
      jobs: 40

All but `jobs`, which is how many are wanted, are the arguments of `dask_jobqueue.SLURMCluster`, or of
`dask.distributed.SSHCluster`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from mdf_loop.cluster.needed import needed
from mdf_loop.errors import InputError
from mdf_loop.suggestion import suggestion

JOBS = "jobs"
"""How many jobs of SLURM are wanted."""

_NOT_OF_A_FILE = {
    *("asynchronous", "loop", "name", "config_name", "scheduler", "scheduler_cls", "job_cls"),
    *("worker_class", "security", "n_workers", "project", "env_extra", "extra", "header_skip"),
    *("job_extra", "host", "dashboard_address"),
}
"""Arguments that are objects of Python, that this program gives, or that have another name now."""

_EXAMPLE = "see docs/how-to/run-on-a-cluster.md for an example"


class Described(Struct, frozen=True):
    """A cluster as a file describes it: `kind` is `slurm` or `ssh`, `arguments` are those of its class."""

    path: Path
    kind: str
    arguments: Mapping[str, Any]

    def started(self) -> Any:
        """The cluster.

        Raises:
            InputError: it does not start; the sentence says why.
        """
        arguments = dict(self.arguments)
        jobs = arguments.pop(JOBS, None)
        try:
            cluster = _CLASSES[self.kind]()(**arguments)
            if jobs is not None:
                cluster.scale(jobs=jobs)
        except Exception as error:  # noqa: BLE001 - of any library that starts it
            raise InputError(
                f"the cluster of '{self.path}' does not start: {error}",
                hint="try its arguments in Python with the same class of Dask",
            ) from None
        return cluster


def read_cluster(path: str | Path) -> Described:
    """The cluster that a YAML file describes.

    Raises:
        InputError: the file cannot be read, or a key in it means nothing.
    """
    place = Path(path)
    try:
        content = yaml.safe_load(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the cluster file '{path}': {error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"the cluster file '{path}' is no YAML: {error}") from None
    if not isinstance(content, Mapping) or len(content) != 1:
        raise InputError(
            f"'{path}' describes no cluster: it needs one of slurm, ssh", hint=_EXAMPLE
        )
    ((kind, arguments),) = content.items()
    if kind not in _CLASSES:
        raise InputError(
            f"'{path}' describes a cluster of kind '{kind}', which there is not",
            hint=suggestion(str(kind), _CLASSES) or "give slurm or ssh",
        )
    if not isinstance(arguments, Mapping):
        raise InputError(f"'{path}': {kind} needs arguments by name", hint=_EXAMPLE)
    _check_keys(place, kind, arguments)
    return Described(place, kind, arguments)


def _check_keys(path: Path, kind: str, arguments: Mapping[str, Any]) -> None:
    known = _known(kind)
    for name in arguments:
        if name not in known:
            raise InputError(
                f"'{path}': {kind} takes no '{name}'",
                hint=suggestion(str(name), known) or f"it takes {', '.join(sorted(known))}",
            )
    jobs = arguments.get(JOBS)
    if kind == "slurm" and (type(jobs) is not int or jobs < 1):
        raise InputError(
            f"'{path}': slurm needs jobs, a whole number above 0: how many jobs are wanted"
        )


def _known(kind: str) -> set[str]:
    """The arguments of a class, and of those that it hands them to, which a file can give."""
    made: Any = _CLASSES[kind]()
    if kind == "ssh":
        return _named(made) - _NOT_OF_A_FILE
    classes = (*made.__mro__, *made.job_cls.__mro__)
    of_jobs = [each for each in classes if each.__module__.startswith("dask_jobqueue")]
    return set().union({JOBS}, *map(_named, of_jobs)) - _NOT_OF_A_FILE


def _named(called: Callable[..., Any]) -> set[str]:
    """The arguments that have a name of their own."""
    given = inspect.signature(called).parameters.values()
    return {one.name for one in given if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}


def _slurm() -> Any:
    return needed("dask_jobqueue").SLURMCluster


def _ssh() -> Any:
    return needed("distributed").SSHCluster


_CLASSES: Mapping[str, Callable[[], Any]] = {"slurm": _slurm, "ssh": _ssh}
