"""Runs that a run specification describes: files, computation, and saved results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from msgspec.structs import replace

from mdf_loop.api import finite_check
from mdf_loop.api.gathering import split_grid_axis
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.running import ComputeFunction, add_results, select_run_function
from mdf_loop.errors import InputError, LoopError
from mdf_loop.interruption import attach_results
from mdf_loop.memory_limit import limited
from mdf_loop.paths import path_of, refuse_overlapping_outputs, track_read_files
from mdf_loop.reading.names import named_items
from mdf_loop.results.data import Results
from mdf_loop.results.saving import check_results_path, check_texts
from mdf_loop.run.recording.store_lease import StoreLease, lease_store
from mdf_loop.run.recording.zarr_folder import complete_store, create_store
from mdf_loop.run.run_id import new_run_id
from mdf_loop.signals import Signalled, delaying_interrupt
from mdf_loop.specification import RunSpecification
from mdf_loop.sweeps import Grid


def run_specified(prepared: PreparedModel, spec: RunSpecification) -> Results:
    """Run a model as specified, in this process or on a cluster, without warnings.

    Save the results if requested.

    Raises:
        LoopError: An input does not fit, a file cannot be written, or the run failed. The message names the
            place, and `results` holds the results so far.
    """
    if isinstance(spec.values.sweep, Grid) and spec.streams:
        raise InputError(
            "a grid is not written to a Zarr store while it runs",
            hint="write .nc or .h5, or let a cluster write it (cluster=1), "
            "or sweep over dict(grid), whose members have one axis",
        )
    compute = select_run_function(spec) if spec.sharing is None else _prepare_cluster(spec)
    has_files = spec.writes_files or spec.controls.memory_limit is not None
    with _lease_output(prepared, spec) if has_files else nullcontext() as lease:
        results, error = compute(prepared, spec, lease)
        if spec.sharing is None:
            results = split_grid_axis(results, spec.values.sweep)
        return _finish(prepared, spec, results, error, lease)


def _prepare_cluster(spec: RunSpecification) -> ComputeFunction:
    """Check the cluster of a run, and return the function that computes the run there."""
    from mdf_loop.api.clustered import compute_members  # a slow import that few runs need
    from mdf_loop.cluster.clients import check_cluster

    assert spec.sharing is not None
    check_cluster(spec.sharing.cluster)
    return compute_members


# --- files ----------------------------------------------------------------------------------------


@contextmanager
def _lease_output(prepared: PreparedModel, spec: RunSpecification) -> Iterator[StoreLease | None]:
    """Check the output file of a run and limit its memory, and yield the lease of its store, if any."""
    with limited(spec.controls.memory_limit), track_read_files(prepared.document.files):
        if spec.output is not None:
            _check_output(prepared, spec, spec.output)
        if spec.store is None:
            yield None
            return
        with lease_store(spec.store, new_run_id(), overwrite=spec.overwrite) as lease:
            if spec.is_new_run:
                lease.check_can_create()
            yield lease


def _check_output(prepared: PreparedModel, spec: RunSpecification, output: str | Path) -> None:
    """Raise an error before the run if its results could not be saved after the run."""
    run_controls = spec.controls
    if spec.is_new_run or not spec.streams:
        check_results_path(output)  # a resumed run checks its store itself
    output_path = path_of(output, "the output")
    for argument, path in (
        ("checkpoint", run_controls.checkpoint),
        ("resume", run_controls.resume),
    ):
        refuse_overlapping_outputs({"output": output_path, argument: path})
    selection_without_condition = replace(spec.selection, when=None)
    stored_names = (
        *named_items(prepared.document, selection_without_condition),
        *spec.values.sweep,
    )
    check_texts(output, stored_names, prepared.units)


def _finish(
    prepared: PreparedModel,
    spec: RunSpecification,
    results: Results,
    error: LoopError | None,
    lease: StoreLease | None,
) -> Results:
    """Save results, and return them or raise the error that ended the run."""
    results = results.with_changes(
        read_from=prepared.document.files,
        model=prepared.document,
        run_values=spec.values,
        steps=spec.steps,
        notes=finite_check.notes(results),
    )
    try:
        if spec.output is not None:
            with delaying_interrupt(heard=results.stopped_by.is_asked):
                _save(results, spec, spec.output, lease)
    except Signalled as signalled:
        if error is None:
            signalled.results = results
            raise
    except KeyboardInterrupt as interrupt:
        raise attach_results(interrupt, results) from None
    except InputError as unsaved:
        if error is None:
            error = unsaved
        else:
            error.findings += unsaved.findings
    if error is not None:
        raise add_results(error, results)
    return results


def _save(
    results: Results, spec: RunSpecification, output: str | Path, lease: StoreLease | None
) -> None:
    """Write the results to a file, or complete the Zarr store of rows written during the run."""
    if lease is None:
        results.save(output)
        return
    lease.check()
    if spec.shares_store:
        return
    if spec.streams:
        complete_store(lease.place, results)
    else:
        create_store(lease.place, results, run=lease.run_id)
