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
from mdf_loop.document.passing import KINDS, parts, sources
from mdf_loop.document.structure import TIME_UNIT
from mdf_loop.durations import SECONDS
from mdf_loop.quantities import Unit

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
            units.setdefault(f"{node.id}.{part.id}", unit_of(document, node, part).text)
    return {name: unit for name, unit in units.items() if unit}


def unit_of(document: Document, node: Any, part: Any) -> Unit:
    """Return the unit of a part of a node, and the place that states it.

    Without a unit the place is that of the part.
    """
    where = f"{document.where}.nodes['{node.id}']"
    return _passed_on(node, part, where, ()) or Unit("", _place(node, part, where))


def unit_of_time(document: Document) -> Unit:
    """Return the unit of time of a model, and the place that states it, or could."""
    return Unit(time_unit_of(document), f"{document.where}.metadata.{TIME_UNIT}")


def _passed_on(node: Any, part: Any, where: str, passed: tuple[int, ...]) -> Unit | None:
    """Return the unit of a part of the node at `where`; `passed` identifies the parts that led here."""
    own = _of_part(node, part, where) or _of_node(node, part.id, where)
    if own is not None or id(part) in passed:
        return own
    units = (_passed_on(node, s, where, (*passed, id(part))) for s in sources(node, part))
    return next((unit for unit in units if unit is not None), None)


def _of_part(node: Any, part: Any, where: str) -> Unit | None:
    """Return the unit that the metadata of a part state."""
    key, stated = _stated(part.metadata)
    text = _text(stated)
    return Unit(text, f"{_place(node, part, where)}.metadata.{key}") if text else None


def _of_node(node: Any, item: str, where: str) -> Unit | None:
    """Return the unit that the metadata of the node itself state for one of its parts."""
    key, stated = _stated(node.metadata)
    text = _text(stated.get(item)) if isinstance(stated, Mapping) else ""
    return Unit(text, f"{where}.metadata.{key}['{item}']") if text else None


def _place(node: Any, part: Any, where: str) -> str:
    """Return the place of a part of the node at `where`."""
    kind = next(kind for kind in KINDS if any(part is each for each in parts(node, (kind,))))
    return f"{where}.{kind}['{part.id}']"


def _stated(metadata: Mapping[str, Any] | None) -> tuple[str, Any]:
    """Return the key of metadata that states a unit, and what it states."""
    return (
        next(((key, metadata[key]) for key in _KEYS if key in metadata), ("", None))
        if metadata
        else ("", None)
    )


def _text(unit: Any) -> str:
    return unit.strip() if isinstance(unit, str) else ""
