"""Unfolding: replace a loop node with a constant trip count by copies of its body's nodes.

    x -> loop 3 [ A -> B ] -> out     x -> loop_in -> A_1 -> B_1 -> A_2 -> ... -> B_3 -> loop -> out

    unfold(graph, loop="loop")

The new node `loop_in` has the initial values, the captured values and the iteration numbers. The
node `loop` remains, and only collects the outputs under their names and stacks recorded rows. The
unfolded graph computes the same numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from msgspec import Struct

from mdf_loop.arguments import text
from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.folding.flat_graph import Content, FlatGraph, Port, open_flat_graph, unique_name
from mdf_loop.folding.loops import (
    LoopToUnfold,
    find_loop_to_unfold,
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
def unfold(source: Source, loop: str, *, most: int = _MAX_ITERATIONS) -> DocumentValue:
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
    flat_graph = open_flat_graph(source)
    loop_to_unfold = find_loop_to_unfold(flat_graph, text(loop, "loop", "loop='node'"), most)
    return _Unfolder(flat_graph, loop_to_unfold).build_model()


class _Iteration(Struct, frozen=True):
    """One iteration of the unfolded loop: its number, and the source port of each carried value."""

    iteration_number: int
    carried_source_ports: Mapping[str, Port]


class _Unfolder:
    """Builder of the unfolded graph."""

    def __init__(self, graph: FlatGraph, loop: LoopToUnfold) -> None:
        self.graph = graph
        self.loop = loop
        used_ids = [*graph.contents_of_nodes]
        self.entry_id = unique_name(f"{loop.node_id}_in", used_ids)
        used_ids.append(self.entry_id)
        self.copy_ids: dict[tuple[str, int], str] = {}
        for iteration_number in range(1, loop.iteration_count + 1):
            for node_id in loop.nodes:
                self.copy_ids[node_id, iteration_number] = unique_name(
                    f"{node_id}_{iteration_number}", used_ids
                )
                used_ids.append(self.copy_ids[node_id, iteration_number])
        self.nodes: Content = {}
        self.edges: Content = {}
        self.entry_outputs: Content = {}  # values of the entry node's output ports
        self.functions: Content = {}
        self.parameters: Content = {}

    def build_model(self) -> DocumentValue:
        """Return the whole model, with copies of the body's nodes in place of the loop."""
        loop = self.loop
        carried_ports = [self._initial_port(k) for k in range(len(loop.signature.carried_inputs))]
        recorded_ports: list[list[Port]] = [[] for _ in loop.signature.recorded_outputs]
        for iteration_number in range(1, loop.iteration_count + 1):
            current_iteration = _Iteration(
                iteration_number,
                dict(zip(loop.signature.carried_inputs, carried_ports, strict=True)),
            )
            self._copy_body(current_iteration)
            carried_ports = [
                self._output_port(name, current_iteration)
                for name in loop.signature.carried_outputs
            ]
            for recording_ports, recording_name in zip(
                recorded_ports, loop.signature.recorded_outputs, strict=True
            ):
                recording_ports.append(self._output_port(recording_name, current_iteration))
        collector_node = self._build_collector(carried_ports, recorded_ports)
        return self._build_unfolded_model(collector_node)

    # --- inputs of the body -------------------------------------------------------------------------

    def _initial_port(self, carried_index: int) -> Port:
        """Return the output port that provides the initial value of a carried value.

        The port is typed, so that later operations keep the dtype of the initial value.
        """
        input_name = self.loop.signature.carried_inputs[carried_index]
        port_id = unique_name(f"{input_name}_0", [*self.loop.node_part_ids, *self.entry_outputs])
        initial_value = self.loop.initial_values[carried_index]
        if self.loop.declares_type(input_name):
            self.entry_outputs[port_id] = initial_value
        else:
            function_id = unique_name(
                f"initial_{input_name}", [*self.loop.node_part_ids, *self.functions]
            )
            self.functions[function_id] = {
                "function": "onnx::Identity",
                "args": {"input": initial_value},
            }
            self.entry_outputs[port_id] = function_id
        return self.entry_id, port_id

    def _iteration_number_port(self, iteration_number: int) -> Port:
        return self._typed_port(f"iteration_{iteration_number}", iteration_number, "int64")

    def _typed_port(self, name: str, value: DocumentValue, dtype: str) -> Port:
        """Return an output port that provides a constant of dtype `dtype`."""
        if name not in self.entry_outputs:
            parameter_id = unique_name(f"{name}_value", self.loop.node_part_ids)
            self.parameters[parameter_id] = {"value": value, "metadata": {"dtype": dtype}}
            self.entry_outputs[name] = parameter_id
        return self.entry_id, name

    def _captured_port(self, name: str) -> Port:
        self.entry_outputs.setdefault(name, self.loop.bindings.get(name, name))
        return self.entry_id, name

    # --- one iteration ------------------------------------------------------------------------------

    def _copy_body(self, iteration: _Iteration) -> None:
        iteration_number = iteration.iteration_number
        ports_with_edge = {
            (edge_content["receiver"], edge_content["receiver_port"])
            for edge_content in self.loop.edges.values()
        }
        for node_id, node_content in self.loop.nodes.items():
            node_copy_id = self.copy_ids[node_id, iteration_number]
            input_ports = dict(node_content.get("input_ports") or {})
            for name_read in self.loop.names_without_port(node_id):
                input_ports[name_read] = {}
            for port_id in input_ports:
                source_port = (
                    None
                    if (node_id, port_id) in ports_with_edge
                    else self._source_port(port_id, iteration)
                )
                if source_port is not None:
                    port_content = input_ports[port_id] or {}
                    input_ports[port_id] = {
                        field_name: field_content
                        for field_name, field_content in port_content.items()
                        if field_name != "default_value"
                    }
                    self._add_edge(source_port, (node_copy_id, port_id))
            self.nodes[node_copy_id] = (
                {**node_content, "input_ports": input_ports} if input_ports else node_content
            )
        for edge_id, edge in self.loop.edges.items():
            edge_ends = {
                end: self.copy_ids[edge[end], iteration_number] for end in ("sender", "receiver")
            }
            used_ids = [*self.edges, *(edge.id for edge in self.graph.edges)]
            self.edges[unique_name(f"{edge_id}_{iteration_number}", used_ids)] = {
                **edge,
                **edge_ends,
            }

    def _source_port(self, name: str, iteration: _Iteration) -> Port | None:
        if name in iteration.carried_source_ports:
            return iteration.carried_source_ports[name]
        if name == self.loop.signature.iteration:
            return self._iteration_number_port(iteration.iteration_number - 1)
        if name == self.loop.signature.condition_in:
            return self._typed_port("go_on", True, "bool")
        return self._captured_port(name) if name in self.loop.captured_names else None

    def _output_port(self, name: str, iteration: _Iteration) -> Port:
        """Return the port that computes an output of the body in one iteration."""
        output_port = self.loop.find_output(name)
        if output_port is not None:
            return self.copy_ids[output_port[0], iteration.iteration_number], output_port[1]
        source_port = self._source_port(name, iteration)
        if source_port is None:
            raise ModelError(f"the body has no output '{name}'", self.loop.mdf_path)
        return source_port

    def _add_edge(self, source: Port, target: Port) -> None:
        used_ids = [*self.edges, *(edge.id for edge in self.graph.edges)]
        self.edges[unique_name(f"{'_'.join(source)}_to_{'_'.join(target)}", used_ids)] = {
            "sender": source[0],
            "sender_port": source[1],
            "receiver": target[0],
            "receiver_port": target[1],
        }

    # --- outputs of the loop ------------------------------------------------------------------------

    def _build_collector(
        self, carried_ports: Sequence[Port], recorded_ports: Sequence[Sequence[Port]]
    ) -> Content:
        """Return the node that collects the loop's outputs."""
        loop = self.loop
        input_ports: Content = {}
        result_names: list[str] = []
        for output_name, source_port in zip(
            loop.signature.carried_outputs, carried_ports, strict=True
        ):
            result_names.append(self._add_input(input_ports, f"last_{output_name}", source_port))
        for output_name, row_ports in zip(
            loop.signature.recorded_outputs, recorded_ports, strict=True
        ):
            if loop.keeps_last(output_name):
                result_names.append(
                    self._add_input(input_ports, f"last_{output_name}", row_ports[-1])
                )
                continue
            rows_read = [
                self._add_input(input_ports, f"{output_name}_{iteration_number}", row_port)
                for iteration_number, row_port in enumerate(row_ports, 1)
            ]
            result_names.append(loop.stack_expression(output_name, rows_read))
        output_ports = {
            port_id: {
                **port_content,
                "value": self._with_result_names(port_content.get("value"), result_names),
            }
            for port_id, port_content in loop.outputs.items()
        }
        node_content = loop.content_without_loop()
        all_input_ports = {**node_content["input_ports"], **input_ports}
        return without_unused_parts(
            {**node_content, "input_ports": all_input_ports, "output_ports": output_ports}
        )

    def _add_input(self, input_ports: Content, base_name: str, source: Port) -> str:
        identifier = "".join(character if character.isalnum() else "_" for character in base_name)
        name = unique_name(identifier, [*self.loop.node_part_ids, *self.loop.outputs, *input_ports])
        input_ports[name] = {}
        self._add_edge(source, (self.loop.node_id, name))
        return name

    def _with_result_names(
        self, value: DocumentValue, result_names: Sequence[str]
    ) -> DocumentValue:
        """Rename the results of the loop in an output expression."""
        function_id = self.loop.function_id
        if not isinstance(value, str) or function_id not in {
            name.split(".")[0] for name in names_in(value)
        }:
            return value
        renamed_tree = _ResultNames(function_id, result_names, self.loop).visit(parse(value))
        return ast.unparse(ast.fix_missing_locations(renamed_tree))

    def _build_unfolded_model(self, collector_node: Content) -> DocumentValue:
        graph, loop = self.graph, self.loop
        node_content = loop.content_without_loop()
        entry_node = without_unused_parts(
            {
                **node_content,
                "functions": {**node_content.get("functions", {}), **self.functions},
                "parameters": {**node_content.get("parameters", {}), **self.parameters},
                "output_ports": {
                    name: {"value": expression} for name, expression in self.entry_outputs.items()
                },
            }
        )
        new_nodes: Content = {}
        for node_id, node_content in graph.contents_of_nodes.items():
            if node_id == loop.node_id:
                new_nodes |= {self.entry_id: entry_node, **self.nodes, node_id: collector_node}
            else:
                new_nodes[node_id] = node_content
        new_edges: Content = {}
        for edge in graph.edges:
            if (
                edge.receiver[0] != loop.node_id
                or edge.receiver[1] in collector_node["input_ports"]
            ):
                new_edges[edge.id] = dict(edge.content)
            if edge.receiver[0] == loop.node_id and edge.receiver[1] in entry_node["input_ports"]:
                edge_id = edge.id
                if edge_id in new_edges:
                    edge_id = unique_name(f"{edge.id}_in", [*new_edges, *self.edges])
                new_edges[edge_id] = edge.content_with_ports(
                    edge.sender, (self.entry_id, edge.receiver[1])
                )
        graph_metadata = {**(graph.graph_content.get("metadata") or {})}
        graph_metadata.setdefault("outputs", list(output_names(self.loop.document)))
        new_edges |= {
            edge_id: edge
            for edge_id, edge in self.edges.items()
            if edge["receiver"] != loop.node_id
            or edge["receiver_port"] in collector_node["input_ports"]
        }
        new_sections = {"nodes": new_nodes, "edges": new_edges, "metadata": graph_metadata}
        return graph.with_graph(**new_sections)


class _ResultNames(ast.NodeTransformer):
    """Transformer that replaces `f`, `f[0]` and `f.iterations` by the names of results."""

    def __init__(self, function: str, result_names: Sequence[str], loop: LoopToUnfold) -> None:
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
            raise UnsupportedError("a loop's result is taken by a number", self.loop.mdf_path)
        return ast.parse(self.result_names[node.slice.value], mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace `f.iterations`, the iteration count of the loop `f`."""
        if not self._names_loop(node.value):
            return self.generic_visit(node)
        if node.attr != "iterations":
            raise unfold_error(self.loop.mdf_path, f"an output reads '{self.function}.{node.attr}'")
        return ast.Constant(self.loop.iteration_count)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace `f`, the name of a loop with one result, by the name of the result."""
        if not self._names_loop(node):
            return node
        if len(self.result_names) != 1:
            raise unfold_error(self.loop.mdf_path, "an output reads all of its results at once")
        return ast.parse(self.result_names[0], mode="eval").body
