"""One evaluation of a graph: nodes in order, edges between them.

The order is that of modeci_mdf's default schedule: layers of nodes whose senders have all run,
graph order within a layer (there upstream's order is random). An edge into a port that has a
default_value makes no one wait; before its sender has run, the port has its default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdf_loop.build import Builder
from mdf_loop.errors import (
    CycleError,
    ModelError,
    Poisoned,
    ScopeError,
    UnknownNameError,
    UnsupportedError,
)
from mdf_loop.ir import Value
from mdf_loop.lower import Scope, Term, cast, suggestion, tensor
from mdf_loop.lower.operators import add, literal, multiply
from mdf_loop.reading.document import Document
from mdf_loop.reading.given import default_value
from mdf_loop.reading.node import Later, LoopReader, NodeReader
from mdf_loop.reading.port_types import edge_dtype

Supply = Callable[[Any, Any, str], Term]
"""The value of an input port that no edge feeds: node, port, path -> value."""


class GraphReader:
    """Reads one evaluation of a graph; `outputs[node id, port id]` are the results.

    An output whose computation has an error is missing; the error is among the findings.
    """

    def __init__(
        self,
        b: Builder,
        graph: Any,
        where: str,
        supply: Supply,
        outer: Scope | None,
        document: Document,
        read_loop: LoopReader,
        later: Later | None = None,
    ) -> None:
        self.b = b
        self.graph = graph
        self.where = where
        self.supply = supply
        self.outer = outer
        self.document = document
        self.read_loop = read_loop
        self.later = later
        self.nodes = {node.id: node for node in graph.nodes}
        self.fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
        self.outputs: dict[tuple[str, str], Term] = {}
        self.readers: dict[str, NodeReader] = {}

    def read(self) -> GraphReader:
        """Read all nodes; errors go to the builder's findings."""
        edges = self._usable_edges()
        with self.b.findings.catch():
            self._refuse_clashes()
            refuse_conditions(self.graph, self.where)
            for node in execution_order(self.graph, edges, self.where):
                with self.b.findings.catch():
                    self._read_node(node, edges)
        return self

    def _refuse_clashes(self) -> None:
        ids = [node.id for node in self.graph.nodes]
        for repeated in [i for k, i in enumerate(ids) if i in ids[:k]]:
            raise ScopeError(
                f"two nodes have the id '{repeated}'", self.where, "rename one of them"
            )

    def _usable_edges(self) -> list[Any]:
        usable = []
        for edge in self.graph.edges:
            with self.b.findings.catch():
                self._check_edge(edge)
                usable.append(edge)
        return usable

    def _check_edge(self, edge: Any) -> None:
        where = f"{self.where}.edges['{edge.id}']"
        for end, port_name, ports in (
            ("sender", edge.sender_port, "output_ports"),
            ("receiver", edge.receiver_port, "input_ports"),
        ):
            node_id = getattr(edge, end)
            if node_id not in self.nodes:
                raise UnknownNameError(
                    f"the edge's {end} '{node_id}' is not a node of the graph",
                    where,
                    suggestion(node_id, self.nodes),
                )
            known = [port.id for port in getattr(self.nodes[node_id], ports)]
            if port_name not in known:
                kind = "output" if ports == "output_ports" else "input"
                raise UnknownNameError(
                    f"the edge's {end} '{node_id}' has no {kind} port '{port_name}'",
                    where,
                    suggestion(port_name, known),
                )

    # --- nodes and their ports ------------------------------------------------------------------

    def _read_node(self, node: Any, edges: list[Any]) -> None:
        where = f"{self.where}.nodes['{node.id}']"
        ports: dict[str, Term | Callable[[], Term]] = {}
        for port in node.input_ports:
            if port.id in ports:
                raise ScopeError(
                    f"two input ports of node '{node.id}' have the id '{port.id}'",
                    where,
                    "rename one",
                )
            arriving = [
                edge
                for edge in edges
                if (edge.receiver, edge.receiver_port) == (node.id, port.id)
                and (edge.sender in self.readers or self.later is not None)
            ]
            ports[port.id] = self._port_term(node, port, arriving, where)
        reader = NodeReader(
            self.b, node, where, ports, self.outer, self.document, self.read_loop, self.later
        )
        self.readers[node.id] = reader
        for port_id, term in reader.read().items():
            self.outputs[node.id, port_id] = term

    def _port_term(
        self, node: Any, port: Any, arriving: list[Any], where: str
    ) -> Term | Callable[[], Term]:
        path = f"{where}.input_ports['{port.id}']"
        with self.b.findings.catch(), self.b.at(path, f"{node.id}.{port.id}"):
            if arriving:
                term = self._arrived(port, arriving)
            elif (node.id, port.id) in self.fed:
                term = self._before_arrival(port, path)
            else:
                term = self.supply(node, port, path)
            self.b.types[path] = term
            return term
        return _raise_poisoned

    def _before_arrival(self, port: Any, where: str) -> Term:
        """The value of a port whose sender has not run yet."""
        if port.default_value is None:
            raise Poisoned  # its edge is among the findings
        return default_value(self.b, port, where)

    def _arrived(self, port: Any, edges: list[Any]) -> Term:
        """The value of a port that edges feed: the last one, or the sum or product of all."""
        terms = [self._sent(edge) for edge in edges]
        match port.reduce or "overwrite":
            case "overwrite":
                term = terms[-1]
            case "add":
                term = _reduced(self.b, add, terms)
            case "multiply":
                term = _reduced(self.b, multiply, terms)
            case other:
                raise ModelError(
                    f"the port '{port.id}' has an unknown reduce mode '{other}'",
                    hint="use 'overwrite', 'add' or 'multiply'",
                )
        if isinstance(term, Value):
            return cast(self.b, term, edge_dtype(self.b, port, term))
        return term

    def _sent(self, edge: Any) -> Term:
        if self.later is not None and edge.sender not in self.readers:
            term: Term | None = self.later.sent(edge.sender, edge.sender_port)
        else:
            term = self.outputs.get((edge.sender, edge.sender_port))
        if term is None:
            raise Poisoned
        weight = (edge.parameters or {}).get("weight", 1)
        if isinstance(weight, int | float) and weight == 1:
            return term
        where = f"{self.where}.edges['{edge.id}'].parameters.weight"
        with self.b.at(where):
            if isinstance(weight, str):
                raise ModelError(f"an edge weight is a number or a list of numbers, not '{weight}'")
            return multiply(self.b, literal(self.b, weight), tensor(self.b, term))


def _raise_poisoned() -> Term:
    raise Poisoned


def _reduced(
    b: Builder, combine: Callable[[Builder, Value, Value], Value], terms: list[Term]
) -> Value:
    total = tensor(b, terms[0])
    for term in terms[1:]:
        total = combine(b, total, tensor(b, term))
    return total


def execution_order(graph: Any, edges: list[Any], where: str) -> list[Any]:
    """The nodes in the order of the default schedule.

    Raises:
        CycleError: nodes wait for each other and no port between them has a default_value.
    """
    defaults = {
        (node.id, port.id): port.default_value is not None
        for node in graph.nodes
        for port in node.input_ports
    }
    waits: dict[str, set[str]] = {node.id: set() for node in graph.nodes}
    for edge in edges:
        if not defaults[edge.receiver, edge.receiver_port]:
            waits[edge.receiver].add(edge.sender)
    order: list[Any] = []
    left = list(graph.nodes)
    while left:
        waiting = {node.id for node in left}
        layer = [node for node in left if not waits[node.id] & waiting]
        if not layer:
            circle = _circle(waits, [node.id for node in left])
            raise CycleError(
                f"the nodes {', '.join(repr(i) for i in circle)} wait for each other"
                if len(circle) > 1
                else f"the node '{circle[0]}' waits for itself",
                where,
                "give an input port of the circle a default_value, or write the circle as a loop",
            )
        order += layer
        left = [node for node in left if node not in layer]
    return order


def _circle(waits: dict[str, set[str]], waiting: list[str]) -> list[str]:
    """The nodes of the first circle among those that wait, in the order of the graph."""
    import networkx

    edges = [(sender, node) for node in waiting for sender in waiting if sender in waits[node]]
    components = networkx.strongly_connected_components(networkx.DiGraph(edges))
    member_of = {node: component for component in components for node in component}
    for node in waiting:
        component = member_of.get(node, set())
        if len(component) > 1 or (node, node) in edges:
            return [other for other in waiting if other in component]
    return waiting


def refuse_conditions(graph: Any, where: str) -> None:
    """Scheduler conditions other than the default ones are not compiled."""
    conditions = graph.conditions
    if conditions is None:
        return
    used = {**(conditions.node_specific or {}), **(conditions.termination or {})}
    for key, condition in used.items():
        kind = (
            condition.get("type") if isinstance(condition, dict) else getattr(condition, "type", "")
        )
        if kind != "Always":
            raise UnsupportedError(
                f"the scheduler condition '{kind}' of '{key}' cannot be compiled yet",
                f"{where}.conditions",
                "run this model with modeci_mdf.execution_engine",
            )
