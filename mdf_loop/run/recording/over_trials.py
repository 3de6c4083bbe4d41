"""Statistics over trials, for each member of a sweep and each value of a grouping output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.name_suggestions import suggest
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording.reduction import Reduction
from mdf_loop.run.recording.statistics import PARAMETER_STATISTICS, STATISTICS
from mdf_loop.trials import OverTrials, Statistic

_Group = tuple[int, Any]
"""Member of the sweep, and value of the grouping output."""


class TrialStatistics:
    """Accumulator of statistics over trials. The trials are added in batches.

    Args:
        over_trials: Requested statistics, and the grouping output.

    Attributes:
        numbers: Parameters of each statistic by its name: the probabilities of quantiles, or the edges
            of a histogram.
        trials: Number of added trials.

    Raises:
        InputError: The name of a statistic is unknown, or its parameters are invalid.
    """

    def __init__(self, over_trials: OverTrials) -> None:
        self._over_trials = over_trials
        self._members: int | None = None
        self._groups: dict[_Group, dict[str, Reduction]] = {}
        requested = {
            f"{name}.{statistic.word}": (name, statistic)
            for name, statistics in over_trials.statistics.items()
            for statistic in statistics
        }
        self._accumulators = {
            key: (name, _accumulator_factory(statistic))
            for key, (name, statistic) in requested.items()
        }
        self.numbers = {key: statistic.numbers for key, (_, statistic) in requested.items()}
        self.trials = 0

    def add(self, outputs: Mapping[str, Array], members: range | None = None) -> None:
        """Add a batch of trials: outputs `[trial, ...]`, or `[member, trial, ...]` for a range of members."""
        if members is not None:
            self._members = max(self._members or 0, members.stop)
        arrays = {
            name: self._with_member_axis(outputs[name]) for name in self._over_trials.statistics
        }
        groups = (
            None
            if self._over_trials.by is None
            else self._with_member_axis(outputs[self._over_trials.by])
        )
        if groups is not None and (groups.ndim != 2 or groups.dtype.kind not in "biuf"):
            raise InputError(
                f"'{self._over_trials.by}' is no single number in each trial, so nothing is told by it",
                hint="choose an output that is one number, e.g. the response",
            )
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                raise InputError(f"'{name}' is {array.dtype}: over trials numbers are told only")
        if not members or members.start == 0:
            self.trials += next(iter(arrays.values())).shape[1]
        for row, member in enumerate(members or range(1)):
            for value in (None,) if groups is None else np.unique(groups[row]).tolist():
                selected = slice(None) if groups is None else groups[row] == value
                group = self._get_group(member, value)
                for key, (name, _) in self._accumulators.items():
                    self._check_shape(group[key], name, arrays[name][row])
                    group[key].add(arrays[name][row][selected])

    def _check_shape(self, reduction: Reduction, name: str, rows: Array) -> None:
        if not reduction.can_add(rows):
            raise InputError(
                f"'{name}' has another shape in some trials than in others",
                hint="choose outputs of one shape, e.g. a reaction time",
            )

    def _with_member_axis(self, array: Array) -> Array:
        return np.asarray(array)[None] if self._members is None else np.asarray(array)

    def _get_group(self, member: int, value: Any) -> dict[str, Reduction]:
        key = (member, value)
        if key not in self._groups:
            self._groups[key] = {name: make() for name, (_, make) in self._accumulators.items()}
        return self._groups[key]

    # --- statistics -----------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """Distinct values of the grouping output, in order."""
        return np.array(sorted({value for _, value in self._groups}))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axis of the distinct values of the grouping output, or no axes without grouping."""
        return (
            ()
            if self._over_trials.by is None
            else (Axis(self._over_trials.by, {self._over_trials.by: self.values}),)
        )

    def arrays(self) -> dict[str, Array]:
        """Return the statistics by name: `[member, value, ...]`, without absent axes."""
        values = (None,) if self._over_trials.by is None else self.values.tolist()
        return {name: self._stack_statistic(name, values) for name in self._accumulators}

    def _stack_statistic(self, name: str, values: Collection[Any]) -> Array:
        keys = list(product(range(self._members or 1), values))
        values_by_key = {key: group[name].value() for key, group in self._groups.items()}
        template = next(iter(values_by_key.values()))
        fill_value = (
            0 if template.dtype.kind in "iu" and name.endswith((".count", ".histogram")) else np.nan
        )
        rows = [
            values_by_key[k] if k in values_by_key else np.full(template.shape, fill_value)
            for k in keys
        ]
        is_complete = all(key in values_by_key for key in keys) or fill_value == 0
        stack = np.stack(rows).astype(
            template.dtype if is_complete else np.result_type(template, np.float64)
        )
        members = () if self._members is None else (self._members,)
        leading_shape = () if self._over_trials.by is None else (len(values),)
        return stack.reshape((*members, *leading_shape, *template.shape))


def _accumulator_factory(statistic: Statistic) -> Any:
    """Return a function that creates the accumulator of a statistic.

    Raises:
        InputError: The statistic is unknown, or its parameters are invalid.
    """
    word, numbers = statistic.word, statistic.numbers
    if word in STATISTICS and not numbers:
        return STATISTICS[word]
    if word not in PARAMETER_STATISTICS:
        known = (*STATISTICS, *PARAMETER_STATISTICS)
        raise InputError(
            f"'{word}' is nothing that can be told over trials",
            hint=suggest(word, known) or f"the words are {', '.join(known)}",
        )
    if word == "quantiles":
        are_valid = bool(numbers) and all(0 <= number <= 1 for number in numbers)
    else:
        are_valid = len(numbers) > 1 and all(a < b for a, b in pairwise(numbers))
    if not are_valid:
        raise InputError(
            f"{word} over trials cannot be {list(numbers)}",
            hint="give {'quantiles': [0.1, 0.5, 0.9]}, from 0 to 1, or {'histogram': edges} that rise",
        )
    return lambda: PARAMETER_STATISTICS[word](numbers)
