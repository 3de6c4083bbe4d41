"""Fits of one subject, of several subjects, and of subjects that share parameters."""

from __future__ import annotations

import dataclasses
from time import monotonic, perf_counter

from msgspec.structs import replace

from mdf_loop.api.data_units import convert_fit_options
from mdf_loop.api.fitted_curves import fit_curves
from mdf_loop.api.fitted_objective import fit_objective
from mdf_loop.api.fitted_times import fit_times
from mdf_loop.api.fitted_together import fit_together
from mdf_loop.api.fitting_to_data import (
    FitRequest,
    ModelBuilder,
    build_parameter_space,
    has_subjects,
    name_subject_in_errors,
    split_subjects,
)
from mdf_loop.api.nonfinite_derivatives import warn_of_fits
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.cluster.clients import connect
from mdf_loop.cluster.environment import check_environment, environment_versions
from mdf_loop.cluster.tasks import Tasks
from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.observed import read_table
from mdf_loop.interruption import InterruptReaction
from mdf_loop.ir import StopReason
from mdf_loop.paths import track_read_files
from mdf_loop.request.fit_options import FitOptions
from mdf_loop.request.run_options import DEFAULT_RETRIES
from mdf_loop.results.fit import Fit, Fits
from mdf_loop.run.control.progress import open_reporter
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.signals import count_interrupt, stop_exception


def fit_to_data(model: PreparedModel, options: FitOptions, build_model: ModelBuilder) -> Fit | Fits:
    """Fit the free parameters of a model to data, and return the fit of each subject.

    Args:
        model: The model.
        options: Arguments of the user.
        build_model: Function that builds the model with the estimates.

    Raises:
        InputError: A name, a bound or a row of the data does not fit.
        LoopError: The model fails at all points.
        KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the best fit so far, or None.
    """
    request = FitRequest.of(convert_fit_options(model, options), build_model)
    with InterruptReaction(options.on_interrupt, _describe_progress) as call:
        call.results = fit(model, request)
    fit_or_fits = call.results
    warn_of_fits([fit_or_fits] if isinstance(fit_or_fits, Fit) else fit_or_fits.values())
    return fit_or_fits


def fit(model: PreparedModel, request: FitRequest) -> Fit | Fits:
    """Fit one subject, or several subjects separately or jointly, according to a request.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    space = build_parameter_space(model, request)
    if request.shared_names and not has_subjects(request.observed_data):
        raise InputError("shared ties subjects, but the data are of one", hint="leave it out")
    if request.cluster is None:
        return _fit_subjects(model, request, space)
    with connect(request.cluster, request.time_limit) as connection:
        request = replace(request, cluster=None, connection=connection)
        if connection.deadline is not None:
            request = replace(request, time_limit=max(connection.deadline - monotonic(), 0.0))
        return _fit_subjects(model, request, space)


def _describe_progress(fitted: Fit | Fits) -> str:
    """Return the progress of an interrupted fit as text, such as `the best of 300 evaluations`."""
    if isinstance(fitted, Fit):
        return f"the best of {fitted.evaluations} evaluations"
    return f"fits of {', '.join(fitted) or 'no subject'}"


def _fit_subjects(model: PreparedModel, request: FitRequest, space: ParameterSpace) -> Fit | Fits:
    """Fit one subject, or several subjects in turn, in parallel or jointly."""
    if not has_subjects(request.observed_data):
        return _fit_subject(model, request, space)
    if request.shared_names:
        return fit_together(model, request, space)
    fit_subjects = _fit_sequentially if request.connection is None else _fit_in_parallel
    fits = fit_subjects(model, request, space)
    return Fits(fits, read_from=frozenset().union(*(fit.read_from for fit in fits.values())))


def _fit_sequentially(
    model: PreparedModel, request: FitRequest, space: ParameterSpace
) -> dict[str, Fit]:
    """Fit subjects one after another, until all fits are complete or one is interrupted."""
    fits: dict[str, Fit] = {}
    start_time = perf_counter()
    for subject_name, subject_request in split_subjects(request):
        if subject_request.time_limit is not None:
            subject_request = replace(
                subject_request,
                time_limit=max(subject_request.time_limit - (perf_counter() - start_time), 0.0),
            )
        try:
            with name_subject_in_errors(subject_name):
                fits[subject_name] = _fit_subject(model, subject_request, space)
        except KeyboardInterrupt:
            if not fits:
                raise
            count_interrupt()
            break
        if fits[subject_name].stopped_by is not StopReason.COMPLETED:
            break
    return fits


def _fit_subject(model: PreparedModel, request: FitRequest, space: ParameterSpace) -> Fit:
    """Fit one subject to curves, to reaction times, or by a user-defined objective."""
    fit_function = fit_times if request.likelihood_outputs else fit_curves
    if request.objective is not None:
        fit_function = fit_objective
    with track_read_files(model.document.files) as read_files:
        single_fit = fit_function(model, request, space)
    return dataclasses.replace(single_fit, read_from=frozenset(read_files))


# --- on a cluster ---------------------------------------------------------------------------------


def _fit_in_parallel(
    model: PreparedModel, request: FitRequest, space: ParameterSpace
) -> dict[str, Fit]:
    """Fit subjects in parallel on the workers of a cluster."""
    assert request.connection is not None
    fits: dict[str, Fit] = {}
    with (
        Stopping(request.time_limit) as stop_monitor,
        track_read_files(model.document.files) as read_files,
    ):
        subject_requests = [
            (
                subject_name,
                replace(
                    subject_request,
                    observed_data=read_table(subject_request.observed_data),
                    connection=None,
                    progress=False,
                ),
            )
            for subject_name, subject_request in split_subjects(request)
        ]
        shared_arguments = (model, space, environment_versions())
        tasks: Tasks[_SubjectRequest, Fit] = Tasks(
            request.connection, _fit_on_worker, shared_arguments, DEFAULT_RETRIES
        )
        model_name = model.document.graph.id
        with open_reporter(
            request.progress, len(subject_requests), 0, "subjects", model_name
        ) as reporter:
            for outcome in tasks.outcomes(subject_requests, lambda: stop_monitor.reason):
                finished_subject = outcome.item[0]
                if outcome.error is not None:
                    with name_subject_in_errors(finished_subject):
                        raise outcome.error
                assert outcome.result is not None
                fits[finished_subject] = dataclasses.replace(
                    outcome.result, read_from=frozenset(read_files)
                )
                if not reporter.update(len(fits)):
                    stop_monitor.request_stop(StopReason.INTERRUPTED)
    if not fits and stop_monitor.reason is not None:
        raise stop_exception(stop_monitor.reason)
    return {
        subject_name: fits[subject_name]
        for subject_name, _ in subject_requests
        if subject_name in fits
    }


_SubjectRequest = tuple[str, FitRequest]


def _fit_on_worker(
    shared_arguments: tuple[PreparedModel, ParameterSpace, dict[str, str]], item: _SubjectRequest
) -> Fit:
    """Fit one subject on a worker of a cluster."""
    model, space, caller_environment = shared_arguments
    check_environment(caller_environment, "of this subject")
    with name_subject_in_errors(item[0]):
        return _fit_subject(model, item[1], space)
