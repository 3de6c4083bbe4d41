"""Destinations of members that workers have run: memory, a store, or statistics over trials."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
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
from mdf_loop.api.gathering import laid_out
from mdf_loop.api.over_trials import (
    build_statistics_results,
    refuse_padding,
    refuse_with_statistics,
)
from mdf_loop.cluster.partition import MemberBlock
from mdf_loop.errors import RunError, UnsupportedError
from mdf_loop.ir import Array, StopReason
from mdf_loop.memory_limit import check
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis, LoopReport
from mdf_loop.run.recording.missing import common_shape, pad_rows
from mdf_loop.run.recording.not_finite import NotFinite, earliest
from mdf_loop.run.recording.over_trials import TrialStatistics
from mdf_loop.specification import RunSpecification


class MemberSink(Protocol):
    """Destination of computed blocks.

    Attributes:
        members: Number of all members.
        done: Number of members in the accepted blocks.
        failures: Failed members of the pilot run.
        not_finite: First value of all members that is not finite, or None.
    """

    members: int
    done: int
    failures: tuple[FailedMember, ...]
    not_finite: NotFinite | None

    def missing(self) -> Iterator[MemberBlock]:
        """Return the blocks that are not computed yet."""

    def put(self, block: MemberBlock, computed: ComputedBlock) -> None:
        """Store the outcome of a block of members."""

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the results of all accepted blocks."""


def _empty_results_like(template: Results, job: Job, spec: RunSpecification) -> Results:
    """Return empty results with the axes of all members and the other properties of a template."""
    results = copy(template)
    axes: list[Axis] = []
    if spec.values.sweep:
        values = {name: np.asarray(rows) for name, rows in spec.values.sweep.items()}
        axes.append(Axis("batch", values, is_swept=True))
    if spec.values.draws.trials is not None:
        axes.append(Axis("trial", {"trial": np.asarray(spec.values.draws.trials)}))
    results.axes = (*axes, *template.axes[count_member_axes(template) :])
    results.state = None
    results._arrays, results.lengths, results.loops = {}, {}, {}
    results.not_finite = None
    return results


# --- in memory ------------------------------------------------------------------------------------

_Key = tuple[str, str]
"""Kind of an array (`output`, `lengths`, `iterations`, `reasons`), and the name of its output or loop."""


class MemorySink:
    """Destination that keeps the results of all members in memory.

    Raises:
        UnsupportedError: An output is no array.
        MemoryLimitError: The results of all members would exceed the memory limit.
    """

    def __init__(self, job: Job, spec: RunSpecification, first: PilotRun) -> None:
        self.members, self.done = first.cut.members, 0
        self.failures = first.computed.failures
        self.not_finite: NotFinite | None = None
        self._cut, self._job, self._spec = first.cut, job, spec
        self._template = first.computed.pieces[0].results
        self._arrays: dict[_Key, Array] = {}
        self._there = np.zeros(self.members, bool)
        self._apart = False
        _check_arrays(self._template)
        size = sum(np.asarray(array).nbytes for array in self._template.values())
        check(
            size / first.computed.pieces[0].count * self.members,
            "what all members give",
            hint="give output='sweep.zarr' (--output): it is written there by those who compute it",
        )
        self.put(first.block, first.computed)

    def missing(self) -> Iterator[MemberBlock]:
        """Return all blocks except the first."""
        return (block for block in self._cut.blocks() if block.number)

    def put(self, block: MemberBlock, computed: ComputedBlock) -> None:
        """Copy the results of a block into the arrays of all members."""
        self.not_finite = earliest((self.not_finite, computed.not_finite))
        for piece in computed.pieces:
            rows = slice(piece.first, piece.first + piece.count)
            for key, array in self._parts(piece):
                self._keep(key, rows, array)
            self._there[rows] = True
        self.done += block.members

    def _parts(self, piece: ConsecutiveMembers) -> Iterator[tuple[_Key, Array]]:
        """Yield the outputs, numbers of rows and loop reports of consecutive members, each with its key."""
        for name, array in flatten_members(piece.results).items():
            yield ("output", name), array
        for name, array in flatten_lengths(piece.results).items():
            yield ("lengths", name), array
        for name, report in piece.results.loops.items():
            for word, codes in (("iterations", report.iterations), ("reasons", report.codes)):
                self._apart |= np.ndim(codes) > 0
                yield (word, name), np.broadcast_to(np.asarray(codes).reshape(-1), piece.count)

    def _keep(self, key: _Key, rows: slice, array: Array) -> None:
        """Copy rows of members into the array of all members, with a wider shape or dtype if necessary."""
        stored = self._arrays.get(key)
        if stored is None:
            stored = np.zeros((self.members, *array.shape[1:]), array.dtype)
        shape = common_shape(key[1], stored.shape[1:], array.shape[1:])
        stored = pad_rows(key[1], stored, (self.members, *shape))
        array = pad_rows(key[1], array, (len(array), *shape))
        stored = stored.astype(np.result_type(stored.dtype, array.dtype), copy=False)
        stored[rows] = array
        self._arrays[key] = stored

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the results of all members, with nan for members that were not computed."""
        results = _empty_results_like(self._template, self._job, self._spec)
        results.stopped_by, results.reason = stopped_by, reason or stopped_by.value
        shape = tuple(axis.length for axis in results.axes[: count_member_axes(results)])
        results._arrays = dict(self._of("output", shape))
        results.lengths = self._of("lengths", shape)
        results.loops = self._loops(shape)
        return laid_out(results, self._spec.values.sweep)

    def _of(self, word: str, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return the arrays of one kind (`output` or `lengths`), with the member axes in this shape."""
        arrays = {name: array for (kind, name), array in self._arrays.items() if kind == word}
        return {
            name: array.reshape(*shape, *array.shape[1:])
            for name, array in with_nan_rows(arrays, self._there).items()
        }

    def _loops(self, shape: tuple[int, ...]) -> dict[str, LoopReport]:
        """Return the loop reports of all members."""
        reports = {}
        for (word, name), counts in self._arrays.items():
            if word == "iterations":
                reasons = self._arrays["reasons", name]
                alike = len(set(zip(counts.tolist(), reasons.tolist(), strict=True))) == 1
                if alike and not self._apart:
                    reports[name] = LoopReport.of(counts[0], reasons[0])
                else:
                    reports[name] = LoopReport.of(counts.reshape(shape), reasons.reshape(shape))
        return reports


def _check_arrays(template: Results) -> None:
    """Refuse outputs that are no arrays of numbers."""
    for name, data in template.items():
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "biufcV":
            raise UnsupportedError(
                f"'{name}' is no array of numbers, and members of a cluster give such only",
                hint="choose other outputs (only, --only), or leave cluster out",
            )


# --- statistics -----------------------------------------------------------------------------------


class OverTrialsSink:
    """Destination that accumulates statistics over trials, always in the order of members and trials."""

    def __init__(self, job: Job, spec: RunSpecification, first: PilotRun) -> None:
        refuse_with_statistics(spec)
        self.members, self.done = first.cut.members, 0
        self.failures: tuple[FailedMember, ...] = ()
        self.not_finite: NotFinite | None = None
        self._cut, self._job, self._spec = first.cut, job, spec
        self._template = first.computed.pieces[0].results
        self._waiting: dict[int, tuple[MemberBlock, ComputedBlock]] = {}
        self._next = 0
        self._statistics = TrialStatistics(spec.selection.over_trials)
        self.put(first.block, first.computed)

    def missing(self) -> Iterator[MemberBlock]:
        """Return all blocks except the first."""
        return (block for block in self._cut.blocks() if block.number)

    def put(self, block: MemberBlock, computed: ComputedBlock) -> None:
        """Store a block, and add all consecutive blocks that are available to the statistics.

        Raises:
            RunError: A trial has failed.
        """
        for failed in computed.failures:
            raise RunError(
                f"{failed.who}: {failed.finding.what}", failed.finding.where, failed.finding.hint
            )
        self.not_finite = earliest((self.not_finite, computed.not_finite))
        self._waiting[block.number] = block, computed
        while self._next in self._waiting:
            block, computed = self._waiting.pop(self._next)
            for piece in computed.pieces:
                refuse_padding(piece.results, self._spec.selection.over_trials.statistics)
                self._statistics.add(piece.results, self._members_of(piece))
            self.done += block.members
            self._next += 1

    def _members_of(self, piece: ConsecutiveMembers) -> range | None:
        """Return the swept member numbers of consecutive results, or None without a sweep."""
        axis = piece.results.axes[0]
        if not axis.is_swept:
            return None
        trials = self._spec.values.draws.trials
        assert trials is not None
        first = piece.first // len(trials)
        return range(first, first + axis.length)

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the statistics over the trials that were added."""
        like = _empty_results_like(self._template, self._job, self._spec)
        like.loops = dict(self._template.loops)
        results = build_statistics_results(self._statistics, like, stopped_by, reason)
        return laid_out(results, self._spec.values.sweep)
