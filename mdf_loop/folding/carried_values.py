"""Resolution of the `carry` argument, which maps outputs to inputs of the next iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from mdf_loop.errors import ModelError, ScopeError, UnknownNameError
from mdf_loop.folding.flat_graph import Content, FlatGraph, Port, find_port
from mdf_loop.name_suggestions import suggest


class Carry(Struct, frozen=True):
    """Carried value: its source port, and the input ports that receive it in the next iteration.

    If `is_delay` is true, the source is an input port of the body, whose value in one iteration is
    carried to the next iteration.
    """

    source_port: Port
    destination_ports: tuple[Port, ...]
    is_delay: bool = False


def resolve_carry(
    graph: FlatGraph,
    nodes: Sequence[str],
    carry: Mapping[str, str | Sequence[str]],
    open_ports: Mapping[Port, Content],
) -> tuple[Carry, ...]:
    """Return the entries of the `carry` argument, with names resolved to ports.

    Raises:
        LoopError: A source or a destination is unknown, or a destination has two sources.
    """
    source_destination_pairs = [
        (source_name, destination_name)
        for source_name, destination_names in carry.items()
        for destination_name in (
            [destination_names] if isinstance(destination_names, str) else destination_names
        )
    ]
    carried_values: list[Carry] = []
    source_by_port: dict[Port, str] = {}
    for source_name, destination_name in source_destination_pairs:
        destination_ports = _destination_ports(graph, nodes, destination_name, open_ports)
        for port in destination_ports:
            if port in source_by_port:
                raise ModelError(
                    f"'{'.'.join(port)}' is carried from '{source_by_port[port]}' and from '{source_name}'",
                    graph.mdf_path,
                    "a value has one source",
                )
            source_by_port[port] = source_name
        carried_values.append(
            Carry(*_resolve_source(graph, nodes, source_name, destination_ports, open_ports))
        )
    return tuple(carried_values)


def _destination_ports(
    graph: FlatGraph, nodes: Sequence[str], name: str, open_ports: Mapping[Port, Content]
) -> tuple[Port, ...]:
    """Return the input ports that a destination in the `carry` argument denotes.

    A name `node.port` denotes one port. A port id denotes all input ports with this id.
    """
    input_ports = graph.ports("input_ports", nodes)
    matching_ports = tuple(port for port in input_ports if name == ".".join(port)) or tuple(
        port for port in open_ports if name == port[1]
    )
    matching_ports = matching_ports or tuple(port for port in input_ports if name == port[1])
    if not matching_ports:
        port_names = [".".join(port) for port in open_ports]
        raise UnknownNameError(
            f"the carried value's destination '{name}' is no input of the folded nodes",
            graph.mdf_path,
            suggest(name, port_names) or f"there are {', '.join(port_names) or 'none'}",
        )
    for port in matching_ports:
        if port not in open_ports:
            raise ScopeError(
                f"'{'.'.join(port)}' is fed by an edge inside of the loop, so nothing can be "
                "carried to it",
                graph.mdf_path,
                "take the edge out, or carry to another input",
            )
    return matching_ports


def _resolve_source(
    graph: FlatGraph,
    nodes: Sequence[str],
    name: str,
    destinations: tuple[Port, ...],
    open_ports: Mapping[Port, Content],
) -> tuple[Port, tuple[Port, ...], bool]:
    """Resolve a carried value to its source port and its destination ports.

    The third result is True if the source is an input port.
    """
    output_ports = graph.ports("output_ports", nodes)
    if any(name in (port[1], ".".join(port)) for port in output_ports):
        return (
            find_port(name, output_ports, "the carried value", graph.mdf_path),
            destinations,
            False,
        )
    if any(name in (port[1], ".".join(port)) for port in open_ports):
        matching_inputs = [port for port in open_ports if name in (port[1], ".".join(port))]
        return matching_inputs[0], destinations, True
    matching_outside_ports = [
        port for port in graph.ports("output_ports") if name == ".".join(port)
    ]
    if matching_outside_ports:
        raise ScopeError(
            f"the carried value '{name}' is made outside of the loop",
            graph.mdf_path,
            f"add '{matching_outside_ports[0][0]}' to the nodes that are folded",
        )
    return find_port(name, output_ports, "the carried value", graph.mdf_path), destinations, False
