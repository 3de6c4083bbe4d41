"""Job of a cluster's workers, which run blocks of members and report the outcome of each member."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.api.over_trials import select_for_statistics
from mdf_loop.api.prepared import Prepared
from mdf_loop.api.running import run
from mdf_loop.cluster.environment import check_environment, environment_versions
from mdf_loop.cluster.partition import Box, MemberBlock, boxes
from mdf_loop.errors import Finding, RunError
from mdf_loop.ir import Array
from mdf_loop.results.data import Results
from mdf_loop.run.onnxruntime.session import set_max_threads
from mdf_loop.run.recording.metadata import COMPUTED, FAILED
from mdf_loop.run.recording.missing import cast_for_nan
from mdf_loop.run.recording.not_finite import NotFinite, earliest
from mdf_loop.run.recording.regions import Regions
from mdf_loop.specification import RunControls, RunSpecification, Values
from mdf_loop.sweeps import select_members, sweep_shape
from mdf_loop.trials import Draws

_ASSUMED_RUNS = 1 << 20
"""Assumed number of runs of a worker, large enough that compilation to machine code pays off."""


class ConsecutiveMembers(Struct, frozen=True):
    """Results of `count` consecutive members, beginning with the member `first`."""

    first: int
    count: int
    results: Results


class FailedMember(Struct, frozen=True):
    """Member whose run has failed: its number, its name with its values (`who`), and the error."""

    member: int
    who: str
    finding: Finding


class ComputedBlock(Struct, frozen=True):
    """Outcome of a block: results of its members, failed members, and the first value that is not finite."""

    pieces: tuple[ConsecutiveMembers, ...]
    failures: tuple[FailedMember, ...]
    not_finite: NotFinite | None = None


class Job:
    """Picklable model with the specification of the run of each member.

    Attributes:
        prepared: Model that the workers run.
        shape: Number of members along each axis of the sweep, followed by the number of trials if any.
        store: Store to which workers write the results of members, or None.
    """

    def __init__(self, prepared: Prepared, spec: RunSpecification) -> None:
        self.prepared = prepared
        self._sweep = spec.values.sweep
        self._trials = spec.values.draws.trials
        selection = spec.selection
        if selection.over_trials.statistics:
            selection = select_for_statistics(selection)
        self._spec = replace(
            spec,
            selection=selection,
            controls=RunControls(nan=spec.controls.nan, progress=False),
            output=None,
            overwrite=False,
            sharing=None,
            runs=_ASSUMED_RUNS,
        )
        trials = () if self._trials is None else (len(self._trials),)
        self.shape = (*sweep_shape(self._sweep), *trials)
        self._form = environment_versions()
        self.store: Regions | None = None

    def check_form(self, who: str) -> None:
        """Raise an error if the environment of the worker `who` would compute different numbers."""
        check_environment(self._form, who)

    @property
    def axes(self) -> int:
        """Number of axes of members and trials."""
        return len(self._members_and_trials)

    @property
    def _members_and_trials(self) -> tuple[int, ...]:
        """Number of members of the sweep and number of trials, each only if the run has them."""
        swept = (math.prod(sweep_shape(self._sweep)),) if self._sweep else ()
        return swept if self._trials is None else (*swept, len(self._trials))

    def spec_of(self, box: Box) -> RunSpecification:
        """Return the specification of the run of all members in a box (one slice for each axis)."""
        values, places = self._spec.values, list(box)
        if self._sweep:
            rows = places.pop(0)
            values = replace(values, sweep=select_members(self._sweep, rows.start, rows.stop))
        if self._trials is not None:
            numbers = self._trials[places[0]]
            values = replace(values, draws=Draws(values.draws.seed, numbers))
        return replace(self._spec, values=values)

    def limit_time(self, seconds: float | None) -> None:
        """Set the time limit of all later runs of members, in seconds. None removes the limit."""
        self._spec = replace(self._spec, controls=replace(self._spec.controls, time_limit=seconds))

    def compute_block(self, first: int, last: int) -> ComputedBlock:
        """Run the members from `first` to `last - 1`, and return their results and the failed members.

        A box of members whose run fails is halved repeatedly until the failed members are isolated.
        """
        pieces: list[ConsecutiveMembers] = []
        failures: list[FailedMember] = []
        places: list[NotFinite | None] = []
        front = self._members_and_trials
        waiting = list(boxes(front, first, last))[::-1]
        while waiting:
            box = waiting.pop()
            member = int(np.ravel_multi_index([part.start for part in box], front))
            count = math.prod(part.stop - part.start for part in box)
            try:
                piece = ConsecutiveMembers(member, count, self._run(box))
                pieces.append(piece)
                places.append(piece.results.not_finite)
            except RunError as error:
                if count == 1:
                    finding = error.findings[0]
                    failures.append(FailedMember(member, self.called(member), finding))
                else:
                    waiting += list(_halve_box(box))[::-1]
        return ComputedBlock(tuple(pieces), tuple(failures), earliest(places))

    def _run(self, box: Box) -> Results:
        """Return the results of the members in a box, without the model and the inputs."""
        results = run(self.prepared, self.spec_of(box))
        results.model, results.run_values = None, Values()
        not_finite = results.not_finite
        if not_finite is not None and not_finite.member is not None:
            results.not_finite = replace(not_finite, member=box[0].start + not_finite.member)
        return results

    def called(self, member: int) -> str:
        """Return the text that names a member and its values: `member 17 (cell.a = 0.3, trial 4)`."""
        front = self._members_and_trials
        places = [int(place) for place in np.unravel_index(member, front)]
        parts = []
        if self._sweep:
            place = places.pop(0)
            values = select_members(self._sweep, place, place + 1)
            parts += [f"{name} = {_shorten(rows[0])}" for name, rows in values.items()]
        if self._trials is not None:
            parts.append(f"trial {self._trials[places[0]]}")
        return f"member {member} ({', '.join(parts)})"


def _shorten(value: Any) -> str:
    """Return a value of a sweep as text of at most 60 characters."""
    return repr(np.asarray(value).tolist())[:60]


def _halve_box(box: Box) -> Iterator[Box]:
    """Yield the two halves of a box, divided along its first axis with more than one member."""
    axis = next(k for k, part in enumerate(box) if part.stop - part.start > 1)
    middle = (box[axis].start + box[axis].stop) // 2
    for part in (slice(box[axis].start, middle), slice(middle, box[axis].stop)):
        yield (*box[:axis], part, *box[axis + 1 :])


def run_block_on_worker(job: Job, block: MemberBlock) -> ComputedBlock:
    """Run a block on a worker, and return its outcome without the results that were written to a store."""
    from distributed import get_worker

    worker = get_worker()
    job.check_form(f"'{worker.address}'")
    set_max_threads(max(1, worker.state.nthreads))
    computed = job.compute_block(block.first, block.last)
    if job.store is None:
        return computed
    write_block(job.store, block, computed)
    return ComputedBlock((), computed.failures, computed.not_finite)


def write_block(store: Regions, block: MemberBlock, computed: ComputedBlock) -> None:
    """Write the outcome of the members of a block to the store."""
    flags = np.full(block.members, FAILED, np.int8)
    arrays: dict[str, Array] = {}
    for piece in computed.pieces:
        rows = slice(piece.first - block.first, piece.first - block.first + piece.count)
        flags[rows] = COMPUTED
        for name, array in flatten_members(piece.results).items():
            if len(computed.pieces) == 1 and piece.count == block.members:
                arrays[name] = array
                continue
            if name not in arrays:
                shape = (block.members, *array.shape[1:])
                dtype = array.dtype
                arrays[name] = np.full(shape, np.nan if dtype.kind in "fc" else 0, dtype)
            arrays[name][rows] = array
    places = list(boxes(store.shape, block.first, block.last))
    store.write(places, arrays, flags)


def flatten_members(results: Results) -> dict[str, Array]:
    """Return the outputs with all axes of members and trials merged into one leading axis."""
    return _merge_member_axes(results, {name: np.asarray(array) for name, array in results.items()})


def flatten_lengths(results: Results) -> dict[str, Array]:
    """Return the numbers of rows of outputs with one merged leading axis for all members."""
    return _merge_member_axes(results, results.lengths)


def _merge_member_axes(results: Results, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Merge the leading axes of members and trials of each array into one axis."""
    front = count_member_axes(results)
    return {
        name: array.reshape(math.prod(array.shape[:front]), *array.shape[front:])
        for name, array in arrays.items()
    }


def count_member_axes(results: Results) -> int:
    """Return the number of leading axes of members and trials in the outputs."""
    return sum(axis.is_swept or axis.name == "trial" for axis in results.axes)


def with_nan_rows(arrays: Mapping[str, Array], there: Array) -> dict[str, Array]:
    """Return the arrays with nan in the rows of members that were not computed.

    Args:
        arrays: Arrays with an axis of members in front.
        there: Mask of the computed members.

    Raises:
        RunError: An integer array holds a value that float64 cannot represent.
    """
    if there.all():
        return dict(arrays)
    wide = {name: cast_for_nan(name, array) for name, array in arrays.items()}
    for array in wide.values():
        array[~there] = np.nan
    return wide
