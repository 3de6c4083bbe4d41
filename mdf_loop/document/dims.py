"""Names of array axes in the metadata of a model. Outputs with equal names share an axis.

An output port, a parameter, a function or an input port states the names in `metadata: {dims: [cell]}`, one
name for each axis of an evaluation, outermost first. A part that only passes a value on has the names of this
value. An input port has the names of the sender of its edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.document.document import Document
from mdf_loop.document.pass_through import node_parts, value_sources
from mdf_loop.document.structure import DIMS_KEY, RESERVED_DIMS


def dims_of(document: Document) -> dict[str, tuple[str, ...]]:
    """Return the axis names of ports, parameters and functions, by names such as `node.port`."""
    graph = document.graph
    nodes_by_id = {node.id: node for node in graph.nodes}
    edges_by_receiver = {(edge.receiver, edge.receiver_port): edge for edge in graph.edges or ()}
    dims_by_name: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        for part in node_parts(node):
            dims_by_name.setdefault(
                f"{node.id}.{part.id}",
                _find_dims_of_part(node, part, nodes_by_id, edges_by_receiver),
            )
    return {name: dims for name, dims in dims_by_name.items() if dims}


def _find_dims_of_part(
    node: Any,
    part: Any,
    nodes_by_id: Mapping[str, Any],
    edges_by_receiver: Mapping[tuple[str, str], Any],
) -> tuple[str, ...]:
    """Return the axis names of a port, parameter or function, which may be inherited.

    The source is the nearest one that passes its value on unchanged and states axis names.
    """
    pending_parts, visited_ids = [(node, part)], set[int]()
    while pending_parts:
        node, part = pending_parts.pop(0)
        if id(part) in visited_ids:
            continue
        visited_ids.add(id(part))
        stated_dims: Any = (part.metadata or {}).get(DIMS_KEY)
        if are_axis_names(stated_dims):
            return tuple(stated_dims)
        pending_parts += [(node, source) for source in value_sources(node, part)]
        is_input = any(part is port for port in node_parts(node, ("input_ports",)))
        edge = edges_by_receiver.get((node.id, part.id)) if is_input else None
        sender = None if edge is None else nodes_by_id.get(edge.sender)
        if edge is not None and sender is not None:
            sender_ports = (
                port for port in sender.output_ports or () if port.id == edge.sender_port
            )
            pending_parts += [(sender, port) for port in sender_ports]
    return ()


def are_axis_names(dims: Any) -> bool:
    """Return True if `dims` is a list of distinct axis names without reserved names."""
    if not isinstance(dims, list | tuple) or not all(isinstance(dim, str) for dim in dims):
        return False
    return bool(dims) and len({*dims, *RESERVED_DIMS}) == len(dims) + len(RESERVED_DIMS)
