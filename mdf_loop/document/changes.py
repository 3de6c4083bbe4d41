"""Changed copies of parts of a document. A document itself is immutable.

port = replace_fields(port, value="2 * x")
"""

from __future__ import annotations

import copy
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.document import Document


def replace_fields(part: Any, **values: Any) -> Any:
    """Return a copy of a part with new field values, or the part itself if no field changes."""
    if all(value is getattr(part, name) for name, value in values.items()):
        return part
    copied = copy.copy(part)
    for name, value in values.items():
        setattr(copied, name, value)
    return copied


def with_graph(document: Document, graph: Any) -> Document:
    """Return a copy of a document with another graph, also in its model."""
    model = document.model
    if model is not None:
        graphs = [graph if each is document.graph else each for each in model.graphs]
        model = replace_fields(model, graphs=graphs)
    siblings = {**document.siblings, graph.id: graph}
    return replace(document, graph=graph, siblings=siblings, model=model)
