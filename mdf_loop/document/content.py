"""Conversion of a document to plain content: mappings, lists, numbers, text, and typed arrays."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.document.loading import suppress_output
from mdf_loop.number_check import contains_only_numbers


def content_of(document: Document) -> dict[str, Any]:
    """Return the model of a document as plain content: mappings, lists, numbers and arrays."""
    from modeci_mdf.mdf import Model

    model = document.model or Model(
        id=document.graph.id, graphs=list(document.graphs_by_id.values())
    )
    model_without_graphs = copy.copy(model)
    model_without_graphs.graphs = []
    with suppress_output():
        document_content: dict[str, Any] = model_without_graphs.to_dict()
    (model_content,) = document_content.values()
    model_content["graphs"] = {graph.id: _build_graph_content(graph) for graph in model.graphs}
    return document_content


def _build_graph_content(graph: Any) -> Any:
    with suppress_output():
        (graph_content,) = _copy_graph_with_placeholders(graph).to_dict().values()
    for part, path_in_graph in _iterate_valued_parts(graph):
        part_content: Any = graph_content
        for key_or_index in path_in_graph:
            part_content = part_content[key_or_index]
        unwritable_values = _find_unwritable_values(part)
        part_content.update(
            (field_name, _convert_value(field_value))
            for field_name, field_value in unwritable_values.items()
        )
        if "conditions" in part_content and "conditions" not in unwritable_values:
            part_content["conditions"] = _map_conditions_by_name(part_content["conditions"])
    return graph_content


def _map_conditions_by_name(conditions: list[dict[str, Any]]) -> Any:
    """Convert a list of conditions to a dict by name, the form that modeci_mdf can read."""
    conditions_by_name = {
        condition["id"]: {
            key: field_content for key, field_content in condition.items() if key != "id"
        }
        for condition in conditions
    }
    return conditions_by_name if len(conditions_by_name) == len(conditions) else conditions


_PLACEHOLDER_BY_FIELD: dict[str, Any] = {
    "args": {},
    "conditions": [],
    "default_initial_value": 0,
    "default_value": 0,
    "parameters": {},
    "value": 0,
}
"""Fields of parts with values, and a placeholder for each field that modeci_mdf can write.

modeci_mdf tests the truth of arrays and converts them to lists. It writes conditions as a list, but
reads only mappings.
"""


def _find_unwritable_values(part: Any) -> dict[str, Any]:
    """Return the fields of an MDF object that modeci_mdf cannot write, such as arrays."""
    values_by_field = (
        (field_name, getattr(part, field_name, None)) for field_name in _PLACEHOLDER_BY_FIELD
    )
    return {
        field_name: field_value
        for field_name, field_value in values_by_field
        if _is_unwritable(field_name, field_value)
    }


def _is_unwritable(name: str, value: Any) -> bool:
    if name == "conditions":
        return any(isinstance(condition, Mapping) for condition in value or ())
    return isinstance(value, np.ndarray | list | tuple | Mapping)


def _copy_graph_with_placeholders(graph: Any) -> Any:
    """Return a copy of the graph with placeholders for values that modeci_mdf cannot write."""
    graph_copy = copy.copy(graph)
    graph_copy.edges = [_copy_with_placeholders(edge) for edge in graph.edges]
    graph_copy.nodes = [copy.copy(node) for node in graph.nodes]
    for node in graph_copy.nodes:
        for section in _SECTIONS_WITH_VALUES:
            setattr(
                node, section, [_copy_with_placeholders(part) for part in getattr(node, section)]
            )
        for parameter in node.parameters:
            parameter.conditions = [
                _copy_with_placeholders(condition) for condition in parameter.conditions or ()
            ]
    return graph_copy


_SECTIONS_WITH_VALUES = ("input_ports", "functions", "parameters")


def _copy_with_placeholders(part: Any) -> Any:
    part_copy = copy.copy(part)
    for field_name in _find_unwritable_values(part):
        setattr(part_copy, field_name, _PLACEHOLDER_BY_FIELD[field_name])
    return part_copy


def _iterate_valued_parts(graph: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Yield each part of a graph that may have a value, such as a port or edge, with its path.

    Conditions come before the parameter that owns them.
    """
    yield from ((edge, ("edges", edge.id)) for edge in graph.edges)
    for node in graph.nodes:
        for section in _SECTIONS_WITH_VALUES:
            for part in getattr(node, section):
                path_in_graph = ("nodes", node.id, section, part.id)
                if "conditions" not in _find_unwritable_values(part):
                    numbered_conditions = enumerate(getattr(part, "conditions", None) or ())
                    yield from (
                        (condition, (*path_in_graph, "conditions", k))
                        for k, condition in numbered_conditions
                    )
                yield part, path_in_graph


def _convert_value(value: Any) -> Any:
    """Convert modeci_mdf Graph objects inside a value to plain content."""
    if hasattr(value, "nodes") and hasattr(value, "to_dict"):
        return {value.id: _build_graph_content(value)}
    if isinstance(value, Mapping):
        return {key: _convert_value(nested_value) for key, nested_value in value.items()}
    if isinstance(value, list | tuple):
        return (
            list(value)
            if contains_only_numbers(value)
            else [_convert_value(element) for element in value]
        )
    return value
