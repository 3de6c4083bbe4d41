"""Names of axes, where the metadata of a model has them: outputs with the same name share an axis.

They are read from `metadata: {dims: [cell]}` of an output port, a parameter, a function or an input
port: a name for each axis of an evaluation, outermost first. What only passes a value on has its
names, and so has an input port those of the port that an edge leads from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.document.document import Document
from mdf_loop.document.passing import parts, sources
from mdf_loop.document.structure import DIMS, TAKEN


def dims_of(document: Document) -> dict[str, tuple[str, ...]]:
    """The names of the axes of every `node.item` that has some."""
    graph = document.graph
    nodes = {node.id: node for node in graph.nodes}
    senders = {(edge.receiver, edge.receiver_port): edge for edge in graph.edges or ()}
    found: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        for part in parts(node):
            found.setdefault(f"{node.id}.{part.id}", _dims(node, part, nodes, senders))
    return {name: dims for name, dims in found.items() if dims}


def _dims(
    node: Any, part: Any, nodes: Mapping[str, Any], senders: Mapping[tuple[str, str], Any]
) -> tuple[str, ...]:
    """The names that are stated where the value of a part comes from, the nearest first."""
    waiting, passed = [(node, part)], set[int]()
    while waiting:
        node, part = waiting.pop(0)
        if id(part) in passed:
            continue
        passed.add(id(part))
        stated: Any = (part.metadata or {}).get(DIMS)
        if names_axes(stated):
            return tuple(stated)
        waiting += [(node, source) for source in sources(node, part)]
        is_input = any(part is port for port in parts(node, ("input_ports",)))
        edge = senders.get((node.id, part.id)) if is_input else None
        sender = None if edge is None else nodes.get(edge.sender)
        if edge is not None and sender is not None:
            ports = (port for port in sender.output_ports or () if port.id == edge.sender_port)
            waiting += [(sender, port) for port in ports]
    return ()


def names_axes(stated: Any) -> bool:
    """Whether it is a list of names, each of another axis; what else stands there says nothing of axes."""
    if not isinstance(stated, list | tuple) or not all(isinstance(dim, str) for dim in stated):
        return False
    return bool(stated) and len({*stated, *TAKEN}) == len(stated) + len(TAKEN)
