"""Free parameters of a fit, scaled by their bounds to one vector with elements from 0 to 1.

{"cell.a": (0.2, 1.2), "net.W": (-1, 1)}      cell.a, net.W[0,0], net.W[0,1] ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop import arguments
from mdf_loop.cached_property import cached_property
from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array

_BOUNDS_HINT = "give the least and the largest value: free={'cell.a': (0.2, 1.2)}"


class FreeParameter(Struct, frozen=True):
    """Free parameter of a fit, with the lower and upper bound of each element."""

    name: str
    lower_bounds: Array
    upper_bounds: Array

    @property
    def elements(self) -> list[str]:
        """Names of the elements of the parameter array, such as `net.W[0,1]`."""
        if not self.lower_bounds.shape:
            return [self.name]
        index_tuples = np.ndindex(self.lower_bounds.shape)
        return [f"{self.name}[{','.join(map(str, index_tuple))}]" for index_tuple in index_tuples]


class ParameterSpace(Struct, frozen=True, dict=True):
    """Search space of a fit, whose points are vectors of all free parameters, scaled to 0 to 1.

    A point gives the position of each element between its bounds, from 0 to 1.
    """

    parameters: tuple[FreeParameter, ...]

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """Names of the elements of a point, such as `net.W[0,1]`."""
        return tuple(name for parameter in self.parameters for name in parameter.elements)

    @cached_property
    def lower_bounds(self) -> Array:
        """Lower bounds of all parameter elements, as one vector."""
        return np.concatenate([parameter.lower_bounds.ravel() for parameter in self.parameters])

    @cached_property
    def widths(self) -> Array:
        """Distances from the lower to the upper bounds of all parameter elements, as one vector."""
        upper_bounds = np.concatenate(
            [parameter.upper_bounds.ravel() for parameter in self.parameters]
        )
        widths: Array = upper_bounds - self.lower_bounds
        return widths

    def values(self, points: Array) -> dict[str, Array]:
        """Return the parameter values of each search point, by name.

        The points lie along the leading axes.
        """
        return self.unflatten(self.lower_bounds + np.clip(points, 0.0, 1.0) * self.widths)

    def unflatten(self, elements: Array) -> dict[str, Array]:
        """Split the last axis of an array by parameter, and restore each parameter's shape."""
        arrays_by_name, start_index = {}, 0
        for parameter in self.parameters:
            element_count = parameter.lower_bounds.size
            flat_elements = elements[..., start_index : start_index + element_count]
            arrays_by_name[parameter.name] = flat_elements.reshape(
                (*elements.shape[:-1], *parameter.lower_bounds.shape)
            )
            start_index += element_count
        return arrays_by_name

    def normalize(self, values: Mapping[str, Any]) -> Array:
        """Return the search point of given parameter values, with elements between 0 and 1."""
        raise_findings(self._start_findings(values))
        flat_values = [
            np.asarray(values[parameter.name], float).ravel() for parameter in self.parameters
        ]
        point: Array = (np.concatenate(flat_values) - self.lower_bounds) / self.widths
        return point

    def _start_findings(self, values: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield an error for each start value that is missing, unknown or out of bounds."""
        parameter_names = [parameter.name for parameter in self.parameters]
        for name in values:
            if name not in parameter_names:
                yield Finding("InputError", f"start names '{name}', which is not free", "", "")
        for parameter in self.parameters:
            if parameter.name not in values:
                yield Finding("InputError", f"start says nothing of '{parameter.name}'", "", "")
                continue
            start_value = np.asarray(values[parameter.name], float)
            if start_value.shape != parameter.lower_bounds.shape:
                fault_text = (
                    f"of shape {list(start_value.shape)}, not {list(parameter.lower_bounds.shape)}"
                )
                yield Finding(
                    "InputError", f"the start of '{parameter.name}' is {fault_text}", "", ""
                )
            elif not bool(
                np.all(
                    (parameter.lower_bounds <= start_value)
                    & (start_value <= parameter.upper_bounds)
                )
            ):
                fault_text = f"{start_value.tolist()} is not within its bounds"
                yield Finding(
                    "InputError", f"the start of '{parameter.name}', {fault_text}", "", ""
                )


def free_names(free: Any) -> tuple[str, ...]:
    """Return the parameter names in the user's argument `free`.

    Raises:
        InputError: No parameter is free.
    """
    bounds_by_name = arguments.mapping(free, "free", "free={'node.parameter': (0.0, 1.0)}")
    if not bounds_by_name:
        raise InputError("nothing is free", hint=_BOUNDS_HINT)
    return tuple(bounds_by_name)


def parameter_space(
    free: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> ParameterSpace:
    """Return the search space of the free parameters with given bounds and shapes.

    Raises:
        InputError: Bounds are malformed. The message names the parameter.
    """
    parameters, findings = [], []
    for name, bounds in free.items():
        parameter = _build_parameter(name, bounds, shapes[name])
        if isinstance(parameter, str):
            findings.append(Finding("InputError", parameter, "", _BOUNDS_HINT))
        else:
            parameters.append(parameter)
    raise_findings(findings)
    return ParameterSpace(tuple(parameters))


def _build_parameter(name: str, bounds: Any, shape: tuple[int, ...]) -> FreeParameter | str:
    """Build a free parameter of a fit, or return a message about invalid bounds."""
    bounds_text = f"the bounds of '{name}', {bounds!r},"[:200]
    try:
        lower_bounds, upper_bounds = (
            np.array(np.broadcast_to(np.asarray(bound, float), shape)) for bound in bounds
        )
    except (TypeError, ValueError):
        expectation_text = (
            f", each a number or an array {list(shape)}" if math.prod(shape) != 1 or shape else ""
        )
        return f"{bounds_text} are no two numbers{expectation_text}"
    if not (np.isfinite(lower_bounds).all() and np.isfinite(upper_bounds).all()):
        return f"{bounds_text} are not finite"
    if not bool(np.all(lower_bounds < upper_bounds)):
        return f"{bounds_text} leave nothing between them: the second is not above the first"
    return FreeParameter(name, lower_bounds, upper_bounds)
