"""Large tensors stay here while onnx's own C++ code works on a model.

That code gets a copy through bytes, which protobuf allows up to 2 GB only; it looks at the
types and extents of weights, never at their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

_LARGE = 65_536
_MARK = "mdf_loop weight "


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and every body in it, outermost first."""
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        yield current
        for node in current.node:
            waiting.extend(bodies_of(node))


def bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node owns."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The initializers and constants of a graph and its bodies."""
    for current in graphs_of(graph):
        yield from current.initializer
        for node in current.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t


def without_weights(
    model: onnx.ModelProto,
) -> tuple[onnx.ModelProto, Callable[[onnx.ModelProto], onnx.ModelProto]]:
    """The model without large data, and what puts the data back into a model made of it."""
    large = [t for t in tensors_of(model.graph) if len(t.raw_data) > _LARGE]
    kept = [(tensor.raw_data, tensor.doc_string) for tensor in large]
    for number, tensor in enumerate(large):
        tensor.ClearField("raw_data")
        tensor.doc_string = f"{_MARK}{number}"
    light = onnx.ModelProto()
    light.CopyFrom(model)

    def restore(made: onnx.ModelProto) -> onnx.ModelProto:
        for tensor in tensors_of(made.graph):
            if tensor.doc_string.startswith(_MARK):
                number = int(tensor.doc_string.removeprefix(_MARK))
                tensor.raw_data, tensor.doc_string = kept[number]
        return made

    restore(model)
    return light, restore
