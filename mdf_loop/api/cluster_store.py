"""Zarr store to which the workers of a cluster write results, with a description of the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from time import monotonic
from typing import Any

import numpy as np
from msgspec import to_builtins

from mdf_loop.api.cluster_job import (
    ComputedBlock,
    FailedMember,
    Job,
    count_member_axes,
    flatten_members,
    write_block,
)
from mdf_loop.api.cluster_pilot import PilotRun, run_pilot
from mdf_loop.api.continued_store import continued_store
from mdf_loop.api.gathering import split_grid_axis
from mdf_loop.api.identity import identity
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.cluster.partition import MemberBlock, Partition
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, StopReason
from mdf_loop.reading.names import named_items
from mdf_loop.results.data import Results
from mdf_loop.run.control.checkpoint import digest_of_arrays
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.environment import environment
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording.labels import END_ATTRIBUTES, coordinates
from mdf_loop.run.recording.not_finite import NotFinite, earliest
from mdf_loop.run.recording.regions import CoordinateFunction, Regions, create_regions
from mdf_loop.run.recording.store_lease import StoreLease
from mdf_loop.run.recording.stored_axes import stored_axes
from mdf_loop.specification import RunSpecification
from mdf_loop.sweeps import Grid, select_members, sweep_definition

_PROGRESS_SECONDS = 1.0
"""Seconds between two updates of the progress that the store records."""

_MAX_LISTED_FAILURES = 1000
"""Largest number of failed members that the store names."""


class StoreSink:
    """Destination for members' results in a Zarr store, which records the completed blocks.

    Attributes:
        member_count: Number of all members.
        done_member_count: Number of members that are computed or have failed.
        failures: Failed members of the pilot run.
        first_nonfinite_value: First value of all members that is not finite, including members of earlier runs.
    """

    def __init__(
        self,
        job: Job,
        prepared: PreparedModel,
        partition: Partition,
        store: Regions,
        lease: StoreLease,
        computed_blocks: Collection[int],
    ) -> None:
        self.member_count, self.done_member_count = partition.member_count, 0
        self.failures: tuple[FailedMember, ...] = ()
        self.first_nonfinite_value: NotFinite | None = None
        self._partition, self._prepared, self._store, self._lease = (
            partition,
            prepared,
            store,
            lease,
        )
        self._done_block_count = 0
        self._failed_members: dict[str, str] = {}
        self._last_update_time = monotonic()
        self._computed_blocks = computed_blocks
        for block_number in computed_blocks:
            self.done_member_count += partition.block(block_number).member_count
            self._done_block_count += 1
        job.store = store

    @classmethod
    def create(
        cls,
        job: Job,
        prepared: PreparedModel,
        spec: RunSpecification,
        pilot_run: PilotRun,
        lease: StoreLease,
    ) -> StoreSink:
        """Create a Zarr store, write the first block of members, and return the store as a sink."""
        lease.check_can_create()
        first_member_results = _select_first_member(
            pilot_run.computed_block.batches[0].results, spec
        )
        store_attributes = {
            "run": _identity(job, prepared, spec),
            **_partition_attributes(pilot_run.partition),
            "outputs": list(first_member_results),
            "flags": "",
            "blocks": pilot_run.partition.block_count,
            "blocks_done": 0,
            "members": pilot_run.partition.member_count,
            "native": dict(first_member_results.native),
            "environment": environment(spec.engine, first_member_results.native),
            "seed": first_member_results.seed,
            "draws": first_member_results.draws,
        }
        store = create_regions(
            lease,
            first_member_results,
            pilot_run.partition.shape,
            pilot_run.partition.chunk_shape,
            _make_coordinate_readers(first_member_results, spec),
            store_attributes,
        )
        write_block(store, pilot_run.block, pilot_run.computed_block)
        sink = cls(job, prepared, pilot_run.partition, store, lease, {pilot_run.block.block_number})
        sink.failures, sink.first_nonfinite_value = (
            pilot_run.computed_block.failures,
            pilot_run.computed_block.first_nonfinite_value,
        )
        return sink

    @classmethod
    def open_existing(
        cls,
        job: Job,
        prepared: PreparedModel,
        spec: RunSpecification,
        lease: StoreLease,
        stop_monitor: Stopping,
    ) -> StoreSink | None:
        """Return a destination in the Zarr store of an earlier run with equal arguments, or None.

        Missing and damaged blocks will be computed again. The store stays unchanged until all of its
        content was checked.

        Raises:
            InputError: The store belongs to another run, or is damaged.
        """
        earlier_store = continued_store(lease, job.shape, _identity(job, prepared, spec))
        if earlier_store is None:
            return None
        first_member_results = None
        if earlier_store.damaged_coordinates:
            first_member_results = _select_first_member(
                run_pilot(job, 1, stop_monitor).computed_block.batches[0].results, spec
            )
        earlier_store.remove_damaged_files()
        lease.run_id = earlier_store.store.run_id
        if first_member_results is not None:
            coordinate_readers = _make_coordinate_readers(first_member_results, spec)
            earlier_store.write_coordinates(
                lease, coordinates(first_member_results), coordinate_readers
            )
        sink = cls(
            job,
            prepared,
            earlier_store.partition,
            earlier_store.store,
            lease,
            earlier_store.computed_blocks,
        )
        sink.first_nonfinite_value = earlier_store.layout.record.not_finite
        return sink

    def missing_blocks(self) -> Iterator[MemberBlock]:
        """Return the blocks of members that no worker has written yet."""
        return (
            block
            for block in self._partition.blocks()
            if block.block_number not in self._computed_blocks
        )

    def put(self, block: MemberBlock, computed_block: ComputedBlock) -> None:
        """Record that a worker has written a block of members."""
        self.done_member_count += block.member_count
        self._done_block_count += 1
        self.first_nonfinite_value = earliest(
            (self.first_nonfinite_value, computed_block.first_nonfinite_value)
        )
        for failure in computed_block.failures[: _MAX_LISTED_FAILURES - len(self._failed_members)]:
            self._failed_members[failure.member_label] = failure.finding.what
        if monotonic() - self._last_update_time > _PROGRESS_SECONDS:
            self._last_update_time = monotonic()
            self._store.update_record(self._lease, self._progress_attributes, {})

    @property
    def _progress_attributes(self) -> dict[str, Any]:
        """Attributes that record the progress of the run in the store.

        They state the computed blocks, the failed members, and the first nan or infinity.
        """
        nonfinite_value = (
            None if self.first_nonfinite_value is None else to_builtins(self.first_nonfinite_value)
        )
        return {
            "blocks_done": self._done_block_count,
            "failed": self._failed_members,
            "not_finite": nonfinite_value,
        }

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return the results of the run, whose outputs are read from the Zarr store on access."""
        if stopped_by is StopReason.COMPLETED:
            end_attributes: dict[str, Any] = {}
        else:
            end_attributes = dict(zip(END_ATTRIBUTES, (stopped_by.word, reason), strict=True))
        for failure in self.failures:
            self._failed_members[failure.member_label] = failure.finding.what
        self._store.update_record(self._lease, self._progress_attributes, end_attributes)
        axes, run_settings, reduced_names = stored_axes(self._store)
        sweep_record = self._store.sweep_record()
        results = Results(
            self._store.arrays(self._lease.path),
            {},
            run_settings["device"],
            run_settings["precision"],
            axes=axes,
            reduced=reduced_names,
            units=self._prepared.units,
            dims=self._prepared.dims,
            stopped_by=stopped_by,
            reason=reason,
            native=sweep_record["native"],
            seed=sweep_record["seed"],
            draws=sweep_record["draws"],
        )
        return results.with_changes(store=self._store.path)


# --- metadata of a store --------------------------------------------------------------------------


def _partition_attributes(partition: Partition) -> dict[str, Any]:
    """Return the Zarr attributes that describe the division of members into blocks."""
    return {
        "shape": list(partition.shape),
        "axis": partition.chunk_axis,
        "chunk": partition.chunk_extent,
        "chunks_in_block": partition.chunks_per_block,
    }


def _identity(job: Job, prepared: PreparedModel, spec: RunSpecification) -> dict[str, str]:
    """Return texts that identify a run, made of all arguments that determine its results."""
    first_member_spec = job.spec_of(tuple(slice(0, 1) for _ in range(job.member_axis_count)))
    recorded_names = [
        model_item.name for model_item in named_items(prepared.document, spec.selection).values()
    ]
    identity_texts = identity(
        prepared, first_member_spec, prepared.bind(first_member_spec), recorded_names
    )
    member_keys = {key for key in identity_texts if key.startswith("sweep ")} | {"trials"}
    sweep = spec.values.sweep
    sweep_digests = {
        f"sweep {name}": digest_of_arrays({name: np.asarray(values)})
        for name, values in sweep_definition(sweep).items()
    }
    trials = spec.values.draws.trials
    return {
        **{
            key: identity_text
            for key, identity_text in identity_texts.items()
            if key not in member_keys
        },
        **({"kind of sweep": type(sweep).__name__} if sweep else {}),
        **sweep_digests,
        **({} if trials is None else {"trials": str(trials)}),
        **({} if spec.steps is None else {"steps": str(spec.steps)}),
        "seed": str(spec.values.draws.seed),
    }


def _select_first_member(template: Results, spec: RunSpecification) -> Results:
    """Return the first sweep member's results, in which each member axis has length 1.

    Raises:
        UnsupportedError: An output is no array, or its shape differs between members.
    """
    for name, output in template.items():
        if not isinstance(output, np.ndarray) or name in template.lengths:
            raise UnsupportedError(
                f"'{name}' has not one shape in all members, so it cannot be written by many",
                hint="choose other outputs (only, --only), or give no .zarr output",
            )
    axis_count = count_member_axes(template)
    first_axes = tuple(
        Axis(
            axis.name,
            {
                coordinate_name: np.asarray(coordinate_values)[:1]
                for coordinate_name, coordinate_values in axis.coordinates.items()
            },
            axis.is_swept,
        )
        for axis in template.axes[:axis_count]
    )
    first_member_results = template.with_changes(
        {
            name: array[:1].reshape(*(1,) * axis_count, *array.shape[1:])
            for name, array in flatten_members(template).items()
        },
        axes=(*first_axes, *template.axes[axis_count:]),
        state=None,
    )
    sweep = spec.values.sweep
    first_swept_values = (
        {name: values[:1] for name, values in sweep.along.items()}
        if isinstance(sweep, Grid)
        else {}
    )
    return split_grid_axis(
        first_member_results, Grid(first_swept_values) if first_swept_values else {}
    )


def _make_coordinate_readers(
    template: Results, spec: RunSpecification
) -> dict[str, CoordinateFunction]:
    """Map the store's coordinate names to functions that return the values of some members.

    The function returns the coordinate values of a range of members.
    """
    sweep, trials = spec.values.sweep, spec.values.draws.trials
    readers_by_name: dict[str, CoordinateFunction] = {}
    for name in sweep:
        if isinstance(sweep, Grid):
            readers_by_name[name] = _make_value_reader(sweep.along[name])
        else:
            readers_by_name[name] = _make_sweep_reader(sweep, name)
    if trials is not None:
        readers_by_name["trial"] = lambda first, last: np.asarray(trials[first:last])
    axis_names = {axis.name for axis in template.axes if axis.name != "time"}
    coordinate_readers: dict[str, CoordinateFunction] = {}
    for coordinate in coordinates(template):
        bare_name = coordinate.name.removesuffix(" (swept)")
        if coordinate.dims[0] not in axis_names or coordinate.dims[0] in ("step",):
            continue
        coordinate_readers[coordinate.name] = (
            readers_by_name.get(coordinate.name) or readers_by_name.get(bare_name) or np.arange
        )
    return coordinate_readers


def _make_value_reader(values: Array) -> CoordinateFunction:
    """Return a function that returns the elements of an array in a range of indices."""
    return lambda first, last: values[first:last]


def _make_sweep_reader(sweep: Mapping[str, Any], name: str) -> CoordinateFunction:
    """Return a function that returns the swept values of one name in a range of members."""
    return lambda first, last: np.asarray(select_members(sweep, first, last)[name])
