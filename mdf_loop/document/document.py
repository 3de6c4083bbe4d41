"""A document: the graph to work on, beside the other graphs of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.bodies import named_bodies
from mdf_loop.errors import Finding, ModelError, raise_findings
from mdf_loop.paths import Files


class Document(Struct, frozen=True, weakref=True):
    """One graph to work on, with the other graphs of its model by id, and that model if any.

    `files` are those that it was read from. `warnings` are the sentences of which its import warns.
    """

    graph: Any
    where: str
    siblings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    model: Any = None
    files: Files = frozenset()
    warnings: tuple[str, ...] = ()

    def sibling_where(self, graph_id: str) -> str:
        """The path of another graph of the model."""
        return f"$.graphs['{graph_id}']"


def document_of(model: Any, name: str) -> Document:
    """The document of a model: its main graph is the first that no function owns."""
    graphs = list(model.graphs or [])
    if not graphs:
        raise ModelError(f"'{name}' holds no graph", "$.graphs", "a model needs at least one graph")
    clashes = _repeated([graph.id for graph in graphs])
    raise_findings(
        Finding("ModelError", f"two graphs have the id '{graph_id}'", "$.graphs", "rename one")
        for graph_id in clashes
    )
    siblings = {graph.id: graph for graph in graphs}
    used_as_body = _body_ids(graphs)
    main = next((g for g in graphs if g.id not in used_as_body), graphs[0])
    return Document(main, f"$.graphs[{graphs.index(main)}]", siblings, name, model)


def _repeated(ids: list[str]) -> list[str]:
    return [i for k, i in enumerate(ids) if i in ids[:k]]


def _body_ids(graphs: list[Any]) -> set[str]:
    """Ids of graphs that a function of the model names as a graph of its own."""
    return {graph_id for graph in graphs for graph_id in named_bodies(graph)}


def graph_by_id(graph_id: str, where: str, document: Document, owner: str, word: str) -> Any:
    """Another graph of the model, which an `owner` (a loop) names as its `word` (body).

    Raises:
        ModelError: there is none of that name, or it owns itself.
    """
    graph = document.siblings.get(graph_id)
    if graph is None:
        known = ", ".join(f"'{k}'" for k in document.siblings) or "none"
        raise ModelError(
            f"the {owner} {word} '{graph_id}' is not a graph of the model",
            where,
            f"graphs: {known}",
        )
    inside, wanted = {graph_id}, [graph_id]
    while wanted:
        named = named_bodies(document.siblings[wanted.pop()]) & document.siblings.keys()
        if graph_id in named:
            raise ModelError(
                f"the {owner} {word} '{graph_id}' contains a {owner} whose {word} is "
                f"'{graph_id}' again",
                where,
                "a body cannot contain itself: carry what it needs, or write another graph",
            )
        wanted += named - inside
        inside |= named
    return graph
