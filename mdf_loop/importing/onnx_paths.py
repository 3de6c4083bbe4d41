"""Paths in an ONNX file: `$.graph.node['Loop_3'].body.node['Add']`."""

from __future__ import annotations

import onnx


def path_of_node(graph: str, node: onnx.NodeProto, index: int) -> str:
    """Return the path of a node in an ONNX file, such as `$.graph.node['Loop_3']`."""
    return f"{graph}.node['{node.name or f'{node.op_type}_{index}'}']"


def body_path(node: str, attribute: str) -> str:
    """Return the path of a node's body in the ONNX file."""
    return f"{node}.{attribute}"
