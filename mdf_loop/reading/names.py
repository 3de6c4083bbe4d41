"""Names of what a model gives: `node.port`, `node.parameter`, `node.function`."""

from __future__ import annotations

from dataclasses import dataclass

from mdf_loop.errors import UnknownNameError
from mdf_loop.lower import suggestion
from mdf_loop.reading.document import Document
from mdf_loop.reading.memory import Kind, State

KINDS: dict[str, Kind] = {
    "output_ports": "output",
    "parameters": "parameter",
    "functions": "function",
}
"""What can be given by name; where ids clash, the first of these is meant."""


@dataclass(frozen=True, slots=True)
class Item:
    """An output port, parameter or function of a node."""

    kind: str
    node: str
    id: str

    @property
    def name(self) -> str:
        """`node.item`."""
        return f"{self.node}.{self.id}"

    @property
    def state(self) -> State:
        """What it is in a memory."""
        return (KINDS[self.kind], self.node, self.id)


def items(document: Document) -> tuple[Item, ...]:
    """Everything that can be named: for each node its output ports, parameters and functions."""
    found: dict[str, Item] = {}
    for node in document.graph.nodes:
        for kind in KINDS:
            for part in getattr(node, kind):
                item = Item(kind, node.id, part.id)
                found.setdefault(item.name, item)
    return tuple(found.values())


def find_item(document: Document, name: str) -> Item:
    """The item of that name: `node.item`, or an output port's id alone.

    Raises:
        UnknownNameError: there is none.
    """
    known = items(document)
    for item in known:
        if name == item.name or (item.kind == "output_ports" and name == item.id):
            return item
    ports = [item.name for item in known if item.kind == "output_ports"]
    raise UnknownNameError(
        f"the model has no output '{name}'", document.where, suggestion(name, ports)
    )


def output_names(document: Document) -> list[str]:
    """`metadata.outputs` where given, else every output port that feeds no edge."""
    graph = document.graph
    stated = (graph.metadata or {}).get("outputs")
    if stated:
        return [str(name) for name in stated]
    sent = {(edge.sender, edge.sender_port) for edge in graph.edges}
    return [
        f"{n.id}.{p.id}" for n in graph.nodes for p in n.output_ports if (n.id, p.id) not in sent
    ]
