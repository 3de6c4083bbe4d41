"""A document as plain content again: mappings, lists, numbers, text, and arrays with their dtype."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.reading.document import Document, quiet


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
    for node in graph.nodes:
        for section in ("functions", "parameters"):
            for part in getattr(node, section):
                written = content["nodes"][node.id][section][part.id]
                if part.args:
                    written["args"] = _arguments(part.args)
                if isinstance(part.value, np.ndarray):
                    written["value"] = part.value
        for parameter in node.parameters:
            conditions = parameter.conditions or ()
            if any(isinstance(condition, Mapping) for condition in conditions):
                written = content["nodes"][node.id]["parameters"][parameter.id]
                written["conditions"] = list(conditions)
    return content


def _writable(graph: Any) -> Any:
    """The graph without what modeci_mdf cannot write.

    It asks whether arrays in functions are true, and reads conditions that it has itself written
    as a list as mappings.
    """
    bare = copy.copy(graph)
    bare.nodes = [copy.copy(node) for node in graph.nodes]
    for node in bare.nodes:
        node.functions = [copy.copy(function) for function in node.functions]
        for function in node.functions:
            if isinstance(function.value, np.ndarray):
                function.value = None
        node.parameters = [copy.copy(parameter) for parameter in node.parameters]
        for parameter in node.parameters:
            if any(isinstance(condition, Mapping) for condition in parameter.conditions or ()):
                parameter.conditions = []
    return bare


def _arguments(value: Any) -> Any:
    """What args hold, with bodies that are objects as content."""
    if hasattr(value, "nodes") and hasattr(value, "to_dict"):
        return {value.id: _graph(value)}
    if isinstance(value, Mapping):
        return {key: _arguments(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_arguments(part) for part in value]
    return value
