"""Paths in an ONNX file: `$.graph.node['Loop_3'].body.node['Add']`."""

from __future__ import annotations

import onnx


def node_place(graph: str, node: onnx.NodeProto, index: int) -> str:
    """Return the path of a node. A node without a name is denoted by its operator and its index."""
    return f"{graph}.node['{node.name or f'{node.op_type}_{index}'}']"


def in_body(node: str, attribute: str) -> str:
    """Return the path of a body of a node."""
    return f"{node}.{attribute}"
