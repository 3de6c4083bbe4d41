"""Large ONNX graphs like real networks: residual stacks, attention, and loops and choices of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_FLOAT = TensorProto.FLOAT


class Network:
    """A graph under construction; nodes are called `/scope.3/Operator`."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.scope = ""

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Append a node, and return the name of its output."""
        name = f"/{self.scope}/{operator}_{len(self.nodes)}"
        node = helper.make_node(operator, inputs, [f"{name}_output_0"], name=name, **attributes)
        self.nodes.append(node)
        return f"{name}_output_0"

    def weight(self, shape: tuple[int, ...]) -> str:
        """Return a constant of zeros."""
        name = f"/{self.scope}/weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def model(self, result: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        """Return the model with the output `value` for the input `x`."""
        self.nodes.append(helper.make_node("Identity", [result], ["y"], name="/result"))
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", _FLOAT, shape)],
            [helper.make_tensor_value_info("y", _FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions(blocks: int) -> onnx.ModelProto:
    """Return residual blocks of seven nodes: Conv, Relu, Conv, Add, and the preparation of a weight."""
    network, value = Network(), "x"
    for k in range(blocks):
        network.scope = f"layer.{k}"
        shortcut = value
        for _ in range(2):
            weight = network.add("Neg", network.weight((4, 4, 3, 3)))
            value = network.add("Conv", value, weight, pads=[1, 1, 1, 1])
            value = network.add("Relu", value)
        value = network.add("Add", value, shortcut)
    return network.model(value, (1, 4, 8, 8))


def attention(blocks: int) -> onnx.ModelProto:
    """Return blocks of attention with three products, a softmax, a norm and residual connections."""
    network, value = Network(), "x"
    for k in range(blocks):
        network.scope = f"encoder/layer.{k}"
        shortcut = value
        query, key, values = (
            network.add("MatMul", value, network.weight((8, 8))) for _ in range(3)
        )
        scores = network.add("MatMul", query, network.add("Transpose", key, perm=[0, 2, 1]))
        value = network.add("MatMul", network.add("Softmax", scores), values)
        value = network.add("Add", value, shortcut)
        mean = network.add("ReduceMean", value, axes=[2])
        away = network.add("Sub", value, mean)
        spread = network.add(
            "Sqrt", network.add("ReduceMean", network.add("Mul", away, away), axes=[2])
        )
        value = network.add("Div", away, spread)
        inner = network.add("Relu", network.add("MatMul", value, network.weight((8, 8))))
        value = network.add("Add", inner, value)
    return network.model(value, (1, 5, 8))


def with_control(blocks: int) -> onnx.ModelProto:
    """Return convolutions, then an If whose branches read many weights, in a Loop of an attention's shape."""
    network, value = Network(), "x"
    for k in range(blocks):
        network.scope = f"block.{k}"
        branches = {}
        weights = [network.weight((4,)) for _ in range(10)]
        for word, operator in (("then", "Add"), ("else", "Mul")):
            inner = Network()
            inner.scope = f"block.{k}/{word}"
            start = value
            for weight in weights:
                start = inner.add(operator, start, weight)
            out = helper.make_tensor_value_info(start, _FLOAT, None)
            branches[f"{word}_branch"] = helper.make_graph(inner.nodes, word, [], [out])
        positive = network.add(
            "Greater", network.add("ReduceSum", value, keepdims=0), _zero(network)
        )
        value = network.add("If", positive, **branches)
        value = network.add("Tanh", value)
    return network.model(value, (4,))


def _zero(network: Network) -> str:
    name = "/zero"
    if name not in {weight.name for weight in network.weights}:
        network.weights.append(numpy_helper.from_array(np.zeros((), np.float32), name))
    return name


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "convolutions_30": lambda: convolutions(5),
    "convolutions_210": lambda: convolutions(30),
    "attention_75": lambda: attention(5),
    "attention_450": lambda: attention(30),
    "control_100": lambda: with_control(4),
    "control_260": lambda: with_control(10),
}
"""Networks by name, with their approximate numbers of nodes."""


def saved(name: str, folder: Path) -> Path:
    """Save a network to a file, and return its path."""
    path = folder / f"{name}.onnx"
    onnx.save(NETWORKS[name](), path)
    return path
