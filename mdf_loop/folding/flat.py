"""A graph as plain content, with what folding asks of it: ports, edges, what a name means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from mdf_loop.document.content import content_of
from mdf_loop.document.loading import model_of
from mdf_loop.errors import ScopeError, UnknownNameError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.suggestion import suggestion

Port: TypeAlias = tuple[str, str]
"""A node's id and a port's."""

Content: TypeAlias = dict[str, Any]


class Edge(Struct, frozen=True):
    """An edge, with all that is written of it."""

    id: str
    sender: Port
    receiver: Port
    content: Mapping[str, Any]

    def written(self, sender: Port, receiver: Port) -> Content:
        """The edge between other ports."""
        ends = {
            "sender": sender[0],
            "receiver": receiver[0],
            "sender_port": sender[1],
            "receiver_port": receiver[1],
        }
        return {**self.content, **ends}


class Flat(Struct, frozen=True):
    """One graph of a model, as plain content."""

    model: Content
    graph_id: str
    where: str

    @property
    def graph(self) -> Content:
        """The graph's own content."""
        (model,) = self.model.values()
        found: Content = model["graphs"][self.graph_id]
        return found

    @property
    def nodes(self) -> dict[str, Content]:
        """Its nodes by id."""
        return dict(self.graph.get("nodes") or {})

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Its edges, in order."""
        return tuple(
            Edge(
                edge_id,
                (content["sender"], content["sender_port"]),
                (content["receiver"], content["receiver_port"]),
                content,
            )
            for edge_id, content in (self.graph.get("edges") or {}).items()
        )

    def ports(self, section: str, nodes: Iterable[str] | None = None) -> dict[Port, Content]:
        """The `input_ports` or `output_ports` of these nodes, or of all."""
        chosen = self.nodes if nodes is None else nodes
        return {
            (node, port): content or {}
            for node in chosen
            for port, content in (self.nodes[node].get(section) or {}).items()
        }

    def with_graph(self, **changed: Any) -> Any:
        """The model with something else in the graph."""
        ((name, model),) = self.model.items()
        graphs = {**model["graphs"], self.graph_id: {**self.graph, **changed}}
        return model_of({name: {**model, "graphs": graphs}})


def flat(source: Source) -> Flat:
    """The main graph of a path, Model, Graph or dict."""
    document = open_document(source)
    return Flat(content_of(document), document.graph.id, document.where)


def port_named(name: str, known: Iterable[Port], what: str, where: str) -> Port:
    """The one port that `node.port` or a port id means.

    Raises:
        UnknownNameError: there is none.
        ScopeError: there are several.
    """
    found = [port for port in known if name in (port[1], ".".join(port))]
    exact = [port for port in found if name == ".".join(port)]
    if len(exact or found) > 1:
        ways = ", ".join(repr(".".join(port)) for port in found)
        raise ScopeError(f"{what} '{name}' could be {ways}", where, "write node.port")
    if not found:
        shown = [".".join(port) for port in known]
        raise UnknownNameError(
            f"{what} '{name}' is not there", where, suggestion(name, shown) or _among(shown)
        )
    return (exact or found)[0]


def _among(names: list[str]) -> str:
    return f"there are {', '.join(names)}" if names else ""


def fresh(wanted: str, taken: Iterable[str]) -> str:
    """A name that nobody has yet, as near to `wanted` as can be."""
    used, name, k = set(taken), wanted, 1
    while name in used:
        k += 1
        name = f"{wanted}_{k}"
    return name
