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
from mdf_loop.errors import LoopError, TripCountError, UnknownNameError, UnsupportedError
from mdf_loop.folding.flat_graph import Content, FlatGraph, Port
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.syntax import names_in, parse_number
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.loop_forms import LoopForm, order_initial_values, parse_loop
from mdf_loop.reading.parameters import is_stateful
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.signature import Signature, find_signature


class UnfoldableLoop(Struct, frozen=True):
    """Loop that can be unfolded, because its number of iterations is constant.

    `item_ids` are the ids of ports, parameters and functions of the loop node. `captured_names`
    are the names in the node that the body may capture.
    """

    node_id: str
    function_id: str
    mdf_path: str
    document: Document
    iteration_count: int
    signature: Signature
    initial_values: tuple[Any, ...]
    bindings: Mapping[str, Any]
    recordings: Mapping[str, RecordingForm]
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
        sections = {
            section: {
                name: content
                for name, content in (self.node_content.get(section) or {}).items()
                if name in self.node_part_ids and name != self.function_id
            }
            for section in ("input_ports", "functions", "parameters")
        }
        return {**sections}

    def find_output(self, name: str) -> Port | None:
        """Return the output port of the body that `name` denotes, or None."""
        matches = [
            (node_id, port)
            for node_id, content in self.nodes.items()
            for port in content.get("output_ports") or {}
            if name in (port, f"{node_id}.{port}")
        ]
        if len(matches) > 1:
            raise unfold_error(self.mdf_path, f"the body output '{name}' could be several")
        return matches[0] if matches else None

    def keeps_last(self, name: str) -> bool:
        """Return True if a recorded output keeps only the value of the last iteration."""
        return name in self.recordings and self.recordings[name].keeps_last_row

    def stack_expression(self, name: str, rows: Sequence[str]) -> str:
        """Return the NumPy expression that stacks a recorded output's values over all iterations."""
        recording_form = self.recordings.get(name) or RecordingForm(name)
        ordered_rows = ", ".join(reversed(rows) if recording_form.is_reversed else rows)
        stack_function = "numpy.concatenate" if recording_form.is_concatenated else "numpy.stack"
        return f"{stack_function}(({ordered_rows},), axis={recording_form.axis})"

    def declares_type(self, name: str) -> bool:
        """Return True if an input port of the body states the dtype of a carried value."""
        declared_ports = [(node.get("input_ports") or {}).get(name) for node in self.nodes.values()]
        return any((port or {}).get("type") for port in declared_ports)

    def names_without_port(self, node_id: str) -> list[str]:
        """Return the names of outer values that a body node reads without an input port."""
        node_content = self.nodes[node_id]
        local_names = {
            name
            for section in node_content.values()
            if isinstance(section, dict)
            for name in section
        }
        names_read = {name for string in _strings_in(node_content) for name in names_in(string)}
        signature = self.signature
        body_inputs = {signature.iteration, signature.condition_in, *signature.carried_inputs}
        return sorted((names_read & (self.captured_names | body_inputs)) - local_names)


def without_unused_parts(node: Content) -> Content:
    """Remove input ports, parameters and functions that no output of the node depends on."""
    contents_by_name: dict[str, Any] = {}
    for section in ("input_ports", "functions", "parameters"):
        contents_by_name |= node[section]
    needed_names: set[str] = set()
    unvisited_contents = [node["output_ports"]]
    while unvisited_contents:
        names_read = {
            name.split(".")[0]
            for string in _strings_in(unvisited_contents.pop())
            for name in names_in(string)
        }
        unvisited_names = (names_read & contents_by_name.keys()) - needed_names
        needed_names |= unvisited_names
        unvisited_contents += [contents_by_name[name] for name in unvisited_names]
    sections = {
        section: {name: content for name, content in node[section].items() if name in needed_names}
        for section in ("input_ports", "functions", "parameters")
    }
    nonempty_sections = {section: contents for section, contents in sections.items() if contents}
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
    """Return the error for a loop that cannot be unfolded."""
    return UnsupportedError(f"the loop cannot be unfolded: {reason}", where, "leave it a loop")


def find_unfoldable_loop(graph: FlatGraph, name: str, max_iterations: int) -> UnfoldableLoop:
    """Find the loop that a node id or `node.function` denotes.

    Raises:
        LoopError: The loop does not exist, or cannot be unfolded.
    """
    document = open_document(graph.model_content)
    node = next(
        (
            candidate
            for candidate in document.graph.nodes
            if name in (candidate.id, *_loop_names(candidate))
        ),
        None,
    )
    loops = (
        [
            function
            for function in node.functions
            if graph_function(function.function) == "onnx::Loop"
        ]
        if node
        else []
    )
    loops = [
        function
        for function in loops
        if node is not None and name in (node.id, f"{node.id}.{function.id}")
    ]
    if node is None or not loops:
        nodes_with_loops = [
            loop_node.id for loop_node in document.graph.nodes if _loop_names(loop_node)
        ]
        raise UnknownNameError(
            f"there is no loop '{name}'",
            graph.mdf_path,
            suggest(name, nodes_with_loops) or f"there are {', '.join(nodes_with_loops) or 'none'}",
        )
    if len(loops) > 1:
        loop_names_text = ", ".join(f"'{node.id}.{function.id}'" for function in loops)
        raise LoopError(
            f"'{name}' could be {loop_names_text}", graph.mdf_path, "write node.function"
        )
    function = loops[0]
    where = f"{document.where}.nodes['{node.id}'].functions['{function.id}']"
    loop_form = parse_loop(function, node, where, document)
    _check_supported_forms(loop_form, node)
    initial_values = order_initial_values(loop_form)
    signature = find_signature(loop_form, node, len(initial_values))
    iteration_count = _iteration_count(loop_form, node, document.graph, max_iterations)
    if iteration_count == 0 and signature.recorded_outputs:
        raise unfold_error(where, "without iterations, the shape of what it records is not known")
    _check_condition_is_constant(loop_form, signature, node, document.graph)
    body_parameter_ids = parameters_with_bodies(function, node)
    node_parts = (*node.input_ports, *node.parameters, *node.functions)
    item_ids = tuple(part.id for part in node_parts if part.id not in body_parameter_ids)
    captured_names = (
        []
        if loop_form.owned_graph.is_strict
        else [name for name in item_ids if name != function.id]
    )
    return UnfoldableLoop(
        node_id=node.id,
        function_id=function.id,
        mdf_path=where,
        document=document,
        iteration_count=iteration_count,
        signature=signature,
        initial_values=initial_values,
        bindings=loop_form.bindings,
        recordings=loop_form.recordings,
        node_content=graph.contents_of_nodes[node.id],
        body_content=_body_content(loop_form),
        node_part_ids=item_ids,
        captured_names=frozenset((*captured_names, *loop_form.bindings)),
    )


def _loop_names(node: Any) -> list[str]:
    return [
        f"{node.id}.{function.id}"
        for function in node.functions
        if graph_function(function.function) == "onnx::Loop"
    ]


def _body_content(loop_form: LoopForm) -> Content:
    (model,) = content_of(open_document(loop_form.body)).values()
    graph_content: Content = model["graphs"][loop_form.body.id]
    return graph_content


def _check_supported_forms(loop_form: LoopForm, node: Any) -> None:
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
    reasons = (
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
    for is_present, reason in reasons:
        if is_present:
            raise unfold_error(loop_form.where, reason)


def _constant_value(value: Any, node: Any, graph: Any) -> Any:
    """Return the constant value of an expression, or None if the value may vary.

    A constant is a number in the document, a fixed parameter, or a constant output of another node.
    """
    if not isinstance(value, str):
        is_sequence = isinstance(value, list | tuple | np.ndarray)
        return (np.asarray(value).item() if np.size(value) == 1 else None) if is_sequence else value
    name, literal_number = value.strip(), parse_number(value)
    if literal_number is not None or name in ("True", "False"):
        return literal_number if literal_number is not None else name == "True"
    parameter = next((parameter for parameter in node.parameters if parameter.id == name), None)
    if parameter is not None:
        is_fixed = not (parameter.function or parameter.conditions or is_stateful(parameter))
        return _constant_value(parameter.value, node, graph) if is_fixed else None
    incoming_edges = [
        edge for edge in graph.edges if (edge.receiver, edge.receiver_port) == (node.id, name)
    ]
    if len(incoming_edges) != 1 or incoming_edges[0].parameters:
        return None
    sender = next(node for node in graph.nodes if node.id == incoming_edges[0].sender)
    port = next(
        (port for port in sender.output_ports if port.id == incoming_edges[0].sender_port), None
    )
    return None if port is None else _constant_value(port.value, sender, graph)


def _iteration_count(loop_form: LoopForm, node: Any, graph: Any, max_iterations: int) -> int:
    trip_count = _constant_value(loop_form.trip_count, node, graph)
    if trip_count is None or trip_count == -1:
        trip_count_problem = (
            "no trip count"
            if loop_form.trip_count is None or trip_count == -1
            else "a variable one"
        )
        raise TripCountError(
            f"the loop '{loop_form.name}' has {trip_count_problem}: only a constant number of iterations can be "
            "unfolded",
            loop_form.where,
            "give M a number",
        )
    if isinstance(trip_count, str) or trip_count != int(trip_count):
        raise TripCountError(
            f"the trip count of '{loop_form.name}' is {trip_count!r}", loop_form.where
        )
    if trip_count > max_iterations:
        raise TripCountError(
            f"the loop '{loop_form.name}' has {int(trip_count)} iterations, unfold allows {max_iterations}",
            loop_form.where,
            "leave it a loop, or give most=...",
        )
    return max(int(trip_count), 0)


def _check_condition_is_constant(
    loop_form: LoopForm, signature: Signature, node: Any, graph: Any
) -> None:
    """Raise TripCountError if the condition of the loop may become false."""
    if loop_form.condition is None:
        return
    condition_name = signature.condition_out
    condition_values = [
        port.value
        for body_node in loop_form.body.nodes
        for port in body_node.output_ports
        if port.id == condition_name
    ]
    is_unchanged = not condition_name or (
        condition_name == signature.condition_in and not condition_values
    )
    is_always_true = is_unchanged or [str(value) for value in condition_values] == ["True"]
    if _constant_value(loop_form.condition, node, graph) is not True or not is_always_true:
        raise TripCountError(
            f"the loop '{loop_form.name}' has a condition: how often it runs is known only then",
            loop_form.where,
            "leave the condition out, if it does not decide",
        )
