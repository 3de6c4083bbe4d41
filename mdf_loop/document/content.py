"""A document as plain content again: mappings, lists, numbers, text, and arrays with their dtype."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.document.loading import quiet
from mdf_loop.numbers_only import only_numbers


def content_of(document: Document) -> dict[str, Any]:
    """The whole model of a document, as a file would hold it; arrays stay arrays."""
    from modeci_mdf.mdf import Model

    model = document.model or Model(id=document.graph.id, graphs=list(document.siblings.values()))
    bare = copy.copy(model)
    bare.graphs = []
    with quiet():
        content: dict[str, Any] = bare.to_dict()
    (written,) = content.values()
    written["graphs"] = {graph.id: _graph(graph) for graph in model.graphs}
    return content


def _graph(graph: Any) -> Any:
    with quiet():
        (content,) = _writable(graph).to_dict().values()
    for part, way in _parts(graph):
        written: Any = content
        for key in way:
            written = written[key]
        held = _held(part)
        written.update((name, _values(value)) for name, value in held.items())
        if "conditions" in written and "conditions" not in held:
            written["conditions"] = _named(written["conditions"])
    return content


def _named(conditions: list[dict[str, Any]]) -> Any:
    """Conditions by name, as files have them: of a list modeci_mdf would not make them again."""
    named = {each["id"]: {k: v for k, v in each.items() if k != "id"} for each in conditions}
    return named if len(named) == len(conditions) else conditions


_HELD: dict[str, Any] = {
    "args": {},
    "conditions": [],
    "default_initial_value": 0,
    "default_value": 0,
    "parameters": {},
    "value": 0,
}
"""Fields of parts that hold values, arrays among them -> what modeci_mdf can write there.

It asks whether arrays are true, makes lists of them, and reads conditions that it has itself
written as a list as mappings.
"""


def _held(part: Any) -> dict[str, Any]:
    """The values of a part that are written as they are."""
    values = ((name, getattr(part, name, None)) for name in _HELD)
    return {name: value for name, value in values if _is_held(name, value)}


def _is_held(name: str, value: Any) -> bool:
    if name == "conditions":
        return any(isinstance(condition, Mapping) for condition in value or ())
    return isinstance(value, np.ndarray | list | tuple | Mapping)


def _writable(graph: Any) -> Any:
    """The graph with something else in the place of what its parts hold."""
    bare = copy.copy(graph)
    bare.edges = [_without_held(edge) for edge in graph.edges]
    bare.nodes = [copy.copy(node) for node in graph.nodes]
    for node in bare.nodes:
        for section in _SECTIONS:
            setattr(node, section, [_without_held(part) for part in getattr(node, section)])
        for parameter in node.parameters:
            parameter.conditions = [_without_held(each) for each in parameter.conditions or ()]
    return bare


_SECTIONS = ("input_ports", "functions", "parameters")


def _without_held(part: Any) -> Any:
    bare = copy.copy(part)
    for name in _held(part):
        setattr(bare, name, _HELD[name])
    return bare


def _parts(graph: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """What may hold values, with the keys under which it is written; conditions before their owner."""
    yield from ((edge, ("edges", edge.id)) for edge in graph.edges)
    for node in graph.nodes:
        for section in _SECTIONS:
            for part in getattr(node, section):
                way = ("nodes", node.id, section, part.id)
                if "conditions" not in _held(part):
                    conditions = enumerate(getattr(part, "conditions", None) or ())
                    yield from ((each, (*way, "conditions", k)) for k, each in conditions)
                yield part, way


def _values(value: Any) -> Any:
    """What a part holds, with bodies that are objects as content."""
    if hasattr(value, "nodes") and hasattr(value, "to_dict"):
        return {value.id: _graph(value)}
    if isinstance(value, Mapping):
        return {key: _values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return list(value) if only_numbers(value) else [_values(part) for part in value]
    return value
