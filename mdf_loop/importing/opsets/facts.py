"""Facts about the values of a model that are known before a run: element types, ranks, constants.

Types come from onnx's shape inference. Constants come from initializers, `Constant` nodes and small
computations on these, but never from a loop or from random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mdf_loop.errors import ModelError
from mdf_loop.importing.inference_process import infer_shapes
from mdf_loop.importing.onnx_nodes import attribute_fault_of
from mdf_loop.importing.onnx_paths import path_of_node
from mdf_loop.importing.opsets.weights import graphs_of, remove_weights
from mdf_loop.ir import Array
from mdf_loop.ops import row_of

_MAX_CONSTANT_DEPTH = 40
_MAX_CONSTANT_ELEMENTS = 100_000
_OPERATORS_NEVER_CONSTANT = ("Loop", "Scan", "If", "SequenceMap")


class Facts:
    """Types, ranks and constants of the values of one graph and of its enclosing graphs."""

    def __init__(self, graph: onnx.GraphProto, version: int, outer: Facts | None = None) -> None:
        self.graph, self.version, self.outer_facts = graph, version, outer
        self.type_by_name = {value.name: value.type for value in _declared_values(graph)}
        self.tensor_by_name = {tensor.name: tensor for tensor in graph.initializer}
        if outer is None:  # an input with an initializer may have another value at run time
            for value in graph.input:
                self.tensor_by_name.pop(value.name, None)
        self.producer_by_name = {name: node for node in graph.node for name in node.output if name}
        self._constant_arrays: dict[str, Array | None] = {}

    def defining_facts(self, name: str) -> Facts | None:
        """Return the `Facts` (types, constants) of the graph that defines a value, or None.

        The graph is this one or an enclosing one.
        """
        candidate_facts: Facts | None = self
        while candidate_facts is not None:
            if (
                name in candidate_facts.type_by_name
                or name in candidate_facts.tensor_by_name
                or name in candidate_facts.producer_by_name
            ):
                return candidate_facts
            candidate_facts = candidate_facts.outer_facts
        return None

    def type(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a value, or None if the type is unknown."""
        defining_facts = self.defining_facts(name)
        if defining_facts is None:
            return None
        if name in defining_facts.type_by_name:
            return defining_facts.type_by_name[name]
        if name in defining_facts.tensor_by_name:
            constant_tensor = defining_facts.tensor_by_name[name]
            return helper.make_tensor_type_proto(
                constant_tensor.data_type, list(constant_tensor.dims)
            )
        return None

    def dtype(self, name: str) -> int:
        """Return the ONNX element type of a tensor, or 0 for an unknown type."""
        type_proto = self.type(name)
        return int(type_proto.tensor_type.elem_type) if type_proto is not None else 0

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """Return the shape of a tensor with None for unknown extents, or None for an unknown rank."""
        type_proto = self.type(name)
        if type_proto is None or not type_proto.tensor_type.HasField("shape"):
            return None
        dim_protos = type_proto.tensor_type.shape.dim
        return tuple(
            dim_proto.dim_value if dim_proto.HasField("dim_value") else None
            for dim_proto in dim_protos
        )

    def constant_array(self, name: str, depth: int = 0) -> Array | None:
        """Return the array of a small constant value, or None for any other value."""
        defining_facts = self.defining_facts(name)
        if defining_facts is None:
            return None
        if name not in defining_facts._constant_arrays:
            defining_facts._constant_arrays[name] = None  # a cycle has no value
            defining_facts._constant_arrays[name] = defining_facts._find_value(name, depth)
        return defining_facts._constant_arrays[name]

    def _find_value(self, name: str, depth: int) -> Array | None:
        if name in self.tensor_by_name:
            return _small_array(self.tensor_by_name[name])
        producer = self.producer_by_name.get(name)
        if (
            producer is None
            or producer.op_type in _OPERATORS_NEVER_CONSTANT
            or row_of(producer.op_type).is_random
            or producer.domain
            or depth > _MAX_CONSTANT_DEPTH
        ):
            return None
        if producer.op_type in ("Shape", "Size"):
            return self._find_extents(producer)
        return self._compute_constant(producer, name, depth)

    def _find_extents(self, node: onnx.NodeProto) -> Array | None:
        shape = self.shape(node.input[0])
        if shape is None:
            return None
        attribute_values = {attribute.name: attribute.i for attribute in node.attribute}
        selected_extents = shape[attribute_values.get("start", 0) : attribute_values.get("end")]
        if None in selected_extents:
            return None
        extents_array = np.array(selected_extents, dtype=np.int64)
        return (
            extents_array if node.op_type == "Shape" else np.array(np.prod(extents_array), np.int64)
        )

    def _compute_constant(self, node: onnx.NodeProto, name: str, depth: int) -> Array | None:
        constant_inputs: dict[str, Array] = {}
        for input_name in node.input:
            if not input_name:
                continue
            input_array = self.constant_array(input_name, depth + 1)
            if input_array is None or input_array.size > _MAX_CONSTANT_ELEMENTS:
                return None
            constant_inputs[input_name] = input_array
        shape = self.shape(name)
        if (
            shape is None
            or None in shape
            or math.prod(extent or 0 for extent in shape) > _MAX_CONSTANT_ELEMENTS
        ):
            return None
        return _evaluate_node(node, name, constant_inputs, self.version)


def _evaluate_node(
    node: onnx.NodeProto, name: str, feeds: dict[str, Array], version: int
) -> Array | None:
    input_infos = [
        helper.make_tensor_value_info(
            input_name, helper.np_dtype_to_tensor_dtype(input_array.dtype), input_array.shape
        )
        for input_name, input_array in feeds.items()
    ]
    output_infos = [onnx.ValueInfoProto(name=name)]
    one_node_graph = helper.make_graph([node], "constant", input_infos, output_infos)
    one_node_model = helper.make_model(
        one_node_graph, opset_imports=[helper.make_opsetid("", version)]
    )
    try:
        from onnx.reference import ReferenceEvaluator  # a slow import that few files need

        evaluator: Any = ReferenceEvaluator(one_node_model)
        return np.asarray(evaluator.run(None, feeds)[0])
    except Exception:  # noqa: BLE001 - after any error of onnx's reference, the value is unknown
        return None


def _small_array(tensor: onnx.TensorProto) -> Array | None:
    if math.prod(tensor.dims) > _MAX_CONSTANT_ELEMENTS or tensor.data_type == tensor.STRING:
        return None
    return np.asarray(numpy_helper.to_array(tensor))


def _declared_values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    for value_infos in (graph.value_info, graph.output, graph.input):
        yield from (value_info for value_info in value_infos if value_info.HasField("type"))


def infer_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model with the inferred types of all values, also of values in bodies.

    Raises:
        ModelError: onnx's inference does not end. A known cause is an invalid attribute, also in a call of a
            function.
    """
    _refuse_faults(model.graph)
    light_model, restore_weights = remove_weights(model)
    _write_missing_defaults(light_model.graph)
    typed_model = infer_shapes(light_model)
    return (
        model if typed_model is None else restore_weights(typed_model)
    )  # otherwise the declared types remain


def _refuse_faults(graph: onnx.GraphProto) -> None:
    """Raise an error for a node whose attributes make onnx's type inference hang."""
    for nested_graph in graphs_of(graph):
        for node_index, node in enumerate(nested_graph.node):
            if not node.domain and (attribute_fault := attribute_fault_of(node)):
                raise ModelError(attribute_fault, path_of_node("$.graph", node, node_index))


_MISSING_DEFAULTS = {"STFT": "onesided"}
"""Attributes with default 1 that the type inference of onnx 1.23 does not know, by operator."""


def _write_missing_defaults(graph: onnx.GraphProto) -> None:
    """Write the attribute defaults that onnx's type inference lacks into all nodes of a graph."""
    for node in (node for nested_graph in graphs_of(graph) for node in nested_graph.node):
        default_name = "" if node.domain else _MISSING_DEFAULTS.get(node.op_type, "")
        if default_name and attribute_of(node, default_name) is None:
            node.attribute.append(helper.make_attribute(default_name, 1))


def attribute_of(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of an attribute, with text as str."""
    for attribute in node.attribute:
        if attribute.name == name:
            attribute_value = helper.get_attribute_value(attribute)
            return (
                attribute_value.decode(errors="replace")
                if isinstance(attribute_value, bytes)
                else attribute_value
            )
    return default
