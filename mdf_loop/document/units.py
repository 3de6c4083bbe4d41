"""Units of measurement, where the metadata of a model has them.

MDF itself knows no units. They are read from `metadata: {units: mV}` (or `unit`) of an output port, a
parameter, a function or an input port, and from a node's `metadata: {units: {V: mV, ...}}`. What only
passes a value on has that value's unit:

    output_ports: {v: {value: V}}                                       # the unit of V
    parameters: {V: {default_initial_value: V0, time_derivative: ...}}  # the unit of V0

The unit of time is that of the graph, `metadata: {time_unit: ms}`; without one it is seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.document.document import Document
from mdf_loop.document.passing import parts, sources
from mdf_loop.document.structure import TIME_UNIT
from mdf_loop.durations import SECONDS

_KEYS = ("units", "unit")


TIME = "time"


def time_unit_of(document: Document) -> str:
    """The unit of time of a model."""
    return stated_time_unit(document) or SECONDS


def stated_time_unit(document: Document) -> str | None:
    """The unit of time that a model states itself."""
    return (document.graph.metadata or {}).get(TIME_UNIT)


def units_of(document: Document) -> dict[str, str]:
    """The unit of every `node.item` that has one, and that of `time`."""
    units: dict[str, str] = {TIME: time_unit_of(document)}
    for node in document.graph.nodes:
        for part in parts(node):
            units.setdefault(f"{node.id}.{part.id}", _unit(node, part, ()))
    return {name: unit for name, unit in units.items() if unit}


def _unit(node: Any, part: Any, passed: tuple[int, ...]) -> str:
    """The unit of a part of a node, or nothing; `passed` identifies those that led here."""
    stated = _text(_stated(part.metadata)) or _of_node(node, part.id)
    if stated or id(part) in passed:
        return stated
    for source in sources(node, part):
        unit = _unit(node, source, (*passed, id(part)))
        if unit:
            return unit
    return ""


def _of_node(node: Any, item: str) -> str:
    """What the node's own metadata says about one of its parts."""
    stated = _stated(node.metadata)
    return _text(stated.get(item)) if isinstance(stated, Mapping) else ""


def _stated(metadata: Mapping[str, Any] | None) -> Any:
    return next((metadata[key] for key in _KEYS if key in metadata), None) if metadata else None


def _text(unit: Any) -> str:
    return unit.strip() if isinstance(unit, str) else ""
