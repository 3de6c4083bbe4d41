"""Changed copies of a document and its objects. A document itself is immutable.

port = replace_fields(port, value="2 * x")
"""

from __future__ import annotations

import copy
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.document import Document


def replace_fields(part: Any, **values: Any) -> Any:
    """Return a copy of an MDF object with new field values, or the object if nothing changes."""
    if all(field_value is getattr(part, field_name) for field_name, field_value in values.items()):
        return part
    part_copy = copy.copy(part)
    for field_name, field_value in values.items():
        setattr(part_copy, field_name, field_value)
    return part_copy


def with_graph(document: Document, graph: Any) -> Document:
    """Return a copy of a document and of its model with a replaced main graph."""
    model = document.model
    if model is not None:
        model_graphs = [
            graph if other_graph is document.graph else other_graph for other_graph in model.graphs
        ]
        model = replace_fields(model, graphs=model_graphs)
    graphs_by_id = {**document.graphs_by_id, graph.id: graph}
    return replace(document, graph=graph, graphs_by_id=graphs_by_id, model=model)
