"""What a run is asked for: values of inputs and parameters, for one run or for many at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mdf_loop.arguments import mapping, names
from mdf_loop.build import Options
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Data
from mdf_loop.narrowing import narrowed
from mdf_loop.onnx_types import dtype_name
from mdf_loop.outside import Ragged, array_of
from mdf_loop.reading import Document, bind
from mdf_loop.reading.inputs import Given, OpenPort, bind_members, open_ports
from mdf_loop.reading.names import Chosen
from mdf_loop.reading.settings import Settings, bind_settings, input_name

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Request:
    """Values that are given, as arrays of one run, and rows of members where they are swept.

    `swept` maps inputs of the program to their rows; `members` the names that the user gave.
    """

    given: Given
    settings: Settings
    chosen: Chosen
    options: Options
    swept: Mapping[str, Array] = field(default_factory=dict)
    members: Mapping[str, Array] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, Data]:
        """Everything that is fed, with all members of a sweep."""
        return {**self.given.arrays, **self.settings.arrays, **self.swept}

    @property
    def key(self) -> Any:
        """What a program is made for: names, dtypes and shapes."""
        settings = ((name, str(a.dtype), a.shape) for name, a in self.settings.arrays.items())
        types = (*self.given.types.items(), *settings)
        return types, self.given.over_time, self.chosen, self.options, tuple(self.swept)


def request(
    document: Document,
    options: Options,
    *,
    inputs: Mapping[str, Any],
    chosen: Chosen,
    parameters: Mapping[str, Any] = NOTHING,
    sweep: Mapping[str, Any] = NOTHING,
    steps: int | None = None,
) -> Request:
    """What is asked for, checked.

    Raises:
        InputError: a name is unknown or given twice, a value does not fit, a sweep is none.
    """
    members = {name: _members(name, values) for name, values in sweep.items()}
    _refuse_uneven(members)
    if twice := set(members) & (set(inputs) | set(parameters)):
        raise InputError(f"'{min(twice)}' is swept, so it cannot be given one value too")
    ports = _swept_ports(document, inputs, members)
    named = {name for _, name in ports}
    first = {name: rows[0] for name, rows in members.items()}
    to_parameters = {name: row for name, row in first.items() if name not in named}
    given = bind(document, {**inputs, **{name: first[name] for name in named}}, options, steps)
    settings = bind_settings(document, {**parameters, **to_parameters}, options.precision)
    swept = {}
    for port, name in ports:
        swept[port.name] = bind_members(given, port, members[name], options, name)
    for name in to_parameters:
        target = input_name(name)
        dtype = dtype_name(settings.arrays[target])
        swept[target] = narrowed(members[name], dtype, f"the value of '{name}'")
    return Request(given, settings, chosen, options, swept, members)


def _members(name: str, values: Any) -> Array:
    try:
        rows = array_of(values, f"the sweep of '{name}'")
    except Ragged:
        raise InputError(f"the values of '{name}' in the sweep have different shapes") from None
    if rows.ndim == 0 or len(rows) == 0 or rows.dtype.kind not in "biuf":
        raise InputError(
            f"the sweep of '{name}' is no list of numbers: {values!r}"[:200],
            hint="give one value for each run, e.g. numpy.linspace(0, 1, 1000)",
        )
    return rows


def _refuse_uneven(members: Mapping[str, Array]) -> None:
    if len({len(rows) for rows in members.values()}) > 1:
        sizes = ", ".join(f"'{name}' has {len(rows)}" for name, rows in members.items())
        raise InputError(
            f"all values of a sweep must be equally many, but {sizes}",
            hint="the first member of a sweep has the first value of each, and so on",
        )


def _swept_ports(
    document: Document, inputs: Collection[str], members: Collection[str]
) -> list[tuple[OpenPort, str]]:
    """The open ports that are swept, each with the name that says so."""
    if not members:
        return []
    ports = open_ports(document)
    names = {*inputs, *members}
    found = [(p, name) for p in ports if (name := p.given_as(names)) in members and name]
    for name in members:
        meant = [p for p in ports if p.given_as({name})]
        if meant and name not in {used for _, used in found}:
            other = meant[0].given_as(names)
            raise InputError(f"'{name}' is swept, but '{other}' means the same input")
    return found


# --- names ----------------------------------------------------------------------------------------


def checked_reduce(given: Any) -> dict[str, tuple[str, ...]]:
    """Words by the names of outputs.

    Raises:
        InputError: they are given otherwise.
    """
    found = mapping(given, "reduce", "reduce={'node.port': 'mean'}")
    return {name: names(words, f"reduce of '{name}'") for name, words in found.items()}
