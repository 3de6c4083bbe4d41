"""The first members of a run, which are run here: they tell how members are cut into blocks."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
from msgspec import Struct

from mdf_loop.api.cluster_job import Job, MadeBlock, flat
from mdf_loop.cluster.partition import MemberBlock, Partition
from mdf_loop.errors import RunError
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.recording.zarr_folder import CHUNK

BLOCK = 10.0
"""Seconds that a block takes, about."""

PARTS = 32
"""Into how many blocks a run is cut at least, so that workers end at the same time."""

ENOUGH = 0.25
"""Seconds of the first members that tell the speed."""

_GROWTH = 8
_LANES = 64
"""Members that machine code runs at once: fewer tell little about the speed of many."""


class Pilot(Struct, frozen=True):
    """How members are cut, and what the first block gave."""

    cut: Partition
    block: MemberBlock
    made: MadeBlock


def pilot(job: Job, block: int | None, stopping: Stopping) -> Pilot:
    """Run more and more of the first members, until it is known how long they take.

    Args:
        job: what is run.
        block: how many members a block has, if that is said.
        stopping: what ends it.

    Raises:
        RunError: all members fail.
    """
    members = math.prod(job.shape)
    most, wanted, warm = min(block or members, members), 1, False
    while True:
        first = Partition.of(job.shape, wanted, 1).block(0)
        began = perf_counter()
        made = job.made(first.first, first.last)
        took = perf_counter() - began
        is_all = first.last == members
        if made.pieces:
            most = min(most, max(1, CHUNK // _bytes(made)))
            enough = took >= (ENOUGH if warm else BLOCK) or wanted >= _power(most)
            if is_all or enough or stopping.reason is not None:
                break
            growth = _GROWTH if warm or took > 1 else _LANES  # it made the model ready, too
            wanted, warm = min(wanted * growth, _power(most)), True
        elif is_all:
            raise _all_failed(made)
        else:
            wanted *= _GROWTH
    size = block or int(min(BLOCK / took * first.members, members / PARTS))
    return Pilot(Partition.of(job.shape, wanted, size), first, made)


def _power(most: int) -> int:
    """The largest power of two that is not above: processors like such."""
    return 1 << most.bit_length() - 1


def _all_failed(made: MadeBlock) -> RunError:
    failed = made.failures[0]
    return RunError(
        f"all members failed; {failed.who}: {failed.finding.what}",
        failed.finding.where,
        failed.finding.hint,
    )


def _bytes(made: MadeBlock) -> int:
    """The bytes of the largest output of one member."""
    piece = made.pieces[0]
    arrays = flat(piece.results).values()
    return max(1, *(array.nbytes // piece.count for array in arrays), np.dtype(float).itemsize)
