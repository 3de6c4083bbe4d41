"""Runs of compiled models: checks, computation and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from mdf_loop.api import finite_check
from mdf_loop.api.engine_run import engine_results
from mdf_loop.api.gathering import laid_out, member_axes, results_of, seed_of
from mdf_loop.api.identity import identity
from mdf_loop.api.loop_reports import loop_reports, padded
from mdf_loop.api.over_trials import run_over_trials
from mdf_loop.api.prepared import Prepared
from mdf_loop.document.units import TIME
from mdf_loop.errors import InputError, LoopError, NotFiniteError, UnknownNameError
from mdf_loop.interruption import with_results
from mdf_loop.ir import StopReason
from mdf_loop.memory_limit import limited
from mdf_loop.paths import noting, path_of, refuse_clashes
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.names import find_item, named_items
from mdf_loop.reading.settings import with_values
from mdf_loop.results.data import Results
from mdf_loop.results.saving import check_results_path, check_texts
from mdf_loop.run.backend import BACKENDS, DocumentBackend
from mdf_loop.run.control.controller import RunController
from mdf_loop.run.control.stepper import Sink
from mdf_loop.run.modeci.engine import only_given
from mdf_loop.run.outputs import Axis, LoopReport
from mdf_loop.run.recording.claim import Claim, claimed
from mdf_loop.run.recording.keeping import Keeping, kept
from mdf_loop.run.recording.missing import with_missing
from mdf_loop.run.recording.rows import Rows
from mdf_loop.run.recording.streamed import Streamed
from mdf_loop.run.recording.zarr_folder import complete, create
from mdf_loop.run.run_id import new_run_id
from mdf_loop.run.segments import Reached
from mdf_loop.run.time_run import Ran, run_over_time
from mdf_loop.run.time_session import TimeSession
from mdf_loop.run.time_stepper import TimeStepper
from mdf_loop.signals import Signalled, finished
from mdf_loop.specification import RunSpecification
from mdf_loop.sweeps import Grid

Computing: TypeAlias = Callable[[Claim | None], tuple[Results, LoopError | None]]
"""Gives results, and the error that ended what was computed; with the store as its own, if there is one."""


def run(prepared: Prepared, asked: RunSpecification) -> Results:
    """Run a model in this process, and save the results if requested."""
    if isinstance(asked.values.sweep, Grid) and asked.streams:
        raise InputError(
            "a grid is not written to a Zarr store while it runs",
            hint="write .nc or .h5, or let a cluster write it (cluster=1), "
            "or sweep over dict(grid), whose members have one axis",
        )
    return with_files(prepared, asked, lambda claim: _computed(prepared, asked, claim))


def with_files(prepared: Prepared, asked: RunSpecification, compute: Computing) -> Results:
    """Compute results, and save them if requested.

    Raises:
        LoopError: it cannot be written, or the run has failed: `results` are what was reached.
    """
    if not asked.writes and asked.controls.memory_limit is None:
        return _ended(prepared, asked, compute, None)
    with limited(asked.controls.memory_limit), noting(prepared.document.files):
        if asked.output is not None:
            _check_output(prepared, asked, asked.output)
        if asked.store is None:
            return _ended(prepared, asked, compute, None)
        with claimed(asked.store, new_run_id(), overwrite=asked.overwrite) as claim:
            if asked.begins:
                claim.check_new()
            return _ended(prepared, asked, compute, claim)


def _check_output(prepared: Prepared, asked: RunSpecification, output: str | Path) -> None:
    """Refuse outputs that cannot be written before the run."""
    controls = asked.controls
    if asked.begins or not asked.streams:
        check_results_path(output)  # a run that goes on looks at its store itself
    place = path_of(output, "the output")
    for what, path in (("checkpoint", controls.checkpoint), ("resume", controls.resume)):
        refuse_clashes({"output": place, what: path})
    selected = replace(asked.selection, when=None)
    names = (*named_items(prepared.document, selected), *asked.values.sweep)
    check_texts(output, names, prepared.units)


def _computed(
    prepared: Prepared, asked: RunSpecification, claim: Claim | None
) -> tuple[Results, LoopError | None]:
    """Return the results of the selected engine."""
    backend, error = BACKENDS[asked.engine], None
    if isinstance(backend, DocumentBackend):
        results = _run_in_engine(prepared, asked, backend)
    elif asked.selection.over_trials.statistics:
        results, error = run_over_trials(lambda batch: _compiled(prepared, batch, None), asked)
    else:
        results, error = _compiled(prepared, asked, claim)
    return laid_out(results, asked.values.sweep), error


def _ended(
    prepared: Prepared, asked: RunSpecification, compute: Computing, claim: Claim | None
) -> Results:
    """Return complete results after writing them, or raise the error that ended the computation."""
    results, error = compute(claim)
    results.read_from = prepared.document.files
    results.model = prepared.document
    results.run_values, results.steps = asked.values, asked.steps
    results.notes = finite_check.notes(results)
    try:
        if asked.output is not None:
            with finished(heard=results.stopped_by.is_asked):
                _save(results, asked, asked.output, claim)
    except Signalled as signalled:
        if error is None:
            signalled.results = results
            raise
    except KeyboardInterrupt as interrupt:
        raise with_results(interrupt, results) from None
    except InputError as unsaved:
        if error is None:
            error = unsaved
        else:
            error.findings += unsaved.findings
    if error is not None:
        error.results = results
        if results.stopped_by is StopReason.FAILED:
            (first, *others) = error.findings
            error.findings = (replace(first, what=results.reason), *others)
        raise error
    return results


def _compiled(
    prepared: Prepared, asked: RunSpecification, claim: Claim | None
) -> tuple[Results, LoopError | None]:
    """Return the results of a compiled model, and the error that ended the run."""
    run = _run_once if asked.steps is None else _run_over_time
    return run(prepared, asked, claim)


def _save(
    results: Results, asked: RunSpecification, output: str | Path, claim: Claim | None
) -> None:
    """Write the results, or their unwritten part."""
    if claim is None:
        results.save(output)
        return
    claim.check()
    if asked.shares_store:
        return
    if asked.streams:
        complete(claim.place, results)
    else:
        create(claim.place, results, run=claim.run)


def _ended_by(
    prepared: Prepared, controller: RunController, time: Callable[[int], str | None]
) -> LoopError | None:
    """Return the error that ended a run, or None."""
    found = controller.not_finite
    if found is None or controller.controls.nan != "error":
        return controller.failure
    where = prepared.document.where
    with suppress(UnknownNameError):
        item = find_item(prepared.document, found.name)
        where = f"{where}.nodes['{item.node}'].{item.kind}['{item.id}']"
    sentence = found.sentence(time(found.step))
    return NotFiniteError(sentence, where, "what was reached is in error.results")


def _why(
    stopped_by: StopReason, controller: RunController, time: Callable[[int], str | None]
) -> str:
    """Return the most specific sentence about a stop reason."""
    if controller.not_finite is not None:
        return controller.not_finite.sentence(time(controller.not_finite.step))
    return str(
        stopped_by.value if controller.failure is None else controller.failure.findings[0].what
    )


# --- one evaluation -------------------------------------------------------------------------------


def _run_once(
    prepared: Prepared, asked: RunSpecification, claim: Claim | None
) -> tuple[Results, LoopError | None]:
    bound = prepared.bound(asked)
    ready = prepared.evaluation(asked, bound)
    bound = bound.drawing(ready.program)
    program, controls = ready.program, asked.controls
    names = [output.name for output in program.outputs]
    run = None if claim is None else claim.run
    controller = RunController(controls, lambda: identity(prepared, asked, bound, names), run=run)
    if claim is not None:
        claim.run = controller.run
        claim.check_new()
    reached = ready.run.run(bound.arrays, controller)
    made = {name: reached.outputs[name] for name in names if name in reached.outputs}
    made, lengths = padded(made, reached, ready)
    reports = loop_reports(ready, reached) if ready.loops else {}
    stopped_by, reason = _how_it_went(reached, reports, controller)
    results = results_of(
        prepared,
        bound,
        with_missing(made, ready.flags, lengths),
        ready.run.device,
        loops=reports,
        lengths=lengths,
        dtypes={name: dtype for name, dtype in ready.dtypes.items() if name in made},
        stopped_by=stopped_by,
        reason=reason,
        checkpoint=controller.checkpoint,
        native=ready.run.native,
        seconds=controller.seconds,
    )
    if controls.nan is None:
        flags = {name: reached.outputs.get(flag) for name, flag in ready.flags.items()}
        results.not_finite = finite_check.in_evaluation(made, lengths, results, flags)
    return results, _ended_by(prepared, controller, lambda step: None)


def _how_it_went(
    reached: Reached, reports: Mapping[str, LoopReport], controller: RunController
) -> tuple[StopReason, str]:
    """Return the reason why an evaluation ended, and a sentence about it."""
    stopped_by = reached.stopped_by
    if stopped_by is None and not (reports or reached.missing or controller.failure):
        return StopReason.COMPLETED, StopReason.COMPLETED.value
    if stopped_by is None:
        bounded = any(StopReason.MAX_ITERATIONS in r.reasons for r in reports.values())
        stopped_by = StopReason.MAX_ITERATIONS if bounded else StopReason.COMPLETED
    stopped = [
        f"{report.how_often} of {name}"
        for name, report in reports.items()
        if stopped_by in report.reasons
    ]
    why = _why(stopped_by, controller, lambda step: None)
    missing = [f"'{name}' could not be computed: {why}" for name, why in reached.missing.items()]
    return stopped_by, "; ".join((*stopped, why, *missing))


# --- over time ------------------------------------------------------------------------------------


def _run_over_time(
    prepared: Prepared, asked: RunSpecification, claim: Claim | None
) -> tuple[Results, LoopError | None]:
    keeping = kept(prepared.document, asked.selection)
    bound = prepared.bound(asked)
    session = prepared.over_time(asked, bound)
    bound = bound.drawing(session.programs.later)
    stepper = TimeStepper(session, asked, bound, keeping)
    keeping = replace(keeping, open=session.row_shapes.open)
    _refuse_members(bound, keeping)
    ends = asked.controls.time_limit is None  # else nobody knows how many rows there will be
    expected = keeping.expected(stepper.first, stepper.total) if ends else None
    controller = RunController(
        asked.controls,
        lambda: identity(prepared, asked, bound, keeping.names),
        session.axis,
        None if claim is None else claim.run,
    )
    sink: Sink = Rows(session.axis, expected)
    if claim is not None:
        claim.run = controller.run
        sink = _stream(prepared, asked, bound, session, keeping, claim)
    with controller:
        name = prepared.document.graph.id
        ran = run_over_time(session, stepper, keeping, sink, controller, name)
    prepared.ran_on(ran.device)

    def time(step: int) -> str | None:
        return ran.time_of(step, prepared.units[TIME])

    results = results_of(
        prepared,
        bound,
        {**ran.rows, **ran.reduced},
        ran.device,
        axes=(ran.axis,) if keeping.traces else (),
        lengths=ran.lengths,
        state=ran.state,
        execution_list=ran.execution_list,
        reduced=ran.reduced,
        units=_units_of_reduced(prepared, keeping),
        stopped_by=ran.stopped_by,
        reason=_sentence(ran, stepper, controller, time),
        checkpoint=controller.checkpoint,
        native=stepper.native,
        seconds={"time": controller.seconds[name]},
    )
    if asked.controls.nan is None:
        results.not_finite = finite_check.over_time(prepared, asked.values, results, ran)
    return results, _ended_by(prepared, controller, time)


def _units_of_reduced(prepared: Prepared, keeping: Keeping) -> dict[str, str]:
    """Return the units of reductions, which are those of their outputs."""
    units = prepared.units
    return {
        f"{name}.{word}": units[name]
        for name, words in keeping.selection.reduce.items()
        for word in words
        if name in units
    }


def _refuse_members(bound: Bound, keeping: Keeping) -> None:
    if member_axes(bound) and keeping.selection.when is not None:
        raise InputError(
            "a sweep, or trials, cannot choose rows by `when`: each member would have its own",
            hint="leave when out, or run the members one by one",
        )


def _stream(
    prepared: Prepared,
    asked: RunSpecification,
    bound: Bound,
    session: TimeSession,
    keeping: Keeping,
    claim: Claim,
) -> Streamed:
    """Return the destination of rows during the run."""
    empty = np.zeros(0, np.int64 if asked.dt is None else np.float64)
    time = Axis("time", {"step" if asked.dt is None else "time": empty})
    axes = (*member_axes(bound), time)
    return Streamed(
        claim.path,
        axes,
        lambda: (session.device.name, prepared.options.precision),
        prepared.units,
        keeping.columns,
        keeping.lengths,
        claim,
        seed_of(bound) if bound.keys else None,
        prepared.dims,
    )


def _sentence(
    ran: Ran, stepper: TimeStepper, controller: RunController, time: Callable[[int], str | None]
) -> str:
    """Return a sentence about the progress of a run and the reason for its end."""
    if ran.stopped_by is StopReason.COMPLETED:
        return str(ran.stopped_by.value)
    return f"{ran.done} of {stepper.total} steps; {_why(ran.stopped_by, controller, time)}"


# --- modeci_mdf's engine --------------------------------------------------------------------------


def _run_in_engine(
    prepared: Prepared, asked: RunSpecification, backend: DocumentBackend
) -> Results:
    bound = prepared.bound(asked)
    _refuse_in_engine(asked)
    return engine_results(
        backend,
        with_values(prepared.document, bound.settings),
        only_given(prepared.document, asked.values.inputs, bound.given),
        asked,
        device=prepared.placement.device,
        precision=prepared.options.precision,
    )


def _refuse_in_engine(asked: RunSpecification) -> None:
    values, selection, controls = asked.values, asked.selection, asked.controls
    for what, given in (
        ("sweep", values.sweep),
        ("trials", values.draws.trials is not None),
        ("state", values.state),
        ("when", selection.when),
        ("reduce", selection.reduce),
        ("time limit", controls.time_limit),
        ("watch for nan", controls.watches),
        ("checkpoint", controls.saved_at),
        ("memory limit", controls.memory_limit),
    ):
        if given:
            raise InputError(
                f"modeci_mdf's engine takes no {what}",
                hint="leave it out, or run the model compiled",
            )
