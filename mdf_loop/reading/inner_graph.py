"""A graph that a function owns and that is given nothing: a branch.

A free port of the graph means, in this order: a value of the enclosing place (a capture), its own
default_value; else it is an error, never a silent zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import (
    ArityError,
    ModelError,
    ScopeError,
    SignatureError,
    UnknownNameError,
    UnsupportedError,
)
from mdf_loop.ir import Value
from mdf_loop.lower import Scope, Term, cast, suggestion, tensor
from mdf_loop.reading.document import Document, WrittenBody, graph_by_id, graph_of
from mdf_loop.reading.given import default_value
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.loop_forms import names_of
from mdf_loop.reading.memory import Memory
from mdf_loop.reading.node import Context, is_stateful
from mdf_loop.reading.port_types import edge_dtype
from mdf_loop.reading.signature import end_ports


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A graph with its place, its outputs in order, and what errors call it."""

    graph: Any
    where: str
    outputs: tuple[str, ...]
    word: str
    kind: str = "branch"

    @property
    def shapes(self) -> str | None:
        """What its metadata say about shapes: strict, dynamic or nothing."""
        stated: str | None = (self.graph.metadata or {}).get("shapes")
        return stated

    def gives(self, name: str) -> bool:
        """Whether the graph has an output port of this name (`port` or `node.port`)."""
        return bool(self._matches(name))

    def _matches(self, name: str) -> list[tuple[str, str]]:
        ports = [(node.id, port.id) for node in self.graph.nodes for port in node.output_ports]
        return [key for key in ports if name in (key[1], ".".join(key))]

    # --- reading --------------------------------------------------------------------------------

    def read(self, b: Builder, scope: Scope, document: Document) -> list[Value]:
        """Append one evaluation of the graph; the values of its outputs in order.

        Raises:
            LoopError: an output does not exist. What is wrong inside is noted.
        """

        def supply(node: Any, port: Any, where: str) -> Term:
            return self._captured(b, scope, node, port, where)

        self._refuse_states(b)
        context = Context(document, scope.inner())
        reader = GraphReader(self.graph, self.where, supply, context, Memory(b)).read()
        with b.at(self.where):
            return [tensor(b, self._find(name, reader, scope)) for name in self.outputs]

    def _captured(self, b: Builder, scope: Scope, node: Any, port: Any, where: str) -> Term:
        term = scope.find(port.id)
        if term is None and port.default_value is not None:
            return default_value(b, port, where)
        if term is None:
            raise ScopeError(
                f"the input port '{port.id}' of node '{node.id}' in {self.word} is bound to nothing",
                where,
                suggestion(port.id, scope.names())
                or f"give the node that owns the {self.kind} a port of that name, or give it a "
                "default_value",
            )
        return cast(b, term, edge_dtype(b, port, term)) if isinstance(term, Value) else term

    def _find(self, name: str, reader: GraphReader, scope: Scope) -> Term:
        """An output name: an output port, else a value from outside that is passed through."""
        matches = self._matches(name)
        if len(matches) > 1:
            ways = ", ".join(repr(".".join(key)) for key in matches)
            raise ScopeError(
                f"the output '{name}' of {self.word} could be {ways}",
                hint="write node.port in metadata.outputs",
            )
        if matches:
            return reader.output(*matches[0])
        term = scope.find(name)
        if term is None:
            known = [port.id for node in self.graph.nodes for port in node.output_ports]
            raise UnknownNameError(
                f"{self.word} has no output port '{name}' (named in metadata.outputs)",
                hint=suggestion(name, known),
            )
        return term

    def _refuse_states(self, b: Builder) -> None:
        """A branch keeps nothing from one evaluation to the next."""
        for node in self.graph.nodes:
            for parameter in filter(is_stateful, node.parameters):
                with b.findings.catch():
                    raise UnsupportedError(
                        f"the parameter '{parameter.id}' of node '{node.id}' in {self.word} keeps "
                        f"a state, but a {self.kind} remembers nothing",
                        f"{self.where}.nodes['{node.id}'].parameters['{parameter.id}']",
                        f"keep the state outside, and let the {self.kind} read it by its name",
                    )


def inner_graph(
    written: WrittenBody, item: Any, where: str, argument: str, word: str, document: Document
) -> InnerGraph:
    """The graph that an argument of a function holds, or names.

    Raises:
        ModelError: it is missing, or is no graph.
        SignatureError, ArityError: its outputs are not written, or there are none.
    """
    graph, path = found_graph(written, item, where, argument, word, document)
    metadata = {**(graph.metadata or {}), **(written.beside or {})}
    if metadata.get("inputs"):
        raise SignatureError(
            f"{word} names metadata.inputs, but a branch is given nothing",
            path,
            "leave them out: its ports read the values of the node that owns it by their names",
        )
    names = names_of(metadata.get("outputs"), "outputs", path)
    return InnerGraph(graph, path, _inferred(graph, path, word) if names is None else names, word)


def _inferred(graph: Any, where: str, word: str) -> tuple[str, ...]:
    ends = end_ports(graph)
    if not ends:
        raise ArityError(f"{word} gives nothing", where, "write metadata: {outputs: [...]}")
    if len(ends) > 1:
        names = [port.id for _, port in ends]
        raise SignatureError(
            f"the order of the outputs of {word} is not written: it may give {names}",
            where,
            "write metadata: {outputs: [...]}",
        )
    return tuple(f"{node.id}.{port.id}" for node, port in ends)


def found_graph(
    written: WrittenBody, item: Any, where: str, argument: str, word: str, document: Document
) -> tuple[Any, str]:
    """The graph that an argument of a function holds, or names, and its path.

    Raises:
        ModelError: it is missing, or is no graph.
    """
    path = f"{where}.args.{argument}"
    if written.parameters:
        node_where = where.removesuffix(f".functions['{item.id}']")
        node_where = node_where.removesuffix(f".parameters['{item.id}']")
        path = f"{node_where}.parameters['{written.parameters[-1]}'].value"
    if written.beside is not None:
        path += ".graph"
    value = written.value
    if value is None:
        raise ModelError(
            f"{word} is missing", path, f"add '{argument}' to the args: a graph, or {{graph: id}}"
        )
    if isinstance(value, str):
        graph = graph_by_id(value, path, document, "choice", "branch")
        return graph, document.sibling_where(value)
    if isinstance(value, list | tuple | int | float | np.ndarray):
        raise ModelError(
            f"{word} is a graph, not {type(value).__name__} ({value})",
            path,
            "write the graph here, or {graph: id of another graph}",
        )
    return graph_of(value, path), path
