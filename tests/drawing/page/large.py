"""Large model in the style of exporters: layers of operators in scopes, with constants beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 4


class Writer:
    """Collector of the nodes and constants of an ONNX graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, scope: str, kind: str, *inputs: str, **attributes: object) -> str:
        """Append an operator, and return the name of its value."""
        name = f"{scope}/{kind}" if scope else kind
        same_names = sum(node.name.rstrip("_0123456789") == name for node in self.nodes[-40:])
        name = f"{name}_{len(self.nodes)}" if same_names else name
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_output_0"], name, **attributes))
        return self.nodes[-1].output[0]

    def weights(self, name: str) -> str:
        """Append a constant matrix, and return its name."""
        matrix = np.full((WIDTH, WIDTH), 0.1, np.float32)
        self.constants.append(numpy_helper.from_array(matrix, name))
        return name


def layer(writer: Writer, number: int, value: str) -> str:
    """Append attention and a network with skip connections (23 operators), and return the output."""
    scope = f"/encoder/layers.{number}"
    heads = []
    for part in "qkv":
        product = writer.op(
            f"{scope}/attn/{part}", "MatMul", value, writer.weights(f"{part}{number}")
        )
        heads.append(
            writer.op(f"{scope}/attn/{part}", "Add", product, writer.weights(f"b{part}{number}"))
        )
    transposed = writer.op(f"{scope}/attn", "Transpose", heads[1], perm=[1, 0])
    scores = writer.op(f"{scope}/attn", "MatMul", heads[0], transposed)
    weights = writer.op(f"{scope}/attn", "Softmax", scores)
    attended = writer.op(f"{scope}/attn", "MatMul", weights, heads[2])
    value = norm(writer, f"{scope}/norm1", writer.op(scope, "Add", value, attended))
    inner = writer.op(f"{scope}/mlp", "MatMul", value, writer.weights(f"w{number}"))
    inner = writer.op(f"{scope}/mlp", "Relu", inner)
    inner = writer.op(f"{scope}/mlp", "MatMul", inner, writer.weights(f"u{number}"))
    return norm(writer, f"{scope}/norm2", writer.op(scope, "Add", value, inner))


def norm(writer: Writer, scope: str, value: str) -> str:
    """Append a normalisation of five operators, and return its output."""
    mean = writer.op(scope, "ReduceMean", value)
    centred = writer.op(scope, "Sub", value, mean)
    square = writer.op(scope, "Mul", centred, centred)
    spread = writer.op(scope, "Sqrt", square)
    return writer.op(scope, "Div", centred, spread)


def write(path: Path, layers: int) -> Path:
    """Write an ONNX file with some layers."""
    writer = Writer()
    value = "x"
    for k in range(layers):
        value = layer(writer, k, value)
    graph = helper.make_graph(
        writer.nodes,
        f"encoder_of_{layers}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [WIDTH, WIDTH])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        writer.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
