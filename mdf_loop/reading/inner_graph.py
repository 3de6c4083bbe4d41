"""Conversion of the graph of a loop body or a branch to operations.

A free input port of the graph reads the first of these that exists: an input of the graph, a value of the
enclosing scope (a capture), its own default_value. A port with none of them is an error.
"""

from __future__ import annotations

from mdf_loop.document.document import Document
from mdf_loop.document.parts import Graph, InputPort, Node
from mdf_loop.errors import ScopeError, UnknownNameError, UnsupportedError
from mdf_loop.ir import Value
from mdf_loop.lower import Scope, Term, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.memory import Memory
from mdf_loop.reading.node import Context
from mdf_loop.reading.owned_graph import OwnedGraph
from mdf_loop.reading.parameters import is_stateful
from mdf_loop.reading.port_types import cast_iteration, convert_port_value
from mdf_loop.reading.port_values import lower_default


class InnerGraph:
    """Converter of the graph of a loop body or a branch to operations.

    Errors in the graph are added to the builder's findings.

    Attributes:
        scope: Inputs of the graph, and the outer values that it may capture.
        iteration: Iteration number, if the graph is the body of a loop.
    """

    def __init__(
        self,
        b: ModelBuilder,
        owned: OwnedGraph,
        scope: Scope,
        document: Document,
        *,
        strict: bool = False,
        iteration: Value | None = None,
    ) -> None:
        self.b = b
        self.iteration = iteration
        self.graph = owned.graph
        self.where = owned.where
        self.role = owned.role
        self.scope = scope
        self.is_strict = strict
        self._refuse_states()
        function_call_site = b.call_site
        graph_path = (
            f"{function_call_site.graph_path}.{function_call_site.item_path}.{owned.role.argument}"
        )
        context = Context(document, scope, graph_path)
        self.reader = GraphReader(
            self.graph, self.where, self._read_free_port, context, Memory(b)
        ).read()

    def value(self, name: str) -> Value:
        """Return the value of an output of the graph by the output's name.

        The name denotes an output port, or a value of the enclosing scope that the graph returns unchanged.

        Raises:
            Poisoned: If the value could not be read.
            ScopeError: If several ports have the name.
            UnknownNameError: If no port or outer value has the name.
        """
        return tensor(self.b, self._find_output(name))

    def _find_output(self, name: str) -> Term:
        """Return the value, or tuple of values, of an output of the graph by its name."""
        output_ports = list_output_ports(self.graph)
        matching_ports = [
            output_port
            for output_port in output_ports
            if name in (output_port[1], ".".join(output_port))
        ]
        if len(matching_ports) > 1:
            port_names_text = ", ".join(
                repr(".".join(output_port)) for output_port in matching_ports
            )
            raise ScopeError(
                f"the output '{name}' of {self.role.description} could be {port_names_text}",
                hint="write node.port in metadata.outputs",
            )
        if matching_ports:
            return self.reader.output(*matching_ports[0])
        outer_term = self.scope.find(name)
        if outer_term is None:
            raise UnknownNameError(
                f"{self.role.description} has no output port '{name}' (named in metadata.outputs)",
                hint=suggest(name, (*(port for _, port in output_ports), *self.scope.names())),
            )
        return outer_term

    def _read_free_port(self, node: Node, port: InputPort, where: str) -> Term:
        """Return the value of an input port that no edge feeds."""
        outer_term = self.scope.find(port.id)
        if outer_term is None and port.default_value is not None:
            return lower_default(self.b, port, where)
        if outer_term is None:
            raise self._unbound_error(node, port, where)
        if isinstance(outer_term, tuple):
            return outer_term
        convert_term = cast_iteration if outer_term is self.iteration else convert_port_value
        return convert_term(self.b, port, outer_term)

    def _unbound_error(self, node: Node, port: InputPort, where: str) -> ScopeError:
        """Return the error for an input port without an edge and without a value."""
        port_text = f"the input port '{port.id}' of node '{node.id}' in {self.role.description}"
        if self.is_strict:
            return ScopeError(
                f"{port_text} is not declared, and the body is strict",
                where,
                f"carry or slice it, or add {port.id}: {port.id} to the loop's args",
            )
        advice = "name it in metadata.inputs, " if self.role.noun == "body" else ""
        return ScopeError(
            f"{port_text} is bound to nothing",
            where,
            suggest(port.id, self.scope.names())
            or f"{advice}give the node that owns the {self.role.noun} a port of that name, or give "
            "it a default_value",
        )

    def _refuse_states(self) -> None:
        """Raise an error for each stateful parameter, because loop bodies and branches keep no state."""
        role_text, role_noun = self.role.description, self.role.noun
        for node in self.graph.nodes:
            for parameter in filter(is_stateful, node.parameters):
                with self.b.findings.catch():
                    raise UnsupportedError(
                        f"the parameter '{parameter.id}' of node '{node.id}' in {role_text} keeps a "
                        f"state, but a {role_noun} remembers nothing by itself",
                        f"{self.where}.nodes['{node.id}'].parameters['{parameter.id}']",
                        "let the loop carry it: add its initial value to v_initial, and its names "
                        "to the body's metadata.inputs and metadata.outputs"
                        if self.role.owner_kind == "loop"
                        else f"keep the state outside, and let the {role_noun} read it by its name",
                    )


def list_output_ports(graph: Graph) -> list[tuple[str, str]]:
    """Return the output ports of a graph, as (node, port)."""
    return [(node.id, port.id) for node in graph.nodes for port in node.output_ports]
