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

from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, Node, NodePart
from mdf_loop.document.pass_through import NODE_SECTIONS, node_parts, value_sources
from mdf_loop.document.structure import TIME_UNIT_KEY
from mdf_loop.durations import SECONDS
from mdf_loop.quantities import Unit

_UNIT_KEYS = ("units", "unit")


TIME = "time"


def time_unit_of(document: Document) -> str:
    """Return the unit of time of a model, which is seconds by default."""
    return stated_time_unit(document) or SECONDS


def stated_time_unit(document: Document) -> str | None:
    """Return the unit of time in the metadata of a model, or None if the metadata lack it."""
    time_unit = (document.graph.metadata or {}).get(TIME_UNIT_KEY)
    return time_unit if isinstance(time_unit, str) else None


def units_of(document: Document) -> dict[str, str]:
    """Return the units of `time`, ports, parameters and functions, by names such as `node.port`."""
    unit_by_name: dict[str, str] = {TIME: time_unit_of(document)}
    for node in document.graph.nodes:
        for part in node_parts(node):
            unit_statement = _find_unit_statement(node, part, ())
            unit_by_name.setdefault(
                f"{node.id}.{part.id}", unit_statement.unit if unit_statement else ""
            )
    return {part_name: unit for part_name, unit in unit_by_name.items() if unit}


def unit_of(document: Document, node: Node, part: NodePart) -> Unit:
    """Return the unit of a port, parameter or function, and the path where the unit is stated.

    Without a unit, the path is the path of the part.
    """
    node_path = f"{document.where}.nodes['{node.id}']"
    unit_statement = _find_unit_statement(node, part, ())
    if unit_statement is None:
        return Unit("", node_path + _format_path_step(node, part))
    path_step = _format_path_step(node, unit_statement.part) if unit_statement.is_of_part else ""
    return Unit(unit_statement.unit, f"{node_path}{path_step}.metadata.{unit_statement.unit_key}")


def unit_of_time(document: Document) -> Unit:
    """Return the unit of time of a model, and the path where the unit is stated."""
    return Unit(time_unit_of(document), f"{document.where}.metadata.{TIME_UNIT_KEY}")


class _UnitStatement(Struct, frozen=True):
    """Unit of measurement that is stated in the metadata of a port, parameter, function or node.

    Attributes:
        unit: Unit.
        unit_key: Key of the unit in the metadata.
        part: Part with the unit.
        is_of_part: True for metadata of the part, False for metadata of its node.
    """

    unit: str  # unit as text, such as "mV"
    unit_key: str
    part: NodePart  # port, parameter or function with the unit
    is_of_part: bool  # False if the node states the unit


def _find_unit_statement(
    node: Node, part: NodePart, visited_ids: tuple[int, ...]
) -> _UnitStatement | None:
    """Return the unit stated for a port, parameter or function, or for the value it passes on.

    `visited_ids` has the `id()` of objects that were visited.
    """
    direct_statement = _read_part_statement(part) or _read_node_statement(node, part)
    if direct_statement is not None or id(part) in visited_ids:
        return direct_statement
    source_statements = (
        _find_unit_statement(node, source, (*visited_ids, id(part)))
        for source in value_sources(node, part)
    )
    return next(
        (unit_statement for unit_statement in source_statements if unit_statement is not None), None
    )


def _read_part_statement(part: NodePart) -> _UnitStatement | None:
    """Return the unit in the metadata of a port, parameter or function, or None."""
    unit_key, stated_unit = _find_unit_entry(part.metadata)
    unit = _strip_unit(stated_unit)
    return _UnitStatement(unit, unit_key, part, is_of_part=True) if unit else None


def _read_node_statement(node: Node, part: NodePart) -> _UnitStatement | None:
    """Return the unit that a node's metadata state for one of its ports, parameters or functions."""
    unit_key, units_by_part = _find_unit_entry(node.metadata)
    unit = _strip_unit(units_by_part.get(part.id)) if isinstance(units_by_part, Mapping) else ""
    return (
        _UnitStatement(unit, f"{unit_key}['{part.id}']", part, is_of_part=False) if unit else None
    )


def _format_path_step(node: Node, part: NodePart) -> str:
    """Format the step in a path to a port, parameter or function, such as `.parameters['a']`."""
    section_of_part = next(
        section
        for section in NODE_SECTIONS
        if any(part is section_part for section_part in node_parts(node, (section,)))
    )
    return f".{section_of_part}['{part.id}']"


def _find_unit_entry(
    metadata: Mapping[str, DocumentValue] | None,
) -> tuple[str, DocumentValue]:
    """Return the metadata key for a unit, and its value."""
    metadata = metadata or {}
    return next(
        ((unit_key, metadata[unit_key]) for unit_key in _UNIT_KEYS if unit_key in metadata),
        ("", None),
    )


def _strip_unit(unit: DocumentValue) -> str:
    return unit.strip() if isinstance(unit, str) else ""
