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
from mdf_loop.errors import (
    ConditionError,
    CycleError,
    ModelError,
    TripCountError,
    UnknownNameError,
    UnsupportedError,
)
from mdf_loop.folding.carried import Carry, resolve_carry
from mdf_loop.folding.entering import (
    DEFAULT_RELAY_ID,
    Boundary,
    Entrance,
    build_relay,
    find_entrances,
    open_input_ports,
)
from mdf_loop.folding.flat import Content, FlatGraph, Port, find_port, open_flat_graph, unique_name
from mdf_loop.folding.leaving import LoopOutputs, find_loop_outputs
from mdf_loop.importing.opening import Source
from mdf_loop.name_suggestions import suggest
from mdf_loop.public_call import public_call
from mdf_loop.reading.parameters import is_stateful

_FUNCTION_ID = "rounds"
"""Id of the loop function inside its node."""


class _FoldRequest(Struct, frozen=True):
    """Arguments of `fold`, with names resolved to nodes and ports."""

    graph: FlatGraph
    nodes: tuple[str, ...]
    boundary: Boundary
    carry: tuple[Carry, ...]
    condition: Port | None
    counter: tuple[Port, ...]
    trip_count: int | Port | None
    mid_exit: bool
    id: str


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
) -> Any:
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
    graph, node_ids = open_flat_graph(source), names(nodes, "nodes")
    carry_map = mapping(carry, "carry", "carry={'node.port': 'node.port'}")
    return _build_model(
        _resolve_request(graph, node_ids, carry_map, while_, trip_count, exit, iteration, id)
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
    ordered_nodes = _sort_in_graph_order(graph, nodes)
    boundary = Boundary.of(graph, ordered_nodes)
    _check_no_path_around(graph, ordered_nodes, boundary)
    _check_no_state_or_condition(graph, ordered_nodes)
    if exit not in ("middle", "end"):
        raise ModelError(f"exit is 'middle' or 'end', not {exit!r}", graph.where)
    if while_ is None and trip_count is None:
        raise ModelError(
            "the loop would never end: it has neither a condition nor a trip count",
            graph.where,
            "give while_='node.port' or trip_count=...",
        )
    if node_id in graph.nodes.keys() - set(ordered_nodes):
        raise ModelError(f"there is a node '{node_id}' already", graph.where, "give another id")
    open_ports = open_input_ports(graph, ordered_nodes, boundary)
    return _FoldRequest(
        graph=graph,
        nodes=ordered_nodes,
        boundary=boundary,
        carry=resolve_carry(graph, ordered_nodes, carry, open_ports),
        condition=_resolve_condition(graph, ordered_nodes, while_),
        counter=_resolve_counter_ports(graph, open_ports, boundary, iteration),
        trip_count=_resolve_trip_count(graph, ordered_nodes, trip_count),
        mid_exit=while_ is not None and exit == "middle",
        id=node_id,
    )


def _sort_in_graph_order(graph: FlatGraph, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes in the order of the graph."""
    if not nodes:
        raise ModelError("no nodes are named", graph.where, "nodes=[...] become the loop's body")
    for name in nodes:
        if name not in graph.nodes:
            raise UnknownNameError(
                f"the graph has no node '{name}'", graph.where, suggest(name, graph.nodes)
            )
    return tuple(name for name in graph.nodes if name in nodes)


def _check_no_path_around(graph: FlatGraph, nodes: Sequence[str], boundary: Boundary) -> None:
    """Raise CycleError if a path leaves the set of nodes and enters it again."""
    import networkx

    outer_graph = networkx.DiGraph(
        (e.sender[0], e.receiver[0]) for e in (*boundary.outside, *boundary.outgoing)
    )
    for incoming_edge in boundary.incoming:
        for node in nodes:
            if node in outer_graph and incoming_edge.sender[0] in networkx.descendants(
                outer_graph, node
            ):
                path = networkx.shortest_path(outer_graph, node, incoming_edge.sender[0])
                cycle = " -> ".join([*path, incoming_edge.receiver[0]])
                nodes_between = ", ".join(repr(name) for name in path[1:])
                raise CycleError(
                    f"values leave the loop and enter it again: {cycle}",
                    graph.where,
                    f"add {nodes_between} to the nodes that are folded",
                )


def _check_no_state_or_condition(graph: FlatGraph, nodes: Sequence[str]) -> None:
    """Raise UnsupportedError if a node has a state or is named in a condition of the graph."""
    parsed_graph = graph_of({graph.graph_id: graph.graph}, graph.where)
    for node in (node for node in parsed_graph.nodes if node.id in nodes):
        for parameter in filter(is_stateful, node.parameters):
            raise UnsupportedError(
                f"the parameter '{parameter.id}' of '{node.id}' keeps a state, but a loop body "
                "remembers only what the loop carries",
                f"{graph.where}.nodes['{node.id}'].parameters['{parameter.id}']",
                "make it an input port, and carry its new value to it",
            )
    conditions = repr(graph.graph.get("conditions") or "")
    nodes_in_conditions = [node for node in nodes if repr(node) in conditions]
    if nodes_in_conditions:
        raise UnsupportedError(
            f"a condition of the graph names '{nodes_in_conditions[0]}', which would be inside of the loop",
            f"{graph.where}.conditions",
            "take it out of the conditions",
        )


def _resolve_condition(graph: FlatGraph, nodes: Sequence[str], while_: str | None) -> Port | None:
    if while_ is None:
        return None
    output_ports = graph.ports("output_ports")
    port = find_port(while_, output_ports, "the condition", graph.where)
    if port[0] not in nodes:
        raise ConditionError(
            f"the condition '{while_}' is outside of the loop: it would never change",
            graph.where,
            f"add '{port[0]}' to the nodes that are folded",
        )
    return port


def _resolve_counter_ports(
    graph: FlatGraph, open_ports: Mapping[Port, Content], boundary: Boundary, iteration: str | None
) -> tuple[Port, ...]:
    if iteration is None:
        return ()
    port = find_port(iteration, open_ports, "the iteration number's port", graph.where)
    if boundary.edges_into(port):
        raise ModelError(
            f"'{iteration}' has an edge from outside, so it cannot be the iteration number",
            graph.where,
        )
    return (port,)


def _resolve_trip_count(
    graph: FlatGraph, nodes: Sequence[str], count: int | str | None
) -> int | Port | None:
    if isinstance(count, str):
        outer_ports = [port for port in graph.ports("output_ports") if port[0] not in nodes]
        return find_port(count, outer_ports, "the trip count", graph.where)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise TripCountError(
            f"the trip count is a whole number from 0, or a port, not {count!r}", graph.where
        )
    return count


# --- the new graph ------------------------------------------------------------------------------


def _build_model(request: _FoldRequest) -> Any:
    graph = request.graph
    open_ports = open_input_ports(graph, request.nodes, request.boundary)
    special_keys: dict[Port, Any] = dict.fromkeys(request.counter, ("counter",))
    special_keys |= {
        port: ("carried", c.destinations) for c in request.carry for port in c.destinations
    }
    entrances = find_entrances(graph, open_ports, special_keys, request.boundary)
    entrance_by_port = {port: entry for entry in entrances for port in entry.ports}
    outputs = find_loop_outputs(
        graph, request.nodes, request.boundary, request.carry, request.condition
    )
    body_content = _build_body_content(request, entrances, entrance_by_port, outputs)
    outer_entrances = [entry for entry in entrances if entry.key != ("counter",)]
    output_port_ids = _name_output_ports(outputs, [entry.name for entry in entrances])
    count_port = unique_name("trip_count", [entry.name for entry in entrances])
    node = _build_loop_node(
        request,
        outer_entrances,
        entrance_by_port,
        outputs,
        output_port_ids,
        body_content,
        count_port,
    )
    edges = _build_outer_edges(request, outer_entrances, output_port_ids, count_port)
    nodes: Content = {}
    for name, content in graph.nodes.items():
        if name == request.nodes[0]:
            nodes[request.id] = node
        elif name not in request.nodes:
            nodes[name] = content
    sections = {"nodes": nodes, "edges": edges}
    metadata = graph.graph.get("metadata") or {}
    if metadata.get("outputs"):
        sections["metadata"] = {
            **metadata,
            "outputs": outputs.rename_outputs(metadata["outputs"], request.id, output_port_ids),
        }
    return graph.with_graph(**sections)


def _name_output_ports(outputs: LoopOutputs, entrance_names: Sequence[str]) -> dict[Port, str]:
    """Return the ids of the loop node's output ports."""
    output_port_ids: dict[Port, str] = {}
    reserved_names = [*entrance_names, _FUNCTION_ID]
    for port in outputs.ports:
        is_unique = sum(other[1] == port[1] for other in outputs.ports) == 1
        base = port[1] if is_unique and port[1] not in reserved_names else "_".join(port)
        output_port_ids[port] = unique_name(base, [*reserved_names, *output_port_ids.values()])
    return output_port_ids


def _build_body_content(
    request: _FoldRequest,
    entrances: Sequence[Entrance],
    entrance_by_port: Mapping[Port, Entrance],
    outputs: LoopOutputs,
) -> Content:
    graph = request.graph
    relay = unique_name(DEFAULT_RELAY_ID, request.nodes)
    relay_node, relay_edges = build_relay(entrances, relay)
    relay_targets = {(e["receiver"], e["receiver_port"]) for e in relay_edges.values()}
    nodes = {
        **relay_node,
        **{n: _remove_defaults(n, graph.nodes[n], relay_targets) for n in request.nodes},
    }
    names = [entry.name for entry in entrances]
    used_ids = [*names, *(port for _, port in graph.ports("input_ports", request.nodes))]
    used_ids += [port for _, port in graph.ports("output_ports", request.nodes)]
    counter = (
        entrance_by_port[request.counter[0]].name
        if request.counter
        else unique_name("iteration", used_ids)
    )
    condition_in = unique_name("go_on", [*used_ids, counter])
    carried_inputs = [entrance_by_port[c.destinations[0]].name for c in request.carry]
    next_values = [
        entrance_by_port[c.source].name if c.is_delay else outputs.inner_name(c.source)
        for c in request.carry
    ]
    condition = condition_in if request.condition is None else outputs.inner_name(request.condition)
    metadata = {
        "inputs": [counter, condition_in, *carried_inputs],
        "outputs": [
            condition,
            *next_values,
            *(outputs.inner_name(port) for port in outputs.last_value_ports),
        ],
    }
    edges = {**relay_edges, **{e.id: dict(e.content) for e in request.boundary.inside}}
    return {f"{request.id}_body": {"metadata": metadata, "nodes": nodes, "edges": edges}}


def _remove_defaults(node_id: str, node: Content, relay_targets: set[Port]) -> Content:
    """Return the node without the default values of ports that the relay feeds."""
    if not any(name == node_id for name, _ in relay_targets):
        return node
    ports = {
        port: {k: v for k, v in (content or {}).items() if k != "default_value"}
        if (node_id, port) in relay_targets
        else content
        for port, content in node["input_ports"].items()
    }
    return {**node, "input_ports": ports}


def _build_loop_node(
    request: _FoldRequest,
    outer_entrances: Sequence[Entrance],
    entrance_by_port: Mapping[Port, Entrance],
    outputs: LoopOutputs,
    output_port_ids: Mapping[Port, str],
    body: Content,
    count_port: str,
) -> Content:
    ports = request.graph.ports("input_ports", request.nodes)
    inputs = {entry.name: ports[entry.ports[0]] for entry in outer_entrances}
    args: Content = {}
    if request.trip_count is not None:
        has_trip_count_port = isinstance(request.trip_count, tuple)
        args["M"] = count_port if has_trip_count_port else request.trip_count
        inputs |= {count_port: {}} if has_trip_count_port else {}
    if request.condition is not None:
        args["cond"] = True
    args["v_initial"] = [entrance_by_port[c.destinations[0]].name for c in request.carry]
    args["body"] = body
    if outputs.last_value_ports:
        args["recordings"] = {
            outputs.inner_name(port): {"keep": "last"} for port in outputs.last_value_ports
        }
    if request.mid_exit:
        args["exit"] = "middle"
    final_positions = {
        port: k for k, c in reversed([*enumerate(request.carry)]) for port in [c.source]
    }
    positions = {
        p: final_positions[p]
        if p in outputs.final_ports
        else len(request.carry) + outputs.last_value_ports.index(p)
        for p in output_port_ids
    }
    result_count = len(request.carry) + len(outputs.last_value_ports)
    values = {
        p: f"{_FUNCTION_ID}[{k}]" if result_count > 1 else _FUNCTION_ID
        for p, k in positions.items()
    }
    return {
        "input_ports": inputs,
        "functions": {_FUNCTION_ID: {"function": "onnx::Loop", "args": args}},
        "output_ports": {output_port_ids[p]: {"value": value} for p, value in values.items()},
    }


def _build_outer_edges(
    request: _FoldRequest,
    outer_entrances: Sequence[Entrance],
    output_port_ids: Mapping[Port, str],
    count_port: str,
) -> Content:
    """Return the edges outside of the loop in graph order, with one edge for each value."""
    edges: Content = {}
    for entry in outer_entrances:
        for edge in entry.edges:
            edges[edge.id] = edge.content_between(edge.sender, (request.id, entry.name))
    for edge in request.boundary.outgoing:
        edges[edge.id] = edge.content_between(
            (request.id, output_port_ids[edge.sender]), edge.receiver
        )
    for edge in request.boundary.outside:
        edges[edge.id] = dict(edge.content)
    ordered_edges = {edge.id: edges[edge.id] for edge in request.graph.edges if edge.id in edges}
    if isinstance(request.trip_count, tuple):
        name = unique_name(f"{request.id}_{count_port}", ordered_edges)
        ordered_edges[name] = {
            "sender": request.trip_count[0],
            "receiver": request.id,
            "sender_port": request.trip_count[1],
            "receiver_port": count_port,
        }
    return ordered_edges
