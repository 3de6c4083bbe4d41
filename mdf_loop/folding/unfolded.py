"""Unfolding: replace a loop node with a constant number of iterations by copies of its body's nodes.

    x -> loop 3 [ A -> B ] -> out     x -> loop_in -> A_1 -> B_1 -> A_2 -> ... -> B_3 -> loop -> out

    unfold(graph, loop="loop")

The new node `loop_in` has the initial values, the captured values and the iteration numbers. The
node `loop` remains, and only collects the outputs under their names and stacks recorded rows. The
unfolded graph computes the same numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.arguments import text
from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.folding.flat import Content, FlatGraph, Port, open_flat_graph, unique_name
from mdf_loop.folding.loops import (
    UnfoldableLoop,
    find_unfoldable_loop,
    unfold_error,
    without_unused_parts,
)
from mdf_loop.importing.opening import Source
from mdf_loop.lower.syntax import names_in, parse
from mdf_loop.public_call import public_call
from mdf_loop.reading.names import output_names

_MAX_ITERATIONS = 1000
"""Default maximum number of iterations. A graph with more copies is not readable."""


@public_call
def unfold(source: Source, loop: str, *, most: int = _MAX_ITERATIONS) -> Any:
    """Return the model with a loop node replaced by a copy of the body for each iteration.

    Args:
        source: A path, a modeci_mdf Model or Graph, or a dict.
        loop: The id of the loop node, or `node.function` if the node has several loops.
        most: The maximum number of iterations to unfold.

    Returns:
        A new modeci_mdf Model. The source is left unchanged.

    Raises:
        LoopError: The loop does not exist, or its number of iterations is not constant.
    """
    graph = open_flat_graph(source)
    unfoldable_loop = find_unfoldable_loop(graph, text(loop, "loop", "loop='node'"), most)
    return _Unfolder(graph, unfoldable_loop).build_model()


class _Iteration(Struct, frozen=True):
    """Unfolded iteration: its number, and the source port of each carried value, by name."""

    number: int
    sources: Mapping[str, Port]


class _Unfolder:
    """Builder of the unfolded graph."""

    def __init__(self, graph: FlatGraph, loop: UnfoldableLoop) -> None:
        self.graph = graph
        self.loop = loop
        used_ids = [*graph.nodes]
        self.entry_id = unique_name(f"{loop.node}_in", used_ids)
        used_ids.append(self.entry_id)
        self.copies: dict[tuple[str, int], str] = {}
        for number in range(1, loop.count + 1):
            for name in loop.nodes:
                self.copies[name, number] = unique_name(f"{name}_{number}", used_ids)
                used_ids.append(self.copies[name, number])
        self.nodes: Content = {}
        self.edges: Content = {}
        self.entry_outputs: Content = {}  # values of the entry node's output ports
        self.functions: Content = {}
        self.parameters: Content = {}

    def build_model(self) -> Any:
        """Return the whole model, with copies of the body's nodes in place of the loop."""
        loop = self.loop
        carried_ports = [self._initial_port(k) for k in range(len(loop.signature.enters))]
        recorded_ports: list[list[Port]] = [[] for _ in loop.signature.rows]
        for number in range(1, loop.count + 1):
            iteration = _Iteration(
                number, dict(zip(loop.signature.enters, carried_ports, strict=True))
            )
            self._copy_body(iteration)
            carried_ports = [self._output_port(name, iteration) for name in loop.signature.leaves]
            for row, name in zip(recorded_ports, loop.signature.rows, strict=True):
                row.append(self._output_port(name, iteration))
        collector = self._build_collector(carried_ports, recorded_ports)
        return self._build_unfolded_model(collector)

    # --- inputs of the body -------------------------------------------------------------------------

    def _initial_port(self, k: int) -> Port:
        """Return the port of an initial value, typed so that later operations keep its dtype."""
        name = self.loop.signature.enters[k]
        port = unique_name(f"{name}_0", [*self.loop.own_names, *self.entry_outputs])
        value = self.loop.initial_values[k]
        if self.loop.declares_type(name):
            self.entry_outputs[port] = value
        else:
            function_id = unique_name(f"initial_{name}", [*self.loop.own_names, *self.functions])
            self.functions[function_id] = {"function": "onnx::Identity", "args": {"input": value}}
            self.entry_outputs[port] = function_id
        return self.entry_id, port

    def _number_port(self, number: int) -> Port:
        return self._typed_port(f"iteration_{number}", number, "int64")

    def _typed_port(self, name: str, value: Any, dtype: str) -> Port:
        """Return the output port of the entry node for a constant of dtype `dtype`."""
        if name not in self.entry_outputs:
            parameter_id = unique_name(f"{name}_value", self.loop.own_names)
            self.parameters[parameter_id] = {"value": value, "metadata": {"dtype": dtype}}
            self.entry_outputs[name] = parameter_id
        return self.entry_id, name

    def _captured_port(self, name: str) -> Port:
        self.entry_outputs.setdefault(name, self.loop.bindings.get(name, name))
        return self.entry_id, name

    # --- one iteration ------------------------------------------------------------------------------

    def _copy_body(self, iteration: _Iteration) -> None:
        iteration_number = iteration.number
        fed_ports = {(e["receiver"], e["receiver_port"]) for e in self.loop.edges.values()}
        for name, content in self.loop.nodes.items():
            copy_id = self.copies[name, iteration_number]
            ports = dict(content.get("input_ports") or {})
            for name_read in self.loop.names_without_port(name):
                ports[name_read] = {}
            for port in ports:
                source = None if (name, port) in fed_ports else self._source_port(port, iteration)
                if source is not None:
                    port_content = ports[port] or {}
                    ports[port] = {k: v for k, v in port_content.items() if k != "default_value"}
                    self._add_edge(source, (copy_id, port))
            self.nodes[copy_id] = {**content, "input_ports": ports} if ports else content
        for edge_id, edge in self.loop.edges.items():
            edge_ends = {
                end: self.copies[edge[end], iteration_number] for end in ("sender", "receiver")
            }
            used_ids = [*self.edges, *(edge.id for edge in self.graph.edges)]
            self.edges[unique_name(f"{edge_id}_{iteration_number}", used_ids)] = {
                **edge,
                **edge_ends,
            }

    def _source_port(self, name: str, iteration: _Iteration) -> Port | None:
        if name in iteration.sources:
            return iteration.sources[name]
        if name == self.loop.signature.iteration:
            return self._number_port(iteration.number - 1)
        if name == self.loop.signature.condition_in:
            return self._typed_port("go_on", True, "bool")
        return self._captured_port(name) if name in self.loop.captured_names else None

    def _output_port(self, name: str, iteration: _Iteration) -> Port:
        """Return the port that computes an output of the body in one iteration."""
        port = self.loop.find_output(name)
        if port is not None:
            return self.copies[port[0], iteration.number], port[1]
        source = self._source_port(name, iteration)
        if source is None:
            raise ModelError(f"the body has no output '{name}'", self.loop.where)
        return source

    def _add_edge(self, source: Port, target: Port) -> None:
        used_ids = [*self.edges, *(edge.id for edge in self.graph.edges)]
        self.edges[unique_name(f"{'_'.join(source)}_to_{'_'.join(target)}", used_ids)] = {
            "sender": source[0],
            "sender_port": source[1],
            "receiver": target[0],
            "receiver_port": target[1],
        }

    # --- outputs of the loop ------------------------------------------------------------------------

    def _build_collector(self, values: Sequence[Port], rows: Sequence[Sequence[Port]]) -> Content:
        """Return the node that collects the loop's outputs."""
        loop = self.loop
        ports: Content = {}
        result_names: list[str] = []
        for name, source in zip(loop.signature.leaves, values, strict=True):
            result_names.append(self._add_input(ports, f"last_{name}", source))
        for name, sources in zip(loop.signature.rows, rows, strict=True):
            if loop.keeps_last(name):
                result_names.append(self._add_input(ports, f"last_{name}", sources[-1]))
                continue
            rows_read = [self._add_input(ports, f"{name}_{k}", s) for k, s in enumerate(sources, 1)]
            result_names.append(loop.stack_expression(name, rows_read))
        output_ports = {
            port: {**content, "value": self._with_result_names(content.get("value"), result_names)}
            for port, content in loop.outputs.items()
        }
        own_content = loop.own_content()
        inputs = {**own_content["input_ports"], **ports}
        return without_unused_parts(
            {**own_content, "input_ports": inputs, "output_ports": output_ports}
        )

    def _add_input(self, ports: Content, base: str, source: Port) -> str:
        identifier = "".join(c if c.isalnum() else "_" for c in base)
        name = unique_name(identifier, [*self.loop.own_names, *self.loop.outputs, *ports])
        ports[name] = {}
        self._add_edge(source, (self.loop.node, name))
        return name

    def _with_result_names(self, value: Any, result_names: Sequence[str]) -> Any:
        """Return an output expression with new names for the results of the loop."""
        function = self.loop.function
        if not isinstance(value, str) or function not in {n.split(".")[0] for n in names_in(value)}:
            return value
        renamed_tree = _ResultNames(function, result_names, self.loop).visit(parse(value))
        return ast.unparse(ast.fix_missing_locations(renamed_tree))

    def _build_unfolded_model(self, collector: Content) -> Any:
        graph, loop = self.graph, self.loop
        own_content = loop.own_content()
        entry_node = without_unused_parts(
            {
                **own_content,
                "functions": {**own_content.get("functions", {}), **self.functions},
                "parameters": {**own_content.get("parameters", {}), **self.parameters},
                "output_ports": {
                    name: {"value": value} for name, value in self.entry_outputs.items()
                },
            }
        )
        nodes: Content = {}
        for name, content in graph.nodes.items():
            if name == loop.node:
                nodes |= {self.entry_id: entry_node, **self.nodes, name: collector}
            else:
                nodes[name] = content
        edges: Content = {}
        for edge in graph.edges:
            if edge.receiver[0] != loop.node or edge.receiver[1] in collector["input_ports"]:
                edges[edge.id] = dict(edge.content)
            if edge.receiver[0] == loop.node and edge.receiver[1] in entry_node["input_ports"]:
                name = edge.id
                if name in edges:
                    name = unique_name(f"{edge.id}_in", [*edges, *self.edges])
                edges[name] = edge.content_between(edge.sender, (self.entry_id, edge.receiver[1]))
        metadata = {**(graph.graph.get("metadata") or {})}
        metadata.setdefault("outputs", list(output_names(self.loop.document)))
        edges |= {
            name: edge
            for name, edge in self.edges.items()
            if edge["receiver"] != loop.node or edge["receiver_port"] in collector["input_ports"]
        }
        sections = {"nodes": nodes, "edges": edges, "metadata": metadata}
        return graph.with_graph(**sections)


class _ResultNames(ast.NodeTransformer):
    """Transformer that replaces `f`, `f[0]` and `f.iterations` by the names of results."""

    def __init__(self, function: str, result_names: Sequence[str], loop: UnfoldableLoop) -> None:
        self.function = function
        self.result_names = result_names
        self.loop = loop

    def _names_loop(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self.function

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace `f[0]`, a result of the loop `f`, by the name of the result."""
        has_single_result = len(self.result_names) == 1
        if has_single_result or not self._names_loop(node.value):
            return self.generic_visit(node)
        if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, int):
            raise UnsupportedError("a loop's result is taken by a number", self.loop.where)
        return ast.parse(self.result_names[node.slice.value], mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace `f.iterations`, the iteration count of the loop `f`."""
        if not self._names_loop(node.value):
            return self.generic_visit(node)
        if node.attr != "iterations":
            raise unfold_error(self.loop.where, f"an output reads '{self.function}.{node.attr}'")
        return ast.Constant(self.loop.count)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace `f`, the name of a loop with one result, by the name of the result."""
        if not self._names_loop(node):
            return node
        if len(self.result_names) != 1:
            raise unfold_error(self.loop.where, "an output reads all of its results at once")
        return ast.parse(self.result_names[0], mode="eval").body
