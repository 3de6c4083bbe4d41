"""Outline of a model that runs over time steps: one loop whose body is the whole graph.

    for each time step:
        evaluate the graph      # carried: states, and outputs that feed back

The nodes have the same outlines as without time. A feedback edge becomes a carried output: it leaves the
body at its sender, and enters at its receiver one step later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.outline.annotation import annotate_over_time
from mdf_loop.outline.graphs import outline_document
from mdf_loop.outline.parts import (
    DefinitionOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.scope import known_value
from mdf_loop.outline.values import ArgumentOutline, CaptureOutline, CarriedOutline, RecordedOutline


def outline_over_time(source: Source) -> GraphOutline:
    """Return the outline of a model over time steps: one loop whose body is the whole graph.

    Raises:
        ModelError: The file is missing, is not MDF, or has no graph.
    """
    document = open_document(source)
    return wrap_in_time_loop(outline_document(document, annotate_over_time(document)), document)


def wrap_in_time_loop(graph: GraphOutline, document: Document) -> GraphOutline:
    """Return an outline whose only node is a loop over time that contains the whole graph."""
    loop = _build_time_loop(graph, document)
    port_names = [recorded_value.ports[0] for recorded_value in loop.recorded_values]
    time_loop_node = NodeOutline(
        id=loop.owner_id,
        path=graph.path,
        inputs=tuple(
            PortOutline(graph_input.name, graph_input.path, graph_input.type)
            for graph_input in graph.inputs
        ),
        blocks=(loop,),
        outputs=tuple(PortOutline(name, graph.path) for name in port_names),
    )
    return replace(
        graph,
        nodes=(time_loop_node,),
        edges=(),
        inputs=tuple(
            replace(graph_input, node_id=time_loop_node.id, port_id=graph_input.name)
            for graph_input in graph.inputs
        ),
        outputs=tuple(
            OutputOutline(name, time_loop_node.id, name, output.path, recorded_value.type)
            for name, output, recorded_value in zip(
                port_names, graph.outputs, loop.recorded_values, strict=True
            )
        ),
        cycles=(),
    )


def _build_time_loop(graph: GraphOutline, document: Document) -> LoopOutline:
    """Return the outline of the loop over time, with its states, recorded values and captures."""
    states = _collect_states(graph, document)
    recorded_values = _outline_recorded_values(graph)
    has_derivatives = any(
        definition.derivative is not None for node in graph.nodes for definition in node.definitions
    )
    loop_name = f"{graph.id} over time"
    return LoopOutline(
        id=loop_name,
        owner_id=loop_name,
        path=graph.path,
        kind="over time",
        trip_count=ArgumentOutline("steps"),
        start_condition=None,
        iteration_name="",
        condition_name="",
        continue_name="",
        condition_text="",
        carried_values=tuple(state.carried_value for state in states),
        recorded_values=recorded_values,
        reports=(),
        captures=(
            *(
                CaptureOutline(
                    graph_input.name, "input", "", graph_input.path, type=graph_input.type
                )
                for graph_input in graph.inputs
            ),
            *([CaptureOutline(_STEP_NAME, "argument", "", graph.path)] if has_derivatives else []),
        ),
        body=_build_body(graph, states, recorded_values),
    )


_STEP_NAME = "dt"
"""Name of the time step as an argument of the loop over time."""


def _build_body(
    graph: GraphOutline, states: list[_State], recorded_values: tuple[RecordedOutline, ...]
) -> GraphOutline:
    """Return the body of the loop over time: the whole graph, with states as inputs and outputs."""
    condition_output = OutputOutline("", None, "", graph.path)
    state_outputs = [
        OutputOutline(state.carried_value.output_name, state.node_id, state.port_id, state.path)
        for state in states
    ]
    recorded_outputs = [
        OutputOutline(recorded_value.name, output.node_id, output.port_id, output.path)
        for recorded_value, output in zip(recorded_values, graph.outputs, strict=True)
    ]
    return replace(
        graph,
        edges=tuple(edge for edge in graph.edges if not edge.is_feedback or graph.is_scheduled),
        inputs=(
            *(body_input for state in states for body_input in state.body_inputs),
            *(replace(graph_input, role="captured") for graph_input in graph.inputs),
        ),
        outputs=(condition_output, *state_outputs, *recorded_outputs),
        cycles=(),
    )


def _outline_recorded_values(graph: GraphOutline) -> tuple[RecordedOutline, ...]:
    """Return the recorded values of the loop over time, one for each output of the graph."""
    name_counts = Counter(output.name for output in graph.outputs)
    recorded_names = [
        output.name if name_counts[output.name] == 1 else f"{output.node_id}.{output.port_id}"
        for output in graph.outputs
    ]
    return tuple(
        RecordedOutline(f"{name}[t]", (name,), _prepend_time_axis(output.type))
        for name, output in zip(recorded_names, graph.outputs, strict=True)
    )


def _prepend_time_axis(type_: str) -> str:
    """Prepend the time axis to a type such as `float64[n]`, or return "" for an unknown shape."""
    dtype, bracket, shape_text = type_.partition("[")
    if not bracket:
        return ""
    return f"{dtype}[time]" if shape_text == "]" else f"{dtype}[time, {shape_text}"


# --- states -----------------------------------------------------------------------------------


class _State(Struct, frozen=True):
    """State of a model over time: a value that is carried from one time step to the next.

    It has inputs in the body, and an origin in the graph.
    """

    carried_value: CarriedOutline
    body_inputs: tuple[InputOutline, ...]
    node_id: str
    port_id: str
    path: str


def _collect_states(graph: GraphOutline, document: Document) -> list[_State]:
    """Return the states of a graph over time: stateful parameters, and outputs that feed back."""
    stateful_definitions = [
        (node, definition)
        for node in graph.nodes
        for definition in node.definitions
        if definition.is_stateful
    ]
    name_counts = Counter(definition.id for _, definition in stateful_definitions)
    name_counts.update([_STEP_NAME, *(graph_input.name for graph_input in graph.inputs)])
    used_names = {_STEP_NAME, *(graph_input.name for graph_input in graph.inputs)}
    states = []
    for node, definition in stateful_definitions:
        state_name = (
            definition.id
            if name_counts[definition.id] == 1
            else _unused_name(f"{node.id}.{definition.id}", used_names)
        )
        states.append(_build_parameter_state(state_name, node, definition, document))
        used_names.add(state_name)
    for output_edges in _group_feedback_edges(graph):
        state_name = _unused_name(
            f"{output_edges[0].sender}.{output_edges[0].sender_port}", used_names
        )
        states.append(_build_output_state(state_name, output_edges, graph))
        used_names.add(state_name)
    return states


def _unused_name(name: str, used_names: set[str]) -> str:
    """Return a name that is not in `used_names`: `name`, or `name` with a suffix."""
    return name if name not in used_names else _unused_name(f"{name} sent", used_names)


def _build_parameter_state(
    name: str, node: NodeOutline, definition: DefinitionOutline, document: Document
) -> _State:
    """Return the state that a stateful parameter carries from one time step to the next."""
    document_node = next(
        candidate_node for candidate_node in document.graph.nodes if candidate_node.id == node.id
    )
    starts_at_zero = definition.initial_expression is None and definition.derivative is None
    initial_expression = 0 if starts_at_zero else definition.initial_expression
    initial_value = (
        None if initial_expression is None else known_value(document_node, initial_expression)
    )
    port_id = next((port.id for port in node.outputs if port.value == definition.id), "")
    return _State(
        CarriedOutline(
            initial_expression, name, f"{name}'", type=definition.type, initial_value=initial_value
        ),
        (InputOutline(name, node.id, None, "carried", definition.path),),
        node.id,
        port_id,
        definition.path,
    )


def _group_feedback_edges(graph: GraphOutline) -> Iterator[list[EdgeOutline]]:
    """Yield lists of feedback edges that start at the same output port."""
    node_ids = {node.id for node in graph.nodes}
    edges_by_output: dict[tuple[str, str], list[EdgeOutline]] = {}
    for edge in graph.edges:
        if edge.is_feedback and {edge.sender, edge.receiver} <= node_ids:
            edges_by_output.setdefault((edge.sender, edge.sender_port), []).append(edge)
    yield from edges_by_output.values()


def _build_output_state(name: str, edges: list[EdgeOutline], graph: GraphOutline) -> _State:
    """Return the state of an output that feeds back to input ports in the next time step."""
    nodes_by_id = {node.id: node for node in graph.nodes}
    first_edge = edges[0]
    receiving_ports = [
        port
        for edge in edges
        for port in nodes_by_id[edge.receiver].inputs
        if port.id == edge.receiver_port
    ]
    sender_port = next(
        (
            port
            for port in nodes_by_id[first_edge.sender].outputs
            if port.id == first_edge.sender_port
        ),
        None,
    )
    return _State(
        CarriedOutline(
            _common_default(receiving_ports),
            name,
            f"{name}'",
            type=sender_port.type if sender_port else "",
        ),
        tuple(
            InputOutline(
                name, edge.receiver, edge.receiver_port, "carried", edge.path, weight=edge.weight
            )
            for edge in edges
        ),
        first_edge.sender,
        first_edge.sender_port,
        first_edge.path,
    )


def _common_default(ports: list[PortOutline]) -> DocumentValue | None:
    """Return the default value that all ports share, or a phrase if the defaults differ."""
    port_defaults = [port.default for port in ports]
    if all(default == port_defaults[0] for default in port_defaults):
        return port_defaults[0] if port_defaults else None
    return "the default of each port"
