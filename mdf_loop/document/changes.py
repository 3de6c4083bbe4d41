"""Parts of a document that say something else: copies, since a document is never changed.

port = changed(port, value="2 * x")
"""

from __future__ import annotations

import copy
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.document import Document


def changed(part: Any, **said: Any) -> Any:
    """A copy of a part (a graph, a node, a function ...) that says this; itself, if it does already."""
    if all(value is getattr(part, name) for name, value in said.items()):
        return part
    made = copy.copy(part)
    for name, value in said.items():
        setattr(made, name, value)
    return made


def with_graph(document: Document, graph: Any) -> Document:
    """A document whose graph is another one, also in its model."""
    model = document.model
    if model is not None:
        graphs = [graph if each is document.graph else each for each in model.graphs]
        model = changed(model, graphs=graphs)
    siblings = {**document.siblings, graph.id: graph}
    return replace(document, graph=graph, siblings=siblings, model=model)
