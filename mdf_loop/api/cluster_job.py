"""Execution of blocks of sweep members on the workers of a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.api.over_trials import select_for_statistics
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.running import run_without_files
from mdf_loop.cluster.environment import check_environment, environment_versions
from mdf_loop.cluster.partition import Box, MemberBlock, boxes
from mdf_loop.errors import Finding, RunError
from mdf_loop.ir import Array
from mdf_loop.results.data import Results
from mdf_loop.run.onnxruntime.session import set_max_threads
from mdf_loop.run.recording.metadata import COMPUTED, FAILED
from mdf_loop.run.recording.missing_rows import cast_for_nan
from mdf_loop.run.recording.not_finite import NotFinite, earliest
from mdf_loop.run.recording.regions import Regions
from mdf_loop.specification import RunControls, RunSpecification, Values
from mdf_loop.sweeps import select_members, sweep_shape
from mdf_loop.trials import Draws

_ASSUMED_RUN_COUNT = 1 << 20
"""Assumed number of runs of a worker, large enough that compilation to machine code pays off."""


class ConsecutiveMembers(Struct, frozen=True):
    """Results of a range of consecutive members of a sweep."""

    first_member: int
    member_count: int
    results: Results


class FailedMember(Struct, frozen=True):
    """Number, label (with the swept values) and error of a sweep member whose run failed."""

    member_number: int
    member_label: str
    finding: Finding


class ComputedBlock(Struct, frozen=True):
    """Outcome of a block of sweep members, with results, failures and the first nan or infinity."""

    batches: tuple[ConsecutiveMembers, ...]
    failures: tuple[FailedMember, ...]
    first_nonfinite_value: NotFinite | None = None


class Job:
    """Picklable job for cluster workers, with the model and the run specification of each member.

    Attributes:
        prepared: Model that the workers run.
        shape: Number of members along each axis of the sweep, followed by the number of trials if any.
        store: Store to which workers write the results of members, or None.
    """

    def __init__(self, prepared: PreparedModel, spec: RunSpecification) -> None:
        self.prepared = prepared
        self._sweep = spec.values.sweep
        self._trials = spec.values.draws.trials
        selection = spec.selection
        if selection.over_trials.statistics:
            selection = select_for_statistics(selection)
        self._spec = replace(
            spec.with_options(output=None, overwrite=False),
            selection=selection,
            controls=RunControls(nan=spec.controls.nan, progress=False),
            sharing=None,
            runs=_ASSUMED_RUN_COUNT,
        )
        trial_shape = () if self._trials is None else (len(self._trials),)
        self.shape = (*sweep_shape(self._sweep), *trial_shape)
        self._environment = environment_versions()
        self.store: Regions | None = None

    def check_worker(self, worker: str) -> None:
        """Raise an error if a worker's library versions would give different numbers."""
        check_environment(self._environment, worker)

    @property
    def member_axis_count(self) -> int:
        """Number of leading axes of the results that stand for sweep members and trials."""
        return len(self._leading_shape)

    @property
    def _leading_shape(self) -> tuple[int, ...]:
        """Number of sweep members and number of trials, as lengths of the results' leading axes."""
        member_shape = (math.prod(sweep_shape(self._sweep)),) if self._sweep else ()
        return member_shape if self._trials is None else (*member_shape, len(self._trials))

    def spec_of(self, box: Box) -> RunSpecification:
        """Return the specification of the run of a box of members (one slice for each axis)."""
        run_values, axis_slices = self._spec.values, list(box)
        if self._sweep:
            member_slice = axis_slices.pop(0)
            run_values = replace(
                run_values, sweep=select_members(self._sweep, member_slice.start, member_slice.stop)
            )
        if self._trials is not None:
            trial_numbers = self._trials[axis_slices[0]]
            run_values = replace(run_values, draws=Draws(run_values.draws.seed, trial_numbers))
        return replace(self._spec, values=run_values)

    def limit_time(self, seconds: float | None) -> None:
        """Set or remove the time limit, in seconds, for later runs of members.

        None removes the limit.
        """
        self._spec = replace(self._spec, controls=replace(self._spec.controls, time_limit=seconds))

    def compute_block(self, first: int, last: int) -> ComputedBlock:
        """Run the members from `first` to `last - 1` of a sweep, and return their outcome.

        A box of members whose run fails is halved repeatedly until the failed members are isolated.
        """
        batches: list[ConsecutiveMembers] = []
        failures: list[FailedMember] = []
        nonfinite_values: list[NotFinite | None] = []
        leading_shape = self._leading_shape
        pending_member_boxes = list(boxes(leading_shape, first, last))[::-1]
        while pending_member_boxes:
            member_box = pending_member_boxes.pop()
            first_member = int(
                np.ravel_multi_index([axis_slice.start for axis_slice in member_box], leading_shape)
            )
            member_count = math.prod(
                axis_slice.stop - axis_slice.start for axis_slice in member_box
            )
            try:
                batch = ConsecutiveMembers(first_member, member_count, self._run(member_box))
                batches.append(batch)
                nonfinite_values.append(batch.results.not_finite)
            except RunError as error:
                if member_count == 1:
                    finding = error.findings[0]
                    failures.append(
                        FailedMember(first_member, self.member_label(first_member), finding)
                    )
                else:
                    pending_member_boxes += list(_halve_box(member_box))[::-1]
        return ComputedBlock(tuple(batches), tuple(failures), earliest(nonfinite_values))

    def _run(self, box: Box) -> Results:
        """Run the members in a box (one slice per axis), and return the results without the model.

        The attributes `model` and `run_values` of the results are empty.
        """
        results = run_without_files(self.prepared, self.spec_of(box))
        nonfinite_value = results.not_finite
        if nonfinite_value is not None and nonfinite_value.member is not None:
            member = box[0].start + nonfinite_value.member
            nonfinite_value = replace(nonfinite_value, member=member)
        return results.with_changes(model=None, run_values=Values(), not_finite=nonfinite_value)

    def member_label(self, member: int) -> str:
        """Return a text that names a member of the sweep: `member 17 (cell.a = 0.3, trial 4)`."""
        leading_shape = self._leading_shape
        indices = [int(index) for index in np.unravel_index(member, leading_shape)]
        label_parts = []
        if self._sweep:
            member_index = indices.pop(0)
            swept_values = select_members(self._sweep, member_index, member_index + 1)
            label_parts += [
                f"{name} = {_shorten(member_values[0])}"
                for name, member_values in swept_values.items()
            ]
        if self._trials is not None:
            label_parts.append(f"trial {self._trials[indices[0]]}")
        return f"member {member} ({', '.join(label_parts)})"


def _shorten(value: Any) -> str:
    """Return a swept value as text of at most 60 characters."""
    return repr(np.asarray(value).tolist())[:60]


def _halve_box(box: Box) -> Iterator[Box]:
    """Yield both halves of a box (one slice per axis), cut along the first axis longer than 1."""
    axis = next(k for k, axis_slice in enumerate(box) if axis_slice.stop - axis_slice.start > 1)
    midpoint = (box[axis].start + box[axis].stop) // 2
    for half_slice in (slice(box[axis].start, midpoint), slice(midpoint, box[axis].stop)):
        yield (*box[:axis], half_slice, *box[axis + 1 :])


def run_block_on_worker(job: Job, block: MemberBlock) -> ComputedBlock:
    """Run a block of sweep members on a worker of a cluster, and return the block's outcome.

    Results that were written to a store are omitted.
    """
    from distributed import get_worker

    worker = get_worker()
    job.check_worker(f"'{worker.address}'")
    set_max_threads(max(1, worker.state.nthreads))
    computed_block = job.compute_block(block.first_member, block.end_member)
    if job.store is None:
        return computed_block
    write_block(job.store, block, computed_block)
    return ComputedBlock((), computed_block.failures, computed_block.first_nonfinite_value)


def write_block(store: Regions, block: MemberBlock, computed_block: ComputedBlock) -> None:
    """Write the outcome of a block of members to the Zarr store of the run."""
    completion_flags = np.full(block.member_count, FAILED, np.int8)
    arrays: dict[str, Array] = {}
    for batch in computed_block.batches:
        row_slice = slice(
            batch.first_member - block.first_member,
            batch.first_member - block.first_member + batch.member_count,
        )
        completion_flags[row_slice] = COMPUTED
        for name, array in flatten_members(batch.results).items():
            if len(computed_block.batches) == 1 and batch.member_count == block.member_count:
                arrays[name] = array
                continue
            if name not in arrays:
                shape = (block.member_count, *array.shape[1:])
                dtype = array.dtype
                arrays[name] = np.full(shape, np.nan if dtype.kind in "fc" else 0, dtype)
            arrays[name][row_slice] = array
    target_boxes = list(boxes(store.shape, block.first_member, block.end_member))
    store.write(target_boxes, arrays, completion_flags)


def flatten_members(results: Results) -> dict[str, Array]:
    """Return the outputs with all leading axes (members and trials) merged into one."""
    return _merge_member_axes(results, {name: np.asarray(array) for name, array in results.items()})


def flatten_lengths(results: Results) -> dict[str, Array]:
    """Return the row counts of the outputs, with all member axes merged into one."""
    return _merge_member_axes(results, results.lengths)


def _merge_member_axes(results: Results, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Merge the leading axes (sweep members and trials) of each array into one axis."""
    member_axis_count = count_member_axes(results)
    return {
        name: array.reshape(
            math.prod(array.shape[:member_axis_count]), *array.shape[member_axis_count:]
        )
        for name, array in arrays.items()
    }


def count_member_axes(results: Results) -> int:
    """Return the number of leading axes of results that stand for sweep members and trials."""
    return sum(axis.is_swept or axis.name == "trial" for axis in results.axes)


def with_nan_rows(arrays: Mapping[str, Array], is_computed: Array) -> dict[str, Array]:
    """Return arrays of all sweep members, with nan for the members that were not computed.

    Args:
        arrays: Arrays with an axis of members in front.
        is_computed: Mask of the computed members.

    Raises:
        RunError: An integer array holds a value that float64 cannot represent.
    """
    if is_computed.all():
        return dict(arrays)
    float_arrays = {name: cast_for_nan(name, array) for name, array in arrays.items()}
    for array in float_arrays.values():
        array[~is_computed] = np.nan
    return float_arrays
