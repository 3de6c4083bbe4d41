"""Options for the distribution of members and trials over processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from mdf_loop import arguments
from mdf_loop.arguments import is_whole
from mdf_loop.errors import InputError
from mdf_loop.paths import path_of

RETRIES = 5
"""How often a block is run again whose worker has died, if nothing else is said."""


class Sharing(Struct, frozen=True):
    """Options for the distribution of members and trials. See `CompiledModel.run` for the arguments.

    Members are cut into blocks, of so many if it is said. One whose worker dies is run again, so often.
    A run that `resumes` computes only what its store has not.
    """

    cluster: Any
    block: int | None = None
    retries: int = RETRIES
    resumes: bool = False


def shared_by(cluster: Any, block: Any, retries: Any) -> Sharing | None:
    """Return the options, or None if this process computes all members.

    Raises:
        InputError: numbers are none, or are given for a cluster that is not.
    """
    if block is not None:
        block = arguments.whole(block, "block")
    if not is_whole(retries) or retries < 0:
        raise InputError(f"retries must be a whole number from 0 on, not {retries!r}"[:200])
    if cluster is not None:
        return Sharing(cluster, block, int(retries))
    for what, is_given in (("a block is", block is not None), ("retries are", retries != RETRIES)):
        if is_given:
            raise InputError(f"{what} for a cluster", hint="give cluster (--cluster), too")
    return None


def resumes_store(resume: Any, output: Any) -> bool:
    """Return True if the run resumes from a store that a cluster has written.

    Raises:
        InputError: another store is named, or none is written.
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


def no_checkpoint() -> InputError:
    """Return the error about a checkpoint of a run on a cluster."""
    return InputError(
        "a run on a cluster has no checkpoint: its store says what is computed",
        hint="give output='sweep.zarr', and resume=True to go on",
    )
