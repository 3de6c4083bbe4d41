"""Inputs of the body of a folded loop, with their names.

An input port of a body without an edge is bound by its id. If two ports with the same id must
receive different values, one of the two ports gets an edge from a relay node, which only forwards
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ScopeError, UnsupportedError
from mdf_loop.folding.flat_graph import Content, FlatEdge, FlatGraph, Port, unique_name

DEFAULT_RELAY_ID = "entering"
"""Default id of the relay node."""


class BodyInput(Struct, frozen=True):
    """Input of the body of a folded loop, with its destination ports and its outer edges.

    Input ports with the same `source_key` receive the same value. The key identifies the source of the value,
    a carried value, or the iteration number.
    """

    source_key: DocumentValue  # identifies the source of the value
    ports: tuple[Port, ...]  # input ports that receive the value
    edges: tuple[FlatEdge, ...]  # edges from outside of the loop
    name: str = ""  # name of the body input


class Boundary(Struct, frozen=True):
    """Edges of a graph, classified by whether their ends are inside a set of nodes."""

    inner_edges: tuple[FlatEdge, ...]
    incoming_edges: tuple[FlatEdge, ...]
    outgoing_edges: tuple[FlatEdge, ...]
    outer_edges: tuple[FlatEdge, ...]

    @classmethod
    def of(cls, graph: FlatGraph, nodes: Sequence[str]) -> Boundary:
        """Classify the edges of `graph` as inner, incoming, outgoing or outer edges of `nodes`."""
        edges_by_ends_inside: dict[tuple[bool, bool], list[FlatEdge]] = {}
        for edge in graph.edges:
            edges_by_ends_inside.setdefault(
                (edge.sender[0] in nodes, edge.receiver[0] in nodes), []
            ).append(edge)
        inner_edges, incoming_edges, outgoing_edges, outer_edges = (
            tuple(edges_by_ends_inside.get(are_ends_inside, ()))
            for are_ends_inside in ((True, True), (False, True), (True, False), (False, False))
        )
        return cls(inner_edges, incoming_edges, outgoing_edges, outer_edges)

    def edges_into(self, port: Port) -> tuple[FlatEdge, ...]:
        """Return the edges to `port` that start outside of the set of nodes."""
        return tuple(edge for edge in self.incoming_edges if edge.receiver == port)


def open_input_ports(
    graph: FlatGraph, nodes: Sequence[str], boundary: Boundary
) -> dict[Port, Content]:
    """Return the input ports of the folded nodes that get no edge from another folded node."""
    ports_with_inner_edge = {edge.receiver for edge in boundary.inner_edges}
    ports_with_two_sources = [
        edge.receiver for edge in boundary.incoming_edges if edge.receiver in ports_with_inner_edge
    ]
    if ports_with_two_sources:
        raise UnsupportedError(
            f"the port '{'.'.join(ports_with_two_sources[0])}' gets values from inside and from outside of the loop",
            graph.mdf_path,
            "fold more nodes, or give it one edge",
        )
    return {
        port: port_content
        for port, port_content in graph.ports("input_ports", nodes).items()
        if port not in ports_with_inner_edge
    }


def find_body_inputs(
    graph: FlatGraph,
    open_ports: Mapping[Port, Content],
    special_source_keys: Mapping[Port, DocumentValue],
    boundary: Boundary,
) -> tuple[BodyInput, ...]:
    """Return all inputs of the folded loop's body, with unique names.

    `special_keys` maps carried ports, and the port for the iteration number, to their keys.
    """
    ports_by_source_key: dict[DocumentValue, list[Port]] = {}
    for port, port_content in open_ports.items():
        incoming_edges = boundary.edges_into(port)
        sources_of_edges = tuple(
            (edge.sender, repr(edge.content.get("parameters"))) for edge in incoming_edges
        )
        source_key_without_edge = (
            (port[1], repr(port_content)) if "default_value" not in port_content else port
        )
        source_key = special_source_keys.get(
            port,
            (sources_of_edges, port_content.get("reduce"))
            if incoming_edges
            else source_key_without_edge,
        )
        ports_by_source_key.setdefault(source_key, []).append(port)
    unnamed_body_inputs = [
        BodyInput(source_key, tuple(input_ports), boundary.edges_into(input_ports[0]))
        for source_key, input_ports in ports_by_source_key.items()
    ]
    for body_input in unnamed_body_inputs:
        _check_single_origin(body_input, boundary, graph.mdf_path)
    output_port_ids = {
        port_id
        for _, port_id in graph.ports("output_ports", {node_id for node_id, _ in open_ports})
    }
    return _name_body_inputs(unnamed_body_inputs, output_port_ids)


def _check_single_origin(body_input: BodyInput, boundary: Boundary, where: str) -> None:
    """Raise ScopeError if the ports of one carried value have different initial values."""
    senders_by_port = [
        [edge.sender for edge in boundary.edges_into(port)] for port in body_input.ports
    ]
    for port, port_senders in zip(body_input.ports, senders_by_port, strict=True):
        if port_senders != senders_by_port[0]:
            raise ScopeError(
                f"the carried value of '{'.'.join(body_input.ports[0])}' and '{'.'.join(port)}' has two "
                "initial values",
                where,
                "name the ports as node.port, each with a source of its own",
            )


def _name_body_inputs(
    unnamed_body_inputs: Sequence[BodyInput], output_port_ids: set[str]
) -> tuple[BodyInput, ...]:
    """Give each input of the body a unique name.

    The name is the id of the ports, if possible.

    If inputs without an edge share a name, all of these inputs are renamed, so that none of them
    replaces the others.
    """
    used_names = set(output_port_ids)
    port_id_sets_without_edge = [
        {port_id for _, port_id in body_input.ports}
        for body_input in unnamed_body_inputs
        if not body_input.edges
    ]
    ambiguous_ids = {
        port_id
        for port_ids in port_id_sets_without_edge
        for port_id in port_ids
        if sum(port_id in other_port_ids for other_port_ids in port_id_sets_without_edge) > 1
    }
    name_by_source_key: dict[DocumentValue, str] = {}
    for body_input in unnamed_body_inputs:
        port_ids = {port_id for _, port_id in body_input.ports}
        if (
            len(port_ids) == 1
            and not port_ids & used_names
            and not (port_ids & ambiguous_ids and not body_input.edges)
        ):
            name_by_source_key[body_input.source_key] = port_ids.pop()
            used_names.add(name_by_source_key[body_input.source_key])
    used_names |= {port_id for body_input in unnamed_body_inputs for _, port_id in body_input.ports}
    for body_input in unnamed_body_inputs:
        if body_input.source_key not in name_by_source_key:
            name_by_source_key[body_input.source_key] = unique_name(
                "_".join(body_input.ports[0]), used_names
            )
            used_names.add(name_by_source_key[body_input.source_key])
    return tuple(
        BodyInput(
            body_input.source_key,
            body_input.ports,
            body_input.edges,
            name_by_source_key[body_input.source_key],
        )
        for body_input in unnamed_body_inputs
    )


def build_relay(body_inputs: Sequence[BodyInput], relay_id: str) -> tuple[Content, Content]:
    """Build a relay node and its edges, which forward body inputs to ports with other names.

    Both dicts are empty if no such node is needed.
    """
    relayed_ports = [
        (body_input, port)
        for body_input in body_inputs
        for port in body_input.ports
        if port[1] != body_input.name
    ]
    if not relayed_ports:
        return {}, {}
    body_input_names = list(dict.fromkeys(body_input.name for body_input, _ in relayed_ports))
    relay_node = {
        "input_ports": {name: {} for name in body_input_names},
        "output_ports": {name: {"value": name} for name in body_input_names},
    }
    relay_edges = {
        f"{relay_id}_{body_input.name}_{'_'.join(port)}": {
            "sender": relay_id,
            "receiver": port[0],
            "sender_port": body_input.name,
            "receiver_port": port[1],
        }
        for body_input, port in relayed_ports
    }
    return {relay_id: relay_node}, relay_edges
