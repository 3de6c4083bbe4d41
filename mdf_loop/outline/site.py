"""A function that owns graphs, as it stands in a document: where, in what surroundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mdf_loop.outline.annotation import Annotations
from mdf_loop.outline.parts import GraphOutline
from mdf_loop.outline.scope import Place, node_place
from mdf_loop.reading.document import Document, WrittenBody
from mdf_loop.reading.inner_graph import found_graph
from mdf_loop.reading.loop_forms import literal_parts, names_of
from mdf_loop.reading.signature import end_ports

BodyReader: TypeAlias = Callable[[Any, str, Mapping[str, str], Sequence[str], Place], GraphOutline]
"""Outlines a body: graph, path, what its inputs are, names of its outputs, the place around it."""


@dataclass(frozen=True, slots=True)
class Site:
    """A function or parameter of a node, both with their paths, and how to outline its graphs."""

    item: Any
    node: Any
    node_where: str
    where: str
    document: Document
    notes: Annotations
    outer: Place | None
    read_body: BodyReader

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments as they are written."""
        return dict(self.item.args or {})

    def place(self, bindings: Sequence[str] = ()) -> Place:
        """The names that a body of the function can capture."""
        return node_place(self.node, self.node_where, bindings, self.outer)


@dataclass(frozen=True, slots=True)
class FoundGraph:
    """A graph that an argument holds or names, with what is written in it or beside its name."""

    graph: Any
    where: str
    beside: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its inputs, as far as they are written."""
        return self._names("inputs") or ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs; where none are written, its only end."""
        written = self._names("outputs")
        ends = end_ports(self.graph) if written is None else ()
        return written or tuple(f"{node.id}.{port.id}" for node, port in ends[:1])

    def _names(self, key: str) -> tuple[str, ...] | None:
        stated = {**(self.graph.metadata or {}), **self.beside}
        return names_of(stated.get(key), key, self.where)


def find_graph(written: WrittenBody, argument: str, word: str, site: Site) -> FoundGraph:
    """The graph that an argument of a site's function holds, or names.

    Raises:
        ModelError: there is none, or it contains itself.
    """
    graph, where = found_graph(written, site.item, site.where, argument, word, site.document)
    return FoundGraph(graph, where, written.beside or {})


def expressions(value: Any) -> tuple[Any, ...]:
    """The expressions of a list, or of a text such as `(x, y)`."""
    if isinstance(value, list | tuple):
        return tuple(value)
    if value is None or value == "":
        return ()
    parts = literal_parts(value) if isinstance(value, str) else None
    return (value,) if parts is None else tuple(parts)
