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
    """Return the whole model of a document as the plain content of a file; arrays stay arrays."""
    from modeci_mdf.mdf import Model

    model = document.model or Model(id=document.graph.id, graphs=list(document.siblings.values()))
    bare = copy.copy(model)
    bare.graphs = []
    with suppress_output():
        content: dict[str, Any] = bare.to_dict()
    (model_content,) = content.values()
    model_content["graphs"] = {graph.id: _graph_content(graph) for graph in model.graphs}
    return content


def _graph_content(graph: Any) -> Any:
    with suppress_output():
        (content,) = _with_graph_placeholders(graph).to_dict().values()
    for part, path in _parts_with_values(graph):
        entry: Any = content
        for key in path:
            entry = entry[key]
        values = _unwritable_values(part)
        entry.update((name, _value_content(value)) for name, value in values.items())
        if "conditions" in entry and "conditions" not in values:
            entry["conditions"] = _conditions_by_name(entry["conditions"])
    return content


def _conditions_by_name(conditions: list[dict[str, Any]]) -> Any:
    """Return conditions by name, as in files; modeci_mdf cannot read a list of conditions."""
    by_name = {each["id"]: {k: v for k, v in each.items() if k != "id"} for each in conditions}
    return by_name if len(by_name) == len(conditions) else conditions


_PLACEHOLDERS: dict[str, Any] = {
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


def _unwritable_values(part: Any) -> dict[str, Any]:
    """Return the values of a part that modeci_mdf cannot write, such as arrays."""
    values = ((name, getattr(part, name, None)) for name in _PLACEHOLDERS)
    return {name: value for name, value in values if _is_unwritable(name, value)}


def _is_unwritable(name: str, value: Any) -> bool:
    if name == "conditions":
        return any(isinstance(condition, Mapping) for condition in value or ())
    return isinstance(value, np.ndarray | list | tuple | Mapping)


def _with_graph_placeholders(graph: Any) -> Any:
    """Return a copy of the graph with placeholders for the values of its parts."""
    bare = copy.copy(graph)
    bare.edges = [_with_placeholders(edge) for edge in graph.edges]
    bare.nodes = [copy.copy(node) for node in graph.nodes]
    for node in bare.nodes:
        for section in _SECTIONS:
            setattr(node, section, [_with_placeholders(part) for part in getattr(node, section)])
        for parameter in node.parameters:
            parameter.conditions = [_with_placeholders(each) for each in parameter.conditions or ()]
    return bare


_SECTIONS = ("input_ports", "functions", "parameters")


def _with_placeholders(part: Any) -> Any:
    bare = copy.copy(part)
    for name in _unwritable_values(part):
        setattr(bare, name, _PLACEHOLDERS[name])
    return bare


def _parts_with_values(graph: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Yield the parts that may have values, with their paths; conditions come before their owner."""
    yield from ((edge, ("edges", edge.id)) for edge in graph.edges)
    for node in graph.nodes:
        for section in _SECTIONS:
            for part in getattr(node, section):
                path = ("nodes", node.id, section, part.id)
                if "conditions" not in _unwritable_values(part):
                    conditions = enumerate(getattr(part, "conditions", None) or ())
                    yield from ((each, (*path, "conditions", k)) for k, each in conditions)
                yield part, path


def _value_content(value: Any) -> Any:
    """Return the value of a part, with body objects converted to content."""
    if hasattr(value, "nodes") and hasattr(value, "to_dict"):
        return {value.id: _graph_content(value)}
    if isinstance(value, Mapping):
        return {key: _value_content(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return (
            list(value)
            if contains_only_numbers(value)
            else [_value_content(part) for part in value]
        )
    return value
