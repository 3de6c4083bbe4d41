"""Options for distributing members of a sweep and trials over processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from mdf_loop import arguments
from mdf_loop.arguments import is_whole
from mdf_loop.errors import InputError
from mdf_loop.paths import path_of
from mdf_loop.request.run_options import DEFAULT_RETRIES, RunOptions


class Sharing(Struct, frozen=True):
    """Options for distributing members of a sweep and trials over processes.

    Attributes:
        cluster: Workers: a number of processes, an address, a client or a file.
        block: Number of members of a block, or None for a number that fits the speed.
        retries: Number of times that a block is run again after its worker died.
        resumes: True if the run computes only the members that are missing in its store.
    """

    cluster: Any
    block: int | None = None
    retries: int = DEFAULT_RETRIES
    resumes: bool = False


def checked_sharing(options: RunOptions) -> Sharing | None:
    """Return the checked cluster options of a run, or None without a cluster.

    Raises:
        InputError: An option is invalid, or does not fit a run on a cluster.
    """
    cluster, retries = options.cluster, options.retries
    block = None if options.block is None else arguments.positive_integer(options.block, "block")
    if not is_whole(retries) or retries < 0:
        raise InputError(f"retries must be a whole number from 0 on, not {retries!r}"[:200])
    if cluster is None:
        return None
    return Sharing(cluster, block, int(retries), _resumes_store(options.resume, options.output))


def _resumes_store(resume: Any, output: Any) -> bool:
    """Return True if a run on a cluster resumes from the Zarr store that it writes.

    Raises:
        InputError: `resume` names another store, or the run writes no store.
    """
    if resume is None or resume is False:
        return False
    is_zarr = output is not None and Path(output).suffix.lower() == ".zarr"
    if not is_zarr or (resume is not True and path_of(resume, "the store") != Path(output)):
        raise InputError(
            "a run on a cluster goes on with the store that it writes",
            hint="give the same store as output and resume: output='sweep.zarr', resume=True",
        )
    return True
