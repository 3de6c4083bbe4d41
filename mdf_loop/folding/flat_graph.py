"""Main graph of a model as plain dicts, which `fold` and `unfold` read and change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from mdf_loop.document.content import content_of
from mdf_loop.document.loading import model_of
from mdf_loop.errors import ScopeError, UnknownNameError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.name_suggestions import suggest

Port: TypeAlias = tuple[str, str]
"""Id of a node, and id of one of its ports."""

Content: TypeAlias = dict[str, Any]


class FlatEdge(Struct, frozen=True):
    """Edge between two ports of a graph, with the dict that describes the edge in the document."""

    id: str  # edge id
    sender: Port  # output port
    receiver: Port  # input port
    content: Mapping[str, Any]  # edge as a dict in the document

    def content_with_ports(self, sender: Port, receiver: Port) -> Content:
        """Return the edge's dict with its sender and receiver ports replaced."""
        endpoint_fields = {
            "sender": sender[0],
            "receiver": receiver[0],
            "sender_port": sender[1],
            "receiver_port": receiver[1],
        }
        return {**self.content, **endpoint_fields}


class FlatGraph(Struct, frozen=True):
    """Main graph of a model, as plain dicts."""

    model_content: Content
    graph_id: str
    mdf_path: str

    @property
    def graph_content(self) -> Content:
        """Dict of the main graph in the document."""
        (model_content,) = self.model_content.values()
        content_of_graph: Content = model_content["graphs"][self.graph_id]
        return content_of_graph

    @property
    def contents_of_nodes(self) -> dict[str, Content]:
        """Dict of each node in the document, by node id."""
        return dict(self.graph_content.get("nodes") or {})

    @property
    def edges(self) -> tuple[FlatEdge, ...]:
        """Edges of the graph, in the order of the document."""
        return tuple(
            FlatEdge(
                edge_id,
                (edge_content["sender"], edge_content["sender_port"]),
                (edge_content["receiver"], edge_content["receiver_port"]),
                edge_content,
            )
            for edge_id, edge_content in (self.graph_content.get("edges") or {}).items()
        )

    def ports(self, section: str, nodes: Iterable[str] | None = None) -> dict[Port, Content]:
        """Return the `input_ports` or `output_ports` of the named nodes (None means all nodes)."""
        selected_node_ids = self.contents_of_nodes if nodes is None else nodes
        return {
            (node_id, port_id): port_content or {}
            for node_id in selected_node_ids
            for port_id, port_content in (
                self.contents_of_nodes[node_id].get(section) or {}
            ).items()
        }

    def with_graph(self, **sections: Any) -> Any:
        """Return the model with replaced sections of the main graph, such as `nodes`."""
        ((model_name, model_content),) = self.model_content.items()
        changed_graphs = {
            **model_content["graphs"],
            self.graph_id: {**self.graph_content, **sections},
        }
        return model_of({model_name: {**model_content, "graphs": changed_graphs}})


def open_flat_graph(source: Source) -> FlatGraph:
    """Return the main graph of a model. `source` is a path, a Model, a Graph or a dict."""
    document = open_document(source)
    return FlatGraph(content_of(document), document.graph.id, document.where)


def find_port(name: str, known_ports: Iterable[Port], description: str, where: str) -> Port:
    """Return the port that `name` denotes, written as `node.port` or as a port id.

    Raises:
        UnknownNameError: No port has this name.
        ScopeError: Several ports have this name.
    """
    matching_ports = [port for port in known_ports if name in (port[1], ".".join(port))]
    fully_named_ports = [port for port in matching_ports if name == ".".join(port)]
    if len(fully_named_ports or matching_ports) > 1:
        candidates_text = ", ".join(repr(".".join(port)) for port in matching_ports)
        raise ScopeError(
            f"{description} '{name}' could be {candidates_text}", where, "write node.port"
        )
    if not matching_ports:
        port_names = [".".join(port) for port in known_ports]
        raise UnknownNameError(
            f"{description} '{name}' is not there",
            where,
            suggest(name, port_names) or _names_text(port_names),
        )
    return (fully_named_ports or matching_ports)[0]


def _names_text(names: list[str]) -> str:
    return f"there are {', '.join(names)}" if names else ""


def unique_name(base: str, used_names: Iterable[str]) -> str:
    """Return `base`, or `base` with the first number that makes the name unused."""
    unavailable_names, name, number_suffix = set(used_names), base, 1
    while name in unavailable_names:
        number_suffix += 1
        name = f"{base}_{number_suffix}"
    return name
