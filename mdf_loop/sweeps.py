"""Values of the members of parameter sweeps: paired, grid, and Sobol sequences.

Examples:
    paired({"a": [0, 1], "b": [5, 6]})          2 members: a and b are 0 and 5, then 1 and 6
    grid({"a": [0, 1], "b": [5, 6, 7]})         6 members: each a with each b; results have an axis of both
    sobol({"a": (0, 1), "b": (5, 7)}, 64)       64 members that fill the space between the bounds evenly
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop import arguments
from mdf_loop.arguments import is_whole
from mdf_loop.cached_property import cached_property
from mdf_loop.errors import InputError
from mdf_loop.memory_limit import check
from mdf_loop.public_call import public_call, public_calls
from mdf_loop.quantities import NO_UNIT, convert, has_unit
from mdf_loop.renamed import renamed_attributes

Array = np.ndarray[Any, np.dtype[Any]]


class ComputedSweep(Mapping[str, Array]):
    """Sweep as a mapping from names to parameter values, which are computed on access."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Number of sweep members along each axis of results."""

    @abstractmethod
    def part(self, first: int, last: int) -> dict[str, Array]:
        """Return the parameter values of the sweep members from `first` to `last - 1`, by name."""

    @abstractmethod
    def _definition(self) -> dict[str, Array]:
        """Return the arrays that define this sweep, by name."""

    @abstractmethod
    def convert(
        self, conversion: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> ComputedSweep:
        """Return the sweep with the values of each name converted from their units by a function.

        Raises:
            InputError: The converted values are no numbers.
        """

    def __getitem__(self, name: str) -> Array:
        return self._all_values[name]

    @cached_property
    def _all_values(self) -> dict[str, Array]:
        """Parameter values of all members of the sweep, by name."""
        return self.part(0, math.prod(self.shape))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_all_values"}


@public_calls
class Grid(ComputedSweep):
    """Sweep over all combinations of parameter values, in which the first name changes slowest.

    Attributes:
        along: Values of each name.
    """

    def __init__(self, values: Mapping[str, Array]) -> None:
        self.along = dict(values)

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes({"apart": "unflatten"})

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each swept name, which is the length of its axis in the results."""
        return tuple(len(values) for values in self.along.values())

    def part(self, first: int, last: int) -> dict[str, Array]:
        """Return the parameter values of the sweep members from `first` to `last - 1`, by name."""
        index_arrays = np.unravel_index(np.arange(first, last), self.shape)
        values_with_indices = zip(self.along.items(), index_arrays, strict=True)
        return {name: values[indices] for (name, values), indices in values_with_indices}

    def convert(self, conversion: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Grid:
        """Return the grid with the values of each name converted from their units by a function."""
        unitless_values = conversion(self.along)
        return self if unitless_values is self.along else grid(unitless_values)

    def _definition(self) -> dict[str, Array]:
        """Return the values of each swept name, which define the grid."""
        return self.along

    def __iter__(self) -> Iterator[str]:
        return iter(self.along)

    def __len__(self) -> int:
        return len(self.along)

    def unflatten(self, array: Array) -> Array:
        """Split the first axis of an array (all members of the grid) into one axis for each name.

        Args:
            array: Values of all members, in the order of the grid.
        """
        return array.reshape(*self.shape, *array.shape[1:])


@public_calls
class Sobol(ComputedSweep):
    """Sweep whose members fill the box between bounds evenly, by a Sobol sequence."""

    def __init__(self, bounds: Mapping[str, tuple[float, float]], count: int, seed: int) -> None:
        self._bounds, self._count, self._seed = dict(bounds), count, seed

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of members of the sweep, as a tuple with one element."""
        return (self._count,)

    def part(self, first: int, last: int) -> dict[str, Array]:
        """Return the parameter values of the sweep members from `first` to `last - 1`, by name."""
        points = generate_sobol_points(last, len(self._bounds), self._seed, first)
        return {
            name: low + points[:, axis_index] * (high - low)
            for axis_index, (name, (low, high)) in enumerate(self._bounds.items())
        }

    def convert(self, conversion: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Sobol:
        """Return the sweep with its bounds converted from their units by a function."""
        unitless_bounds = conversion(self._bounds)
        return (
            self
            if unitless_bounds is self._bounds
            else sobol(unitless_bounds, self._count, self._seed)
        )

    def _definition(self) -> dict[str, Array]:
        """Return the bounds of each swept name, the count and the seed, which define the sweep."""
        count_and_seed = (self._count, self._seed)
        return {
            swept_name: np.array([*bounds, *count_and_seed])
            for swept_name, bounds in self._bounds.items()
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._bounds)

    def __len__(self) -> int:
        return len(self._bounds)


def sweep_definition(sweep: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arrays that define all members of a sweep, by name."""
    return sweep._definition() if isinstance(sweep, ComputedSweep) else sweep


def sweep_shape(sweep: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of sweep members along each axis of results, or () without a sweep.

    Raises:
        InputError: The names of the sweep have different numbers of values.
    """
    if isinstance(sweep, ComputedSweep):
        return sweep.shape
    refuse_uneven(sweep)
    return tuple({_count_values(member_values) for member_values in sweep.values()})


def select_members(sweep: Mapping[str, Any], first: int, last: int) -> dict[str, Any]:
    """Return the parameter values of the sweep members from `first` to `last - 1`, by name."""
    if isinstance(sweep, ComputedSweep):
        return sweep.part(first, last)
    return {name: values[first:last] for name, values in sweep.items()}


def refuse_uneven(sweep: Mapping[str, Any]) -> None:
    """Raise an error for a sweep whose names have different numbers of values.

    Raises:
        InputError: The numbers differ. The message states the number of each name.
    """
    value_counts = {name: _count_values(values) for name, values in sweep.items()}
    if len(set(value_counts.values())) > 1:
        counts_text = ", ".join(
            f"'{name}' has {value_count}" for name, value_count in value_counts.items()
        )
        raise InputError(
            f"all values of a sweep must be equally many, but {counts_text}",
            hint="the first member of a sweep has the first value of each, and so on",
        )


def _count_values(rows: Any) -> int:
    """Return the number of values of a swept name, or 0 for a single value."""
    return len(rows) if np.ndim(rows) else 0


@public_call
def grid(values: Mapping[str, Any]) -> Grid:
    """Return a sweep over all combinations of parameter values.

    Results have one axis for each name in place of the axis of members: `[a, b, time]`.

    Args:
        values: List of numbers, or of pint Quantities, for each parameter (`node.parameter`) or input
            (port id).

    Raises:
        InputError: The values of a name are no list of numbers.
    """
    return Grid(
        {name: _to_numbers(name, rows) for name, rows in _check_nonempty(values, "a grid").items()}
    )


@public_call
def paired(values: Mapping[str, Any]) -> dict[str, Array]:
    """Return a sweep whose k-th member has the k-th value of each parameter.

    Args:
        values: Lists of equal length for parameters (`node.parameter`) or inputs (port id). A run converts
            pint Quantities to numbers.

    Raises:
        InputError: The lists have different lengths.
    """
    rows_by_name = {
        name: _to_rows(name, values_of_name)
        for name, values_of_name in _check_nonempty(values, "paired values").items()
    }
    value_counts = {
        name: len(values_of_name) if values_of_name.ndim else 0
        for name, values_of_name in rows_by_name.items()
    }
    if len(set(value_counts.values())) > 1 or 0 in value_counts.values():
        counts_text = ", ".join(
            f"'{name}' has {value_count}" for name, value_count in value_counts.items()
        )
        raise InputError(f"paired values must be equally many, but {counts_text}")
    return rows_by_name


@public_call
def sobol(bounds: Mapping[str, Any], count: int, seed: int = 0) -> Sobol:
    """Return a sweep whose members fill the box between bounds evenly, by a Sobol sequence.

    Args:
        bounds: Least and largest value, which may be pint Quantities, of each parameter
            (`node.parameter`) or input (port id).
        count: Number of members. A power of two fills the space best.
        seed: Seed of the scrambling of the sequence.

    Raises:
        InputError: The bounds, the count or the seed are invalid.
    """
    for argument_name, argument_value, minimum in (("count", count, 1), ("seed", seed, 0)):
        if not is_whole(argument_value) or argument_value < minimum:
            raise InputError(
                f"{argument_name} must be a whole number from {minimum} on, not {argument_value!r}"[
                    :200
                ]
            )
    bounds_by_name = {
        name: _parse_bounds(name, bound_pair)
        for name, bound_pair in _check_nonempty(bounds, "bounds").items()
    }
    return Sobol(bounds_by_name, int(count), int(seed))


MAX_SOBOL_EXPONENT = 30
"""Binary logarithm of the number of points in a Sobol sequence of scipy."""


def generate_sobol_points(count: int, coordinate_count: int, seed: int, first: int = 0) -> Array:
    """Return points of a scrambled Sobol sequence, which fill the unit cube evenly.

    Args:
        count: Index after the last point.
        coordinate_count: Number of coordinates of each point.
        seed: Seed of the scrambling of the sequence.
        first: Index of the first point.

    Raises:
        InputError: The sequence has fewer than `count` points.
        MemoryLimitError: The points would exceed the memory limit.

    Source: Sobol, On the distribution of points in a cube (1967); scipy.stats.qmc.
    """
    exponent = max(math.ceil(math.log2(count)), 0)
    size_in_memory = (count - first if first else 1 << exponent) * coordinate_count * 8
    check(
        size_in_memory, f"{count} points of {coordinate_count} numbers", hint="ask for fewer points"
    )
    if exponent > MAX_SOBOL_EXPONENT:
        raise InputError(
            f"a Sobol sequence has no {count} points",
            hint=f"give at most {1 << MAX_SOBOL_EXPONENT}",
        )
    from scipy.stats import qmc

    sobol_sequence = qmc.Sobol(coordinate_count, rng=seed)
    if first:
        return np.asarray(sobol_sequence.fast_forward(first).random(count - first))
    points: Array = sobol_sequence.random_base2(exponent)[:count]
    return points


def _check_nonempty(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the argument of a sweep as a nonempty dict by parameter name, or raise InputError."""
    values_by_name = arguments.mapping(values, what, "{'node.parameter': [0.1, 0.2]}")
    if not values_by_name:
        raise InputError(f"{what} of nothing make no sweep", hint="name a parameter or an input")
    return values_by_name


def _to_rows(name: str, values: Any) -> Array:
    """Return the values of a swept name as an array, with pint Quantities as objects.

    Raises:
        InputError: The values have units that cannot be converted.
        ValueError: The values are rows of different lengths.
    """
    if not has_unit(values):
        return np.asarray(values)
    try:
        value_list = list(values)
    except TypeError:  # a single value
        value_list = []
    object_rows = np.empty(len(value_list), object)
    for k, row in enumerate(value_list):  # numpy would strip the units of a whole list
        object_rows[k] = row
    if not value_list or has_unit(object_rows):
        return object_rows
    return np.asarray(convert(values, NO_UNIT, f"the sweep of '{name}'"))


def _to_numbers(name: str, values: Any) -> Array:
    """Return the grid values of a name as an array of numbers or Quantities, or raise InputError."""
    try:
        rows = _to_rows(name, values)
    except InputError:
        raise
    except ValueError:
        rows = np.empty(0, object)
    are_numbers = rows.dtype.kind in "biuf" or _are_scalar_quantities(rows)
    if rows.ndim != 1 or not len(rows) or not are_numbers:
        raise InputError(
            f"'{name}' has no list of numbers in the grid: {values!r}"[:200],
            hint="arrays can be swept side by side: mdf_loop.paired",
        )
    return rows


def _are_scalar_quantities(rows: Array) -> bool:
    """Return True if all swept values are scalars, and at least one is a Quantity."""
    return has_unit(rows) and not any(getattr(row, "shape", ()) for row in rows)


def _parse_bounds(name: str, pair: Any) -> tuple[float, float]:
    """Return the lower and the upper bound of a swept name, or raise InputError if invalid."""
    try:
        low, high = pair
        if has_unit((low, high)):  # a run converts them to numbers
            return low, high
        low, high = map(float, convert(pair, NO_UNIT, f"the sweep of '{name}'"))
    except InputError:
        raise
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(
            f"'{name}' has no bounds: {pair!r}"[:200],
            hint="give the least and the largest value: {'cell.a': (0.2, 1.2)}",
        )
    return low, high
