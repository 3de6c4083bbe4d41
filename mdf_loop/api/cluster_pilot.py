"""Pilot runs of the first members in this process, which determine the division of members into blocks."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
from msgspec import Struct

from mdf_loop.api.cluster_job import ComputedBlock, Job, flatten_members
from mdf_loop.cluster.partition import MemberBlock, Partition
from mdf_loop.errors import RunError
from mdf_loop.ir import StopReason
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.recording.zarr_folder import CHUNK_BYTES
from mdf_loop.signals import stop_exception

TARGET_BLOCK_SECONDS = 10.0
"""Approximate target duration of a block, in seconds."""

MIN_BLOCKS = 32
"""Least number of blocks of a run, so that all workers finish at about the same time."""

SUFFICIENT_PILOT_SECONDS = 0.25
"""Duration of a pilot run, in seconds, that suffices to estimate the speed."""

_GROWTH_FACTOR = 8
"""Factor by which the number of members grows from one pilot run to the next."""

_NATIVE_BLOCK_MEMBERS = 64
"""Number of members that machine code runs at once. Smaller pilot runs underestimate the speed."""


class PilotRun(Struct, frozen=True):
    """Outcome of the pilot runs.

    Attributes:
        cut: Division of the members into blocks.
        block: First block, which the pilot has run.
        computed: Outcome of the first block.
    """

    cut: Partition
    block: MemberBlock
    computed: ComputedBlock


def run_pilot(job: Job, block: int | None, stopping: Stopping) -> PilotRun:
    """Run increasing numbers of members until the speed is known, and divide all members into blocks.

    Args:
        job: Model and run specification of the members.
        block: Number of members of a block, or None for a number that fits the speed.
        stopping: Time limit and signals that end the run.

    Raises:
        RunError: All members fail, or the time limit expires before the first member is computed.
        KeyboardInterrupt: A signal ended the run before the first member was computed.
    """
    members = math.prod(job.shape)
    most, target, warm = min(block or members, members), 1, False
    whole: PilotRun | None = None
    while True:
        first = Partition.of(job.shape, target, 1).block(0)
        began = perf_counter()
        job.limit_time(stopping.remaining)
        computed = job.compute_block(first.first, first.last)
        job.limit_time(None)
        took = perf_counter() - began
        if _is_partial(computed):
            if whole is None:
                raise _stop_error(stopping)
            return whole
        is_all = first.last == members
        if computed.pieces:
            size = block or int(
                min(TARGET_BLOCK_SECONDS / took * first.members, members / MIN_BLOCKS)
            )
            whole = PilotRun(Partition.of(job.shape, target, size), first, computed)
            most = min(most, max(1, CHUNK_BYTES // _largest_output_bytes(computed)))
            enough = took >= (
                SUFFICIENT_PILOT_SECONDS if warm else TARGET_BLOCK_SECONDS
            ) or target >= _largest_power_of_two(most)
            if is_all or enough or stopping.reason is not None:
                break
            growth = (
                _GROWTH_FACTOR if warm or took > 1 else _NATIVE_BLOCK_MEMBERS
            )  # the cold run also compiled the model
            target, warm = min(target * growth, _largest_power_of_two(most)), True
        elif is_all:
            raise _all_failed_error(computed)
        else:
            target *= _GROWTH_FACTOR
    return whole


def _is_partial(computed: ComputedBlock) -> bool:
    """Return True if a signal or the time limit ended the run of a block before its end."""
    reasons = {piece.results.stopped_by for piece in computed.pieces}
    return StopReason.TIME_LIMIT in reasons or any(reason.is_asked for reason in reasons)


def _stop_error(stopping: Stopping) -> BaseException:
    """Return the exception for a run that was stopped before its first member was computed."""
    if stopping.signalled is not None:
        return stop_exception(stopping.signalled)
    return RunError(
        "the time limit of the run was over before the first member was computed",
        hint="give it more time, or run fewer steps",
    )


def _largest_power_of_two(most: int) -> int:
    """Return the largest power of two that is at most `most`. Processors handle such block sizes well."""
    return 1 << most.bit_length() - 1


def _all_failed_error(computed: ComputedBlock) -> RunError:
    """Return the error for a run in which all members failed, with the finding of the first member."""
    failed = computed.failures[0]
    return RunError(
        f"all members failed; {failed.who}: {failed.finding.what}",
        failed.finding.where,
        failed.finding.hint,
    )


def _largest_output_bytes(computed: ComputedBlock) -> int:
    """Return the size in bytes of the largest output of one member."""
    piece = computed.pieces[0]
    arrays = flatten_members(piece.results).values()
    return max(1, *(array.nbytes // piece.count for array in arrays), np.dtype(float).itemsize)
