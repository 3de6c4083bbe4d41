"""Merging of many captured constants of a loop or conditional into one drawn input.

    ◇ w_1  ◇ b_1  ◇ w_2  ...        ->        ◇ 42 constants

Models from other systems capture every weight of a body. Typed constants outside the body are omitted from
the terminals of the frame and of all inner frames.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.drawing.view import View
from mdf_loop.outline import Block, CaptureOutline, GraphOutline, NodeOutline

MAX_SEPARATE_CONSTANTS = 8
"""Maximum number of captured constants that have separate terminals."""


def merge_captured_constants(graph: GraphOutline, view: View) -> GraphOutline:
    """Merge many captured constants of a loop or conditional into one drawn input."""
    if view.draws_all_constants or not any(node.blocks for node in graph.nodes):
        return graph
    constant_ids = {node.id for node in graph.nodes if node.constant is not None}
    constant_ports_by_node: dict[str, set[str]] = {}
    for edge in graph.edges:
        if edge.sender in constant_ids and edge.weight is None:
            constant_ports_by_node.setdefault(edge.receiver, set()).add(edge.receiver_port)
    merged_ports: set[tuple[str, str]] = set()
    merged_nodes = []
    for node in graph.nodes:
        merged_names = _mergeable_names(node, constant_ports_by_node.get(node.id, set()))
        merged_nodes.append(_remove_names(node, merged_names) if merged_names else node)
        merged_ports |= {(node.id, port) for port in merged_names}
    if not merged_ports:
        return graph
    remaining_edges = tuple(
        edge for edge in graph.edges if (edge.receiver, edge.receiver_port) not in merged_ports
    )
    return replace(graph, nodes=tuple(merged_nodes), edges=remaining_edges)


def _mergeable_names(node: NodeOutline, constant_names: set[str]) -> frozenset[str]:
    """Return the names of constants to merge: those that only loops or branches of a node read.

    The result is empty if there are at most `MAX_SEPARATE_CONSTANTS`.
    """
    captured_names = {
        capture.name for block in node.blocks for capture in block.captures
    } & constant_names
    read_names = {name for definition in node.definitions for name in definition.read_names}
    read_names |= {str(expression) for block in node.blocks for expression in block.expressions}
    mergeable_names = frozenset(captured_names - read_names)
    return mergeable_names if len(mergeable_names) > MAX_SEPARATE_CONSTANTS else frozenset()


def _remove_names(node: NodeOutline, names: frozenset[str]) -> NodeOutline:
    """Remove the input ports and captures named in `names` from a node."""
    return replace(
        node,
        inputs=tuple(port for port in node.inputs if port.id not in names),
        blocks=tuple(_merge_in_block(block, names) for block in node.blocks),
    )


def _merge_in_block(block: Block, names: frozenset[str]) -> Block:
    """Replace the captures named in `names` of a loop or conditional by one merged capture."""
    merged_captures = [capture for capture in block.captures if capture.name in names]
    if not merged_captures:
        return block
    merged_name = f"{len(merged_captures)} constant{'s' if len(merged_captures) > 1 else ''}"
    merged_capture = CaptureOutline(merged_name, "constants", "", block.path)
    other_captures = tuple(capture for capture in block.captures if capture.name not in names)
    changed_block = replace(block, captures=(*other_captures, merged_capture))
    return changed_block.with_bodies(lambda body: _remove_from_body(body, names))


def _remove_from_body(body: GraphOutline, names: frozenset[str]) -> GraphOutline:
    """Remove the inputs and captures named in `names` from a loop body or branch."""
    return replace(
        body,
        inputs=tuple(
            body_input
            for body_input in body.inputs
            if body_input.role != "captured" or body_input.name not in names
        ),
        nodes=tuple(
            replace(node, blocks=tuple(_merge_in_block(block, names) for block in node.blocks))
            for node in body.nodes
        ),
    )
