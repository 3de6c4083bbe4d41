"""What enters the body when nodes are folded: names for it, inside and outside.

A free port of a body is bound by its id. Where two ports of one id shall hold different values,
one of them gets its value over an edge from a node that only passes values on (a relay).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.errors import ScopeError, UnsupportedError
from mdf_loop.folding.flat import Content, Edge, Flat, Port, fresh

RELAY = "entering"
"""What the node is called that passes values on."""


class Entrance(Struct, frozen=True):
    """One value that enters: the inner ports that hold it, the edges that bring it from outside.

    `key` says what makes it one: where it comes from, or that it is carried.
    """

    key: Any
    ports: tuple[Port, ...]
    edges: tuple[Edge, ...]
    name: str = ""


class Boundary(Struct, frozen=True):
    """The edges of a graph, seen from a set of its nodes."""

    inside: tuple[Edge, ...]
    incoming: tuple[Edge, ...]
    outgoing: tuple[Edge, ...]
    outside: tuple[Edge, ...]

    @classmethod
    def of(cls, graph: Flat, nodes: Sequence[str]) -> Boundary:
        """The edges of `graph` by where their ends are."""
        groups: dict[tuple[bool, bool], list[Edge]] = {}
        for edge in graph.edges:
            groups.setdefault((edge.sender[0] in nodes, edge.receiver[0] in nodes), []).append(edge)
        both, into, out_of, neither = (
            tuple(groups.get(key, ()))
            for key in ((True, True), (False, True), (True, False), (False, False))
        )
        return cls(both, into, out_of, neither)

    def leading_to(self, port: Port) -> tuple[Edge, ...]:
        """The edges from outside into a port of the set."""
        return tuple(edge for edge in self.incoming if edge.receiver == port)


def open_inside(graph: Flat, nodes: Sequence[str], boundary: Boundary) -> dict[Port, Content]:
    """The input ports of the set that no edge inside feeds."""
    fed = {edge.receiver for edge in boundary.inside}
    both = [edge.receiver for edge in boundary.incoming if edge.receiver in fed]
    if both:
        raise UnsupportedError(
            f"the port '{'.'.join(both[0])}' gets values from inside and from outside of the loop",
            graph.where,
            "fold more nodes, or give it one edge",
        )
    return {port: c for port, c in graph.ports("input_ports", nodes).items() if port not in fed}


def entries(
    graph: Flat, open_ports: Mapping[Port, Content], special: Mapping[Port, Any], boundary: Boundary
) -> tuple[Entrance, ...]:
    """Everything that enters, named; `special` are the keys of carried ports and the counter's."""
    found: dict[Any, list[Port]] = {}
    for port, content in open_ports.items():
        edges = boundary.leading_to(port)
        origin = tuple((e.sender, repr(e.content.get("parameters"))) for e in edges)
        alone = (port[1], repr(content)) if "default_value" not in content else port
        key = special.get(port, (origin, content.get("reduce")) if edges else alone)
        found.setdefault(key, []).append(port)
    unnamed = [
        Entrance(key, tuple(ports), boundary.leading_to(ports[0])) for key, ports in found.items()
    ]
    for entry in unnamed:
        _refuse_two_origins(entry, boundary, graph.where)
    made = {port for _, port in graph.ports("output_ports", {n for n, _ in open_ports})}
    return _named(unnamed, made)


def _refuse_two_origins(entry: Entrance, boundary: Boundary, where: str) -> None:
    senders = [[edge.sender for edge in boundary.leading_to(port)] for port in entry.ports]
    for port, sent in zip(entry.ports, senders, strict=True):
        if sent != senders[0]:
            raise ScopeError(
                f"the carried value of '{'.'.join(entry.ports[0])}' and '{'.'.join(port)}' has two "
                "initial values",
                where,
                "name the ports as node.port, each with a source of its own",
            )


def _named(unnamed: Sequence[Entrance], made: set[str]) -> tuple[Entrance, ...]:
    """Names: the id of the ports if nobody else has it, else one with the node's.

    Inputs of one name that can be given from outside are all renamed: none must pass for all.
    """
    taken = set(made)
    given = [{port for _, port in entry.ports} for entry in unnamed if not entry.edges]
    several = {port for ids in given for port in ids if sum(port in other for other in given) > 1}
    named: dict[Any, str] = {}
    for entry in unnamed:
        ids = {port for _, port in entry.ports}
        if len(ids) == 1 and not ids & taken and not (ids & several and not entry.edges):
            named[entry.key] = ids.pop()
            taken.add(named[entry.key])
    taken |= {port for entry in unnamed for _, port in entry.ports}
    for entry in unnamed:
        if entry.key not in named:
            named[entry.key] = fresh("_".join(entry.ports[0]), taken)
            taken.add(named[entry.key])
    return tuple(Entrance(e.key, e.ports, e.edges, named[e.key]) for e in unnamed)


def relayed(entries: Sequence[Entrance], node: str) -> tuple[Content, Content]:
    """The node that passes values on and its edges; both empty if every port has its own name."""
    pairs = [(e, port) for e in entries for port in e.ports if port[1] != e.name]
    if not pairs:
        return {}, {}
    names = list(dict.fromkeys(entry.name for entry, _ in pairs))
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
        for entry, port in pairs
    }
    return {node: relay}, edges
