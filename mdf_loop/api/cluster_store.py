"""Zarr store to which workers write the results of their members, with a description of the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import copy
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
from mdf_loop.api.gathering import laid_out
from mdf_loop.api.identity import identity
from mdf_loop.api.prepared import Prepared
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
from mdf_loop.run.recording.stored import stored_axes
from mdf_loop.specification import RunSpecification
from mdf_loop.sweeps import Grid, select_members, sweep_definition

_PROGRESS_SECONDS = 1.0
"""Seconds between two updates of the progress that the store records."""

_MAX_LISTED_FAILURES = 1000
"""Largest number of failed members that the store names."""


class StoreSink:
    """Record of the computed blocks of a store. The workers write the results of members themselves.

    Attributes:
        members: Number of all members.
        done: Number of members that are computed or have failed.
        failures: Failed members of the pilot run.
        not_finite: First value of all members that is not finite, including members of earlier runs.
    """

    def __init__(
        self,
        job: Job,
        prepared: Prepared,
        cut: Partition,
        store: Regions,
        lease: StoreLease,
        computed: Collection[int],
    ) -> None:
        self.members, self.done = cut.members, 0
        self.failures: tuple[FailedMember, ...] = ()
        self.not_finite: NotFinite | None = None
        self._cut, self._prepared, self._store, self._lease = cut, prepared, store, lease
        self._blocks = 0
        self._failed: dict[str, str] = {}
        self._noted = monotonic()
        self._computed = computed
        for number in computed:
            self.done += cut.block(number).members
            self._blocks += 1
        job.store = store

    @classmethod
    def begun(
        cls,
        job: Job,
        prepared: Prepared,
        spec: RunSpecification,
        first: PilotRun,
        lease: StoreLease,
    ) -> StoreSink:
        """Create a store that contains the first block of members, and return its sink."""
        lease.check_new()
        template = _select_first_member(first.computed.pieces[0].results, spec)
        attributes = {
            "run": _identity(job, prepared, spec),
            **_partition_attributes(first.cut),
            "outputs": list(template),
            "flags": "",
            "blocks": first.cut.count,
            "blocks_done": 0,
            "members": first.cut.members,
            "native": dict(template.native),
            "environment": environment(spec.engine, template.native),
            "seed": template.seed,
            "draws": template.draws,
        }
        store = create_regions(
            lease,
            template,
            first.cut.shape,
            first.cut.chunk,
            _make_coordinate_readers(template, spec),
            attributes,
        )
        write_block(store, first.block, first.computed)
        sink = cls(job, prepared, first.cut, store, lease, {first.block.number})
        sink.failures, sink.not_finite = first.computed.failures, first.computed.not_finite
        return sink

    @classmethod
    def found(
        cls,
        job: Job,
        prepared: Prepared,
        spec: RunSpecification,
        lease: StoreLease,
        stopping: Stopping,
    ) -> StoreSink | None:
        """Return a sink for the store of an earlier equal run, or None if no such store exists.

        Missing and damaged blocks will be computed again. The store stays unchanged until all of its
        content was checked.

        Raises:
            InputError: The store belongs to another run, or is damaged.
        """
        continued = continued_store(lease, job.shape, _identity(job, prepared, spec))
        if continued is None:
            return None
        template = None
        if continued.damaged_coordinates:
            template = _select_first_member(
                run_pilot(job, 1, stopping).computed.pieces[0].results, spec
            )
        continued.mend()
        lease.run = continued.store.run
        if template is not None:
            along = _make_coordinate_readers(template, spec)
            continued.write_coordinates(lease, coordinates(template), along)
        sink = cls(job, prepared, continued.cut, continued.store, lease, continued.computed)
        sink.not_finite = continued.layout.record.not_finite
        return sink

    def missing(self) -> Iterator[MemberBlock]:
        """Return the blocks that are not computed yet."""
        return (block for block in self._cut.blocks() if block.number not in self._computed)

    def put(self, block: MemberBlock, computed: ComputedBlock) -> None:
        """Record that a worker has written a block."""
        self.done += block.members
        self._blocks += 1
        self.not_finite = earliest((self.not_finite, computed.not_finite))
        for failure in computed.failures[: _MAX_LISTED_FAILURES - len(self._failed)]:
            self._failed[failure.who] = failure.finding.what
        if monotonic() - self._noted > _PROGRESS_SECONDS:
            self._noted = monotonic()
            self._store.note(self._lease, self._said, {})

    @property
    def _said(self) -> dict[str, Any]:
        """Progress attributes of the store: computed blocks, failed members, first nan or infinity."""
        not_finite = None if self.not_finite is None else to_builtins(self.not_finite)
        return {"blocks_done": self._blocks, "failed": self._failed, "not_finite": not_finite}

    def results(self, stopped_by: StopReason, reason: str) -> Results:
        """Return results whose outputs are read from the store on access."""
        if stopped_by is StopReason.COMPLETED:
            ends: dict[str, Any] = {}
        else:
            ends = dict(zip(END_ATTRIBUTES, (stopped_by.word, reason), strict=True))
        for failure in self.failures:
            self._failed[failure.who] = failure.finding.what
        self._store.note(self._lease, self._said, ends)
        axes, about, reduced = stored_axes(self._store)
        manifest = self._store.manifest()
        results = Results(
            self._store.arrays(self._lease.path),
            {},
            about["device"],
            about["precision"],
            axes=axes,
            reduced=reduced,
            units=self._prepared.units,
            dims=self._prepared.dims,
            stopped_by=stopped_by,
            reason=reason,
            native=manifest["native"],
            seed=manifest["seed"],
            draws=manifest["draws"],
        )
        results.store = self._store.place
        return results


# --- metadata of a store --------------------------------------------------------------------------


def _partition_attributes(cut: Partition) -> dict[str, Any]:
    """Return the attributes of a store that describe the division of the members into blocks."""
    return {
        "shape": list(cut.shape),
        "axis": cut.axis,
        "chunk": cut.chunk_extent,
        "chunks_in_block": cut.chunks,
    }


def _identity(job: Job, prepared: Prepared, spec: RunSpecification) -> dict[str, str]:
    """Return texts of all arguments that determine the results of a run, including its sweep."""
    first = job.spec_of(tuple(slice(0, 1) for _ in range(job.axes)))
    recorded = [item.name for item in named_items(prepared.document, spec.selection).values()]
    whole = identity(prepared, first, prepared.bound(first), recorded)
    of_one = {word for word in whole if word.startswith("sweep ")} | {"trials"}
    sweep = spec.values.sweep
    digests = {
        f"sweep {name}": digest_of_arrays({name: np.asarray(values)})
        for name, values in sweep_definition(sweep).items()
    }
    trials = spec.values.draws.trials
    return {
        **{word: text for word, text in whole.items() if word not in of_one},
        **({"kind of sweep": type(sweep).__name__} if sweep else {}),
        **digests,
        **({} if trials is None else {"trials": str(trials)}),
        **({} if spec.steps is None else {"steps": str(spec.steps)}),
        "seed": str(spec.values.draws.seed),
    }


def _select_first_member(template: Results, spec: RunSpecification) -> Results:
    """Return the results of the first member, with the same axes as the results of all members.

    Raises:
        UnsupportedError: An output is no array, or its shape differs between members.
    """
    for name, data in template.items():
        if not isinstance(data, np.ndarray) or name in template.lengths:
            raise UnsupportedError(
                f"'{name}' has not one shape in all members, so it cannot be written by many",
                hint="choose other outputs (only, --only), or give no .zarr output",
            )
    front = count_member_axes(template)
    results = copy(template)
    results._arrays = {
        name: rows[:1].reshape(*(1,) * front, *rows.shape[1:])
        for name, rows in flatten_members(template).items()
    }
    results.axes = (
        tuple(
            Axis(
                axis.name,
                {n: np.asarray(a)[:1] for n, a in axis.coordinates.items()},
                axis.is_swept,
            )
            for axis in template.axes[:front]
        )
        + template.axes[front:]
    )
    results.state = None
    sweep = spec.values.sweep
    first = (
        {name: values[:1] for name, values in sweep.along.items()}
        if isinstance(sweep, Grid)
        else {}
    )
    return laid_out(results, Grid(first) if first else {})


def _make_coordinate_readers(
    template: Results, spec: RunSpecification
) -> dict[str, CoordinateFunction]:
    """Return a function for each coordinate along an axis of members, by the coordinate's name in the store.

    The function returns the coordinate values of a range of members.
    """
    sweep, trials = spec.values.sweep, spec.values.draws.trials
    known: dict[str, CoordinateFunction] = {}
    for name in sweep:
        if isinstance(sweep, Grid):
            known[name] = _make_value_reader(sweep.along[name])
        else:
            known[name] = _make_sweep_reader(sweep, name)
    if trials is not None:
        known["trial"] = lambda first, last: np.asarray(trials[first:last])
    dims = {axis.name for axis in template.axes if axis.name != "time"}
    axes: dict[str, CoordinateFunction] = {}
    for item in coordinates(template):
        plain = item.name.removesuffix(" (swept)")
        if item.dims[0] not in dims or item.dims[0] in ("step",):
            continue
        axes[item.name] = known.get(item.name) or known.get(plain) or np.arange
    return axes


def _make_value_reader(values: Array) -> CoordinateFunction:
    """Return a function that returns a range of the coordinate `values`."""
    return lambda first, last: values[first:last]


def _make_sweep_reader(sweep: Mapping[str, Any], name: str) -> CoordinateFunction:
    """Return a function that returns the swept values of one name for a range of members."""
    return lambda first, last: np.asarray(select_members(sweep, first, last)[name])
