"""Check that a model can produce the choices and reaction times in the data.

    data: choices -1 and 1      model: 0 and 1        refused: no trial has choice -1
    data: times 320 to 1840     model: 0.3 to 2.9     refused: are the units the same?

A datum outside of the range has the same cost at all parameters, so a fit would return arbitrary values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.fitting.reaction_times import ReactionTimeData
from mdf_loop.ir import Array

MIN_SHARE_WITHIN_RANGE = 0.05
"""Least share of the data that lies between the shortest and the longest time of all trials."""

MAX_LISTED_VALUES = 6
"""Largest number of values that a message lists."""

Trials = tuple[Array, Array | None]
"""Times of trials at some points, with their choices if the model has any."""


def check_data_within_model_range(
    observed: ReactionTimeData,
    trials: Callable[[Array], Trials],
    best_points: Array,
    wide_points: Callable[[], Array],
) -> None:
    """Raise InputError if the model cannot produce the observed choices or times.

    Args:
        observed: The data.
        trials: A function that returns the trials of the model at some points.
        best_points: The points with the best fit. The check ends if their trials cover the data.
        wide_points: A function that returns more points, from everywhere within the bounds.

    Raises:
        InputError: Choices or times of the data are out of range. The message states both ranges.
    """
    if any(_findings(observed, *trials(best_points))):
        raise_findings(_findings(observed, *trials(wide_points())))


def _findings(observed: ReactionTimeData, times: Array, choices: Array | None) -> Iterator[Finding]:
    """Yield an error for observed choices or times that the model does not produce."""
    is_finished = np.isfinite(times)
    if not is_finished.any():
        return
    if choices is not None:
        model_choices = np.unique(choices[is_finished])
        absent_choices = np.setdiff1d([bins.choice for bins in observed.bins], model_choices)
        if len(absent_choices):
            yield Finding(
                "InputError",
                f"the data have choice {_list_values(absent_choices)}, which the model never gives: in "
                f"{times.size} trials within the bounds its choices are {_list_values(model_choices)}",
                "",
                "code the choices of the data as the model does: (choice + 1) / 2 makes 0 and 1 of "
                "-1 and 1; or leave those rows out",
            )
    shortest_time, longest_time = times[is_finished].min(), times[is_finished].max()
    share_within_range = np.mean(
        (shortest_time <= observed.observed_times) & (observed.observed_times <= longest_time)
    )
    if share_within_range < MIN_SHARE_WITHIN_RANGE:
        yield Finding(
            "InputError",
            f"the times of the data, {_format_range(observed.observed_times)}, are not those that the model gives "
            f"within the bounds, {_format_range(times[is_finished])}",
            "",
            "are the units the same? of data in ms, give times / 1000 to a model in seconds",
        )


def _format_range(times: Array) -> str:
    """Return the range of some times as text, such as `0.3 to 2.9`."""
    return f"{times.min():.4g} to {times.max():.4g}"


def _list_values(values: Array) -> str:
    """Return values as text: the first ones and a count, such as `0, 1 and 3 more`."""
    values_text = ", ".join(f"{value:.6g}" for value in values[:MAX_LISTED_VALUES])
    return values_text + (
        f" and {len(values) - MAX_LISTED_VALUES} more" if len(values) > MAX_LISTED_VALUES else ""
    )
