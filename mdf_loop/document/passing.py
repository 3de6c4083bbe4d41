"""What parts of a node only pass a value on: they have the unit and the axes of what that is.

output_ports: {v: {value: V}}                                       # V
parameters: {V: {default_initial_value: V0, time_derivative: ...}}  # V0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

KINDS = ("output_ports", "parameters", "functions", "input_ports")
"""Where ids clash, the first of these is what `node.item` means."""

_PASSED_ON = ("value", "default_initial_value")


def parts(node: Any, kinds: Sequence[str] = KINDS) -> Iterator[Any]:
    """The parts of a node of these kinds."""
    return (part for kind in kinds for part in getattr(node, kind, None) or ())


def sources(node: Any, part: Any) -> Iterator[Any]:
    """The parameters, functions and input ports whose value a part passes on, by their names alone."""
    for attribute in _PASSED_ON:
        value = getattr(part, attribute, None)
        name = value.strip() if isinstance(value, str) else None
        yield from [source for source in parts(node, KINDS[1:]) if source.id == name][:1]
