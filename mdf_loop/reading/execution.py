"""Conversion of one execution of a node to operations on the current values of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from mdf_loop.document.parts import Graph, InputPort, Node
from mdf_loop.errors import LoopError, Poisoned, ScopeError
from mdf_loop.ir import Value
from mdf_loop.lower import Term, tensor
from mdf_loop.reading.memory import Memory, State
from mdf_loop.reading.node import Context, ExecutionPoint, NodeReader
from mdf_loop.reading.ports import Ports


class Executor:
    """Builder of the operations that execute a graph's nodes, one node execution at a time.

    `dt` is the time that passes in each execution, or None.
    """

    def __init__(
        self, graph: Graph, where: str, ports: Ports, context: Context, dt: Value | None
    ) -> None:
        self.nodes = {node.id: node for node in graph.nodes}
        self.where = where
        self.ports = ports
        self.context = context
        self.dt = dt

    def execute(self, node_id: str, memory: Memory) -> None:
        """Append the operations that execute a node once, and store the node's new values."""
        node = self.nodes[node_id]
        node_path = f"{self.where}.nodes['{node_id}']"
        port_values: dict[str, Term | Callable[[], Term]] = {}
        for port in node.input_ports:
            if port.id in port_values:
                raise ScopeError(
                    f"two input ports of node '{node_id}' have the id '{port.id}'",
                    node_path,
                    "rename one",
                )
            port_values[port.id] = self._read_port(
                memory, node, port, f"{node_path}.input_ports['{port.id}']"
            )

        def old(parameter: str) -> Term:
            return memory.get(("parameter", node_id, parameter))

        execution_point = ExecutionPoint(memory.has_run(node_id), old, self.dt)
        node_reader = NodeReader(
            memory.b, node, node_path, port_values, self.context, execution_point
        )
        for port_id, term in node_reader.read().items():
            memory.put(("output", node_id, port_id), term)
        for parameter in node.parameters:
            memory.put(
                ("parameter", node_id, parameter.id), partial(node_reader.scope.get, parameter.id)
            )
        for function in node.functions:
            memory.put(
                ("function", node_id, function.id), partial(node_reader.scope.get, function.id)
            )
        memory.record_run(node_id)

    def _read_port(
        self, memory: Memory, node: Node, port: InputPort, path: str
    ) -> Term | Callable[[], Term]:
        """Return the value of an input port, or a function that raises if the conversion failed."""
        b = memory.b
        with b.findings.catch(), b.at(path, f"{node.id}.{port.id}"):
            port_term = self.ports.read_port(memory, node, port, path)
            b.values_by_path[path] = port_term
            return port_term
        return _raise_poisoned

    def learn_types(self, memory: Memory, order: Iterable[str]) -> None:
        """Record the types of all node results by converting each node with a temporary builder.

        The program does not contain the operations of the temporary builder.
        """
        scratch_memory = Memory(memory.b.body())
        for node in order:
            with memory.b.findings.catch():
                self.execute(node, scratch_memory)
        memory.b.findings.raise_any()
        for state in list(scratch_memory.stored_values):
            try:
                memory.carried_types.widen(
                    state, tensor(scratch_memory.b, scratch_memory.get(state))
                )
            except (LoopError, Poisoned):
                continue  # a tuple of results or a graph cannot be carried


def _raise_poisoned() -> Term:
    """Raise `Poisoned` for an input port without a value, whose error is already recorded."""
    raise Poisoned


def list_state_keys(node: Node, kinds: Iterable[str] = ("output",)) -> list[State]:
    """Return the keys under which the values of a node's outputs or parameters are stored.

    `kinds` has "output", "parameter" or both.
    """
    node_states: list[State] = []
    if "output" in kinds:
        node_states += [("output", node.id, port.id) for port in node.output_ports]
    if "parameter" in kinds:
        node_states += [("parameter", node.id, parameter.id) for parameter in node.parameters]
    return node_states
