"""Nodes of a flat graph become one loop node.

    x -> A -> B -> out          x -> loop [ A -> B ] -> out
         carry {B.y: A.x}

    fold(graph, nodes=["A", "B"], carry={"B.y": "A.x"}, while_="B.go")

What enters the set over edges enters the loop node: as initial values where something is carried
there, as captures elsewhere. What leaves it are final carried values, or the last value that a
node gave. All else stays as it is.

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
from mdf_loop.folding.carried import Carry, carried
from mdf_loop.folding.entering import RELAY, Boundary, Entrance, entries, open_inside, relayed
from mdf_loop.folding.flat import Content, Flat, Port, flat, fresh, port_named
from mdf_loop.folding.leaving import Leaving, leaving
from mdf_loop.importing.opening import Source
from mdf_loop.reading.parameters import is_stateful
from mdf_loop.suggestion import suggestion

_FUNCTION = "rounds"
"""What the loop is called inside its node."""


class _Asked(Struct, frozen=True):
    """What is to be folded, with names resolved."""

    graph: Flat
    nodes: tuple[str, ...]
    boundary: Boundary
    carry: tuple[Carry, ...]
    condition: Port | None
    counter: tuple[Port, ...]
    trip_count: int | Port | None
    mid_exit: bool
    id: str


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
    """Make one loop node of some nodes of a flat graph.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a dict.
        nodes: the ids of the nodes that become the body.
        carry: where a value goes for the next iteration, as `source: destination`. A source is an
            output `node.port` of the set, or an input: the value it has in this round (chains,
            swaps); a destination an input `node.port` of the set (or a port id: all ports of that id).
        while_: an output `node.port` of the set: the loop goes on as long as it is true.
        trip_count: the most iterations; a number, or an output `node.port` outside of the set.
        exit: `middle`: the condition is tested as soon as it is known, what it needs runs once
            more than the rest; `end`: it is tested after each iteration.
        iteration: an input of the set that gets the iteration number, from 0.
        id: what the loop node is called.

    Returns:
        A new modeci_mdf Model. The source is left as it is.

    Raises:
        LoopError: a name is unknown or means several things, values leave the set and enter it
            again, a carried input is fed inside, a state is kept inside.
    """
    graph, chosen = flat(source), names(nodes, "nodes")
    carried = mapping(carry, "carry", "carry={'node.port': 'node.port'}")
    return _folded(_asked(graph, chosen, carried, while_, trip_count, exit, iteration, id))


# --- what is asked for --------------------------------------------------------------------------


def _asked(
    graph: Flat,
    nodes: tuple[str, ...],
    carry: Mapping[str, str | Sequence[str]],
    while_: str | None,
    trip_count: int | str | None,
    exit: str,
    iteration: str | None,
    node_id: str,
) -> _Asked:
    ordered = _ordered(graph, nodes)
    boundary = Boundary.of(graph, ordered)
    _refuse_leaving_and_entering(graph, ordered, boundary)
    _refuse_states_and_conditions(graph, ordered)
    if exit not in ("middle", "end"):
        raise ModelError(f"exit is 'middle' or 'end', not {exit!r}", graph.where)
    if while_ is None and trip_count is None:
        raise ModelError(
            "the loop would never end: it has neither a condition nor a trip count",
            graph.where,
            "give while_='node.port' or trip_count=...",
        )
    if node_id in graph.nodes.keys() - set(ordered):
        raise ModelError(f"there is a node '{node_id}' already", graph.where, "give another id")
    open_ports = open_inside(graph, ordered, boundary)
    return _Asked(
        graph=graph,
        nodes=ordered,
        boundary=boundary,
        carry=carried(graph, ordered, carry, open_ports),
        condition=_condition(graph, ordered, while_),
        counter=_counter(graph, open_ports, boundary, iteration),
        trip_count=_trip_count(graph, ordered, trip_count),
        mid_exit=while_ is not None and exit == "middle",
        id=node_id,
    )


def _ordered(graph: Flat, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes in the order of the graph."""
    if not nodes:
        raise ModelError("no nodes are named", graph.where, "nodes=[...] become the loop's body")
    for name in nodes:
        if name not in graph.nodes:
            raise UnknownNameError(
                f"the graph has no node '{name}'", graph.where, suggestion(name, graph.nodes)
            )
    return tuple(name for name in graph.nodes if name in nodes)


def _refuse_leaving_and_entering(graph: Flat, nodes: Sequence[str], boundary: Boundary) -> None:
    """Refuse a way out of the set that leads into it again."""
    import networkx

    ways = networkx.DiGraph(
        (e.sender[0], e.receiver[0]) for e in (*boundary.outside, *boundary.outgoing)
    )
    for entering in boundary.incoming:
        for node in nodes:
            if node in ways and entering.sender[0] in networkx.descendants(ways, node):
                path = networkx.shortest_path(ways, node, entering.sender[0])
                shown = " -> ".join([*path, entering.receiver[0]])
                between = ", ".join(repr(name) for name in path[1:])
                raise CycleError(
                    f"values leave the loop and enter it again: {shown}",
                    graph.where,
                    f"add {between} to the nodes that are folded",
                )


def _refuse_states_and_conditions(graph: Flat, nodes: Sequence[str]) -> None:
    known = graph_of({graph.graph_id: graph.graph}, graph.where)
    for node in (node for node in known.nodes if node.id in nodes):
        for parameter in filter(is_stateful, node.parameters):
            raise UnsupportedError(
                f"the parameter '{parameter.id}' of '{node.id}' keeps a state, but a loop body "
                "remembers only what the loop carries",
                f"{graph.where}.nodes['{node.id}'].parameters['{parameter.id}']",
                "make it an input port, and carry its new value to it",
            )
    conditions = repr(graph.graph.get("conditions") or "")
    named = [node for node in nodes if repr(node) in conditions]
    if named:
        raise UnsupportedError(
            f"a condition of the graph names '{named[0]}', which would be inside of the loop",
            f"{graph.where}.conditions",
            "take it out of the conditions",
        )


def _condition(graph: Flat, nodes: Sequence[str], while_: str | None) -> Port | None:
    if while_ is None:
        return None
    made = graph.ports("output_ports")
    found = port_named(while_, made, "the condition", graph.where)
    if found[0] not in nodes:
        raise ConditionError(
            f"the condition '{while_}' is outside of the loop: it would never change",
            graph.where,
            f"add '{found[0]}' to the nodes that are folded",
        )
    return found


def _counter(
    graph: Flat, open_ports: Mapping[Port, Content], boundary: Boundary, iteration: str | None
) -> tuple[Port, ...]:
    if iteration is None:
        return ()
    found = port_named(iteration, open_ports, "the iteration number's port", graph.where)
    if boundary.leading_to(found):
        raise ModelError(
            f"'{iteration}' has an edge from outside, so it cannot be the iteration number",
            graph.where,
        )
    return (found,)


def _trip_count(graph: Flat, nodes: Sequence[str], count: int | str | None) -> int | Port | None:
    if isinstance(count, str):
        made = [port for port in graph.ports("output_ports") if port[0] not in nodes]
        return port_named(count, made, "the trip count", graph.where)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise TripCountError(
            f"the trip count is a whole number from 0, or a port, not {count!r}", graph.where
        )
    return count


# --- the new graph ------------------------------------------------------------------------------


def _folded(asked: _Asked) -> Any:
    graph = asked.graph
    open_ports = open_inside(graph, asked.nodes, asked.boundary)
    special: dict[Port, Any] = dict.fromkeys(asked.counter, ("counter",))
    special |= {port: ("carried", c.to) for c in asked.carry for port in c.to}
    found = entries(graph, open_ports, special, asked.boundary)
    by_port = {port: entry for entry in found for port in entry.ports}
    out = leaving(graph, asked.nodes, asked.boundary, asked.carry, asked.condition)
    inner = _body(asked, found, by_port, out)
    outside = [entry for entry in found if entry.key != ("counter",)]
    ids = _output_ids(out, [entry.name for entry in found])
    count_port = fresh("trip_count", [entry.name for entry in found])
    node = _node(asked, outside, by_port, out, ids, inner, count_port)
    edges = _edges(asked, outside, ids, count_port)
    nodes: Content = {}
    for name, content in graph.nodes.items():
        if name == asked.nodes[0]:
            nodes[asked.id] = node
        elif name not in asked.nodes:
            nodes[name] = content
    changed = {"nodes": nodes, "edges": edges}
    metadata = graph.graph.get("metadata") or {}
    if metadata.get("outputs"):
        changed["metadata"] = {
            **metadata,
            "outputs": out.renamed(metadata["outputs"], asked.id, ids),
        }
    return graph.with_graph(**changed)


def _output_ids(out: Leaving, taken: Sequence[str]) -> dict[Port, str]:
    """What the loop node's output ports are called."""
    ids: dict[Port, str] = {}
    known = [*taken, _FUNCTION]
    for port in out.ports:
        alone = sum(other[1] == port[1] for other in out.ports) == 1
        wanted = port[1] if alone and port[1] not in known else "_".join(port)
        ids[port] = fresh(wanted, [*known, *ids.values()])
    return ids


def _body(
    asked: _Asked, found: Sequence[Entrance], by_port: Mapping[Port, Entrance], out: Leaving
) -> Content:
    graph = asked.graph
    relay = fresh(RELAY, asked.nodes)
    relay_node, relay_edges = relayed(found, relay)
    feeding = {(e["receiver"], e["receiver_port"]) for e in relay_edges.values()}
    nodes = {
        **relay_node,
        **{n: _without_defaults(n, graph.nodes[n], feeding) for n in asked.nodes},
    }
    names = [entry.name for entry in found]
    taken = [*names, *(port for _, port in graph.ports("input_ports", asked.nodes))]
    taken += [port for _, port in graph.ports("output_ports", asked.nodes)]
    counter = by_port[asked.counter[0]].name if asked.counter else fresh("iteration", taken)
    going = fresh("go_on", [*taken, counter])
    to = [by_port[c.to[0]].name for c in asked.carry]
    leaves = [by_port[c.source].name if c.delays else out.inner(c.source) for c in asked.carry]
    condition = going if asked.condition is None else out.inner(asked.condition)
    metadata = {
        "inputs": [counter, going, *to],
        "outputs": [condition, *leaves, *(out.inner(port) for port in out.last)],
    }
    edges = {**relay_edges, **{e.id: dict(e.content) for e in asked.boundary.inside}}
    return {f"{asked.id}_body": {"metadata": metadata, "nodes": nodes, "edges": edges}}


def _without_defaults(node_id: str, node: Content, feeding: set[Port]) -> Content:
    """The node; ports that the relay feeds always have a value."""
    if not any(name == node_id for name, _ in feeding):
        return node
    ports = {
        port: {k: v for k, v in (content or {}).items() if k != "default_value"}
        if (node_id, port) in feeding
        else content
        for port, content in node["input_ports"].items()
    }
    return {**node, "input_ports": ports}


def _node(
    asked: _Asked,
    outside: Sequence[Entrance],
    by_port: Mapping[Port, Entrance],
    out: Leaving,
    ids: Mapping[Port, str],
    body: Content,
    count_port: str,
) -> Content:
    ports = asked.graph.ports("input_ports", asked.nodes)
    inputs = {entry.name: ports[entry.ports[0]] for entry in outside}
    args: Content = {}
    if asked.trip_count is not None:
        from_port = isinstance(asked.trip_count, tuple)
        args["M"] = count_port if from_port else asked.trip_count
        inputs |= {count_port: {}} if from_port else {}
    if asked.condition is not None:
        args["cond"] = True
    args["v_initial"] = [by_port[c.to[0]].name for c in asked.carry]
    args["body"] = body
    if out.last:
        args["recordings"] = {out.inner(port): {"keep": "last"} for port in out.last}
    if asked.mid_exit:
        args["exit"] = "middle"
    finals = {port: k for k, c in reversed([*enumerate(asked.carry)]) for port in [c.source]}
    places = {
        p: finals[p] if p in out.finals else len(asked.carry) + out.last.index(p) for p in ids
    }
    results = len(asked.carry) + len(out.last)
    values = {p: f"{_FUNCTION}[{k}]" if results > 1 else _FUNCTION for p, k in places.items()}
    return {
        "input_ports": inputs,
        "functions": {_FUNCTION: {"function": "onnx::Loop", "args": args}},
        "output_ports": {ids[p]: {"value": value} for p, value in values.items()},
    }


def _edges(
    asked: _Asked, outside: Sequence[Entrance], ids: Mapping[Port, str], count_port: str
) -> Content:
    """All edges outside of the loop, in the order of the graph; one edge for each value."""
    new: Content = {}
    for entry in outside:
        for edge in entry.edges:
            new[edge.id] = edge.written(edge.sender, (asked.id, entry.name))
    for edge in asked.boundary.outgoing:
        new[edge.id] = edge.written((asked.id, ids[edge.sender]), edge.receiver)
    for edge in asked.boundary.outside:
        new[edge.id] = dict(edge.content)
    ordered = {edge.id: new[edge.id] for edge in asked.graph.edges if edge.id in new}
    if isinstance(asked.trip_count, tuple):
        name = fresh(f"{asked.id}_{count_port}", ordered)
        ordered[name] = {
            "sender": asked.trip_count[0],
            "receiver": asked.id,
            "sender_port": asked.trip_count[1],
            "receiver_port": count_port,
        }
    return ordered
