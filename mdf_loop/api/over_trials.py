"""Runs with statistics over trials, in batches that are discarded after the statistics were updated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from mdf_loop.errors import InputError, LoopError
from mdf_loop.ir import StopReason
from mdf_loop.results.data import Results
from mdf_loop.run.recording.lengths import padding_mask
from mdf_loop.run.recording.not_finite import earliest
from mdf_loop.run.recording.over_trials import TrialStatistics
from mdf_loop.signals import count_interrupt
from mdf_loop.specification import RunSpecification, Selection
from mdf_loop.trials import Draws, OverTrials

FIRST_BATCH_TRIALS = 1024
"""Number of trials of the first batch, from which the size of the outputs of a trial is measured."""

MAX_BATCH_TRIALS = 1 << 14
"""Largest number of trials of a batch."""

TARGET_BATCH_BYTES = 1 << 26
"""Target size of the outputs of a batch, in bytes."""

_Run = Callable[[RunSpecification], tuple[Results, LoopError | None]]


def run_over_trials(run: _Run, spec: RunSpecification) -> tuple[Results, LoopError | None]:
    """Return the statistics over all trials of a run, and the error that ended the run, or None.

    Raises:
        InputError: An argument cannot be combined with statistics over trials.
    """
    refuse_with_statistics(spec)
    over_trials = spec.selection.over_trials
    begun, statistics = time.monotonic(), TrialStatistics(over_trials)
    complete, last, error, not_finite = None, None, None, None
    for trials in _divide_into_batches(spec):
        try:
            last, error = run(_specify_batch(spec, trials, begun))
        except KeyboardInterrupt as interrupt:
            if complete is None:
                raise
            stopped_by = getattr(interrupt, "reason", StopReason.INTERRUPTED)
            if stopped_by is StopReason.INTERRUPTED:
                count_interrupt()
            reason = f"{statistics.trials} trials; {stopped_by.value}"
            return build_statistics_results(statistics, complete, stopped_by, reason), None
        not_finite = earliest((not_finite, last.not_finite))
        if error is not None or last.stopped_by is not StopReason.COMPLETED:
            break
        complete = last
        refuse_padding(complete, over_trials.statistics)
        statistics.add(complete, _find_member_range(complete))
        trials.seen(complete)
    assert last is not None
    if complete is None:
        return last, error
    is_all = last.stopped_by is StopReason.COMPLETED
    reason = last.reason if is_all else f"{statistics.trials} trials; {last.reason}"
    results = build_statistics_results(statistics, complete, last.stopped_by, reason)
    results.not_finite = not_finite
    return results, error


class _Batch:
    """Batch of trials, which determines the size of the next batch.

    Attributes:
        numbers: Numbers of the trials of this batch.
        next: Number of trials of the next batch.
    """

    def __init__(self, numbers: tuple[int, ...] | range) -> None:
        self.numbers = numbers
        self.next = len(numbers)

    def seen(self, results: Results) -> None:
        """Adapt the size of the next batch to the size of the outputs of this batch."""
        size = sum(getattr(data, "nbytes", 0) for data in results.values())
        fitting = TARGET_BATCH_BYTES * len(self.numbers) // max(1, size)
        self.next = max(1, min(MAX_BATCH_TRIALS, 4 * len(self.numbers), fitting))


def _divide_into_batches(spec: RunSpecification) -> Iterator[_Batch]:
    """Yield the trials of a run in batches."""
    numbers = spec.values.draws.trials
    assert numbers is not None
    place, count = 0, FIRST_BATCH_TRIALS
    while place < len(numbers):
        batch = _Batch(numbers[place : place + count])
        yield batch
        place, count = place + len(batch.numbers), batch.next


def select_for_statistics(selection: Selection) -> Selection:
    """Select the recorded names of each trial: outputs with statistics, or their reductions over time.

    Raises:
        InputError: A reduction over time has no statistic over trials.
    """
    over_trials = selection.over_trials
    names = dict.fromkeys((*over_trials.statistics, *((over_trials.by,) if over_trials.by else ())))
    reduced = [f"{name}.{word}" for name, words in selection.reduce.items() for word in words]
    for name in reduced:
        if name not in names:
            raise InputError(
                f"'{name}' would be a number of each trial, and nothing is told of it over trials",
                hint=f"tell something, e.g. over_trials={{'{name}': ['mean']}}, or do not reduce it",
            )
    only = tuple(name for name in names if name not in reduced)
    return replace(selection, only=only, record=(), over_trials=OverTrials())


def _specify_batch(spec: RunSpecification, batch: _Batch, begun: float) -> RunSpecification:
    """Return the specification of the run of one batch, with the outputs that statistics need."""
    draws = Draws(spec.values.draws.seed, batch.numbers)
    controls, limit = spec.controls, spec.controls.time_limit
    if limit is not None:
        left = max(1e-3, limit - (time.monotonic() - begun))
        controls = replace(controls, time_limit=left)
    return replace(
        spec,
        values=replace(spec.values, draws=draws),
        selection=select_for_statistics(spec.selection),
        controls=controls,
        output=None,
    )


def _find_units(names: Iterable[str], complete: Results) -> dict[str, str]:
    """Return the units of statistics that have the unit of their output, by the name of the statistic."""
    of = ((name, name.rpartition(".")[0]) for name in names if not name.endswith(_WITHOUT_UNIT))
    return {name: complete.units[output] for name, output in of if output in complete.units}


def _find_member_range(results: Results) -> range | None:
    """Return the range of member numbers of a sweep, or None without a sweep."""
    first = results.axes[0]
    return range(first.length) if first.is_swept else None


def build_statistics_results(
    statistics: TrialStatistics, complete: Results, stopped_by: StopReason, reason: str
) -> Results:
    """Return the results of a run with statistics over all trials as outputs.

    Args:
        statistics: The statistics over all counted trials.
        complete: The results of a complete batch, from which axes, units and other properties are copied.
        stopped_by: The reason why the run ended.
        reason: A sentence about the end of the run.
    """
    axes = [axis for axis in complete.axes if axis.name != "trial"]
    place = int(bool(axes) and axes[0].is_swept)
    axes[place:place] = statistics.axes
    along = [name for axis in axes for name in axis.coordinates]
    arrays = statistics.arrays()
    return Results(
        arrays,
        {n: report for n, report in complete.loops.items() if isinstance(report.iterations, int)},
        complete.device,
        complete.precision,
        axes=tuple(axes),
        reduced=[name for name in arrays if _has_no_time(complete, name)],
        units={
            **{name: complete.units[name] for name in along if name in complete.units},
            **_find_units(arrays, complete),
        },
        stopped_by=stopped_by,
        reason=reason,
        native=complete.native,
        seed=complete.seed,
        draws=True,
        statistics=statistics.numbers,
    )


def _has_no_time(complete: Results, name: str) -> bool:
    """Return True if a statistic has no axis of time."""
    output = name.rpartition(".")[0]
    reduced = (f".{full}".endswith(f".{output}") for full in complete.reduced)
    return name.endswith(".count") or any(reduced)


def refuse_padding(results: Results, names: Iterable[str]) -> None:
    """Raise an error if an output with statistics is padded, since padding would count as values.

    Raises:
        InputError: Trials have different numbers of rows of an output.
    """
    for name in names:
        full = results.full_name(name)
        if full not in results.lengths:
            continue
        front = len(results.axes_of(full))
        if padding_mask(results.lengths[full], np.shape(results[full]), front).any():
            raise InputError(
                f"'{full}' has another number of rows in some trials than in others",
                hint="choose outputs of one shape, e.g. a reaction time",
            )


_WITHOUT_UNIT = (".count", ".histogram", ".var")
"""Endings of the names of statistics that do not have the unit of their output."""


def refuse_with_statistics(spec: RunSpecification) -> None:
    """Raise an error for arguments that cannot be combined with statistics over trials."""
    controls, selection = spec.controls, spec.selection
    for what, there in (
        ("outputs of each trial", bool(selection.record) or selection.only is not None),
        ("a checkpoint", controls.saved_at is not None),
        ("a state", spec.values.state is not None),
        ("rows of some steps only", selection.when is not None),
        ("rows that are written while they are computed", spec.streams),
        ("modeci_mdf's engine", spec.engine == "modeci"),
    ):
        if there:
            raise InputError(
                f"statistics over trials do not go together with {what}",
                hint="leave one of them out",
            )
