"""Names of array axes in the metadata of a model. Outputs with equal names share an axis.

An output port, a parameter, a function or an input port states the names in `metadata: {dims: [cell]}`, one
name for each axis of an evaluation, outermost first. A part that only passes a value on has the names of this
value. An input port has the names of the sender of its edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, Edge, Node, NodePart
from mdf_loop.document.pass_through import node_parts, value_sources
from mdf_loop.document.structure import DIMS_KEY, RESERVED_DIMS


def dims_of(document: Document) -> dict[str, tuple[str, ...]]:
    """Return the axis names of ports, parameters and functions, by names such as `node.port`."""
    graph = document.graph
    nodes_by_id = {node.id: node for node in graph.nodes}
    edges_by_receiver = {(edge.receiver, edge.receiver_port): edge for edge in graph.edges}
    axis_names_by_part: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        for part in node_parts(node):
            axis_names_by_part.setdefault(
                f"{node.id}.{part.id}",
                _find_dims_of_part(node, part, nodes_by_id, edges_by_receiver),
            )
    return {
        part_name: axis_names for part_name, axis_names in axis_names_by_part.items() if axis_names
    }


def _find_dims_of_part(
    node: Node,
    part: NodePart,
    nodes_by_id: Mapping[str, Node],
    edges_by_receiver: Mapping[tuple[str, str], Edge],
) -> tuple[str, ...]:
    """Return the axis names of a port, parameter or function, or of the value it passes on.

    The source is the nearest one that passes its value on unchanged and states axis names.
    """
    pending_parts, visited_ids = [(node, part)], set[int]()
    while pending_parts:
        node, part = pending_parts.pop(0)
        if id(part) in visited_ids:
            continue
        visited_ids.add(id(part))
        stated_axis_names = (part.metadata or {}).get(DIMS_KEY)
        if are_axis_names(stated_axis_names):
            return tuple(stated_axis_names)
        pending_parts += [(node, source) for source in value_sources(node, part)]
        is_input_port = any(part is port for port in node_parts(node, ("input_ports",)))
        incoming_edge = edges_by_receiver.get((node.id, part.id)) if is_input_port else None
        sender_node = None if incoming_edge is None else nodes_by_id.get(incoming_edge.sender)
        if incoming_edge is not None and sender_node is not None:
            sender_ports = (
                port for port in sender_node.output_ports if port.id == incoming_edge.sender_port
            )
            pending_parts += [(sender_node, port) for port in sender_ports]
    return ()


def are_axis_names(axis_names: DocumentValue) -> TypeGuard[Sequence[str]]:
    """Return True if `dims` is a list of distinct axis names without reserved names."""
    if not isinstance(axis_names, list | tuple) or not all(
        isinstance(axis_name, str) for axis_name in axis_names
    ):
        return False
    return bool(axis_names) and len({*axis_names, *RESERVED_DIMS}) == len(axis_names) + len(
        RESERVED_DIMS
    )
