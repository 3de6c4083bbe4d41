"""Insertion of copy nodes between ONNX nodes, which prevents a runtime from fusing the nodes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import onnx
from onnx import helper


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield all graphs nested in an ONNX graph, innermost first, and finally the graph itself.

    `insert_copies` replaces the nodes of a graph, and thereby the objects of its nested graphs. So nested graphs
    have to be changed before the outer graph.
    """
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs_in(attribute.g)
    yield graph


def insert_copies(
    graph: onnx.GraphProto, select_names: Callable[[onnx.NodeProto], Container[str]], op_type: str
) -> None:
    """Insert copy nodes before the nodes of an ONNX graph, for the operands that `select_names` selects.

    Args:
        graph: The graph, which is changed in place.
        select_names: Returns the names of the operands that a node is to read through copies.
        op_type: An operator of one operand that returns the operand unchanged.
    """
    nodes_with_copies: list[onnx.NodeProto] = []
    for node in graph.node:
        selected_names = select_names(node)
        for operand_index, operand_name in enumerate(node.input):
            if operand_name in selected_names:
                copy_name = f"{operand_name}#{node.name}.{operand_index}"
                nodes_with_copies.append(
                    helper.make_node(op_type, [operand_name], [copy_name], name=copy_name)
                )
                node.input[operand_index] = copy_name
        nodes_with_copies.append(node)
    if len(nodes_with_copies) > len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes_with_copies)
