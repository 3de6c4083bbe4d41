"""Workaround for ONNX Runtime's incorrect fusion of a Transpose and a MatMul with a vector.

ONNX Runtime replaces `MatMul(Transpose(x), v)` by one kernel that reads `x` in transposed order, which saves
a copy of `x`. If `v` is a vector, the fusion loses the Transpose and computes `MatMul(x, v)`
(MatmulTransposeFusion, ONNX Runtime 1.32). A node between Transpose and MatMul prevents the fusion. Products
of matrices are still fused.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import onnx

from mdf_loop.emit.inserted_copies import graphs_in, insert_copies

_FLOAT_TYPES = (onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT)
"""Dtypes of the products that ONNX Runtime fuses with a Transpose."""


def separate_transposed_products(model: onnx.ModelProto, op_type: str) -> None:
    """Insert a copy node between each Transpose and a MatMul that may have a vector as an operand.

    Args:
        model: The model, which is changed in place. Its names are unique.
        op_type: An operator of one operand that returns the operand unchanged: `Identity` for a session that
            does not remove copies, or `Sum`, which no runtime removes.
    """
    graphs = list(graphs_in(model.graph))
    rank_by_name = {
        value_name: rank for graph in graphs for value_name, rank in _declared_ranks(graph).items()
    }
    for graph in graphs:
        transposed_names = _find_transposed(graph)

        def select_names(
            node: onnx.NodeProto, transposed_names: set[str] = transposed_names
        ) -> Container[str]:
            is_vector_product = node.op_type == "MatMul" and _has_vector(node, rank_by_name)
            return transposed_names if is_vector_product else ()

        insert_copies(graph, select_names, op_type)


def _declared_ranks(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the declared rank of each value of an ONNX graph, by the name of the value."""
    rank_by_name = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            rank_by_name[value.name] = len(value.type.tensor_type.shape.dim)
    return rank_by_name


def _has_vector(node: onnx.NodeProto, rank_by_name: Mapping[str, int]) -> bool:
    """Return True if an operand of a MatMul node may be a vector."""
    return not all(rank_by_name.get(name, 0) > 1 for name in node.input)


def _find_transposed(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the float values that a Transpose, or a Cast of a Transpose, computes."""
    declared_values = (*graph.value_info, *graph.input, *graph.output)
    float_names = {
        declared_value.name
        for declared_value in declared_values
        if declared_value.type.tensor_type.elem_type in _FLOAT_TYPES
    }
    transposed_names = {node.output[0] for node in graph.node if node.op_type == "Transpose"}
    transposed_names |= {
        node.output[0]
        for node in graph.node
        if node.op_type == "Cast" and node.input[0] in transposed_names
    }
    return transposed_names & float_names
