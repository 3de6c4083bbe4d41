"""A large model as exporters write them: layers of operators in scopes, with constants beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 4


class Writer:
    """Collects the nodes and constants of an ONNX graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, scope: str, kind: str, *inputs: str, **attributes: object) -> str:
        """Append an operator; the name of its value."""
        name = f"{scope}/{kind}" if scope else kind
        times = sum(node.name.rstrip("_0123456789") == name for node in self.nodes[-40:])
        name = f"{name}_{len(self.nodes)}" if times else name
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_output_0"], name, **attributes))
        return self.nodes[-1].output[0]

    def weights(self, name: str) -> str:
        """A constant matrix."""
        data = np.full((WIDTH, WIDTH), 0.1, np.float32)
        self.constants.append(numpy_helper.from_array(data, name))
        return name


def layer(writer: Writer, k: int, value: str) -> str:
    """Attention and a network behind it, both with a way past them: 23 operators."""
    scope = f"/encoder/layers.{k}"
    heads = []
    for part in "qkv":
        product = writer.op(f"{scope}/attn/{part}", "MatMul", value, writer.weights(f"{part}{k}"))
        heads.append(
            writer.op(f"{scope}/attn/{part}", "Add", product, writer.weights(f"b{part}{k}"))
        )
    turned = writer.op(f"{scope}/attn", "Transpose", heads[1], perm=[1, 0])
    scores = writer.op(f"{scope}/attn", "MatMul", heads[0], turned)
    mixed = writer.op(f"{scope}/attn", "Softmax", scores)
    looked = writer.op(f"{scope}/attn", "MatMul", mixed, heads[2])
    value = norm(writer, f"{scope}/norm1", writer.op(scope, "Add", value, looked))
    inner = writer.op(f"{scope}/mlp", "MatMul", value, writer.weights(f"w{k}"))
    inner = writer.op(f"{scope}/mlp", "Relu", inner)
    inner = writer.op(f"{scope}/mlp", "MatMul", inner, writer.weights(f"u{k}"))
    return norm(writer, f"{scope}/norm2", writer.op(scope, "Add", value, inner))


def norm(writer: Writer, scope: str, value: str) -> str:
    """What a normalisation is written as: five operators."""
    mean = writer.op(scope, "ReduceMean", value)
    off = writer.op(scope, "Sub", value, mean)
    square = writer.op(scope, "Mul", off, off)
    spread = writer.op(scope, "Sqrt", square)
    return writer.op(scope, "Div", off, spread)


def write(path: Path, layers: int) -> Path:
    """An ONNX file of so many layers."""
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
