"""Which values the members of a sweep have.

paired({"a": [0, 1], "b": [5, 6]})          2 members: a and b are 0 and 5, then 1 and 6
grid({"a": [0, 1], "b": [5, 6, 7]})         6 members: each a with each b; results have an axis of both
sobol({"a": (0, 1), "b": (5, 7)}, 64)       64 members that fill the space between the bounds evenly
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from mdf_loop import arguments
from mdf_loop.errors import InputError
from mdf_loop.trials import is_whole

Array = np.ndarray[Any, np.dtype[Any]]


class Grid(Mapping[str, Array]):
    """Each value of each name with each of the others; as a mapping it gives those of all members.

    The first name changes slowest. The values of members are made when they are asked for.

    Attributes:
        along: the values of each name, each once.
    """

    def __init__(self, values: Mapping[str, Array]) -> None:
        self.along = dict(values)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each name has."""
        return tuple(len(values) for values in self.along.values())

    def __getitem__(self, name: str) -> Array:
        place = list(self.along).index(name)
        ways = [-1 if k == place else 1 for k in range(len(self.shape))]
        return np.broadcast_to(self.along[name].reshape(ways), self.shape).ravel()

    def __iter__(self) -> Iterator[str]:
        return iter(self.along)

    def __len__(self) -> int:
        return len(self.along)

    def apart(self, array: Array) -> Array:
        """What all members give, with an axis for each name instead of one of members in front."""
        return array.reshape(*self.shape, *array.shape[1:])


def grid(values: Mapping[str, Any]) -> Grid:
    """A sweep over each value of each name with each of the others.

    Results have an axis for each name instead of one of members: `[a, b, time]`.

    Args:
        values: a list of numbers for each parameter (`node.parameter`) or input (port id).

    Raises:
        InputError: values are no list of numbers.
    """
    return Grid({name: _numbers(name, rows) for name, rows in _given(values, "a grid").items()})


def paired(values: Mapping[str, Any]) -> dict[str, Array]:
    """A sweep whose first member has the first value of each name, and so on, as a plain dict says.

    Args:
        values: lists of values, equally many, for parameters (`node.parameter`) or inputs (port id).

    Raises:
        InputError: they are not equally many.
    """
    made = {name: np.asarray(rows) for name, rows in _given(values, "paired values").items()}
    lengths = {name: len(rows) if rows.ndim else 0 for name, rows in made.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        told = ", ".join(f"'{name}' has {length}" for name, length in lengths.items())
        raise InputError(f"paired values must be equally many, but {told}")
    return made


def sobol(bounds: Mapping[str, Any], count: int, seed: int = 0) -> dict[str, Array]:
    """A sweep of so many members that fill the space between bounds evenly, by a Sobol sequence.

    Args:
        bounds: the least and the largest value of each parameter (`node.parameter`) or input (port id).
        count: how many members there are; a power of two fills the space best.
        seed: which scrambled sequence it is.

    Raises:
        InputError: bounds, the count or the seed are none.
    """
    for what, number, least in (("count", count, 1), ("seed", seed, 0)):
        if not is_whole(number) or number < least:
            raise InputError(f"{what} must be a whole number from {least} on, not {number!r}"[:200])
    ends = {name: _bounds(name, pair) for name, pair in _given(bounds, "bounds").items()}
    points = evenly(count, len(ends), seed)
    return {
        name: low + points[:, k] * (high - low)
        for k, (name, (low, high)) in enumerate(ends.items())
    }


def evenly(count: int, size: int, seed: int) -> Array:
    """Points between 0 and 1 that fill the space evenly; the first of a scrambled Sobol sequence.

    Source: Sobol, On the distribution of points in a cube (1967); scipy.stats.qmc.
    """
    from scipy.stats import qmc

    exponent = max(math.ceil(math.log2(count)), 0)
    made: Array = qmc.Sobol(size, rng=seed).random_base2(exponent)[:count]
    return made


def _given(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    given = arguments.mapping(values, what, "{'node.parameter': [0.1, 0.2]}")
    if not given:
        raise InputError(f"{what} of nothing make no sweep", hint="name a parameter or an input")
    return given


def _numbers(name: str, values: Any) -> Array:
    try:
        rows = np.asarray(values)
    except ValueError:
        rows = np.empty(0, object)
    if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "biuf":
        raise InputError(
            f"'{name}' has no list of numbers in the grid: {values!r}"[:200],
            hint="arrays can be swept side by side: mdf_loop.paired",
        )
    return rows


def _bounds(name: str, pair: Any) -> tuple[float, float]:
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(
            f"'{name}' has no bounds: {pair!r}"[:200],
            hint="give the least and the largest value: {'cell.a': (0.2, 1.2)}",
        )
    return low, high
