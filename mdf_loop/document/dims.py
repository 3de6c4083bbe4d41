"""Names of axes in the metadata of a model; outputs with equal names share an axis.

An output port, a parameter, a function or an input port states the names in `metadata: {dims: [cell]}`, one
name for each axis of an evaluation, outermost first. A part that only passes a value on has the names of this
value. An input port has the names of the sender of its edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.document.document import Document
from mdf_loop.document.pass_through import node_parts, value_sources
from mdf_loop.document.structure import DIMS, RESERVED_DIMS


def dims_of(document: Document) -> dict[str, tuple[str, ...]]:
    """Return the axis names of every `node.item` that has axis names."""
    graph = document.graph
    nodes = {node.id: node for node in graph.nodes}
    senders = {(edge.receiver, edge.receiver_port): edge for edge in graph.edges or ()}
    names: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        for part in node_parts(node):
            names.setdefault(f"{node.id}.{part.id}", _dims_of_part(node, part, nodes, senders))
    return {name: dims for name, dims in names.items() if dims}


def _dims_of_part(
    node: Any, part: Any, nodes: Mapping[str, Any], senders: Mapping[tuple[str, str], Any]
) -> tuple[str, ...]:
    """Return the axis names that a part, or the nearest source of its value, states."""
    waiting, passed = [(node, part)], set[int]()
    while waiting:
        node, part = waiting.pop(0)
        if id(part) in passed:
            continue
        passed.add(id(part))
        stated: Any = (part.metadata or {}).get(DIMS)
        if names_axes(stated):
            return tuple(stated)
        waiting += [(node, source) for source in value_sources(node, part)]
        is_input = any(part is port for port in node_parts(node, ("input_ports",)))
        edge = senders.get((node.id, part.id)) if is_input else None
        sender = None if edge is None else nodes.get(edge.sender)
        if edge is not None and sender is not None:
            ports = (port for port in sender.output_ports or () if port.id == edge.sender_port)
            waiting += [(sender, port) for port in ports]
    return ()


def names_axes(stated: Any) -> bool:
    """Return True for a list of distinct axis names without reserved names."""
    if not isinstance(stated, list | tuple) or not all(isinstance(dim, str) for dim in stated):
        return False
    return bool(stated) and len({*stated, *RESERVED_DIMS}) == len(stated) + len(RESERVED_DIMS)
