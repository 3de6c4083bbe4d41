"""Destinations of the results of a cluster run: memory, a Zarr store, or trial statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from mdf_loop.api.cluster_job import (
    ComputedBlock,
    ConsecutiveMembers,
    FailedMember,
    Job,
    count_member_axes,
    flatten_lengths,
    flatten_members,
    with_nan_rows,
)
from mdf_loop.api.cluster_pilot import PilotRun
from mdf_loop.api.gathering import split_grid_axis
from mdf_loop.api.over_trials import (
    build_statistics_results,
    refuse_padding,
)
from mdf_loop.cluster.partition import MemberBlock
from mdf_loop.errors import RunError, UnsupportedError
from mdf_loop.ir import Array, StopReason
from mdf_loop.memory_limit import check
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis, LoopReport
from mdf_loop.run.recording.missing_rows import common_shape, pad_rows
from mdf_loop.run.recording.not_finite import NotFinite, earliest
from mdf_loop.run.recording.over_trials import TrialStatistics
from mdf_loop.specification import RunSpecification


class MemberSink(Protocol):
    """Protocol of a destination for results that the workers of a cluster compute.

    Attributes:
        member_count: Number of all members.
        done_member_count: Number of members in the accepted blocks.
        failures: Failed members of the pilot run.
        first_nonfinite_value: First value of all members that is not finite, or None.
    """

    member_count: int
    done_member_count: int
    failures: tuple[FailedMember, ...]
    first_nonfinite_value: NotFinite | None

    def missing_blocks(self) -> Iterator[MemberBlock]:
        """Return the blocks of members that no worker has computed yet."""

    def put(self, block: MemberBlock, computed_block: ComputedBlock) -> None:
        """Store the outcome of a computed block of members."""

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the results of all stored blocks of members."""


def _empty_results_like(template: Results, job: Job, spec: RunSpecification) -> Results:
    """Return a copy of some members' results without arrays, but with the axes of all members."""
    axes: list[Axis] = []
    if spec.values.sweep:
        coordinate_arrays = {
            name: np.asarray(swept_values) for name, swept_values in spec.values.sweep.items()
        }
        axes.append(Axis("batch", coordinate_arrays, is_swept=True))
    if spec.values.draws.trials is not None:
        axes.append(Axis("trial", {"trial": np.asarray(spec.values.draws.trials)}))
    return template.with_changes(
        {},
        axes=(*axes, *template.axes[count_member_axes(template) :]),
        state=None,
        lengths={},
        loops={},
        not_finite=None,
    )


# --- in memory ------------------------------------------------------------------------------------

_ArrayKey = tuple[str, str]
"""Kind of an array (`output`, `lengths`, `iterations`, `reasons`), and the name of its output or loop."""


class MemorySink:
    """Destination that keeps the results of all members of a sweep in memory.

    Raises:
        UnsupportedError: An output is no array.
        MemoryLimitError: The results of all members would exceed the memory limit.
    """

    def __init__(self, job: Job, spec: RunSpecification, pilot_run: PilotRun) -> None:
        self.member_count, self.done_member_count = pilot_run.partition.member_count, 0
        self.failures = pilot_run.computed_block.failures
        self.first_nonfinite_value: NotFinite | None = None
        self._partition, self._job, self._spec = pilot_run.partition, job, spec
        self._template = pilot_run.computed_block.batches[0].results
        self._arrays: dict[_ArrayKey, Array] = {}
        self._is_computed = np.zeros(self.member_count, bool)
        self._has_early_exit = False
        _check_arrays(self._template)
        template_bytes = sum(np.asarray(array).nbytes for array in self._template.values())
        check(
            template_bytes / pilot_run.computed_block.batches[0].member_count * self.member_count,
            "what all members give",
            hint="give output='sweep.zarr' (--output): it is written there by those who compute it",
        )
        self.put(pilot_run.block, pilot_run.computed_block)

    def missing_blocks(self) -> Iterator[MemberBlock]:
        """Return all blocks of members but the first, which was run to estimate the speed."""
        return (block for block in self._partition.blocks() if block.block_number)

    def put(self, block: MemberBlock, computed_block: ComputedBlock) -> None:
        """Copy the results of a block of members into the arrays of all members."""
        self.first_nonfinite_value = earliest(
            (self.first_nonfinite_value, computed_block.first_nonfinite_value)
        )
        for batch in computed_block.batches:
            row_slice = slice(batch.first_member, batch.first_member + batch.member_count)
            for array_key, array in self._keyed_arrays(batch):
                self._store_rows(array_key, row_slice, array)
            self._is_computed[row_slice] = True
        self.done_member_count += block.member_count

    def _keyed_arrays(self, batch: ConsecutiveMembers) -> Iterator[tuple[_ArrayKey, Array]]:
        """Yield ((kind, name), array) for the outputs, row counts and loop reports of a batch."""
        for name, array in flatten_members(batch.results).items():
            yield ("output", name), array
        for name, array in flatten_lengths(batch.results).items():
            yield ("lengths", name), array
        for name, report in batch.results.loops.items():
            for array_kind, loop_report_array in (
                ("iterations", report.iterations),
                ("reasons", report.codes),
            ):
                self._has_early_exit |= np.ndim(loop_report_array) > 0
                yield (
                    (array_kind, name),
                    np.broadcast_to(np.asarray(loop_report_array).reshape(-1), batch.member_count),
                )

    def _store_rows(self, array_key: _ArrayKey, row_slice: slice, array: Array) -> None:
        """Copy rows of members into the array of all members, which is widened if necessary.

        Its shape or dtype may change.
        """
        stored_array = self._arrays.get(array_key)
        if stored_array is None:
            stored_array = np.zeros((self.member_count, *array.shape[1:]), array.dtype)
        shape = common_shape(array_key[1], stored_array.shape[1:], array.shape[1:])
        stored_array = pad_rows(array_key[1], stored_array, (self.member_count, *shape))
        array = pad_rows(array_key[1], array, (len(array), *shape))
        stored_array = stored_array.astype(
            np.result_type(stored_array.dtype, array.dtype), copy=False
        )
        stored_array[row_slice] = array
        self._arrays[array_key] = stored_array

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the results of all members of the sweep, with nan for missing members."""
        results = _empty_results_like(self._template, self._job, self._spec)
        member_shape = tuple(axis.length for axis in results.axes[: count_member_axes(results)])
        results = results.with_changes(
            self._arrays_of_kind("output", member_shape),
            stopped_by=stopped_by,
            reason=reason or stopped_by.value,
            lengths=self._arrays_of_kind("lengths", member_shape),
            loops=self._loop_reports(member_shape),
        )
        return split_grid_axis(results, self._spec.values.sweep)

    def _arrays_of_kind(self, kind: str, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return all arrays of a kind, such as `output`, with the members reshaped to `shape`."""
        arrays = {
            name: array for (array_kind, name), array in self._arrays.items() if array_kind == kind
        }
        return {
            name: array.reshape(*shape, *array.shape[1:])
            for name, array in with_nan_rows(arrays, self._is_computed).items()
        }

    def _loop_reports(self, shape: tuple[int, ...]) -> dict[str, LoopReport]:
        """Return the loop reports of all members of the sweep, by loop name."""
        reports_by_loop = {}
        for (array_kind, name), iterations in self._arrays.items():
            if array_kind == "iterations":
                reason_codes = self._arrays["reasons", name]
                has_equal_reports = (
                    len(set(zip(iterations.tolist(), reason_codes.tolist(), strict=True))) == 1
                )
                if has_equal_reports and not self._has_early_exit:
                    reports_by_loop[name] = LoopReport.of(iterations[0], reason_codes[0])
                else:
                    reports_by_loop[name] = LoopReport.of(
                        iterations.reshape(shape), reason_codes.reshape(shape)
                    )
        return reports_by_loop


def _check_arrays(template: Results) -> None:
    """Raise UnsupportedError if an output of the results is no array of numbers."""
    for name, output in template.items():
        if not isinstance(output, np.ndarray) or output.dtype.kind not in "biufcV":
            raise UnsupportedError(
                f"'{name}' is no array of numbers, and members of a cluster give such only",
                hint="choose other outputs (only, --only), or leave cluster out",
            )


# --- statistics -----------------------------------------------------------------------------------


class OverTrialsSink:
    """Destination that accumulates statistics over trials, and adds the trials in order."""

    def __init__(self, job: Job, spec: RunSpecification, pilot_run: PilotRun) -> None:
        self.member_count, self.done_member_count = pilot_run.partition.member_count, 0
        self.failures: tuple[FailedMember, ...] = ()
        self.first_nonfinite_value: NotFinite | None = None
        self._partition, self._job, self._spec = pilot_run.partition, job, spec
        self._template = pilot_run.computed_block.batches[0].results
        self._pending_blocks: dict[int, tuple[MemberBlock, ComputedBlock]] = {}
        self._next_number = 0
        self._statistics = TrialStatistics(spec.selection.over_trials)
        self.put(pilot_run.block, pilot_run.computed_block)

    def missing_blocks(self) -> Iterator[MemberBlock]:
        """Return all blocks of members but the first, which was run to estimate the speed."""
        return (block for block in self._partition.blocks() if block.block_number)

    def put(self, block: MemberBlock, computed_block: ComputedBlock) -> None:
        """Add a block of trials to the statistics, after all preceding blocks.

        A block waits until all blocks with a smaller number have been added.

        Raises:
            RunError: A trial has failed.
        """
        for failure in computed_block.failures:
            raise RunError(
                f"{failure.member_label}: {failure.finding.what}",
                failure.finding.where,
                failure.finding.hint,
            )
        self.first_nonfinite_value = earliest(
            (self.first_nonfinite_value, computed_block.first_nonfinite_value)
        )
        self._pending_blocks[block.block_number] = block, computed_block
        while self._next_number in self._pending_blocks:
            block, computed_block = self._pending_blocks.pop(self._next_number)
            for batch in computed_block.batches:
                refuse_padding(batch.results, self._spec.selection.over_trials.statistics)
                self._statistics.add(batch.results, self._members_of(batch))
            self.done_member_count += block.member_count
            self._next_number += 1

    def _members_of(self, batch: ConsecutiveMembers) -> range | None:
        """Return the range of sweep members in consecutive results, or None without a sweep."""
        axis = batch.results.axes[0]
        if not axis.is_swept:
            return None
        trial_numbers = self._spec.values.draws.trials
        assert trial_numbers is not None
        first_member = batch.first_member // len(trial_numbers)
        return range(first_member, first_member + axis.length)

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the statistics over all trials added so far, as results of a run."""
        empty_results = _empty_results_like(self._template, self._job, self._spec).with_changes(
            loops=self._template.loops
        )
        results = build_statistics_results(self._statistics, empty_results, stopped_by, reason)
        return split_grid_axis(results, self._spec.values.sweep)
