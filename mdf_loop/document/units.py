"""Units of measurement in the metadata of a model.

MDF itself has no units. A unit is stated in `metadata: {units: mV}` (or `unit`) of an output port, a
parameter, a function or an input port. A node states several units in `metadata: {units: {V: mV, ...}}`. A
part that only passes a value on has the unit of the value:

    output_ports: {v: {value: V}}                                       # the unit of V
    parameters: {V: {default_initial_value: V0, time_derivative: ...}}  # the unit of V0

The metadata of a graph state the unit of time, `metadata: {time_unit: ms}`. The default is seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.document.pass_through import SECTIONS, node_parts, value_sources
from mdf_loop.document.structure import TIME_UNIT
from mdf_loop.durations import SECONDS
from mdf_loop.quantities import Unit

_UNIT_KEYS = ("units", "unit")


TIME = "time"


def time_unit_of(document: Document) -> str:
    """Return the unit of time of a model; the default is seconds."""
    return stated_time_unit(document) or SECONDS


def stated_time_unit(document: Document) -> str | None:
    """Return the unit of time in the metadata of a model, or None if the metadata lack it."""
    return (document.graph.metadata or {}).get(TIME_UNIT)


def units_of(document: Document) -> dict[str, str]:
    """Return the unit of every `node.item` with a unit, and the unit of `time`."""
    units: dict[str, str] = {TIME: time_unit_of(document)}
    for node in document.graph.nodes:
        for part in node_parts(node):
            statement = _statement(node, part, ())
            units.setdefault(f"{node.id}.{part.id}", statement.text if statement else "")
    return {name: unit for name, unit in units.items() if unit}


def unit_of(document: Document, node: Any, part: Any) -> Unit:
    """Return the unit of a part of a node, and the path of the metadata that state the unit.

    Without a unit, the path is the path of the part.
    """
    where = f"{document.where}.nodes['{node.id}']"
    statement = _statement(node, part, ())
    if statement is None:
        return Unit("", where + _path_step(node, part))
    step = _path_step(node, statement.part) if statement.is_own else ""
    return Unit(statement.text, f"{where}{step}.metadata.{statement.key}")


def unit_of_time(document: Document) -> Unit:
    """Return the unit of time of a model, and the path of the metadata that state it."""
    return Unit(time_unit_of(document), f"{document.where}.metadata.{TIME_UNIT}")


class _UnitStatement(Struct, frozen=True):
    """Statement of a unit in metadata.

    Attributes:
        text: Unit.
        key: Key of the unit in the metadata.
        part: Part with the unit.
        is_own: True for metadata of the part, False for metadata of its node.
    """

    text: str
    key: str
    part: Any
    is_own: bool


def _statement(node: Any, part: Any, passed: tuple[int, ...]) -> _UnitStatement | None:
    """Return the statement of the unit of a part; `passed` has the ids of visited parts."""
    own = _statement_of_part(part) or _statement_of_node(node, part)
    if own is not None or id(part) in passed:
        return own
    statements = (
        _statement(node, source, (*passed, id(part))) for source in value_sources(node, part)
    )
    return next((each for each in statements if each is not None), None)


def _statement_of_part(part: Any) -> _UnitStatement | None:
    """Return the unit that the metadata of a part state."""
    key, stated = _stated_unit(part.metadata)
    text = _unit_text(stated)
    return _UnitStatement(text, key, part, is_own=True) if text else None


def _statement_of_node(node: Any, part: Any) -> _UnitStatement | None:
    """Return the unit that the metadata of a node state for one of its parts."""
    key, stated = _stated_unit(node.metadata)
    text = _unit_text(stated.get(part.id)) if isinstance(stated, Mapping) else ""
    return _UnitStatement(text, f"{key}['{part.id}']", part, is_own=False) if text else None


def _path_step(node: Any, part: Any) -> str:
    """Return the step in a path from a node to one of its parts."""
    kind = next(
        kind for kind in SECTIONS if any(part is each for each in node_parts(node, (kind,)))
    )
    return f".{kind}['{part.id}']"


def _stated_unit(metadata: Mapping[str, Any] | None) -> tuple[str, Any]:
    """Return the metadata key for a unit, and its value."""
    metadata = metadata or {}
    return next(((key, metadata[key]) for key in _UNIT_KEYS if key in metadata), ("", None))


def _unit_text(unit: Any) -> str:
    return unit.strip() if isinstance(unit, str) else ""
