"""Changed copies of a document and its parts, which are immutable.

port = replace_fields(port, value="2 * x")
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, Graph, Part

PartType = TypeVar("PartType", bound=Part)


def replace_fields(part: PartType, **values: DocumentValue) -> PartType:
    """Return a copy of a part with new field values, or the part if nothing changes."""
    if all(field_value is getattr(part, field_name) for field_name, field_value in values.items()):
        return part
    return replace(part, **values)


def with_graph(document: Document, graph: Graph) -> Document:
    """Return a copy of a document and of its model with a replaced main graph."""
    model = document.model
    if model is not None:
        model_graphs = [
            graph if other_graph is document.graph else other_graph for other_graph in model.graphs
        ]
        model = replace_fields(model, graphs=model_graphs)
    graphs_by_id = {**document.graphs_by_id, graph.id: graph}
    return replace(document, graph=graph, graphs_by_id=graphs_by_id, model=model, source_graph=None)
