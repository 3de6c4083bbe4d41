"""Loop node that `unfold` expands, with its arguments, body and number of iterations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.content import content_of
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.parts import DocumentValue, Graph, Node
from mdf_loop.errors import LoopError, TripCountError, UnknownNameError, UnsupportedError
from mdf_loop.folding.flat_graph import Content, FlatGraph, Port
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.syntax import names_in, parse_number
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.loop_forms import LoopForm, order_initial_values, parse_loop
from mdf_loop.reading.parameters import is_stateful
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.signature import Signature, find_signature


class LoopToUnfold(Struct, frozen=True):
    """Loop that `unfold` can replace by nodes, because its number of iterations is constant.

    `node_part_ids` are the ids of ports, parameters and functions of the loop node. `captured_names`
    are the names in the node that the body may capture.
    """

    node_id: str
    function_id: str
    mdf_path: str
    document: Document  # document with the loop
    iteration_count: int
    signature: Signature  # order of body inputs and outputs
    initial_values: tuple[Any, ...]  # initial values of the carried values
    bindings: Mapping[str, Any]  # outer values by the names in the body
    recordings: Mapping[str, RecordingForm]  # form of each recorded output
    node_content: Content
    body_content: Content
    node_part_ids: tuple[str, ...]
    captured_names: frozenset[str]

    @property
    def nodes(self) -> dict[str, Content]:
        """Nodes of the loop's body, by id."""
        return dict(self.body_content.get("nodes") or {})

    @property
    def edges(self) -> dict[str, Content]:
        """Edges of the loop's body, by id."""
        return dict(self.body_content.get("edges") or {})

    @property
    def outputs(self) -> dict[str, Content]:
        """Output ports of the loop node."""
        return dict(self.node_content.get("output_ports") or {})

    def content_without_loop(self) -> Content:
        """Return the content of the loop node without the loop, its bodies and its outputs."""
        remaining_sections = {
            section: {
                part_name: part_content
                for part_name, part_content in (self.node_content.get(section) or {}).items()
                if part_name in self.node_part_ids and part_name != self.function_id
            }
            for section in ("input_ports", "functions", "parameters")
        }
        return {**remaining_sections}

    def find_output(self, name: str) -> Port | None:
        """Return the output port of the body that `name` denotes, or None."""
        matching_ports = [
            (node_id, port_id)
            for node_id, node_content in self.nodes.items()
            for port_id in node_content.get("output_ports") or {}
            if name in (port_id, f"{node_id}.{port_id}")
        ]
        if len(matching_ports) > 1:
            raise unfold_error(self.mdf_path, f"the body output '{name}' could be several")
        return matching_ports[0] if matching_ports else None

    def keeps_last(self, name: str) -> bool:
        """Return True if a recorded output keeps only the value of the last iteration."""
        return name in self.recordings and self.recordings[name].keeps_last_row

    def stack_expression(self, name: str, rows: Sequence[str]) -> str:
        """Return the NumPy expression that stacks a recorded output's values over all iterations."""
        recording_form = self.recordings.get(name) or RecordingForm(name)
        ordered_rows_text = ", ".join(reversed(rows) if recording_form.is_reversed else rows)
        stack_function = "numpy.concatenate" if recording_form.is_concatenated else "numpy.stack"
        return f"{stack_function}(({ordered_rows_text},), axis={recording_form.axis})"

    def declares_type(self, name: str) -> bool:
        """Return True if an input port of the body states the dtype of a carried value."""
        ports_with_name = [
            (body_node.get("input_ports") or {}).get(name) for body_node in self.nodes.values()
        ]
        return any((port_content or {}).get("type") for port_content in ports_with_name)

    def names_without_port(self, node_id: str) -> list[str]:
        """Return the names of outer-scope values that a body node reads without an input port."""
        node_content = self.nodes[node_id]
        local_names = {
            name
            for section_content in node_content.values()
            if isinstance(section_content, dict)
            for name in section_content
        }
        names_read = {name for text in _strings_in(node_content) for name in names_in(text)}
        signature = self.signature
        body_inputs = {signature.iteration, signature.condition_in, *signature.carried_inputs}
        return sorted((names_read & (self.captured_names | body_inputs)) - local_names)


def without_unused_parts(node: Content) -> Content:
    """Remove input ports, parameters and functions that no output of the node depends on."""
    content_by_part_name: dict[str, Any] = {}
    for section in ("input_ports", "functions", "parameters"):
        content_by_part_name |= node[section]
    needed_part_names: set[str] = set()
    unvisited_contents = [node["output_ports"]]
    while unvisited_contents:
        names_read = {
            name.split(".")[0]
            for text in _strings_in(unvisited_contents.pop())
            for name in names_in(text)
        }
        unvisited_part_names = (names_read & content_by_part_name.keys()) - needed_part_names
        needed_part_names |= unvisited_part_names
        unvisited_contents += [content_by_part_name[name] for name in unvisited_part_names]
    sections = {
        section: {
            name: part_content
            for name, part_content in node[section].items()
            if name in needed_part_names
        }
        for section in ("input_ports", "functions", "parameters")
    }
    nonempty_sections = {
        section: section_content for section, section_content in sections.items() if section_content
    }
    return {"input_ports": {}, **nonempty_sections, "output_ports": node["output_ports"]}


def _strings_in(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for nested_content in content.values():
            yield from _strings_in(nested_content)
    elif isinstance(content, list | tuple):
        for nested_content in content:
            yield from _strings_in(nested_content)


def unfold_error(where: str, reason: str) -> UnsupportedError:
    """Return the error for a loop that `unfold` cannot replace by nodes."""
    return UnsupportedError(f"the loop cannot be unfolded: {reason}", where, "leave it a loop")


def find_loop_to_unfold(graph: FlatGraph, name: str, max_iterations: int) -> LoopToUnfold:
    """Return the loop with the given name, after checks that `unfold` can replace it by nodes.

    The name is a node's id or `node.function`.

    Raises:
        LoopError: The loop does not exist, or cannot be unfolded.
    """
    document = open_document(graph.model_content)
    loop_owner = next(
        (
            candidate_node
            for candidate_node in document.graph.nodes
            if name in (candidate_node.id, *_loop_names(candidate_node))
        ),
        None,
    )
    loops_of_node = (
        [
            loop_function
            for loop_function in loop_owner.functions
            if graph_function(loop_function.function) == "onnx::Loop"
        ]
        if loop_owner
        else []
    )
    loops_of_node = [
        loop_function
        for loop_function in loops_of_node
        if loop_owner is not None and name in (loop_owner.id, f"{loop_owner.id}.{loop_function.id}")
    ]
    if loop_owner is None or not loops_of_node:
        nodes_with_loops = [
            loop_node.id for loop_node in document.graph.nodes if _loop_names(loop_node)
        ]
        raise UnknownNameError(
            f"there is no loop '{name}'",
            graph.mdf_path,
            suggest(name, nodes_with_loops) or f"there are {', '.join(nodes_with_loops) or 'none'}",
        )
    if len(loops_of_node) > 1:
        loop_names_text = ", ".join(
            f"'{loop_owner.id}.{loop_function.id}'" for loop_function in loops_of_node
        )
        raise LoopError(
            f"'{name}' could be {loop_names_text}", graph.mdf_path, "write node.function"
        )
    function = loops_of_node[0]
    loop_path = f"{document.where}.nodes['{loop_owner.id}'].functions['{function.id}']"
    loop_form = parse_loop(function, loop_owner, loop_path, document)
    _check_supported_forms(loop_form, loop_owner)
    initial_values = order_initial_values(loop_form)
    signature = find_signature(loop_form, loop_owner, len(initial_values))
    iteration_count = _iteration_count(loop_form, loop_owner, document.graph, max_iterations)
    if iteration_count == 0 and signature.recorded_outputs:
        raise unfold_error(
            loop_path, "without iterations, the shape of what it records is not known"
        )
    _check_condition_is_constant(loop_form, signature, loop_owner, document.graph)
    body_parameter_ids = parameters_with_bodies(function, loop_owner)
    node_parts = (*loop_owner.input_ports, *loop_owner.parameters, *loop_owner.functions)
    node_part_ids = tuple(
        node_part.id for node_part in node_parts if node_part.id not in body_parameter_ids
    )
    captured_names = (
        []
        if loop_form.owned_graph.is_strict
        else [name for name in node_part_ids if name != function.id]
    )
    return LoopToUnfold(
        node_id=loop_owner.id,
        function_id=function.id,
        mdf_path=loop_path,
        document=document,
        iteration_count=iteration_count,
        signature=signature,
        initial_values=initial_values,
        bindings=loop_form.bindings,
        recordings=loop_form.recordings,
        node_content=graph.contents_of_nodes[loop_owner.id],
        body_content=_body_content(loop_form),
        node_part_ids=node_part_ids,
        captured_names=frozenset((*captured_names, *loop_form.bindings)),
    )


def _loop_names(node: Node) -> list[str]:
    return [
        f"{node.id}.{function.id}"
        for function in node.functions
        if graph_function(function.function) == "onnx::Loop"
    ]


def _body_content(loop_form: LoopForm) -> Content:
    body = loop_form.body
    (model_content,) = content_of(Document(body, "$", {body.id: body})).values()
    body_content: Content = model_content["graphs"][body.id]
    return body_content


def _check_supported_forms(loop_form: LoopForm, node: Node) -> None:
    fixed_length_recordings = [
        recording.name
        for recording in loop_form.recordings.values()
        if recording.length_expression is not None
    ]
    stateful_parameters = [parameter.id for parameter in node.parameters if is_stateful(parameter)]
    ports_with_defaults = {
        (node.id, port.id)
        for node in loop_form.body.nodes
        for port in node.input_ports
        if port.default_value is not None
    }
    edges_to_defaults = [
        edge
        for edge in loop_form.body.edges
        if (edge.receiver, edge.receiver_port) in ports_with_defaults
    ]
    refusal_reasons = (
        (loop_form.slices, "it has slices"),
        (loop_form.delays, "it has delays"),
        (loop_form.has_mid_exit, "its condition is tested in the middle of the body"),
        (
            fixed_length_recordings,
            f"the recording '{fixed_length_recordings[0] if fixed_length_recordings else ''}' has a fixed length",
        ),
        (
            stateful_parameters,
            f"its node keeps a state ('{stateful_parameters[0] if stateful_parameters else ''}')",
        ),
        (loop_form.body.conditions, "its body has conditions of a scheduler"),
        (edges_to_defaults, "an edge of its body leads to a port with a default_value"),
    )
    for is_present, refusal_reason in refusal_reasons:
        if is_present:
            raise unfold_error(loop_form.where, refusal_reason)


def _constant_value(value: DocumentValue, node: Node, graph: Graph) -> Any:
    """Return the constant value of an expression, or None if the value may vary.

    A constant is a number in the document, a fixed parameter, or a constant output of another node.
    """
    if not isinstance(value, str):
        if not isinstance(value, list | tuple | np.ndarray):
            return value
        return np.asarray(value).item() if np.size(value) == 1 else None
    name, literal_number = value.strip(), parse_number(value)
    if literal_number is not None or name in ("True", "False"):
        return literal_number if literal_number is not None else name == "True"
    parameter = next((parameter for parameter in node.parameters if parameter.id == name), None)
    if parameter is not None:
        has_fixed_value = not (parameter.function or parameter.conditions or is_stateful(parameter))
        return _constant_value(parameter.value, node, graph) if has_fixed_value else None
    incoming_edges = [
        edge for edge in graph.edges if (edge.receiver, edge.receiver_port) == (node.id, name)
    ]
    if len(incoming_edges) != 1 or incoming_edges[0].parameters:
        return None
    sending_node = next(node for node in graph.nodes if node.id == incoming_edges[0].sender)
    sending_port = next(
        (
            sending_port
            for sending_port in sending_node.output_ports
            if sending_port.id == incoming_edges[0].sender_port
        ),
        None,
    )
    return (
        None if sending_port is None else _constant_value(sending_port.value, sending_node, graph)
    )


def _iteration_count(loop_form: LoopForm, node: Node, graph: Graph, max_iterations: int) -> int:
    constant_trip_count = _constant_value(loop_form.trip_count, node, graph)
    if constant_trip_count is None or constant_trip_count == -1:
        trip_count_problem = (
            "no trip count"
            if loop_form.trip_count is None or constant_trip_count == -1
            else "a variable one"
        )
        raise TripCountError(
            f"the loop '{loop_form.name}' has {trip_count_problem}: only a constant number of iterations can be "
            "unfolded",
            loop_form.where,
            "give M a number",
        )
    if isinstance(constant_trip_count, str) or constant_trip_count != int(constant_trip_count):
        raise TripCountError(
            f"the trip count of '{loop_form.name}' is {constant_trip_count!r}", loop_form.where
        )
    if constant_trip_count > max_iterations:
        raise TripCountError(
            f"the loop '{loop_form.name}' has {int(constant_trip_count)} iterations, unfold allows {max_iterations}",
            loop_form.where,
            "leave it a loop, or give most=...",
        )
    return max(int(constant_trip_count), 0)


def _check_condition_is_constant(
    loop_form: LoopForm, signature: Signature, node: Node, graph: Graph
) -> None:
    """Raise TripCountError if the condition of the loop may become false."""
    if loop_form.condition is None:
        return
    condition_name = signature.condition_out
    condition_expressions = [
        port.value
        for body_node in loop_form.body.nodes
        for port in body_node.output_ports
        if port.id == condition_name
    ]
    passes_condition_on = not condition_name or (
        condition_name == signature.condition_in and not condition_expressions
    )
    is_always_true = passes_condition_on or [
        str(condition_expression) for condition_expression in condition_expressions
    ] == ["True"]
    if _constant_value(loop_form.condition, node, graph) is not True or not is_always_true:
        raise TripCountError(
            f"the loop '{loop_form.name}' has a condition: how often it runs is known only then",
            loop_form.where,
            "leave the condition out, if it does not decide",
        )
