"""Folding: replace nodes of a flat graph by one loop node.

    x -> A -> B -> out          x -> loop [ A -> B ] -> out
         carry {B.y: A.x}

    fold(graph, nodes=["A", "B"], carry={"B.y": "A.x"}, while_="B.go")

Values that edges bring into the set enter the loop node. They are initial values of carried
inputs, and captured values of all other inputs. The outputs of the loop node are final carried
values, or values of the last iteration. The rest of the graph is unchanged.

Source: NNC (liuliu/ccv), `ccv_nnc_symbolic_graph_while` and its carry-over map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.arguments import mapping, names
from mdf_loop.document.loading import graph_of
from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import (
    ConditionError,
    CycleError,
    ModelError,
    TripCountError,
    UnknownNameError,
    UnsupportedError,
)
from mdf_loop.folding.body_inputs import (
    DEFAULT_RELAY_ID,
    BodyInput,
    Boundary,
    build_relay,
    find_body_inputs,
    open_input_ports,
)
from mdf_loop.folding.carried_values import Carry, resolve_carry
from mdf_loop.folding.flat_graph import (
    Content,
    FlatGraph,
    Port,
    find_port,
    open_flat_graph,
    unique_name,
)
from mdf_loop.folding.loop_outputs import LoopOutputs, find_loop_outputs
from mdf_loop.importing.opening import Source
from mdf_loop.name_suggestions import suggest
from mdf_loop.public_call import public_call
from mdf_loop.reading.parameters import is_stateful

_FUNCTION_ID = "rounds"
"""Id of the loop function inside its node."""


class _FoldRequest(Struct, frozen=True):
    """Arguments of `fold`, with names resolved to nodes and ports."""

    graph: FlatGraph  # graph that contains the nodes to fold
    node_ids: tuple[str, ...]  # nodes to fold
    boundary: Boundary  # edges inside and around these nodes
    carried_values: tuple[Carry, ...]
    condition_port: Port | None
    counter_ports: tuple[Port, ...]  # input ports that receive the iteration number
    trip_count: int | Port | None
    exits_in_middle: bool  # condition is tested within an iteration
    node_id: str  # id of the new loop node


@public_call
def fold(
    source: Source,
    nodes: Sequence[str],
    carry: Mapping[str, str | Sequence[str]] | None = None,
    *,
    while_: str | None = None,
    trip_count: int | str | None = None,
    exit: str = "middle",
    iteration: str | None = None,
    id: str = "loop",
) -> DocumentValue:
    """Return the model with some nodes of its flat graph replaced by one loop node.

    Args:
        source: A path, a modeci_mdf Model or Graph, or a dict.
        nodes: The ids of the nodes that become the body.
        carry: Values that are carried to the next iteration, as `source: destination`. A source is
            an output `node.port` of the set. It may also be an input: its value in this iteration
            is carried, for chains and swaps. A destination is an input `node.port` of the set, or a port
            id, which means all input ports with that id.
        while_: An output `node.port` of the set. The loop runs as long as the output is true.
        trip_count: The maximum number of iterations: a number, or an output `node.port` outside of the set.
        exit: `middle` tests the condition as soon as its value is known, so the nodes before the test
            run once more than the other nodes. `end` tests the condition after each iteration.
        iteration: An input of the set that receives the iteration number, from 0.
        id: The id of the loop node.

    Returns:
        A new modeci_mdf Model. The source is left unchanged.

    Raises:
        LoopError: A name is unknown or ambiguous, a path leaves the set and enters the set again, an
            edge inside the set leads to a carried input, or a node of the set has a state.
    """
    flat_graph, node_ids = open_flat_graph(source), names(nodes, "nodes")
    carry_map = mapping(carry, "carry", "carry={'node.port': 'node.port'}")
    return _build_model(
        _resolve_request(flat_graph, node_ids, carry_map, while_, trip_count, exit, iteration, id)
    )


# --- the arguments ------------------------------------------------------------------------------


def _resolve_request(
    graph: FlatGraph,
    nodes: tuple[str, ...],
    carry: Mapping[str, str | Sequence[str]],
    while_: str | None,
    trip_count: int | str | None,
    exit: str,
    iteration: str | None,
    node_id: str,
) -> _FoldRequest:
    sorted_node_ids = _sort_in_graph_order(graph, nodes)
    boundary = Boundary.of(graph, sorted_node_ids)
    _check_no_path_around(graph, sorted_node_ids, boundary)
    _check_no_state_or_condition(graph, sorted_node_ids)
    if exit not in ("middle", "end"):
        raise ModelError(f"exit is 'middle' or 'end', not {exit!r}", graph.mdf_path)
    if while_ is None and trip_count is None:
        raise ModelError(
            "the loop would never end: it has neither a condition nor a trip count",
            graph.mdf_path,
            "give while_='node.port' or trip_count=...",
        )
    if node_id in graph.contents_of_nodes.keys() - set(sorted_node_ids):
        raise ModelError(f"there is a node '{node_id}' already", graph.mdf_path, "give another id")
    open_ports = open_input_ports(graph, sorted_node_ids, boundary)
    return _FoldRequest(
        graph=graph,
        node_ids=sorted_node_ids,
        boundary=boundary,
        carried_values=resolve_carry(graph, sorted_node_ids, carry, open_ports),
        condition_port=_resolve_condition(graph, sorted_node_ids, while_),
        counter_ports=_resolve_counter_ports(graph, open_ports, boundary, iteration),
        trip_count=_resolve_trip_count(graph, sorted_node_ids, trip_count),
        exits_in_middle=while_ is not None and exit == "middle",
        node_id=node_id,
    )


def _sort_in_graph_order(graph: FlatGraph, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Sort the node ids in the order of the document."""
    if not nodes:
        raise ModelError("no nodes are named", graph.mdf_path, "nodes=[...] become the loop's body")
    for node_id in nodes:
        if node_id not in graph.contents_of_nodes:
            raise UnknownNameError(
                f"the graph has no node '{node_id}'",
                graph.mdf_path,
                suggest(node_id, graph.contents_of_nodes),
            )
    return tuple(node_id for node_id in graph.contents_of_nodes if node_id in nodes)


def _check_no_path_around(graph: FlatGraph, nodes: Sequence[str], boundary: Boundary) -> None:
    """Raise CycleError if a path leaves the set of nodes and enters it again."""
    import networkx

    outer_graph = networkx.DiGraph(
        (edge.sender[0], edge.receiver[0])
        for edge in (*boundary.outer_edges, *boundary.outgoing_edges)
    )
    for incoming_edge in boundary.incoming_edges:
        for inner_node in nodes:
            if inner_node in outer_graph and incoming_edge.sender[0] in networkx.descendants(
                outer_graph, inner_node
            ):
                path_to_inside = networkx.shortest_path(
                    outer_graph, inner_node, incoming_edge.sender[0]
                )
                cycle_text = " -> ".join([*path_to_inside, incoming_edge.receiver[0]])
                nodes_between = ", ".join(repr(node_id) for node_id in path_to_inside[1:])
                raise CycleError(
                    f"values leave the loop and enter it again: {cycle_text}",
                    graph.mdf_path,
                    f"add {nodes_between} to the nodes that are folded",
                )


def _check_no_state_or_condition(graph: FlatGraph, nodes: Sequence[str]) -> None:
    """Raise UnsupportedError if a node has a state or is named in a condition of the graph."""
    parsed_graph = graph_of({graph.graph_id: graph.graph_content}, graph.mdf_path)
    for node in (parsed_node for parsed_node in parsed_graph.nodes if parsed_node.id in nodes):
        for parameter in filter(is_stateful, node.parameters):
            raise UnsupportedError(
                f"the parameter '{parameter.id}' of '{node.id}' keeps a state, but a loop body "
                "remembers only what the loop carries",
                f"{graph.mdf_path}.nodes['{node.id}'].parameters['{parameter.id}']",
                "make it an input port, and carry its new value to it",
            )
    conditions_text = repr(graph.graph_content.get("conditions") or "")
    nodes_in_conditions = [node_id for node_id in nodes if repr(node_id) in conditions_text]
    if nodes_in_conditions:
        raise UnsupportedError(
            f"a condition of the graph names '{nodes_in_conditions[0]}', which would be inside of the loop",
            f"{graph.mdf_path}.conditions",
            "take it out of the conditions",
        )


def _resolve_condition(graph: FlatGraph, nodes: Sequence[str], while_: str | None) -> Port | None:
    if while_ is None:
        return None
    output_ports = graph.ports("output_ports")
    condition_port = find_port(while_, output_ports, "the condition", graph.mdf_path)
    if condition_port[0] not in nodes:
        raise ConditionError(
            f"the condition '{while_}' is outside of the loop: it would never change",
            graph.mdf_path,
            f"add '{condition_port[0]}' to the nodes that are folded",
        )
    return condition_port


def _resolve_counter_ports(
    graph: FlatGraph, open_ports: Mapping[Port, Content], boundary: Boundary, iteration: str | None
) -> tuple[Port, ...]:
    if iteration is None:
        return ()
    counter_port = find_port(iteration, open_ports, "the iteration number's port", graph.mdf_path)
    if boundary.edges_into(counter_port):
        raise ModelError(
            f"'{iteration}' has an edge from outside, so it cannot be the iteration number",
            graph.mdf_path,
        )
    return (counter_port,)


def _resolve_trip_count(
    graph: FlatGraph, nodes: Sequence[str], count: int | str | None
) -> int | Port | None:
    if isinstance(count, str):
        ports_outside = [port for port in graph.ports("output_ports") if port[0] not in nodes]
        return find_port(count, ports_outside, "the trip count", graph.mdf_path)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise TripCountError(
            f"the trip count is a whole number from 0, or a port, not {count!r}", graph.mdf_path
        )
    return count


# --- the new graph ------------------------------------------------------------------------------


def _build_model(request: _FoldRequest) -> DocumentValue:
    flat_graph = request.graph
    open_ports = open_input_ports(flat_graph, request.node_ids, request.boundary)
    source_key_by_port: dict[Port, Any] = dict.fromkeys(request.counter_ports, ("counter",))
    source_key_by_port |= {
        port: ("carried", carried_value.destination_ports)
        for carried_value in request.carried_values
        for port in carried_value.destination_ports
    }
    body_inputs = find_body_inputs(flat_graph, open_ports, source_key_by_port, request.boundary)
    body_input_by_port = {
        port: body_input for body_input in body_inputs for port in body_input.ports
    }
    loop_outputs = find_loop_outputs(
        flat_graph,
        request.node_ids,
        request.boundary,
        request.carried_values,
        request.condition_port,
    )
    body_content = _build_body_content(request, body_inputs, body_input_by_port, loop_outputs)
    outer_body_inputs = [
        body_input for body_input in body_inputs if body_input.source_key != ("counter",)
    ]
    output_port_ids = _name_output_ports(
        loop_outputs, [body_input.name for body_input in body_inputs]
    )
    trip_count_port = unique_name("trip_count", [body_input.name for body_input in body_inputs])
    loop_node = _build_loop_node(
        request,
        outer_body_inputs,
        body_input_by_port,
        loop_outputs,
        output_port_ids,
        body_content,
        trip_count_port,
    )
    new_edges = _build_outer_edges(request, outer_body_inputs, output_port_ids, trip_count_port)
    new_nodes: Content = {}
    for node_id, node_content in flat_graph.contents_of_nodes.items():
        if node_id == request.node_ids[0]:
            new_nodes[request.node_id] = loop_node
        elif node_id not in request.node_ids:
            new_nodes[node_id] = node_content
    new_sections = {"nodes": new_nodes, "edges": new_edges}
    graph_metadata = flat_graph.graph_content.get("metadata") or {}
    if graph_metadata.get("outputs"):
        new_sections["metadata"] = {
            **graph_metadata,
            "outputs": loop_outputs.rename_outputs(
                graph_metadata["outputs"], request.node_id, output_port_ids
            ),
        }
    return flat_graph.with_graph(**new_sections)


def _name_output_ports(outputs: LoopOutputs, body_input_names: Sequence[str]) -> dict[Port, str]:
    """Choose a unique id for each output port of the loop node."""
    output_port_ids: dict[Port, str] = {}
    reserved_names = [*body_input_names, _FUNCTION_ID]
    for port in outputs.output_ports:
        has_unique_id = sum(other_port[1] == port[1] for other_port in outputs.output_ports) == 1
        base_name = port[1] if has_unique_id and port[1] not in reserved_names else "_".join(port)
        output_port_ids[port] = unique_name(base_name, [*reserved_names, *output_port_ids.values()])
    return output_port_ids


def _build_body_content(
    request: _FoldRequest,
    body_inputs: Sequence[BodyInput],
    body_input_by_port: Mapping[Port, BodyInput],
    outputs: LoopOutputs,
) -> Content:
    graph = request.graph
    relay_id = unique_name(DEFAULT_RELAY_ID, request.node_ids)
    relay_node, relay_edges = build_relay(body_inputs, relay_id)
    relayed_ports = {(edge["receiver"], edge["receiver_port"]) for edge in relay_edges.values()}
    body_nodes = {
        **relay_node,
        **{
            node_id: _remove_defaults(node_id, graph.contents_of_nodes[node_id], relayed_ports)
            for node_id in request.node_ids
        },
    }
    body_input_names = [body_input.name for body_input in body_inputs]
    unavailable_names = [
        *body_input_names,
        *(port_id for _, port_id in graph.ports("input_ports", request.node_ids)),
    ]
    unavailable_names += [port_id for _, port_id in graph.ports("output_ports", request.node_ids)]
    counter_name = (
        body_input_by_port[request.counter_ports[0]].name
        if request.counter_ports
        else unique_name("iteration", unavailable_names)
    )
    condition_input = unique_name("go_on", [*unavailable_names, counter_name])
    carried_inputs = [
        body_input_by_port[carried_value.destination_ports[0]].name
        for carried_value in request.carried_values
    ]
    next_value_names = [
        body_input_by_port[carried_value.source_port].name
        if carried_value.is_delay
        else outputs.name_in_body(carried_value.source_port)
        for carried_value in request.carried_values
    ]
    condition_name = (
        condition_input
        if request.condition_port is None
        else outputs.name_in_body(request.condition_port)
    )
    body_metadata = {
        "inputs": [counter_name, condition_input, *carried_inputs],
        "outputs": [
            condition_name,
            *next_value_names,
            *(outputs.name_in_body(port) for port in outputs.last_value_ports),
        ],
    }
    body_edges = {
        **relay_edges,
        **{edge.id: dict(edge.content) for edge in request.boundary.inner_edges},
    }
    return {
        f"{request.node_id}_body": {
            "metadata": body_metadata,
            "nodes": body_nodes,
            "edges": body_edges,
        }
    }


def _remove_defaults(node_id: str, node: Content, relayed_ports: set[Port]) -> Content:
    """Remove the default values of input ports that will receive an edge.

    The edges come from the relay node, which forwards inputs of the body to ports with other names.
    """
    if not any(relayed_node_id == node_id for relayed_node_id, _ in relayed_ports):
        return node
    input_ports = {
        port_id: {
            field_name: field_content
            for field_name, field_content in (port_content or {}).items()
            if field_name != "default_value"
        }
        if (node_id, port_id) in relayed_ports
        else port_content
        for port_id, port_content in node["input_ports"].items()
    }
    return {**node, "input_ports": input_ports}


def _build_loop_node(
    request: _FoldRequest,
    outer_body_inputs: Sequence[BodyInput],
    body_input_by_port: Mapping[Port, BodyInput],
    outputs: LoopOutputs,
    output_port_ids: Mapping[Port, str],
    body_content: Content,
    trip_count_port: str,
) -> Content:
    input_ports = request.graph.ports("input_ports", request.node_ids)
    loop_input_ports = {
        body_input.name: input_ports[body_input.ports[0]] for body_input in outer_body_inputs
    }
    loop_arguments: Content = {}
    if request.trip_count is not None:
        has_trip_count_port = isinstance(request.trip_count, tuple)
        loop_arguments["M"] = trip_count_port if has_trip_count_port else request.trip_count
        loop_input_ports |= {trip_count_port: {}} if has_trip_count_port else {}
    if request.condition_port is not None:
        loop_arguments["cond"] = True
    loop_arguments["v_initial"] = [
        body_input_by_port[carried_value.destination_ports[0]].name
        for carried_value in request.carried_values
    ]
    loop_arguments["body"] = body_content
    if outputs.last_value_ports:
        loop_arguments["recordings"] = {
            outputs.name_in_body(port): {"keep": "last"} for port in outputs.last_value_ports
        }
    if request.exits_in_middle:
        loop_arguments["exit"] = "middle"
    final_value_positions = {
        port: k
        for k, carried_value in reversed([*enumerate(request.carried_values)])
        for port in [carried_value.source_port]
    }
    result_positions = {
        port: final_value_positions[port]
        if port in outputs.final_ports
        else len(request.carried_values) + outputs.last_value_ports.index(port)
        for port in output_port_ids
    }
    result_count = len(request.carried_values) + len(outputs.last_value_ports)
    expressions_by_port = {
        port: f"{_FUNCTION_ID}[{k}]" if result_count > 1 else _FUNCTION_ID
        for port, k in result_positions.items()
    }
    return {
        "input_ports": loop_input_ports,
        "functions": {_FUNCTION_ID: {"function": "onnx::Loop", "args": loop_arguments}},
        "output_ports": {
            output_port_ids[port]: {"value": expression}
            for port, expression in expressions_by_port.items()
        },
    }


def _build_outer_edges(
    request: _FoldRequest,
    outer_body_inputs: Sequence[BodyInput],
    output_port_ids: Mapping[Port, str],
    trip_count_port: str,
) -> Content:
    """Return the edges of the folded graph in document order, with one edge for each loop input."""
    outer_edges: Content = {}
    for body_input in outer_body_inputs:
        for edge in body_input.edges:
            outer_edges[edge.id] = edge.content_with_ports(
                edge.sender, (request.node_id, body_input.name)
            )
    for edge in request.boundary.outgoing_edges:
        outer_edges[edge.id] = edge.content_with_ports(
            (request.node_id, output_port_ids[edge.sender]), edge.receiver
        )
    for edge in request.boundary.outer_edges:
        outer_edges[edge.id] = dict(edge.content)
    ordered_edges = {
        edge.id: outer_edges[edge.id] for edge in request.graph.edges if edge.id in outer_edges
    }
    if isinstance(request.trip_count, tuple):
        trip_count_edge_id = unique_name(f"{request.node_id}_{trip_count_port}", ordered_edges)
        ordered_edges[trip_count_edge_id] = {
            "sender": request.trip_count[0],
            "receiver": request.node_id,
            "sender_port": request.trip_count[1],
            "receiver_port": trip_count_port,
        }
    return ordered_edges
