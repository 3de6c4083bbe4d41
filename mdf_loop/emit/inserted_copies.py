"""Insertion of nodes that copy a value, so that a runtime does not fuse the nodes around the copy."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import onnx
from onnx import helper


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield all graphs within a graph, from inside out, then the graph itself.

    `insert_copies` replaces the nodes of a graph, and thereby the objects of the graphs within that graph.
    So inner graphs have to be changed before the outer graph.
    """
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs_in(attribute.g)
    yield graph


def insert_copies(
    graph: onnx.GraphProto, names_of: Callable[[onnx.NodeProto], Container[str]], op_type: str
) -> None:
    """Insert nodes that copy an operand before the nodes of a graph that read the operand.

    Args:
        graph: The graph, which is changed in place.
        names_of: Returns the names of the operands that a node is to read through copies.
        op_type: An operator of one operand that returns the operand unchanged.
    """
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        names = names_of(node)
        for position, name in enumerate(node.input):
            if name in names:
                copy = f"{name}#{node.name}.{position}"
                nodes.append(helper.make_node(op_type, [name], [copy], name=copy))
                node.input[position] = copy
        nodes.append(node)
    if len(nodes) > len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)
