"""Runs of compiled models: checks, computation and results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from mdf_loop.api import finite_check
from mdf_loop.api.engine_run import engine_results
from mdf_loop.api.gathering import build_results, member_axes, seed_of
from mdf_loop.api.identity import identity
from mdf_loop.api.loop_reports import loop_reports, pad_outputs
from mdf_loop.api.over_trials import run_over_trials
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.document.units import TIME
from mdf_loop.errors import InputError, LoopError, NotFiniteError, UnknownNameError
from mdf_loop.ir import StopReason
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.names import find_item
from mdf_loop.reading.settings import with_values
from mdf_loop.results.data import Results
from mdf_loop.run.backend import BACKENDS, DocumentBackend
from mdf_loop.run.control.controller import RunController
from mdf_loop.run.control.stepper import RowSink
from mdf_loop.run.modeci.engine import select_inputs
from mdf_loop.run.outputs import Axis, LoopReport
from mdf_loop.run.recording.missing_rows import fill_missing_rows
from mdf_loop.run.recording.recording_plan import RecordingPlan, plan_recording
from mdf_loop.run.recording.rows import Rows
from mdf_loop.run.recording.store_lease import StoreLease
from mdf_loop.run.recording.streamed_rows import StreamedRows
from mdf_loop.run.segments import PartialRun
from mdf_loop.run.time_run import CompletedRun, complete_run, start_recording
from mdf_loop.run.time_session import TimeSession
from mdf_loop.run.time_stepper import TimeStepper
from mdf_loop.specification import RunSpecification

ComputeFunction: TypeAlias = Callable[
    [PreparedModel, RunSpecification, StoreLease | None], tuple[Results, LoopError | None]
]
"""Function that returns the results of a run, and the error that ended the run, or None.

Its last argument is the lease of the Zarr store of the run, or None without a store."""


def select_run_function(spec: RunSpecification) -> ComputeFunction:
    """Return the function that computes a run in this process, with one axis for all members."""
    if spec.engine == "modeci":
        return _run_in_engine
    run_model = _run_once if spec.steps is None else _run_over_time
    if spec.selection.over_trials.statistics:
        return functools.partial(run_over_trials, run_model)
    return run_model


def run_without_files(prepared: PreparedModel, spec: RunSpecification) -> Results:
    """Run a model in this process, and return its results, which are not saved.

    Raises:
        LoopError: The run failed. `results` holds the results so far.
    """
    results, error = select_run_function(spec)(prepared, spec, None)
    if error is not None:
        raise add_results(error, results)
    return results


def add_results(error: LoopError, results: Results) -> LoopError:
    """Attach the results so far to the error that ended a run, and return the error."""
    error.results = results
    if results.stopped_by is StopReason.FAILED:
        (first_finding, *other_findings) = error.findings
        error.findings = (replace(first_finding, what=results.reason), *other_findings)
    return error


def _error_of_run(
    prepared: PreparedModel, controller: RunController, time: Callable[[int], str | None]
) -> LoopError | None:
    """Return the error that ended a run over time, or None."""
    nonfinite_value = controller.not_finite_value
    if nonfinite_value is None or controller.controls.nan != "error":
        return controller.failure
    location = prepared.document.where
    with suppress(UnknownNameError):
        model_item = find_item(prepared.document, nonfinite_value.name)
        location = (
            f"{location}.nodes['{model_item.node}'].{model_item.node_field}['{model_item.id}']"
        )
    error_sentence = nonfinite_value.sentence(time(nonfinite_value.step))
    return NotFiniteError(error_sentence, location, "what was reached is in error.results")


def _describe_reason(
    stopped_by: StopReason, controller: RunController, time: Callable[[int], str | None]
) -> str:
    """Return the most specific sentence about the reason that ended a run."""
    if controller.not_finite_value is not None:
        return controller.not_finite_value.sentence(time(controller.not_finite_value.step))
    return str(
        stopped_by.value if controller.failure is None else controller.failure.findings[0].what
    )


# --- one evaluation -------------------------------------------------------------------------------


def _run_once(
    prepared: PreparedModel, spec: RunSpecification, lease: StoreLease | None
) -> tuple[Results, LoopError | None]:
    """Run one evaluation, and return the results and an error, if any."""
    bound_values = prepared.bind(spec)
    evaluation = prepared.evaluation(spec, bound_values)
    bound_values = bound_values.with_random_keys(evaluation.program)
    program, controls = evaluation.program, spec.controls
    output_names = [output.name for output in program.outputs]
    run_id = None if lease is None else lease.run_id
    controller = RunController(
        controls, lambda: identity(prepared, spec, bound_values, output_names), run=run_id
    )
    if lease is not None:
        lease.run_id = controller.run_id
        lease.check_can_create()
    partial_run = evaluation.single_run.run(bound_values.arrays, controller)
    outputs = {
        name: partial_run.outputs[name] for name in output_names if name in partial_run.outputs
    }
    outputs, row_counts = pad_outputs(outputs, partial_run, evaluation)
    reports_by_loop = loop_reports(evaluation, partial_run) if evaluation.loops else {}
    stopped_by, reason = _describe_evaluation_end(partial_run, reports_by_loop, controller)
    results = build_results(
        prepared,
        bound_values,
        fill_missing_rows(outputs, evaluation.has_run_flag_names, row_counts),
        evaluation.single_run.device,
        loops=reports_by_loop,
        lengths=row_counts,
        dtypes={
            name: dtype for name, dtype in evaluation.non_tensor_dtypes.items() if name in outputs
        },
        stopped_by=stopped_by,
        reason=reason,
        checkpoint=controller.checkpoint,
        native=evaluation.single_run.native,
        seconds=controller.seconds,
    )
    if controls.nan is None:
        has_run_flags = {
            name: partial_run.outputs.get(flag_name)
            for name, flag_name in evaluation.has_run_flag_names.items()
        }
        nonfinite_value = finite_check.in_evaluation(outputs, row_counts, results, has_run_flags)
        results = results.with_changes(not_finite=nonfinite_value)
    return results, _error_of_run(prepared, controller, lambda step: None)


def _describe_evaluation_end(
    partial_run: PartialRun, reports: Mapping[str, LoopReport], controller: RunController
) -> tuple[StopReason, str]:
    """Return the reason why an evaluation ended, and a sentence that describes the end."""
    stopped_by = partial_run.stopped_by
    if stopped_by is None:
        has_reached_limit = any(
            StopReason.MAX_ITERATIONS in report.reasons for report in reports.values()
        )
        stopped_by = StopReason.MAX_ITERATIONS if has_reached_limit else StopReason.COMPLETED
        if not (
            has_reached_limit
            or partial_run.missing_reasons
            or controller.failure
            or controller.not_finite_value
        ):
            return stopped_by, stopped_by.value
    stop_texts = [
        f"{report.how_often} of {name}"
        for name, report in reports.items()
        if stopped_by in report.reasons
    ]
    reason = _describe_reason(stopped_by, controller, lambda step: None)
    missing_texts = [
        f"'{name}' could not be computed: {reason}"
        for name, reason in partial_run.missing_reasons.items()
    ]
    return stopped_by, "; ".join((*stop_texts, reason, *missing_texts))


# --- over time ------------------------------------------------------------------------------------


def _run_over_time(
    prepared: PreparedModel, spec: RunSpecification, lease: StoreLease | None
) -> tuple[Results, LoopError | None]:
    """Run the model over time, and return the results and the error that ended the run, or None."""
    recording_plan = plan_recording(prepared.document, spec.selection)
    bound_values = prepared.bind(spec)
    time_session = prepared.over_time(spec, bound_values)
    bound_values = bound_values.with_random_keys(time_session.programs.later_program)
    time_stepper = TimeStepper(time_session, spec, bound_values, recording_plan)
    recording_plan = replace(recording_plan, varying_ranks=time_session.row_shapes.varying_ranks)
    _refuse_members(bound_values, recording_plan)
    has_fixed_end = spec.controls.time_limit is None  # a time limit leaves the row count open
    expected_rows = (
        recording_plan.count_recorded_rows(time_stepper.first_step, time_stepper.total)
        if has_fixed_end
        else None
    )
    controller = RunController(
        spec.controls,
        lambda: identity(prepared, spec, bound_values, recording_plan.names),
        time_session.axis,
        None if lease is None else lease.run_id,
    )
    row_sink: RowSink = Rows(time_session.axis, expected_rows)
    if lease is not None:
        lease.run_id = controller.run_id
        row_sink = _create_row_store(
            prepared, spec, bound_values, time_session, recording_plan, lease
        )
    model_name = prepared.document.graph.id
    with controller:
        recorder = start_recording(
            time_session, time_stepper, recording_plan, row_sink, controller.resumed_snapshots
        )
        stopped_by = controller.run_in_chunks(time_stepper, recorder, "steps", model_name)
        completed_run = complete_run(time_session, time_stepper, recorder, controller, stopped_by)
    prepared.record_device(completed_run.device)

    def time(step: int) -> str | None:
        return completed_run.time_of(step, prepared.units[TIME])

    results = build_results(
        prepared,
        bound_values,
        {**completed_run.rows, **completed_run.reductions},
        completed_run.device,
        axes=(completed_run.axis,) if recording_plan.traces else (),
        lengths=completed_run.lengths,
        state=completed_run.state,
        execution_list=completed_run.execution_list,
        reduced=completed_run.reductions,
        units=_units_of_reduced(prepared, recording_plan),
        stopped_by=completed_run.stopped_by,
        reason=_describe_run_end(completed_run, time_stepper, controller, time),
        checkpoint=controller.checkpoint,
        native=time_stepper.native,
        seconds={"time": controller.seconds[model_name]},
    )
    if spec.controls.nan is None:
        nonfinite_value = finite_check.over_time(prepared, spec.values, results, completed_run)
        results = results.with_changes(not_finite=nonfinite_value)
    return results, _error_of_run(prepared, controller, time)


def _units_of_reduced(prepared: PreparedModel, plan: RecordingPlan) -> dict[str, str]:
    """Return the units of outputs that are reduced over time, such as means, by name."""
    units = prepared.units
    return {
        f"{name}.{reduction}": units[name]
        for name, reductions in plan.selection.reduce.items()
        for reduction in reductions
        if name in units
    }


def _refuse_members(bound_values: BoundValues, plan: RecordingPlan) -> None:
    """Raise an error for a sweep or trials with the argument `when`, which selects rows."""
    if member_axes(bound_values) and plan.selection.when is not None:
        raise InputError(
            "a sweep, or trials, cannot choose rows by `when`: each member would have its own",
            hint="leave when out, or run the members one by one",
        )


def _create_row_store(
    prepared: PreparedModel,
    spec: RunSpecification,
    bound_values: BoundValues,
    session: TimeSession,
    plan: RecordingPlan,
    lease: StoreLease,
) -> StreamedRows:
    """Create the Zarr store into which rows are written during the run."""
    empty_times = np.zeros(0, np.int64 if spec.dt is None else np.float64)
    time_axis = Axis("time", {"step" if spec.dt is None else "time": empty_times})
    axes = (*member_axes(bound_values), time_axis)
    return StreamedRows(
        lease.path,
        axes,
        lambda: (session.device.name, prepared.options.precision),
        prepared.units,
        plan.columns,
        plan.length_array_names,
        lease,
        seed_of(bound_values) if bound_values.keys_by_input else None,
        prepared.dims,
    )


def _describe_run_end(
    completed_run: CompletedRun,
    stepper: TimeStepper,
    controller: RunController,
    time: Callable[[int], str | None],
) -> str:
    """Return a sentence about the progress of a run and the reason for its end."""
    if completed_run.stopped_by is StopReason.COMPLETED:
        return str(completed_run.stopped_by.value)
    return f"{completed_run.step_count} of {stepper.total} steps; {_describe_reason(completed_run.stopped_by, controller, time)}"


# --- modeci_mdf's engine --------------------------------------------------------------------------


def _run_in_engine(
    prepared: PreparedModel, spec: RunSpecification, lease: StoreLease | None
) -> tuple[Results, LoopError | None]:
    """Run the model in modeci_mdf's engine, and return the results without an error."""
    backend, bound_values = BACKENDS[spec.engine], prepared.bind(spec)
    assert isinstance(backend, DocumentBackend)
    results = engine_results(
        backend,
        with_values(prepared.document, bound_values.settings),
        select_inputs(prepared.document, spec.values.inputs, bound_values.inputs),
        spec,
        device=prepared.placement.device,
        precision=prepared.options.precision,
    )
    return results, None
