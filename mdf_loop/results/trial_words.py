"""What the elements of statistics over trials are called: `choice = true`, `0.9`, `0 to 0.5`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.labels import element_names


def said(by: str, value: Any) -> str:
    """`choice = true`: a value of an output or of what is swept, by the end of its name."""
    number = isinstance(value, float | np.floating)
    return f"{by.rsplit('.', 1)[-1]} = {f'{value:.6g}' if number else str(value).lower()}"


def member_words(results: Outputs) -> list[str]:
    """The members of a sweep: `threshold = 0.5, drift = 1`, or their numbers where arrays are swept."""
    swept = [axis for axis in results.axes if axis.is_swept]
    each = [_along_words(axis) for axis in swept]
    return [", ".join(words) for words in product(*each)] if swept else []


def _along_words(axis: Axis) -> list[str]:
    named = {name: np.asarray(values) for name, values in axis.coordinates.items()}
    if any(values.ndim > 1 for values in named.values()):
        return [f"member {k}" for k in range(axis.length)]
    return [
        ", ".join(said(name, values[k]) for name, values in named.items())
        for k in range(axis.length)
    ]


def by_axis(results: Outputs) -> Axis | None:
    """The axis of the values that statistics are told by."""
    found = (axis for axis in results.axes if not axis.is_swept and axis.name not in _OTHERS)
    return next(found, None) if results.told else None


_OTHERS = ("time", "trial")


def responses(results: Outputs) -> list[str]:
    """The values that statistics are told by, in words; none if they are told of all trials."""
    axis = by_axis(results)
    if axis is None:
        return []
    return [said(axis.name, value) for value in np.asarray(axis.coordinates[axis.name])]


def is_histogram(results: Outputs, name: str) -> bool:
    """Whether an output is a histogram of one number over trials."""
    edges, shape = results.told.get(name, ()), np.shape(results[name])
    own = shape[len(results.axes_of(name)) :]
    return name.endswith(".histogram") and own == (len(edges) - 1,)


def element_words(results: Outputs, name: str, shape: Sequence[int]) -> list[str]:
    """What each element behind the swept axes is called: by its response, and by what is told of it.

    Elements of what is no statistic have their index: `[0]`, `[1,0]`; a single number has none.
    """
    by = responses(results)
    own = _own_words(results, name, tuple(shape[bool(by) :]))
    if not by:
        return own
    return [", ".join(filter(None, pair)) for pair in product(by, own)]


def _own_words(results: Outputs, name: str, shape: tuple[int, ...]) -> list[str]:
    numbers = results.told.get(name, ())
    if is_histogram(results, name):
        return [f"{low:g} to {high:g}" for low, high in pairwise(numbers)]
    if numbers and shape == (len(numbers),):
        return [f"{number:g}" for number in numbers]
    return list(element_names("", shape))
