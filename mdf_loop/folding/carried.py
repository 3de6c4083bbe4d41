"""The carry map: which value goes where for the next iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from mdf_loop.errors import ModelError, ScopeError, UnknownNameError
from mdf_loop.folding.flat import Content, Flat, Port, port_named
from mdf_loop.suggestion import suggestion


class Carry(Struct, frozen=True):
    """A value and the inputs that it is in the next iteration.

    With `delays` the source is such an input itself: the value it has in this iteration.
    """

    source: Port
    to: tuple[Port, ...]
    delays: bool = False


def carried(
    graph: Flat,
    nodes: Sequence[str],
    carry: Mapping[str, str | Sequence[str]],
    open_ports: Mapping[Port, Content],
) -> tuple[Carry, ...]:
    """The carry map with its names resolved.

    Raises:
        LoopError: a source or destination is none, or a destination has two sources.
    """
    pairs = [
        (source, destination)
        for source, to in carry.items()
        for destination in ([to] if isinstance(to, str) else to)
    ]
    found: list[Carry] = []
    filled: dict[Port, str] = {}
    for source, destination in pairs:
        to = _destination(graph, nodes, destination, open_ports)
        for port in to:
            if port in filled:
                raise ModelError(
                    f"'{'.'.join(port)}' is carried from '{filled[port]}' and from '{source}'",
                    graph.where,
                    "a value has one source",
                )
            filled[port] = source
        found.append(Carry(*_source(graph, nodes, source, to, open_ports)))
    return tuple(found)


def _destination(
    graph: Flat, nodes: Sequence[str], name: str, open_ports: Mapping[Port, Content]
) -> tuple[Port, ...]:
    """The inputs that a destination means: one as node.port, all of that id as a port id."""
    every = graph.ports("input_ports", nodes)
    meant = tuple(p for p in every if name == ".".join(p)) or tuple(
        p for p in open_ports if name == p[1]
    )
    meant = meant or tuple(p for p in every if name == p[1])
    if not meant:
        shown = [".".join(port) for port in open_ports]
        raise UnknownNameError(
            f"the carried value's destination '{name}' is no input of the folded nodes",
            graph.where,
            suggestion(name, shown) or f"there are {', '.join(shown) or 'none'}",
        )
    for port in meant:
        if port not in open_ports:
            raise ScopeError(
                f"'{'.'.join(port)}' is fed by an edge inside of the loop, so nothing can be "
                "carried to it",
                graph.where,
                "take the edge out, or carry to another input",
            )
    return meant


def _source(
    graph: Flat,
    nodes: Sequence[str],
    name: str,
    to: tuple[Port, ...],
    open_ports: Mapping[Port, Content],
) -> tuple[Port, tuple[Port, ...], bool]:
    made = graph.ports("output_ports", nodes)
    if any(name in (port[1], ".".join(port)) for port in made):
        return port_named(name, made, "the carried value", graph.where), to, False
    if any(name in (port[1], ".".join(port)) for port in open_ports):
        same = [port for port in open_ports if name in (port[1], ".".join(port))]
        return same[0], to, True
    elsewhere = [port for port in graph.ports("output_ports") if name == ".".join(port)]
    if elsewhere:
        raise ScopeError(
            f"the carried value '{name}' is made outside of the loop",
            graph.where,
            f"add '{elsewhere[0][0]}' to the nodes that are folded",
        )
    return port_named(name, made, "the carried value", graph.where), to, False
