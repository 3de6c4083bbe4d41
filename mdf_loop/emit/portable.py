"""Files for other runtimes, which do not run them as this library does.

- A body returns none of its inputs as they are: ONNX Runtime is fastest with it, OpenVINO
  refuses it.
- No scale stands next to a MatMul: with its default settings ONNX Runtime fuses the two and
  rounds a float64 scale to float32. A `Sum` of one value, which changes nothing, parts them.
- No Transpose stands before a MatMul with a vector, which ONNX Runtime would compute wrongly (see
  `transposed_products`). A `Sum` parts these, too.
- Every output has a shape, as ONNX's checker wants it: where none is known, the one that the
  model states.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import onnx
from onnx import helper, numpy_helper

from mdf_loop.emit.inserted_copies import graphs_in, insert_copies
from mdf_loop.emit.transposed_products import part_transposed
from mdf_loop.ir import Array


def portable(
    model: onnx.ModelProto,
    stated: Mapping[str, Sequence[int]] | None = None,
    defaults: Mapping[str, Array] | None = None,
) -> onnx.ModelProto:
    """A copy of the model in a form that every runtime computes alike.

    `stated` are shapes of outputs by name, -1 for an extent that is open; `defaults` what inputs hold
    that are not given.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    scales = {
        tensor.name
        for tensor in copied.graph.initializer
        if tensor.data_type == onnx.TensorProto.DOUBLE and all(dim == 1 for dim in tensor.dims)
    }
    for graph in graphs_in(copied.graph):
        _part_scales(graph, scales)
        if graph is not copied.graph:
            _return_copies(graph)
    part_transposed(copied, "Sum")
    _state_shapes(copied.graph, stated or {})
    held = (numpy_helper.from_array(array, name) for name, array in (defaults or {}).items())
    copied.graph.initializer.extend(held)
    return copied


def _state_shapes(graph: onnx.GraphProto, stated: Mapping[str, Sequence[int]]) -> None:
    for output in graph.output:
        tensor = output.type.tensor_type
        if output.name in stated and tensor.elem_type and not tensor.HasField("shape"):
            extents = [None if extent < 0 else extent for extent in stated[output.name]]
            output.CopyFrom(helper.make_tensor_value_info(output.name, tensor.elem_type, extents))


def _return_copies(body: onnx.GraphProto) -> None:
    inputs = {value.name for value in body.input}
    for position, output in enumerate(body.output):
        if output.name in inputs:
            copy = f"{output.name}#out{position}"
            body.node.append(helper.make_node("Identity", [output.name], [copy], name=copy))
            output.name = copy


def _part_scales(graph: onnx.GraphProto, scales: set[str]) -> None:
    """Insert a Sum of one value between each scale and a product that would be fused with it."""
    products = {out for n in graph.node if n.op_type == "MatMul" for out in n.output}
    scaled = {n.output[0] for n in graph.node if _scales(n, scales)}

    def names_of(node: onnx.NodeProto) -> Container[str]:
        if node.op_type == "MatMul":
            return scaled
        return products if _scales(node, scales) else ()

    insert_copies(graph, names_of, "Sum")


def _scales(node: onnx.NodeProto, scales: set[str]) -> bool:
    return node.op_type in ("Mul", "Div") and any(name in scales for name in node.input)
