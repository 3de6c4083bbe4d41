"""Pilot runs of a sweep's first members, which determine how members are divided into blocks."""

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

MIN_BLOCK_COUNT = 32
"""Least number of blocks of a run, so that all workers finish at about the same time."""

SUFFICIENT_PILOT_SECONDS = 0.25
"""Duration of a pilot run, in seconds, that suffices to estimate the speed."""

_GROWTH_FACTOR = 8
"""Factor by which the number of members grows from one pilot run to the next."""

_NATIVE_BLOCK_MEMBERS = 64
"""Number of members that machine code runs at once. Smaller pilot runs underestimate the speed."""


class PilotRun(Struct, frozen=True):
    """Outcome of pilot runs, with the first members' results and the division into blocks.

    Attributes:
        partition: Division of the members into blocks.
        block: First block, which the pilot has run.
        computed_block: Outcome of the first block.
    """

    partition: Partition
    block: MemberBlock
    computed_block: ComputedBlock


def run_pilot(job: Job, block: int | None, stop_monitor: Stopping) -> PilotRun:
    """Run the first members of a sweep to measure the speed, and divide all members into blocks.

    Args:
        job: Model and run specification of the members.
        block: Number of members of a block, or None for a number that fits the speed.
        stop_monitor: Time limit and signals that end the run.

    Raises:
        RunError: All members fail, or the time limit expires before the first member is computed.
        KeyboardInterrupt: A signal ended the run before the first member was computed.
    """
    member_count = math.prod(job.shape)
    max_pilot_member_count, pilot_member_count, has_compiled_model = (
        min(block or member_count, member_count),
        1,
        False,
    )
    pilot_run: PilotRun | None = None
    while True:
        pilot_block = Partition.of(job.shape, pilot_member_count, 1).block(0)
        start_time = perf_counter()
        job.limit_time(stop_monitor.remaining)
        computed_block = job.compute_block(pilot_block.first_member, pilot_block.end_member)
        job.limit_time(None)
        elapsed_seconds = perf_counter() - start_time
        if _is_partial(computed_block):
            if pilot_run is None:
                raise _stop_error(stop_monitor)
            return pilot_run
        has_all_members = pilot_block.end_member == member_count
        if computed_block.batches:
            block_member_count = block or int(
                min(
                    TARGET_BLOCK_SECONDS / elapsed_seconds * pilot_block.member_count,
                    member_count / MIN_BLOCK_COUNT,
                )
            )
            pilot_run = PilotRun(
                Partition.of(job.shape, pilot_member_count, block_member_count),
                pilot_block,
                computed_block,
            )
            max_pilot_member_count = min(
                max_pilot_member_count, max(1, CHUNK_BYTES // _largest_output_bytes(computed_block))
            )
            is_sufficient = elapsed_seconds >= (
                SUFFICIENT_PILOT_SECONDS if has_compiled_model else TARGET_BLOCK_SECONDS
            ) or pilot_member_count >= _largest_power_of_two(max_pilot_member_count)
            if has_all_members or is_sufficient or stop_monitor.reason is not None:
                break
            growth_factor = (
                _GROWTH_FACTOR
                if has_compiled_model or elapsed_seconds > 1
                else _NATIVE_BLOCK_MEMBERS
            )  # the cold run also compiled the model
            pilot_member_count, has_compiled_model = (
                min(
                    pilot_member_count * growth_factor,
                    _largest_power_of_two(max_pilot_member_count),
                ),
                True,
            )
        elif has_all_members:
            raise _all_failed_error(computed_block)
        else:
            pilot_member_count *= _GROWTH_FACTOR
    return pilot_run


def _is_partial(computed_block: ComputedBlock) -> bool:
    """Return True if a signal or the time limit stopped the run of a block of members."""
    stop_reasons = {batch.results.stopped_by for batch in computed_block.batches}
    return StopReason.TIME_LIMIT in stop_reasons or any(reason.is_asked for reason in stop_reasons)


def _stop_error(stop_monitor: Stopping) -> BaseException:
    """Return the exception for a sweep that was stopped before its first member was computed."""
    if stop_monitor.received_signal is not None:
        return stop_exception(stop_monitor.received_signal)
    return RunError(
        "the time limit of the run was over before the first member was computed",
        hint="give it more time, or run fewer steps",
    )


def _largest_power_of_two(limit: int) -> int:
    """Return the largest power of two that is at most `limit`."""
    return 1 << limit.bit_length() - 1


def _all_failed_error(computed_block: ComputedBlock) -> RunError:
    """Return the error for a sweep in which all members failed, with the first failure's cause."""
    failure = computed_block.failures[0]
    return RunError(
        f"all members failed; {failure.member_label}: {failure.finding.what}",
        failure.finding.where,
        failure.finding.hint,
    )


def _largest_output_bytes(computed_block: ComputedBlock) -> int:
    """Return the size in bytes of the largest output of one member of a sweep."""
    batch = computed_block.batches[0]
    arrays = flatten_members(batch.results).values()
    return max(
        1, *(array.nbytes // batch.member_count for array in arrays), np.dtype(float).itemsize
    )
