"""A document as plain content again: mappings, lists, numbers, text, and arrays with their dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.reading.document import Document, quiet


def content_of(document: Document) -> dict[str, Any]:
    """The whole model of a document, as a file would hold it; arrays stay arrays."""
    from modeci_mdf.mdf import Model

    model = document.model or Model(id=document.graph.id, graphs=list(document.siblings.values()))
    with quiet():
        content: dict[str, Any] = model.to_dict()
    (written,) = content.values()
    written["graphs"] = {graph.id: _graph(graph) for graph in model.graphs}
    return content


def _graph(graph: Any) -> Any:
    with quiet():
        (content,) = graph.to_dict().values()
    for node in graph.nodes:
        for section in ("functions", "parameters"):
            for part in getattr(node, section):
                written = content["nodes"][node.id][section][part.id]
                if part.args:
                    written["args"] = _arguments(part.args)
                if isinstance(part.value, np.ndarray):
                    written["value"] = part.value
    return content


def _arguments(value: Any) -> Any:
    """What args hold, with bodies that are objects as content."""
    if hasattr(value, "nodes") and hasattr(value, "to_dict"):
        return {value.id: _graph(value)}
    if isinstance(value, Mapping):
        return {key: _arguments(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_arguments(part) for part in value]
    return value
