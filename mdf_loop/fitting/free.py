"""Free parameters: arrays within bounds, as the numbers of one vector from 0 to 1.

{"cell.a": (0.2, 1.2), "net.W": (-1, 1)}      cell.a, net.W[0,0], net.W[0,1] ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop import arguments
from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array

_HINT = "give the least and the largest value: free={'cell.a': (0.2, 1.2)}"


class Parameter(Struct, frozen=True):
    """A parameter and between which values it lies."""

    name: str
    lower: Array
    upper: Array

    @property
    def elements(self) -> list[str]:
        """What each of its numbers is called."""
        if not self.lower.shape:
            return [self.name]
        places = np.ndindex(self.lower.shape)
        return [f"{self.name}[{','.join(map(str, place))}]" for place in places]


class Free(Struct, frozen=True, dict=True):
    """Free parameters; a point says where each of their numbers is between its bounds."""

    parameters: tuple[Parameter, ...]

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """What each number is called."""
        return tuple(name for each in self.parameters for name in each.elements)

    @cached_property
    def lower(self) -> Array:
        """The least value of each number."""
        return np.concatenate([each.lower.ravel() for each in self.parameters])

    @cached_property
    def width(self) -> Array:
        """How far the largest is above it."""
        upper = np.concatenate([each.upper.ravel() for each in self.parameters])
        made: Array = upper - self.lower
        return made

    def values(self, points: Array) -> dict[str, Array]:
        """The values of each parameter at points, which stand along the axes in front."""
        return self.apart(self.lower + np.clip(points, 0.0, 1.0) * self.width)

    def apart(self, numbers: Array) -> dict[str, Array]:
        """What belongs to each parameter of numbers along the last axis, in its shape."""
        found, at = {}, 0
        for each in self.parameters:
            size = each.lower.size
            part = numbers[..., at : at + size]
            found[each.name] = part.reshape((*numbers.shape[:-1], *each.lower.shape))
            at += size
        return found

    def point(self, values: Mapping[str, Any]) -> Array:
        """Where values are.

        Raises:
            InputError: one is missing, does not fit, or lies beyond its bounds.
        """
        raise_findings(self._misplaced(values))
        rows = [np.asarray(values[each.name], float).ravel() for each in self.parameters]
        made: Array = (np.concatenate(rows) - self.lower) / self.width
        return made

    def _misplaced(self, values: Mapping[str, Any]) -> Iterator[Finding]:
        names = [each.name for each in self.parameters]
        for name in values:
            if name not in names:
                yield Finding("InputError", f"start names '{name}', which is not free", "", "")
        for each in self.parameters:
            if each.name not in values:
                yield Finding("InputError", f"start says nothing of '{each.name}'", "", "")
                continue
            given = np.asarray(values[each.name], float)
            if given.shape != each.lower.shape:
                what = f"of shape {list(given.shape)}, not {list(each.lower.shape)}"
                yield Finding("InputError", f"the start of '{each.name}' is {what}", "", "")
            elif not bool(np.all((each.lower <= given) & (given <= each.upper))):
                what = f"{given.tolist()} is not within its bounds"
                yield Finding("InputError", f"the start of '{each.name}', {what}", "", "")


def free_names(free: Any) -> tuple[str, ...]:
    """The names of parameters that are free.

    Raises:
        InputError: there are none.
    """
    given = arguments.mapping(free, "free", "free={'node.parameter': (0.0, 1.0)}")
    if not given:
        raise InputError("nothing is free", hint=_HINT)
    return tuple(given)


def free_of(free: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Free:
    """Free parameters of these shapes; bounds hold for all elements, or are arrays.

    Raises:
        InputError: bounds are none; the sentence names the parameter.
    """
    parameters, findings = [], []
    for name, bounds in free.items():
        made = _parameter(name, bounds, shapes[name])
        if isinstance(made, str):
            findings.append(Finding("InputError", made, "", _HINT))
        else:
            parameters.append(made)
    raise_findings(findings)
    return Free(tuple(parameters))


def _parameter(name: str, bounds: Any, shape: tuple[int, ...]) -> Parameter | str:
    """The parameter, or what is wrong with its bounds."""
    said = f"the bounds of '{name}', {bounds!r},"[:200]
    try:
        lower, upper = (np.array(np.broadcast_to(np.asarray(b, float), shape)) for b in bounds)
    except (TypeError, ValueError):
        of = f", each a number or an array {list(shape)}" if math.prod(shape) != 1 or shape else ""
        return f"{said} are no two numbers{of}"
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        return f"{said} are not finite"
    if not bool(np.all(lower < upper)):
        return f"{said} leave nothing between them: the second is not above the first"
    return Parameter(name, lower, upper)
