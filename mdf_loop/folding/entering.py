"""Values that enter the body of a folded loop, and the names of these values.

An input port of a body without an edge is bound by its id. If two ports with the same id must
receive different values, one of the two ports gets an edge from a relay node, which only forwards
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.errors import ScopeError, UnsupportedError
from mdf_loop.folding.flat import Content, Edge, FlatGraph, Port, unique_name

DEFAULT_RELAY_ID = "entering"
"""Default id of the relay node."""


class Entrance(Struct, frozen=True):
    """Value that enters the body, with the ports that receive the value, and the edges from outside.

    Input ports with the same `key` receive the same value. The key identifies the source of the value,
    a carried value, or the iteration number.
    """

    key: Any
    ports: tuple[Port, ...]
    edges: tuple[Edge, ...]
    name: str = ""


class Boundary(Struct, frozen=True):
    """Edges of a graph, grouped by whether their sender and receiver belong to a set of nodes."""

    inside: tuple[Edge, ...]
    incoming: tuple[Edge, ...]
    outgoing: tuple[Edge, ...]
    outside: tuple[Edge, ...]

    @classmethod
    def of(cls, graph: FlatGraph, nodes: Sequence[str]) -> Boundary:
        """Return the edges of `graph`, grouped by whether sender and receiver belong to `nodes`."""
        groups: dict[tuple[bool, bool], list[Edge]] = {}
        for edge in graph.edges:
            groups.setdefault((edge.sender[0] in nodes, edge.receiver[0] in nodes), []).append(edge)
        inside, incoming, outgoing, outside = (
            tuple(groups.get(key, ()))
            for key in ((True, True), (False, True), (True, False), (False, False))
        )
        return cls(inside, incoming, outgoing, outside)

    def edges_into(self, port: Port) -> tuple[Edge, ...]:
        """Return the edges that lead from nodes outside of the set to `port`."""
        return tuple(edge for edge in self.incoming if edge.receiver == port)


def open_input_ports(
    graph: FlatGraph, nodes: Sequence[str], boundary: Boundary
) -> dict[Port, Content]:
    """Return the input ports of the folded nodes that no edge between these nodes feeds."""
    fed_ports = {edge.receiver for edge in boundary.inside}
    doubly_fed_ports = [edge.receiver for edge in boundary.incoming if edge.receiver in fed_ports]
    if doubly_fed_ports:
        raise UnsupportedError(
            f"the port '{'.'.join(doubly_fed_ports[0])}' gets values from inside and from outside of the loop",
            graph.where,
            "fold more nodes, or give it one edge",
        )
    return {
        port: c for port, c in graph.ports("input_ports", nodes).items() if port not in fed_ports
    }


def find_entrances(
    graph: FlatGraph,
    open_ports: Mapping[Port, Content],
    special_keys: Mapping[Port, Any],
    boundary: Boundary,
) -> tuple[Entrance, ...]:
    """Return all values that enter the body, with unique names.

    `special_keys` maps carried ports, and the port for the iteration number, to their keys.
    """
    ports_by_key: dict[Any, list[Port]] = {}
    for port, content in open_ports.items():
        edges = boundary.edges_into(port)
        origin = tuple((e.sender, repr(e.content.get("parameters"))) for e in edges)
        unfed_key = (port[1], repr(content)) if "default_value" not in content else port
        key = special_keys.get(port, (origin, content.get("reduce")) if edges else unfed_key)
        ports_by_key.setdefault(key, []).append(port)
    unnamed_entrances = [
        Entrance(key, tuple(ports), boundary.edges_into(ports[0]))
        for key, ports in ports_by_key.items()
    ]
    for entry in unnamed_entrances:
        _check_single_origin(entry, boundary, graph.where)
    output_ids = {port for _, port in graph.ports("output_ports", {n for n, _ in open_ports})}
    return _name_entrances(unnamed_entrances, output_ids)


def _check_single_origin(entry: Entrance, boundary: Boundary, where: str) -> None:
    """Raise ScopeError if the ports of one carried value have different initial values."""
    senders = [[edge.sender for edge in boundary.edges_into(port)] for port in entry.ports]
    for port, port_senders in zip(entry.ports, senders, strict=True):
        if port_senders != senders[0]:
            raise ScopeError(
                f"the carried value of '{'.'.join(entry.ports[0])}' and '{'.'.join(port)}' has two "
                "initial values",
                where,
                "name the ports as node.port, each with a source of its own",
            )


def _name_entrances(
    unnamed_entrances: Sequence[Entrance], output_ids: set[str]
) -> tuple[Entrance, ...]:
    """Return the entrances with unique names: the id of their ports, if possible.

    If inputs without an edge share a name, all of these inputs are renamed, so that none of them
    replaces the others.
    """
    used_names = set(output_ids)
    unfed_port_ids = [
        {port for _, port in entry.ports} for entry in unnamed_entrances if not entry.edges
    ]
    ambiguous_ids = {
        port
        for port_ids in unfed_port_ids
        for port in port_ids
        if sum(port in other_ids for other_ids in unfed_port_ids) > 1
    }
    names: dict[Any, str] = {}
    for entry in unnamed_entrances:
        port_ids = {port for _, port in entry.ports}
        if (
            len(port_ids) == 1
            and not port_ids & used_names
            and not (port_ids & ambiguous_ids and not entry.edges)
        ):
            names[entry.key] = port_ids.pop()
            used_names.add(names[entry.key])
    used_names |= {port for entry in unnamed_entrances for _, port in entry.ports}
    for entry in unnamed_entrances:
        if entry.key not in names:
            names[entry.key] = unique_name("_".join(entry.ports[0]), used_names)
            used_names.add(names[entry.key])
    return tuple(Entrance(e.key, e.ports, e.edges, names[e.key]) for e in unnamed_entrances)


def build_relay(entrances: Sequence[Entrance], node: str) -> tuple[Content, Content]:
    """Return the relay node and its edges, or two empty dicts if no relay is needed."""
    relayed_ports = [(e, port) for e in entrances for port in e.ports if port[1] != e.name]
    if not relayed_ports:
        return {}, {}
    names = list(dict.fromkeys(entry.name for entry, _ in relayed_ports))
    relay = {
        "input_ports": {name: {} for name in names},
        "output_ports": {name: {"value": name} for name in names},
    }
    edges = {
        f"{node}_{entry.name}_{'_'.join(port)}": {
            "sender": node,
            "receiver": port[0],
            "sender_port": entry.name,
            "receiver_port": port[1],
        }
        for entry, port in relayed_ports
    }
    return {node: relay}, edges
