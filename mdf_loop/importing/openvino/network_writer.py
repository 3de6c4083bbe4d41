"""Writer of an OpenVINO network into an MDF graph.

A Const becomes a node when a layer reads it as a value. A Const that is only used as an axis or an order
becomes an attribute without a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from onnx import defs

from mdf_loop.errors import ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.elements import (
    UNKNOWN_ELEMENT_TYPES,
    Extents,
    dtype_of_type,
    numpy_dtype,
    parse_shape,
    read_integer,
    read_integers,
)
from mdf_loop.importing.openvino.network import Layer, LayerPort, Network, PortKey
from mdf_loop.importing.openvino.weights import Weights
from mdf_loop.ir import Array
from mdf_loop.ops.onnx_schema import schema

_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
MAX_FOLDED_ELEMENTS = 4096
"""Maximum number of elements of a constant whose Convert is computed at import, for axes and orders."""


class OnnxOp(Struct, frozen=True, eq=False):
    """ONNX operator applied to input values, which is not yet written into a graph.

    `output_count` is the number of outputs.
    """

    op_type: str
    inputs: tuple[Term | None, ...]  # operands of the operator
    attributes: Mapping[str, object]  # attributes of the ONNX operator
    output_count: int = 1

    def __getitem__(self, index: int) -> OutputTerm:
        return OutputTerm(self, index)


class OutputTerm(Struct, frozen=True):
    """One of the outputs of an applied ONNX operator."""

    onnx_op: OnnxOp
    output_index: int


Term: TypeAlias = str | Array | OnnxOp | OutputTerm
"""Value, given by its name, by a constant, or by the operator that computes the value."""


def op(op_type: str, *inputs: Term | None, **attributes: object) -> OnnxOp:
    """Build the application `onnx::op_type(*inputs)` of an ONNX operator.

    An input of None omits an optional input.
    """
    return OnnxOp(op_type, inputs, attributes)


def op_outputs(
    count: int, op_type: str, *inputs: Term | None, **attributes: object
) -> tuple[OutputTerm, ...]:
    """Apply an ONNX operator with several outputs, and return each output."""
    applied_operator = OnnxOp(op_type, inputs, attributes, count)
    return tuple(applied_operator[output_index] for output_index in range(count))


class NetworkWriter:
    """Writer of one OpenVINO network into an MDF graph."""

    def __init__(self, network: Network, writer: GraphWriter, weights: Weights) -> None:
        self.network = network
        self.graph_writer = writer
        self.weights = weights
        self.value_names: dict[PortKey, str] = {}
        self.constant_arrays: dict[str, Array] = {}
        self.value_dtypes: dict[str, str] = {}
        self.value_shapes: dict[str, Extents] = {}
        self._unwritten_constants: dict[str, Array] = {}
        self._output_names: dict[OutputTerm, str] = {}
        self._written: set[OnnxOp] = set()

    # --- names ----------------------------------------------------------------------------------

    def name_values(self) -> None:
        """Name each value by the first name of its port in the file, or else by its layer."""
        used_names: set[str] = set()
        for layer in self.network.layers_by_id.values():
            for port_index, port in enumerate(layer.output_ports):
                value_name = self.value_names.get((layer.id, port.id))
                if value_name is None:
                    base_name = (
                        port.value_names[0]
                        if port.value_names
                        else _default_name(layer, port_index)
                    )
                    base_name = f"{base_name}_{layer.id}" if base_name in used_names else base_name
                    used_names.add(base_name)
                    value_name = self.value_names[layer.id, port.id] = (
                        self.graph_writer.unique_name(base_name)
                    )
                self.value_dtypes[value_name], self.value_shapes[value_name] = _declared_type(
                    layer, port
                )

    def input_name(self, layer: Layer, position: int) -> str:
        """Return the name of the value that feeds an input of a layer."""
        return self.value_names[
            self.network.source_by_input[layer.id, layer.input_ports[position].id]
        ]

    # --- values ---------------------------------------------------------------------------------

    def read_constant_layer(self, layer: Layer) -> None:
        """Read the array of a Const layer. Its MDF node is written only if other layers need it."""
        layer_attributes, layer_location = layer.attributes, layer.location
        dtype = dtype_of_type(layer_attributes.get("element_type", ""), layer_location)
        shape = read_integers(layer_attributes.get("shape", ""), "shape", layer_location)
        if any(extent < 0 for extent in shape):
            raise ModelError(f"a Const cannot have the shape {list(shape)}", layer_location)
        stored_byte_count, byte_offset = (
            read_integer(layer_attributes.get(attribute_key), attribute_key, layer_location)
            for attribute_key in ("size", "offset")
        )
        value_name = self.value_names[layer.id, only_output(layer).id]
        constant_array = self.weights.array(
            byte_offset, stored_byte_count, dtype, shape, layer_location
        )
        self.constant_arrays[value_name] = constant_array
        self._unwritten_constants[value_name] = constant_array

    def fold_convert(self, layer: Layer) -> None:
        """Compute the output of a Convert layer whose input is a small constant."""
        if layer.type != "Convert":
            return
        input_array = self.constant_arrays.get(self.input_name(layer, 0))
        if input_array is not None and input_array.size <= MAX_FOLDED_ELEMENTS:
            value_name = self.value_names[layer.id, layer.output_ports[0].id]
            with np.errstate(all="ignore"):
                self.constant_arrays[value_name] = input_array.astype(
                    numpy_dtype(self.value_dtypes[value_name])
                )

    def ensure_node(self, name: str) -> str:
        """Add the node of a constant if the constant has no node yet, and return the value name."""
        if name in self._unwritten_constants:
            self.graph_writer.add_constant(name, self._unwritten_constants.pop(name))
        return name

    def write_outputs(self, root_terms: Sequence[Term], names: Sequence[str], node_id: str) -> None:
        """Write MDF nodes that compute several ONNX expressions, with the results named `names`.

        A term is a value name, a constant array, or the output of an ONNX operator.
        """
        copied_terms: list[tuple[Term, str]] = []
        terms: list[Term] = [
            root_term[0] if isinstance(root_term, OnnxOp) else root_term for root_term in root_terms
        ]
        for term, name in zip(terms, names, strict=True):
            if isinstance(term, OutputTerm) and term not in self._output_names:
                self._output_names[term] = name
            else:
                copied_terms.append((term, name))
        for term in terms:
            self.write_term(term, node_id)
        for term, name in copied_terms:
            self._write_node(op("Identity", term), [name], node_id)

    def write_term(self, term: Term, node_id: str) -> str:
        """Return the name of a value, after writing the operators that compute it if necessary."""
        if isinstance(term, str):
            return self.ensure_node(term)
        if isinstance(term, np.ndarray):
            constant_name = self.graph_writer.unique_name(f"{node_id}.constant")
            self.graph_writer.add_constant(constant_name, term)
            return constant_name
        output_term = term[0] if isinstance(term, OnnxOp) else term
        if output_term.onnx_op not in self._written:
            self._written.add(output_term.onnx_op)
            output_terms = [
                OutputTerm(output_term.onnx_op, output_index)
                for output_index in range(output_term.onnx_op.output_count)
            ]
            for operator_output in output_terms:
                if operator_output not in self._output_names:
                    self._output_names[operator_output] = self.graph_writer.unique_name(
                        f"{node_id}.{output_term.onnx_op.op_type}"
                    )
            self._write_node(
                output_term.onnx_op,
                [self._output_names[operator_output_term] for operator_output_term in output_terms],
                node_id,
            )
        return self._output_names[output_term]

    def _write_node(self, onnx_op: OnnxOp, output_names: Sequence[str], node_id: str) -> None:
        input_names = [
            None if term is None else self.write_term(term, node_id) for term in onnx_op.inputs
        ]
        names_read = [input_name for input_name in input_names if input_name is not None]
        arguments = _named_arguments(onnx_op, input_names)
        self.graph_writer.add_node(
            f"onnx::{onnx_op.op_type}",
            output_names,
            args=arguments,
            names_read=names_read,
            node_id=node_id,
        )


def only_output(layer: Layer) -> LayerPort:
    """Return the output port of a layer that has exactly one output."""
    if len(layer.output_ports) != 1:
        raise ModelError(
            f"a {layer.type} has one output, not {len(layer.output_ports)}", layer.location
        )
    return layer.output_ports[0]


def _default_name(layer: Layer, position: int) -> str:
    return layer.name if len(layer.output_ports) == 1 else f"{layer.name}.{position}"


def _declared_type(layer: Layer, port: LayerPort) -> tuple[str, Extents]:
    """Return the dtype and shape that the file declares for an output port of a layer.

    A port without axes has no known shape.
    """
    if layer.type in ("Parameter", "Const"):
        element_type = layer.attributes.get("element_type")
        shape_text = layer.attributes.get("shape")
        dtype = (
            port.dtype
            if element_type in UNKNOWN_ELEMENT_TYPES
            else dtype_of_type(str(element_type), layer.location)
        )
        return dtype, port.shape if shape_text is None else parse_shape(shape_text, layer.location)
    return port.dtype, port.shape or None


def _named_arguments(operator: OnnxOp, inputs: list[str | None]) -> Content:
    """Return the inputs and attributes of an operator by their names in ONNX's schema.

    An omitted argument is written as None if an input has the name of the argument.
    """
    operator_schema = schema(operator.op_type, operator.attributes, len(inputs))
    formal_inputs = operator_schema.inputs
    arguments: Content = {}
    for input_index, input_name in enumerate(inputs):
        formal_input = formal_inputs[min(input_index, len(formal_inputs) - 1)]
        if formal_input.option == _VARIADIC:
            arguments.setdefault(formal_input.name, []).append(input_name)
        elif input_name is not None:
            arguments[formal_input.name] = input_name
    arguments |= operator.attributes
    formal_input_names = [
        formal_input.name for formal_input in formal_inputs if formal_input.option != _VARIADIC
    ]
    for argument_name in (*formal_input_names, *operator_schema.attributes):
        if argument_name in inputs and argument_name not in arguments:
            arguments[argument_name] = None
    return arguments
