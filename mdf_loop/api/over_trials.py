"""Runs that keep only statistics over trials, computed batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import InputError, LoopError
from mdf_loop.ir import StopReason
from mdf_loop.results.data import Results
from mdf_loop.run.recording.lengths import padding_mask
from mdf_loop.run.recording.not_finite import earliest
from mdf_loop.run.recording.over_trials import TrialStatistics
from mdf_loop.run.recording.reduction import Reduction
from mdf_loop.run.recording.statistics import reductions_over_trials
from mdf_loop.run.recording.store_lease import StoreLease
from mdf_loop.signals import count_interrupt
from mdf_loop.specification import RunSpecification, Selection
from mdf_loop.trials import Draws, OverTrials

FIRST_BATCH_TRIALS = 1024
"""Number of trials of the first batch, from which the size of the outputs of a trial is measured."""

MAX_BATCH_TRIALS = 1 << 14
"""Largest number of trials of a batch."""

TARGET_BATCH_BYTES = 1 << 26
"""Target size of the outputs of a batch, in bytes."""

_RunFunction = Callable[
    [PreparedModel, RunSpecification, StoreLease | None], tuple[Results, LoopError | None]
]


def run_over_trials(
    run_batch: _RunFunction,
    prepared: PreparedModel,
    spec: RunSpecification,
    lease: StoreLease | None,
) -> tuple[Results, LoopError | None]:
    """Run all trials batch by batch, and return their statistics and an error, if any.

    Raises:
        InputError: An argument cannot be combined with statistics over trials.
    """
    _refuse_streaming(spec)
    trial_statistics_spec = spec.selection.over_trials
    start_time, statistics = time.monotonic(), TrialStatistics(trial_statistics_spec)
    complete_results, last_results, error, nonfinite_value = None, None, None, None
    for batch in _divide_into_batches(spec):
        try:
            last_results, error = run_batch(prepared, _specify_batch(spec, batch, start_time), None)
        except KeyboardInterrupt as interrupt:
            if complete_results is None:
                raise
            stopped_by = getattr(interrupt, "reason", StopReason.INTERRUPTED)
            if stopped_by is StopReason.INTERRUPTED:
                count_interrupt()
            reason = f"{statistics.trial_count} trials; {stopped_by.value}"
            return build_statistics_results(statistics, complete_results, stopped_by, reason), None
        nonfinite_value = earliest((nonfinite_value, last_results.not_finite))
        if error is not None or last_results.stopped_by is not StopReason.COMPLETED:
            break
        complete_results = last_results
        refuse_padding(complete_results, trial_statistics_spec.statistics)
        statistics.add(complete_results, _find_member_range(complete_results))
        batch.adapt_next_size(complete_results)
    assert last_results is not None
    if complete_results is None:
        return last_results, error
    is_complete = last_results.stopped_by is StopReason.COMPLETED
    reason = (
        last_results.reason
        if is_complete
        else f"{statistics.trial_count} trials; {last_results.reason}"
    )
    results = build_statistics_results(
        statistics, complete_results, last_results.stopped_by, reason
    )
    return results.with_changes(not_finite=nonfinite_value), error


class _Batch:
    """Batch of consecutive trials, with the size of the next batch.

    Attributes:
        trial_numbers: Numbers of the trials of this batch.
        next_size: Number of trials of the next batch.
    """

    def __init__(self, trial_numbers: tuple[int, ...] | range) -> None:
        self.trial_numbers = trial_numbers
        self.next_size = len(trial_numbers)

    def adapt_next_size(self, results: Results) -> None:
        """Choose the size of the next batch of trials from the size of this batch's outputs."""
        output_bytes = sum(getattr(output, "nbytes", 0) for output in results.values())
        fitting_trial_count = TARGET_BATCH_BYTES * len(self.trial_numbers) // max(1, output_bytes)
        self.next_size = max(
            1, min(MAX_BATCH_TRIALS, 4 * len(self.trial_numbers), fitting_trial_count)
        )


def _divide_into_batches(spec: RunSpecification) -> Iterator[_Batch]:
    """Yield the trials of a run in consecutive batches."""
    trial_numbers = spec.values.draws.trials
    assert trial_numbers is not None
    start_index, batch_size = 0, FIRST_BATCH_TRIALS
    while start_index < len(trial_numbers):
        batch = _Batch(trial_numbers[start_index : start_index + batch_size])
        yield batch
        start_index, batch_size = start_index + len(batch.trial_numbers), batch.next_size


def select_for_statistics(selection: Selection) -> Selection:
    """Select the outputs that each trial must record for the statistics over trials.

    Raises:
        InputError: A reduction over time has no statistic over trials.
    """
    trial_statistics_spec = selection.over_trials
    output_names = dict.fromkeys(
        (
            *trial_statistics_spec.statistics,
            *((trial_statistics_spec.by,) if trial_statistics_spec.by else ()),
        )
    )
    reduced_names = [
        f"{name}.{reduction}"
        for name, reductions in selection.reduce.items()
        for reduction in reductions
    ]
    for name in reduced_names:
        if name not in output_names:
            raise InputError(
                f"'{name}' would be a number of each trial, and nothing is told of it over trials",
                hint=f"tell something, e.g. over_trials={{'{name}': ['mean']}}, or do not reduce it",
            )
    selected_names = tuple(name for name in output_names if name not in reduced_names)
    return replace(selection, only=selected_names, record=(), over_trials=OverTrials())


def _specify_batch(spec: RunSpecification, batch: _Batch, start_time: float) -> RunSpecification:
    """Return the specification of the run of one batch of trials."""
    batch_draws = Draws(spec.values.draws.seed, batch.trial_numbers)
    controls, time_limit = spec.controls, spec.controls.time_limit
    if time_limit is not None:
        remaining_seconds = max(1e-3, time_limit - (time.monotonic() - start_time))
        controls = replace(controls, time_limit=remaining_seconds)
    return replace(
        spec.with_options(output=None),
        values=replace(spec.values, draws=batch_draws),
        selection=select_for_statistics(spec.selection),
        controls=controls,
    )


def _find_units(names: Iterable[str], complete_results: Results) -> dict[str, str]:
    """Return the units of the trial statistics, such as means, that have the output's unit."""
    statistic_outputs = (
        (name, name.rpartition(".")[0]) for name in names if _reduction_of(name).has_unit
    )
    return {
        name: complete_results.units[output_name]
        for name, output_name in statistic_outputs
        if output_name in complete_results.units
    }


def _find_member_range(results: Results) -> range | None:
    """Return the numbers of all sweep members as a range, or None without a sweep."""
    first_axis = results.axes[0]
    return range(first_axis.length) if first_axis.is_swept else None


def build_statistics_results(
    statistics: TrialStatistics, complete_results: Results, stopped_by: StopReason, reason: str
) -> Results:
    """Return the results of a run whose outputs are statistics over all trials.

    Args:
        statistics: The statistics over all counted trials.
        complete_results: The results of a complete batch, from which axes, units and other properties are copied.
        stopped_by: The reason why the run ended.
        reason: A sentence about the end of the run.
    """
    axes = [axis for axis in complete_results.axes if axis.name != "trial"]
    axis_position = int(bool(axes) and axes[0].is_swept)
    axes[axis_position:axis_position] = statistics.axes
    coordinate_names = [name for axis in axes for name in axis.coordinates]
    statistic_arrays = statistics.arrays()
    return Results(
        statistic_arrays,
        {
            name: report
            for name, report in complete_results.loops.items()
            if isinstance(report.iterations, int)
        },
        complete_results.device,
        complete_results.precision,
        axes=tuple(axes),
        reduced=[name for name in statistic_arrays if _has_no_time(complete_results, name)],
        units={
            **{
                name: complete_results.units[name]
                for name in coordinate_names
                if name in complete_results.units
            },
            **_find_units(statistic_arrays, complete_results),
        },
        stopped_by=stopped_by,
        reason=reason,
        native=complete_results.native,
        seed=complete_results.seed,
        draws=True,
        statistics=statistics.parameters,
    )


def _has_no_time(complete_results: Results, name: str) -> bool:
    """Return True if a statistic over trials has no time axis."""
    output_name = name.rpartition(".")[0]
    output_name_matches = (
        f".{full_name}".endswith(f".{output_name}") for full_name in complete_results.reduced
    )
    return not _reduction_of(name).has_time_axis or any(output_name_matches)


def _reduction_of(name: str) -> type[Reduction]:
    """Return the reduction that computes a statistic such as `node.port.mean`."""
    return reductions_over_trials()[name.rpartition(".")[2]]


def refuse_padding(results: Results, names: Iterable[str]) -> None:
    """Raise an error if padded rows of an output would distort its statistics over trials.

    Raises:
        InputError: Trials have different numbers of rows of an output.
    """
    for name in names:
        full_output_name = results.full_name(name)
        if full_output_name not in results.lengths:
            continue
        axis_count = len(results.axes_of(full_output_name))
        if padding_mask(
            results.lengths[full_output_name], np.shape(results[full_output_name]), axis_count
        ).any():
            raise InputError(
                f"'{full_output_name}' has another number of rows in some trials than in others",
                hint="choose outputs of one shape, e.g. a reaction time",
            )


def _refuse_streaming(spec: RunSpecification) -> None:
    """Raise an error for statistics over trials of a run that writes rows during the run."""
    if spec.streams:
        raise InputError(
            "statistics over trials do not go together with rows that are written while they are computed",
            hint="leave one of them out",
        )
