"""Removal of large weights while onnx's C++ code processes a model.

The C++ code receives a serialized copy of the model, which protobuf limits to 2 GB. The code needs the types
and the shapes of weights, but not their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

_MAX_WEIGHT_BYTES = 65_536
_PLACEHOLDER_PREFIX = "mdf_loop weight "


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all its nested bodies, outermost first."""
    pending_graphs = [graph]
    while pending_graphs:
        visited_graph = pending_graphs.pop()
        yield visited_graph
        for node in visited_graph.node:
            pending_graphs.extend(bodies_of(node))


def bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the bodies (graphs in attributes) of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the initializers and constants of a graph and of its bodies."""
    for nested_graph in graphs_of(graph):
        yield from nested_graph.initializer
        for node in nested_graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t


def remove_weights(
    model: onnx.ModelProto,
) -> tuple[onnx.ModelProto, Callable[[onnx.ModelProto], onnx.ModelProto]]:
    """Return the model without large weights, and a function that restores these weights."""
    large_tensors = [
        tensor for tensor in tensors_of(model.graph) if len(tensor.raw_data) > _MAX_WEIGHT_BYTES
    ]
    original_fields = [(tensor.raw_data, tensor.doc_string) for tensor in large_tensors]
    for weight_index, tensor in enumerate(large_tensors):
        tensor.ClearField("raw_data")
        tensor.doc_string = f"{_PLACEHOLDER_PREFIX}{weight_index}"
    light_model = onnx.ModelProto()
    light_model.CopyFrom(model)

    def restore(processed_model: onnx.ModelProto) -> onnx.ModelProto:
        for tensor in tensors_of(processed_model.graph):
            if tensor.doc_string.startswith(_PLACEHOLDER_PREFIX):
                weight_index = int(tensor.doc_string.removeprefix(_PLACEHOLDER_PREFIX))
                tensor.raw_data, tensor.doc_string = original_fields[weight_index]
        return processed_model

    restore(model)
    return light_model, restore
