"""Names of what a model gives: `node.port`, `node.parameter`, `node.function`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from weakref import ref

from msgspec import Struct

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.document import Document
from mdf_loop.errors import ModelError, UnknownNameError
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.memory import Kind, State
from mdf_loop.specification import Selection

KINDS: dict[str, Kind] = {
    "output_ports": "output",
    "parameters": "parameter",
    "functions": "function",
}
"""What can be given by name; where ids clash, the first of these is meant."""


class Item(Struct, frozen=True):
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
        """State of the item."""
        return (KINDS[self.kind], self.node, self.id)


def items(document: Document) -> tuple[Item, ...]:
    """Everything that can be named: for each node its output ports, parameters and functions."""
    items_by_name: dict[str, Item] = {}
    for node in document.graph.nodes:
        for kind in KINDS:
            for part in getattr(node, kind):
                item = Item(kind, node.id, part.id)
                items_by_name.setdefault(item.name, item)
    return tuple(items_by_name.values())


def find_item(document: Document, name: str) -> Item:
    """Return the item of a name: `node.item`, or an output port's id alone.

    Raises:
        UnknownNameError: there is none.
    """
    return _index(document).find(name)


class _Index:
    """The items of a document by every name that they may be called.

    Attributes:
        outputs: those that the model gives, as results call them; filled in when somebody asks.
    """

    def __init__(self, document: Document) -> None:
        self._where = document.where
        self.outputs: dict[str, Item] = {}
        self._known: dict[str, Item] = {}
        self._ports: list[str] = []
        for item in items(document):
            self._known.setdefault(item.name, item)
            if item.kind == "output_ports":
                self._known.setdefault(item.id, item)
                self._ports.append(item.name)

    def find(self, name: str) -> Item:
        if name not in self._known:
            hint = suggest(name, self._ports)
            raise UnknownNameError(f"the model has no output '{name}'", self._where, hint)
        return self._known[name]


_INDEXES: dict[int, tuple[ref[Document], _Index]] = {}
"""The index of each document that is there, by its identity: its graph may be anything."""


def _index(document: Document) -> _Index:
    """Return the index of a document, which is computed once, since each run needs it."""
    key = id(document)
    if key not in _INDEXES:
        graph_ref = ref(document, lambda _: _INDEXES.pop(key, None))
        _INDEXES[key] = graph_ref, _Index(document)
    return _INDEXES[key][1]


def output_names(document: Document) -> dict[str, str]:
    """Return the model's outputs: the name in results, and the `node.port`.

    `metadata.outputs` where given, else every output port that feeds no edge. A mapping there
    gives outputs names of their own. A graph without any output port gives its parameters.
    """
    graph = document.graph
    stated = (graph.metadata or {}).get("outputs")
    if isinstance(stated, Mapping) and stated:
        return {str(name): str(item) for name, item in stated.items()}
    if stated and not isinstance(stated, list | tuple):
        raise ModelError(
            f"metadata.outputs is a list of names, or a mapping of them, not {str(stated)[:60]!r}",
            document.where,
            "write outputs: [node.port, ...] or outputs: {name: node.port}",
        )
    if stated:
        index = _index(document)
        return {index.find(str(name)).name: str(name) for name in stated}
    sent = {(edge.sender, edge.sender_port) for edge in graph.edges}
    ports = [(n.id, p.id) for n in graph.nodes for p in n.output_ports]
    unsent = [port for port in ports if port not in sent] if ports else _parameters(graph)
    return {f"{node}.{part}": f"{node}.{part}" for node, part in unsent}


def refuse_without_outputs(document: Document, outputs: Collection[Any]) -> None:
    """Refuse a model of which a run gives nothing: no node has an output port, or all feed others.

    Raises:
        ModelError: what to add or to name.
    """
    if outputs:
        return
    graph = document.graph
    ports = [f"{node.id}.{port.id}" for node in graph.nodes for port in node.output_ports]
    if not ports:
        raise ModelError(
            f"there is nothing to compute: '{graph.id}' has no output ports",
            document.where,
            "add an output port, or name what a run is to give: record=['node.parameter'] "
            "(--record node.parameter)",
        )
    port_list = ", ".join(ports[:3]) + (", ..." if len(ports) > 3 else "")
    raise ModelError(
        f"there is nothing to compute: all output ports of '{graph.id}' feed nodes, so none is an "
        "output of the graph",
        document.where,
        f"name the outputs in the metadata of the graph, metadata: {{outputs: [{port_list}]}}, or "
        f"what a run is to give, record=['{ports[0]}'] (--record {ports[0]})",
    )


def _parameters(graph: Any) -> list[tuple[str, str]]:
    """Return the parameters of all nodes, without those that hold graphs."""
    graphs = {
        (node.id, name)
        for node in graph.nodes
        for item in (*node.functions, *node.parameters)
        for name in parameters_with_bodies(item, node)
    }
    named = [(node.id, parameter.id) for node in graph.nodes for parameter in node.parameters]
    return [name for name in named if name not in graphs]


OUTPUTS = Selection()
"""The model's outputs."""


def named_items(document: Document, selection: Selection = OUTPUTS) -> dict[str, Item]:
    """Return the requested items by their names in results. The model may name its own outputs.

    Raises:
        UnknownNameError: something is named that the model does not have.
    """
    index = _index(document)
    if not index.outputs:
        names = output_names(document)
        index.outputs = {shown_name: index.find(name) for shown_name, name in names.items()}
    outputs = index.outputs
    own = {item: shown_name for shown_name, item in reversed(outputs.items())}
    more = [index.find(name) for name in (*(selection.only or ()), *selection.named)]
    chosen = outputs if selection.only is None else {}
    known = set(chosen.values())
    return {**chosen, **{own.get(item, item.name): item for item in more if item not in known}}


def stated_shapes(document: Document) -> dict[str, tuple[int, ...]]:
    """Return the stated shapes of output ports, by the name in results."""
    ports = {(n.id, p.id): p.shape for n in document.graph.nodes for p in n.output_ports}
    shapes = {name: ports.get((i.node, i.id)) for name, i in named_items(document).items()}
    return {name: tuple(shape) for name, shape in shapes.items() if shape}
