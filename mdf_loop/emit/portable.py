"""Rewriting of ONNX models so that every runtime computes the same results.

- A body returns copies of its inputs. ONNX Runtime is fastest if a body returns an input itself, but
  OpenVINO refuses such a body.
- A node between a scale and a MatMul prevents their fusion. With its default settings ONNX Runtime fuses the
  two and rounds a float64 scale to float32. The node is a `Sum` of one operand, which changes nothing.
- A `Max` of one operand separates a reciprocal from the product that reads it. With its default settings ONNX
  Runtime computes `1 / x * y` as `y / x`, which has other last bits, and for integers another quotient.
- A `Sum` also separates a Transpose from a MatMul with a vector, which ONNX Runtime would compute wrongly
  (see `transposed_products`).
- Every output has a shape, because ONNX's checker requires one. If the shape of an output is unknown, the
  file states the shape that the source model declares.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import onnx
from onnx import helper, numpy_helper

from mdf_loop.emit.inserted_copies import graphs_in, insert_copies
from mdf_loop.emit.transposed_products import separate_transposed_products
from mdf_loop.ir import Array

_FUSED_DTYPES = frozenset(
    getattr(onnx.TensorProto, type_name)
    for type_name in ("FLOAT", "FLOAT16", "DOUBLE", "INT32", "INT64")
)
"""Element types of reciprocals that ONNX Runtime fuses with products (DivMulFusion of onnxruntime 1.32)."""


def portable(
    model: onnx.ModelProto,
    declared_shapes: Mapping[str, Sequence[int]] | None = None,
    defaults: Mapping[str, Array] | None = None,
) -> onnx.ModelProto:
    """Return a copy of an ONNX model that gives the same results in every runtime.

    Args:
        model: The model, which is not changed.
        declared_shapes: Declared shapes of outputs by name, with -1 for an unknown extent.
        defaults: Default arrays of inputs by name.
    """
    portable_model = onnx.ModelProto()
    portable_model.CopyFrom(model)
    single_element_tensors = [
        tensor
        for tensor in portable_model.graph.initializer
        if all(dim == 1 for dim in tensor.dims)
    ]
    names_of_scale_constants = {
        tensor.name
        for tensor in single_element_tensors
        if tensor.data_type == onnx.TensorProto.DOUBLE
    }
    names_of_constant_ones = {
        tensor.name
        for tensor in single_element_tensors
        if tensor.data_type in _FUSED_DTYPES and numpy_helper.to_array(tensor) == 1
    }
    for graph in graphs_in(portable_model.graph):
        _separate_scales(graph, names_of_scale_constants)
        _separate_reciprocals(graph, names_of_constant_ones)
        if graph is not portable_model.graph:
            _return_copies(graph)
    separate_transposed_products(portable_model, "Sum")
    _declare_shapes(portable_model.graph, declared_shapes or {})
    default_tensors = (
        numpy_helper.from_array(array, input_name) for input_name, array in (defaults or {}).items()
    )
    portable_model.graph.initializer.extend(default_tensors)
    return portable_model


def _declare_shapes(graph: onnx.GraphProto, declared_shapes: Mapping[str, Sequence[int]]) -> None:
    """Declare the shapes in `declared_shapes` for the graph outputs that declare no shape."""
    for output in graph.output:
        tensor_type = output.type.tensor_type
        if (
            output.name in declared_shapes
            and tensor_type.elem_type
            and not tensor_type.HasField("shape")
        ):
            declared_extents = [
                None if extent < 0 else extent for extent in declared_shapes[output.name]
            ]
            output.CopyFrom(
                helper.make_tensor_value_info(output.name, tensor_type.elem_type, declared_extents)
            )


def _return_copies(body: onnx.GraphProto) -> None:
    """Insert an Identity for each output of a body graph that is also an input of the body."""
    input_names = {value.name for value in body.input}
    for output_index, output in enumerate(body.output):
        if output.name in input_names:
            copy_name = f"{output.name}#out{output_index}"
            body.node.append(
                helper.make_node("Identity", [output.name], [copy_name], name=copy_name)
            )
            output.name = copy_name


def _separate_scales(graph: onnx.GraphProto, scales: set[str]) -> None:
    """Insert a Sum of one operand between each scaling and the adjacent MatMul to prevent their fusion."""
    product_names = {
        output_name
        for node in graph.node
        if node.op_type == "MatMul"
        for output_name in node.output
    }
    scaled_names = {node.output[0] for node in graph.node if _is_scaling(node, scales)}

    def select_names(node: onnx.NodeProto) -> Container[str]:
        if node.op_type == "MatMul":
            return scaled_names
        return product_names if _is_scaling(node, scales) else ()

    insert_copies(graph, select_names, "Sum")


def _is_scaling(node: onnx.NodeProto, scales: set[str]) -> bool:
    """Return True if a node is a Mul or Div with one of the constants `scales` as an operand."""
    return node.op_type in ("Mul", "Div") and any(
        operand_name in scales for operand_name in node.input
    )


def _separate_reciprocals(graph: onnx.GraphProto, ones: set[str]) -> None:
    """Insert a Max of one operand between each reciprocal `1 / x` and the products that read it."""
    reciprocal_names = {
        node.output[0] for node in graph.node if node.op_type == "Div" and node.input[0] in ones
    }
    insert_copies(graph, lambda node: reciprocal_names if node.op_type == "Mul" else (), "Max")
