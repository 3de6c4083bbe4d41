"""What is known of the values of a model before it runs: element types, ranks, constant numbers.

Types come from onnx's shape inference, constants from initializers, `Constant` nodes and small
computations of them (never of a loop, never of something random).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from mdf_loop.importing.opsets.weights import graphs_of, without_weights
from mdf_loop.ir import Array
from mdf_loop.ops import row_of

_DEEPEST = 40
_LARGEST = 100_000
_NEVER = ("Loop", "Scan", "If", "SequenceMap")


class Facts:
    """What is known of the values of one graph and of the graphs around it."""

    def __init__(self, graph: onnx.GraphProto, version: int, outer: Facts | None = None) -> None:
        self.graph, self.version, self.outer = graph, version, outer
        self.types = {value.name: value.type for value in _declared(graph)}
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        if outer is None:  # an initializer that is an input as well may be given at run time
            for value in graph.input:
                self.constants.pop(value.name, None)
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self._values: dict[str, Array | None] = {}

    def home(self, name: str) -> Facts | None:
        """The facts of the graph in which the value is made."""
        scope: Facts | None = self
        while scope is not None:
            if name in scope.types or name in scope.constants or name in scope.makers:
                return scope
            scope = scope.outer
        return None

    def type(self, name: str) -> onnx.TypeProto | None:
        """The type of a value as far as it is known."""
        home = self.home(name)
        if home is None:
            return None
        if name in home.types:
            return home.types[name]
        if name in home.constants:
            tensor = home.constants[name]
            return helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        return None

    def dtype(self, name: str) -> int:
        """The element type of a tensor, 0 if unknown or no tensor."""
        found = self.type(name)
        return int(found.tensor_type.elem_type) if found is not None else 0

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """The shape of a tensor, None where an extent (or the rank) is unknown."""
        found = self.type(name)
        if found is None or not found.tensor_type.HasField("shape"):
            return None
        dims = found.tensor_type.shape.dim
        return tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)

    def value(self, name: str, depth: int = 0) -> Array | None:
        """The numbers of a value if they are the same in every run and not many."""
        home = self.home(name)
        if home is None:
            return None
        if name not in home._values:
            home._values[name] = None  # a circle has no value
            home._values[name] = home._worked_out(name, depth)
        return home._values[name]

    def _worked_out(self, name: str, depth: int) -> Array | None:
        if name in self.constants:
            return _small(self.constants[name])
        node = self.makers.get(name)
        if (
            node is None
            or node.op_type in _NEVER
            or row_of(node.op_type).random
            or node.domain
            or depth > _DEEPEST
        ):
            return None
        if node.op_type in ("Shape", "Size"):
            return self._extents(node)
        return self._computed(node, name, depth)

    def _extents(self, node: onnx.NodeProto) -> Array | None:
        shape = self.shape(node.input[0])
        if shape is None:
            return None
        options = {a.name: a.i for a in node.attribute}
        part = shape[options.get("start", 0) : options.get("end")]
        if None in part:
            return None
        extents = np.array(part, dtype=np.int64)
        return extents if node.op_type == "Shape" else np.array(np.prod(extents), np.int64)

    def _computed(self, node: onnx.NodeProto, name: str, depth: int) -> Array | None:
        feeds: dict[str, Array] = {}
        for read in node.input:
            if not read:
                continue
            given = self.value(read, depth + 1)
            if given is None or given.size > _LARGEST:
                return None
            feeds[read] = given
        made = self.shape(name)
        if made is None or None in made or math.prod(n or 0 for n in made) > _LARGEST:
            return None
        return _run(node, name, feeds, self.version)


def _run(node: onnx.NodeProto, name: str, feeds: dict[str, Array], version: int) -> Array | None:
    inputs = [
        helper.make_tensor_value_info(
            key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for key, array in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name)]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    try:
        from onnx.reference import ReferenceEvaluator  # reads all schemas: few files need it

        evaluator: Any = ReferenceEvaluator(model)
        return np.asarray(evaluator.run(None, feeds)[0])
    except Exception:  # noqa: BLE001 - whatever onnx's reference raises: not a constant, then
        return None


def _small(tensor: onnx.TensorProto) -> Array | None:
    if math.prod(tensor.dims) > _LARGEST or tensor.data_type == tensor.STRING:
        return None
    return np.asarray(numpy_helper.to_array(tensor))


def _declared(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    for values in (graph.value_info, graph.output, graph.input):
        yield from (value for value in values if value.HasField("type"))


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types of all values in it, bodies included."""
    light, restore = without_weights(model)
    _state_forgotten_defaults(light.graph)
    try:
        inferred = shape_inference.infer_shapes(light, data_prop=True)
    except Exception:  # noqa: BLE001 - onnx raises several kinds of its own
        return model  # what is declared in the file must do
    return restore(inferred)


_FORGOTTEN = {"STFT": "onesided"}
"""Operators whose inference in onnx 1.23 does not know the default of an attribute, 1."""


def _state_forgotten_defaults(graph: onnx.GraphProto) -> None:
    """Write the defaults that onnx's inference forgets into the nodes of a graph and its bodies."""
    for node in (node for inner in graphs_of(graph) for node in inner.node):
        name = "" if node.domain else _FORGOTTEN.get(node.op_type, "")
        if name and attribute_of(node, name) is None:
            node.attribute.append(helper.make_attribute(name, 1))


def attribute_of(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute; text as str."""
    for attribute in node.attribute:
        if attribute.name == name:
            found = helper.get_attribute_value(attribute)
            return found.decode(errors="replace") if isinstance(found, bytes) else found
    return default
