"""Context for the outline of a loop or conditional: its node, its path and the enclosing scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.document.parts import FunctionOrParameter, Node
from mdf_loop.outline.annotation import Annotations
from mdf_loop.outline.parts import GraphOutline
from mdf_loop.outline.scope import OutlineScope, node_scope
from mdf_loop.reading.owned_graph import OwnedGraph
from mdf_loop.reading.signature import find_end_ports

BodyReader: TypeAlias = Callable[
    [Any, str, Mapping[str, str], Sequence[str], OutlineScope], GraphOutline
]
"""Function that outlines a body. Arguments: graph, path, role of each input, names of outputs, outer scope."""


class BlockContext(Struct, frozen=True):
    """Function or parameter that defines a loop or conditional, with its node, path and scope.

    `read_body` outlines the graphs that the function owns.
    """

    definition: FunctionOrParameter
    node: Node
    node_path: str
    path: str
    document: Document
    annotations: Annotations
    outer_scope: OutlineScope | None
    read_body: BodyReader

    @property
    def args(self) -> Mapping[str, Any]:
        """Arguments of the function or parameter, as written in the MDF document."""
        return dict(self.definition.args or {})

    @property
    def name(self) -> str:
        """Name of the loop or conditional in error messages, as `node.function`."""
        return f"{self.node.id}.{self.definition.id}"

    def scope(self, bindings: Sequence[str] = ()) -> OutlineScope:
        """Return the scope of names that a body of the loop or conditional can capture."""
        return node_scope(self.node, self.node_path, bindings, self.outer_scope)


def output_names(owned: OwnedGraph) -> tuple[str, ...]:
    """Return the names of a graph's outputs, by default the first output port without an edge."""
    ports_without_edges = find_end_ports(owned.graph) if owned.output_names is None else ()
    return owned.output_names or tuple(
        f"{node.id}.{port.id}" for node, port in ports_without_edges[:1]
    )
