"""Loop node that `unfold` expands: its arguments, its body and its number of iterations."""

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
from mdf_loop.folding.flat import Content, FlatGraph, Port
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.syntax import names_in, parse_number
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.loop_forms import LoopForm, order_initial_values, parse_loop
from mdf_loop.reading.parameters import is_stateful
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.signature import Signature, find_signature


class UnfoldableLoop(Struct, frozen=True):
    """Loop with `count` iterations.

    `own_names` are the ids of ports, parameters and functions of the loop node. `captured_names`
    are the names in the node that the body may capture.
    """

    node: str
    function: str
    where: str
    document: Document
    count: int
    signature: Signature
    initial_values: tuple[Any, ...]
    bindings: Mapping[str, Any]
    recordings: Mapping[str, RecordingForm]
    content: Content
    body: Content
    own_names: tuple[str, ...]
    captured_names: frozenset[str]

    @property
    def nodes(self) -> dict[str, Content]:
        """Nodes of the body."""
        return dict(self.body.get("nodes") or {})

    @property
    def edges(self) -> dict[str, Content]:
        """Edges of the body."""
        return dict(self.body.get("edges") or {})

    @property
    def outputs(self) -> dict[str, Content]:
        """Output ports of the loop node."""
        return dict(self.content.get("output_ports") or {})

    def own_content(self) -> Content:
        """Return the content of the loop node without the loop, its bodies and its outputs."""
        sections = {
            section: {
                name: content
                for name, content in (self.content.get(section) or {}).items()
                if name in self.own_names and name != self.function
            }
            for section in ("input_ports", "functions", "parameters")
        }
        return {**sections}

    def find_output(self, name: str) -> Port | None:
        """Return the output port of the body that `name` denotes, or None."""
        matches = [
            (node, port)
            for node, content in self.nodes.items()
            for port in content.get("output_ports") or {}
            if name in (port, f"{node}.{port}")
        ]
        if len(matches) > 1:
            raise unfold_error(self.where, f"the body output '{name}' could be several")
        return matches[0] if matches else None

    def keeps_last(self, name: str) -> bool:
        """Return True if only the last row of a recording is kept."""
        return name in self.recordings and self.recordings[name].last

    def stack_expression(self, name: str, rows: Sequence[str]) -> str:
        """Return an expression that stacks the rows of a recording."""
        recording_form = self.recordings.get(name) or RecordingForm(name)
        ordered_rows = ", ".join(reversed(rows) if recording_form.reverse else rows)
        stack_function = "numpy.concatenate" if recording_form.concat else "numpy.stack"
        return f"{stack_function}(({ordered_rows},), axis={recording_form.axis})"

    def declares_type(self, name: str) -> bool:
        """Return True if an input port of the body states the dtype of a carried value."""
        ports = [(n.get("input_ports") or {}).get(name) for n in self.nodes.values()]
        return any((port or {}).get("type") for port in ports)

    def names_without_port(self, node: str) -> list[str]:
        """Return the outer names that a body node reads without an input port."""
        content = self.nodes[node]
        own_names = {
            name for section in content.values() if isinstance(section, dict) for name in section
        }
        names_read = {name for text in _strings_in(content) for name in names_in(text)}
        signature = self.signature
        body_inputs = {signature.iteration, signature.condition_in, *signature.enters}
        return sorted((names_read & (self.captured_names | body_inputs)) - own_names)


def without_unused_parts(node: Content) -> Content:
    """Return the node without the ports, parameters and functions that its outputs do not need."""
    contents_by_name: dict[str, Any] = {}
    for section in ("input_ports", "functions", "parameters"):
        contents_by_name |= node[section]
    needed_names: set[str] = set()
    unvisited_contents = [node["output_ports"]]
    while unvisited_contents:
        names_read = {
            name.split(".")[0]
            for text in _strings_in(unvisited_contents.pop())
            for name in names_in(text)
        }
        unvisited = (names_read & contents_by_name.keys()) - needed_names
        needed_names |= unvisited
        unvisited_contents += [contents_by_name[name] for name in unvisited]
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
        for part in content.values():
            yield from _strings_in(part)
    elif isinstance(content, list | tuple):
        for part in content:
            yield from _strings_in(part)


def unfold_error(where: str, reason: str) -> UnsupportedError:
    """Return the error for a loop that cannot be unfolded."""
    return UnsupportedError(f"the loop cannot be unfolded: {reason}", where, "leave it a loop")


def find_unfoldable_loop(graph: FlatGraph, name: str, max_iterations: int) -> UnfoldableLoop:
    """Return the loop that a node's id or `node.function` denotes.

    Raises:
        LoopError: The loop does not exist, or cannot be unfolded.
    """
    document = open_document(graph.model)
    node = next((n for n in document.graph.nodes if name in (n.id, *_loop_names(n))), None)
    loops = (
        [f for f in node.functions if graph_function(f.function) == "onnx::Loop"] if node else []
    )
    loops = [f for f in loops if node is not None and name in (node.id, f"{node.id}.{f.id}")]
    if node is None or not loops:
        nodes_with_loops = [n.id for n in document.graph.nodes if _loop_names(n)]
        raise UnknownNameError(
            f"there is no loop '{name}'",
            graph.where,
            suggest(name, nodes_with_loops) or f"there are {', '.join(nodes_with_loops) or 'none'}",
        )
    if len(loops) > 1:
        loop_names_text = ", ".join(f"'{node.id}.{f.id}'" for f in loops)
        raise LoopError(f"'{name}' could be {loop_names_text}", graph.where, "write node.function")
    function = loops[0]
    where = f"{document.where}.nodes['{node.id}'].functions['{function.id}']"
    form = parse_loop(function, node, where, document)
    _check_supported_forms(form, node)
    initial = order_initial_values(form)
    signature = find_signature(form, node, len(initial))
    count = _iteration_count(form, node, document.graph, max_iterations)
    if count == 0 and signature.rows:
        raise unfold_error(where, "without iterations, the shape of what it records is not known")
    _check_condition_is_constant(form, signature, node, document.graph)
    bodies = parameters_with_bodies(function, node)
    node_parts = (*node.input_ports, *node.parameters, *node.functions)
    own_ids = tuple(x.id for x in node_parts if x.id not in bodies)
    captured_names = [] if form.owned.strict else [name for name in own_ids if name != function.id]
    return UnfoldableLoop(
        node=node.id,
        function=function.id,
        where=where,
        document=document,
        count=count,
        signature=signature,
        initial_values=initial,
        bindings=form.bindings,
        recordings=form.recordings,
        content=graph.nodes[node.id],
        body=_body_content(form),
        own_names=own_ids,
        captured_names=frozenset((*captured_names, *form.bindings)),
    )


def _loop_names(node: Any) -> list[str]:
    return [
        f"{node.id}.{f.id}" for f in node.functions if graph_function(f.function) == "onnx::Loop"
    ]


def _body_content(form: LoopForm) -> Content:
    (model,) = content_of(open_document(form.body)).values()
    graph_content: Content = model["graphs"][form.body.id]
    return graph_content


def _check_supported_forms(form: LoopForm, node: Any) -> None:
    fixed_length_recordings = [r.name for r in form.recordings.values() if r.length is not None]
    stateful_parameters = [p.id for p in node.parameters if is_stateful(p)]
    ports_with_defaults = {
        (n.id, p.id) for n in form.body.nodes for p in n.input_ports if p.default_value is not None
    }
    edges_to_defaults = [
        e for e in form.body.edges if (e.receiver, e.receiver_port) in ports_with_defaults
    ]
    reasons = (
        (form.slices, "it has slices"),
        (form.delays, "it has delays"),
        (form.mid_exit, "its condition is tested in the middle of the body"),
        (
            fixed_length_recordings,
            f"the recording '{fixed_length_recordings[0] if fixed_length_recordings else ''}' has a fixed length",
        ),
        (
            stateful_parameters,
            f"its node keeps a state ('{stateful_parameters[0] if stateful_parameters else ''}')",
        ),
        (form.body.conditions, "its body has conditions of a scheduler"),
        (edges_to_defaults, "an edge of its body leads to a port with a default_value"),
    )
    for is_present, reason in reasons:
        if is_present:
            raise unfold_error(form.where, reason)


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
    parameter = next((p for p in node.parameters if p.id == name), None)
    if parameter is not None:
        is_fixed = not (parameter.function or parameter.conditions or is_stateful(parameter))
        return _constant_value(parameter.value, node, graph) if is_fixed else None
    incoming_edges = [e for e in graph.edges if (e.receiver, e.receiver_port) == (node.id, name)]
    if len(incoming_edges) != 1 or incoming_edges[0].parameters:
        return None
    sender = next(n for n in graph.nodes if n.id == incoming_edges[0].sender)
    port = next((p for p in sender.output_ports if p.id == incoming_edges[0].sender_port), None)
    return None if port is None else _constant_value(port.value, sender, graph)


def _iteration_count(form: LoopForm, node: Any, graph: Any, max_iterations: int) -> int:
    number = _constant_value(form.trip_count, node, graph)
    if number is None or number == -1:
        trip_count_problem = (
            "no trip count" if form.trip_count is None or number == -1 else "a variable one"
        )
        raise TripCountError(
            f"the loop '{form.name}' has {trip_count_problem}: only a constant number of iterations can be "
            "unfolded",
            form.where,
            "give M a number",
        )
    if isinstance(number, str) or number != int(number):
        raise TripCountError(f"the trip count of '{form.name}' is {number!r}", form.where)
    if number > max_iterations:
        raise TripCountError(
            f"the loop '{form.name}' has {int(number)} iterations, unfold allows {max_iterations}",
            form.where,
            "leave it a loop, or give most=...",
        )
    return max(int(number), 0)


def _check_condition_is_constant(
    form: LoopForm, signature: Signature, node: Any, graph: Any
) -> None:
    """Raise TripCountError if the condition of the loop may become false."""
    if form.condition is None:
        return
    condition_name = signature.condition_out
    values = [p.value for n in form.body.nodes for p in n.output_ports if p.id == condition_name]
    is_unchanged = not condition_name or (condition_name == signature.condition_in and not values)
    is_always_true = is_unchanged or [str(value) for value in values] == ["True"]
    if _constant_value(form.condition, node, graph) is not True or not is_always_true:
        raise TripCountError(
            f"the loop '{form.name}' has a condition: how often it runs is known only then",
            form.where,
            "leave the condition out, if it does not decide",
        )
