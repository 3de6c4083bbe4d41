"""Where something stands in an ONNX file: `$.graph.node['Loop_3'].body.node['Add']`."""

from __future__ import annotations

import onnx


def node_place(graph: str, node: onnx.NodeProto, index: int) -> str:
    """The place of a node; one without a name is called by its operator and its number."""
    return f"{graph}.node['{node.name or f'{node.op_type}_{index}'}']"


def in_body(node: str, attribute: str) -> str:
    """The place of a body of a node."""
    return f"{node}.{attribute}"
