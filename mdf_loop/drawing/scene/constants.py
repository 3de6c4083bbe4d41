"""Constants of a graph in the ports that read them, instead of separate nodes.

Models from other systems have one node for every constant. A constant is shown in the port that reads the
constant (`B = 2`). A constant has its own node if a loop or a conditional reads it, if it is a result, or if
several nodes share a large constant.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from mdf_loop.drawing.view import View
from mdf_loop.ir import Array
from mdf_loop.outline import GraphOutline, NodeOutline

_MAX_REPEATED_NUMBERS = 16
"""Maximum number of elements of a shared constant that is shown at each reader."""


def inline_constants(graph: GraphOutline, view: View) -> GraphOutline:
    """Replace constant nodes by default values of the ports that read the constants."""
    constant_by_node_id = {
        node.id: node.constant for node in graph.nodes if node.constant is not None
    }
    ids_without_blocks = {node.id for node in graph.nodes if not node.blocks}
    reader_counts = Counter(edge.sender for edge in graph.edges)
    uninlined_node_ids = {output.node_id for output in graph.outputs} | view.collapsed_ids
    uninlined_node_ids |= {
        edge.sender
        for edge in graph.edges
        if edge.receiver not in ids_without_blocks or edge.weight is not None
    }
    uninlined_node_ids |= {
        node_id
        for node_id, constant in constant_by_node_id.items()
        if reader_counts[node_id] != 1 and constant.size > _MAX_REPEATED_NUMBERS
    }
    inlined_node_ids = (
        {node_id for node_id in constant_by_node_id if node_id not in uninlined_node_ids}
        if graph.edges
        else set()
    )
    default_by_port = {
        (edge.receiver, edge.receiver_port): constant_by_node_id[edge.sender]
        for edge in graph.edges
        if edge.sender in inlined_node_ids
    }
    return replace(
        graph,
        nodes=tuple(
            _with_defaults(node, default_by_port)
            for node in graph.nodes
            if node.id not in inlined_node_ids
        ),
        edges=tuple(edge for edge in graph.edges if edge.sender not in inlined_node_ids),
    )


def _with_defaults(node: NodeOutline, default_by_port: dict[tuple[str, str], Array]) -> NodeOutline:
    """Return a node with constants as default values of its input ports."""
    return replace(
        node,
        inputs=tuple(
            replace(port, default=default_by_port.get((node.id, port.id), port.default))
            for port in node.inputs
        ),
    )
