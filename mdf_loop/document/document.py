"""MDF document: the graph to compile, with the other graphs of its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.bodies import owned_graph_ids
from mdf_loop.document.parts import Graph, Model
from mdf_loop.errors import Finding, ModelError, raise_findings
from mdf_loop.paths import Files


class Document(Struct, frozen=True, weakref=True):
    """Graph to compile, with the other graphs of its model and, if present, the model.

    `files` are the files of the document. `import_warnings` are the warnings of its import.
    """

    graph: Graph  # graph to compile
    where: str  # path of this graph, such as "$.graphs[0]"
    graphs_by_id: Mapping[str, Graph] = field(default_factory=dict)
    name: str = ""  # name of the file or model
    model: Model | None = None  # model that contains the graph
    files: Files = frozenset()  # files that were read for the document
    import_warnings: tuple[str, ...] = ()
    source_graph: Any = None  # modeci_mdf Graph in memory that the graph was converted from

    def path_of_graph(self, graph_id: str) -> str:
        """Return the path in the document, `$.graphs['id']`, of the graph with this id."""
        return f"$.graphs['{graph_id}']"


def document_of(model: Model, name: str) -> Document:
    """Return the document of a model, whose main graph is the first graph that no function owns."""
    model_graphs = model.graphs
    if not model_graphs:
        raise ModelError(f"'{name}' holds no graph", "$.graphs", "a model needs at least one graph")
    duplicate_ids = _find_duplicates([graph.id for graph in model_graphs])
    raise_findings(
        Finding("ModelError", f"two graphs have the id '{graph_id}'", "$.graphs", "rename one")
        for graph_id in duplicate_ids
    )
    graphs_by_id = {graph.id: graph for graph in model_graphs}
    body_ids = _find_body_ids(model_graphs)
    main_graph = next(
        (graph for graph in model_graphs if graph.id not in body_ids), model_graphs[0]
    )
    return Document(
        main_graph, f"$.graphs[{model_graphs.index(main_graph)}]", graphs_by_id, name, model
    )


def _find_duplicates(graph_ids: list[str]) -> list[str]:
    return [graph_id for k, graph_id in enumerate(graph_ids) if graph_id in graph_ids[:k]]


def _find_body_ids(graphs: Sequence[Graph]) -> set[str]:
    """Return the ids of graphs that a function of the model owns."""
    return {graph_id for graph in graphs for graph_id in owned_graph_ids(graph)}


def graph_by_id(graph_id: str, where: str, document: Document, owner: str, role: str) -> Graph:
    """Return the graph of the model with the given id, which a function uses as a body.

    Error messages call the graph the `role` (such as "body") of an `owner` (such as "loop").

    Raises:
        ModelError: No graph has this id, or the graph contains itself.
    """
    graph = document.graphs_by_id.get(graph_id)
    if graph is None:
        known_ids_text = ", ".join(f"'{known_id}'" for known_id in document.graphs_by_id) or "none"
        raise ModelError(
            f"the {owner} {role} '{graph_id}' is not a graph of the model",
            where,
            f"graphs: {known_ids_text}",
        )
    visited_ids, pending_ids = {graph_id}, [graph_id]
    while pending_ids:
        inner_graph_ids = (
            owned_graph_ids(document.graphs_by_id[pending_ids.pop()]) & document.graphs_by_id.keys()
        )
        if graph_id in inner_graph_ids:
            raise ModelError(
                f"the {owner} {role} '{graph_id}' contains a {owner} whose {role} is "
                f"'{graph_id}' again",
                where,
                "a body cannot contain itself: carry what it needs, or write another graph",
            )
        pending_ids += inner_graph_ids - visited_ids
        visited_ids |= inner_graph_ids
    return graph
