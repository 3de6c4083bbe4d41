"""Statistics over trials, separately for each member of a sweep and each group of trials."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.name_suggestions import suggest
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording.reduction import Reduction
from mdf_loop.run.recording.statistics import reductions_over_trials
from mdf_loop.trials import OverTrials, Statistic

_GroupKey = tuple[int, Any]
"""Member of the sweep, and value of the grouping output."""


class TrialStatistics:
    """Accumulator of statistics over trials, which are added in batches.

    Args:
        over_trials: Requested statistics, and the grouping output.

    Attributes:
        parameters: Parameters of each statistic by its name: the probabilities of quantiles, or the edges
            of a histogram.
        trial_count: Number of added trials.

    Raises:
        InputError: The name of a statistic is unknown, or its parameters are invalid.
    """

    def __init__(self, over_trials: OverTrials) -> None:
        self._over_trials = over_trials
        self._member_count: int | None = None
        self._groups: dict[_GroupKey, dict[str, Reduction]] = {}
        self._statistics = {
            f"{name}.{statistic.name}": (name, statistic, _find_reduction(statistic))
            for name, statistics in over_trials.statistics.items()
            for statistic in statistics
        }
        self.parameters = {
            statistic_name: statistic.parameters
            for statistic_name, (_, statistic, _) in self._statistics.items()
        }
        self.trial_count = 0

    def add(self, outputs: Mapping[str, Array], members: range | None = None) -> None:
        """Add a batch of trials: outputs `[trial, ...]`, or `[member, trial, ...]` in a sweep."""
        if members is not None:
            self._member_count = max(self._member_count or 0, members.stop)
        arrays = {
            name: self._with_member_axis(outputs[name]) for name in self._over_trials.statistics
        }
        group_values = (
            None
            if self._over_trials.by is None
            else self._with_member_axis(outputs[self._over_trials.by])
        )
        if group_values is not None and (
            group_values.ndim != 2 or group_values.dtype.kind not in "biuf"
        ):
            raise InputError(
                f"'{self._over_trials.by}' is no single number in each trial, so nothing is told by it",
                hint="choose an output that is one number, e.g. the response",
            )
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                raise InputError(f"'{name}' is {array.dtype}: over trials numbers are told only")
        if not members or members.start == 0:
            self.trial_count += next(iter(arrays.values())).shape[1]
        for row, member in enumerate(members or range(1)):
            for group_value in (
                (None,) if group_values is None else np.unique(group_values[row]).tolist()
            ):
                trial_selection = (
                    slice(None) if group_values is None else group_values[row] == group_value
                )
                accumulators = self._get_group(member, group_value)
                for statistic_name, (name, _, _) in self._statistics.items():
                    self._check_shape(accumulators[statistic_name], name, arrays[name][row])
                    accumulators[statistic_name].add(arrays[name][row][trial_selection])

    def _check_shape(self, reduction: Reduction, name: str, rows: Array) -> None:
        if not reduction.can_add(rows):
            raise InputError(
                f"'{name}' has another shape in some trials than in others",
                hint="choose outputs of one shape, e.g. a reaction time",
            )

    def _with_member_axis(self, array: Array) -> Array:
        return np.asarray(array)[None] if self._member_count is None else np.asarray(array)

    def _get_group(self, member: int, value: Any) -> dict[str, Reduction]:
        group_key = (member, value)
        if group_key not in self._groups:
            self._groups[group_key] = {
                statistic_name: reduction.of(statistic.parameters)
                for statistic_name, (_, statistic, reduction) in self._statistics.items()
            }
        return self._groups[group_key]

    # --- statistics -----------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """Sorted distinct values of the output that groups the trials."""
        return np.array(sorted({group_value for _, group_value in self._groups}))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes of the statistics: one axis of groups, or none if the trials are not grouped."""
        return (
            ()
            if self._over_trials.by is None
            else (Axis(self._over_trials.by, {self._over_trials.by: self.values}),)
        )

    def arrays(self) -> dict[str, Array]:
        """Return the statistics by name, as arrays `[member, group, ...]`.

        Axes that do not apply are absent.
        """
        group_values = (None,) if self._over_trials.by is None else self.values.tolist()
        return {name: self._stack_statistic(name, group_values) for name in self._statistics}

    def _stack_statistic(self, name: str, values: Collection[Any]) -> Array:
        group_keys = list(product(range(self._member_count or 1), values))
        values_by_key = {
            key: accumulators[name].value() for key, accumulators in self._groups.items()
        }
        first_statistic = next(iter(values_by_key.values()))
        fill_value = self._statistics[name][2].empty_value
        rows = [
            values_by_key[key]
            if key in values_by_key
            else np.full(first_statistic.shape, fill_value)
            for key in group_keys
        ]
        is_complete = all(key in values_by_key for key in group_keys) or fill_value == 0
        stacked_rows = np.stack(rows).astype(
            first_statistic.dtype if is_complete else np.result_type(first_statistic, np.float64)
        )
        members_shape = () if self._member_count is None else (self._member_count,)
        leading_shape = () if self._over_trials.by is None else (len(values),)
        return stacked_rows.reshape((*members_shape, *leading_shape, *first_statistic.shape))


def _find_reduction(statistic: Statistic) -> type[Reduction]:
    """Return the class of the accumulators of a statistic over trials.

    Raises:
        InputError: The statistic is unknown, or its parameters are invalid.
    """
    known_reductions, name = reductions_over_trials(), statistic.name
    reduction = known_reductions.get(name)
    takes_parameters = reduction is not None and not reduction.accepts(())
    if reduction is None or (statistic.parameters and not takes_parameters):
        raise InputError(
            f"'{name}' is nothing that can be told over trials",
            hint=suggest(name, known_reductions) or f"the words are {', '.join(known_reductions)}",
        )
    if not reduction.accepts(statistic.parameters):
        raise InputError(
            f"{name} over trials cannot be {list(statistic.parameters)}",
            hint="give {'quantiles': [0.1, 0.5, 0.9]}, from 0 to 1, or {'histogram': edges} that rise",
        )
    return reduction
