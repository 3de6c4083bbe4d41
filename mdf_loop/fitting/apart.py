"""Decisions of data that a model cannot be compared with: other words for choices, another unit.

    data: choices -1 and 1      model: 0 and 1        refused: it never gives -1
    data: times 320 to 1840     model: 0.3 to 2.9     refused: are the units the same?

Each such datum costs as much wherever the parameters are: a fit would find a number that says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.fitting.reaction_times import ReactionTimes
from mdf_loop.ir import Array

INSIDE = 0.05
"""The least part of the data that lies between the shortest and the longest time of all trials."""

MOST = 6
"""Of more values only the first are named."""

Trials = tuple[Array, Array | None]
"""Times, and choices if there are any, of trials at some points."""


def refuse_apart(
    observed: ReactionTimes,
    trials: Callable[[Array], Trials],
    near: Array,
    wide: Callable[[], Array],
) -> None:
    """Refuse data whose choices, or nearly all of whose times, no trial of the model has.

    Args:
        observed: the data.
        trials: what the model gives at points.
        near: points that fit best; where their trials have all that the data have, it is enough.
        wide: more of them, from everywhere within the bounds.

    Raises:
        InputError: there are such; the sentence says what the data have and what the model gives.
    """
    if any(_findings(observed, *trials(near))):
        raise_findings(_findings(observed, *trials(wide())))


def _findings(observed: ReactionTimes, times: Array, choices: Array | None) -> Iterator[Finding]:
    ended = np.isfinite(times)
    if not ended.any():
        return
    if choices is not None:
        given = np.unique(choices[ended])
        never = np.setdiff1d([bins.choice for bins in observed.bins], given)
        if len(never):
            yield Finding(
                "InputError",
                f"the data have choice {_listed(never)}, which the model never gives: in "
                f"{times.size} trials within the bounds its choices are {_listed(given)}",
                "",
                "code the choices of the data as the model does: (choice + 1) / 2 makes 0 and 1 of "
                "-1 and 1; or leave those rows out",
            )
    least, most = times[ended].min(), times[ended].max()
    inside = np.mean((least <= observed.times) & (observed.times <= most))
    if inside < INSIDE:
        yield Finding(
            "InputError",
            f"the times of the data, {_range(observed.times)}, are not those that the model gives "
            f"within the bounds, {_range(times[ended])}",
            "",
            "are the units the same? of data in ms, give times / 1000 to a model in seconds",
        )


def _range(times: Array) -> str:
    return f"{times.min():.4g} to {times.max():.4g}"


def _listed(values: Array) -> str:
    """`0, 1`; of many the first, and how many there are more."""
    shown = ", ".join(f"{value:.6g}" for value in values[:MOST])
    return shown + (f" and {len(values) - MOST} more" if len(values) > MOST else "")
