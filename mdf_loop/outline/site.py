"""A function that owns graphs, as it stands in a document: where, in what surroundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.outline.annotation import Annotations
from mdf_loop.outline.parts import GraphOutline
from mdf_loop.outline.scope import OutlineScope, node_place
from mdf_loop.reading.owned_graph import OwnedGraph
from mdf_loop.reading.signature import end_ports

BodyReader: TypeAlias = Callable[
    [Any, str, Mapping[str, str], Sequence[str], OutlineScope], GraphOutline
]
"""Outlines a body: graph, path, what its inputs are, names of its outputs, the place around it."""


class Site(Struct, frozen=True):
    """A function or parameter of a node, both with their paths, and how to outline its graphs."""

    item: Any
    node: Any
    node_where: str
    where: str
    document: Document
    notes: Annotations
    outer: OutlineScope | None
    read_body: BodyReader

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments as they are written."""
        return dict(self.item.args or {})

    @property
    def name(self) -> str:
        """What the function is called in errors."""
        return f"{self.node.id}.{self.item.id}"

    def place(self, bindings: Sequence[str] = ()) -> OutlineScope:
        """The names that a body of the function can capture."""
        return node_place(self.node, self.node_where, bindings, self.outer)


def output_names(owned: OwnedGraph) -> tuple[str, ...]:
    """The names of a graph's outputs; where none are written, its only end."""
    ends = end_ports(owned.graph) if owned.outputs is None else ()
    return owned.outputs or tuple(f"{node.id}.{port.id}" for node, port in ends[:1])
