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
    UNKNOWN_TYPES,
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

    type: str
    inputs: tuple[Term | None, ...]
    attributes: Mapping[str, object]
    output_count: int = 1

    def __getitem__(self, index: int) -> OutputTerm:
        return OutputTerm(self, index)


class OutputTerm(Struct, frozen=True):
    """One of the outputs of an applied ONNX operator."""

    op: OnnxOp
    index: int


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
    operator = OnnxOp(op_type, inputs, attributes, count)
    return tuple(operator[output_index] for output_index in range(count))


class NetworkWriter:
    """Writer of one OpenVINO network into an MDF graph."""

    def __init__(self, network: Network, writer: GraphWriter, weights: Weights) -> None:
        self.network = network
        self.writer = writer
        self.weights = weights
        self.names: dict[PortKey, str] = {}
        self.constants: dict[str, Array] = {}
        self.dtypes: dict[str, str] = {}
        self.shapes: dict[str, Extents] = {}
        self._pending: dict[str, Array] = {}
        self._output_names: dict[OutputTerm, str] = {}
        self._written: set[OnnxOp] = set()

    # --- names ----------------------------------------------------------------------------------

    def name_values(self) -> None:
        """Name each value by the first name of its port in the file, or else by its layer."""
        used_names: set[str] = set()
        for layer in self.network.layers_by_id.values():
            for position, port in enumerate(layer.outputs):
                value_name = self.names.get((layer.id, port.id))
                if value_name is None:
                    base_name = port.names[0] if port.names else _default_name(layer, position)
                    base_name = f"{base_name}_{layer.id}" if base_name in used_names else base_name
                    used_names.add(base_name)
                    value_name = self.names[layer.id, port.id] = self.writer.unique_name(base_name)
                self.dtypes[value_name], self.shapes[value_name] = _declared_type(layer, port)

    def source(self, layer: Layer, position: int) -> str:
        """Return the name of the value that feeds an input of a layer."""
        return self.names[self.network.sources[layer.id, layer.inputs[position].id]]

    # --- values ---------------------------------------------------------------------------------

    def add_constant_layer(self, layer: Layer) -> None:
        """Read the array of a constant layer, whose node is added when another layer reads it."""
        attributes, where = layer.attributes, layer.where
        dtype = dtype_of_type(attributes.get("element_type", ""), where)
        shape = read_integers(attributes.get("shape", ""), "shape", where)
        if any(extent < 0 for extent in shape):
            raise ModelError(f"a Const cannot have the shape {list(shape)}", where)
        byte_count, offset = (
            read_integer(attributes.get(key), key, where) for key in ("size", "offset")
        )
        value_name = self.names[layer.id, only_output(layer).id]
        array = self.weights.array(offset, byte_count, dtype, shape, where)
        self.constants[value_name] = array
        self._pending[value_name] = array

    def fold_convert(self, layer: Layer) -> None:
        """Compute the output of a Convert layer whose input is a small constant."""
        if layer.type != "Convert":
            return
        array = self.constants.get(self.source(layer, 0))
        if array is not None and array.size <= MAX_FOLDED_ELEMENTS:
            value_name = self.names[layer.id, layer.outputs[0].id]
            with np.errstate(all="ignore"):
                self.constants[value_name] = array.astype(numpy_dtype(self.dtypes[value_name]))

    def read(self, name: str) -> str:
        """Return a value name, after adding the node of a constant that has no node yet."""
        if name in self._pending:
            self.writer.constant(name, self._pending.pop(name))
        return name

    def write_outputs(self, root_terms: Sequence[Term], names: Sequence[str], node_id: str) -> None:
        """Write the nodes that compute `root_terms`, and name the computed values `names`.

        A term is a value name, a constant array, or the output of an ONNX operator.
        """
        copies: list[tuple[Term, str]] = []
        terms: list[Term] = [
            root_term[0] if isinstance(root_term, OnnxOp) else root_term for root_term in root_terms
        ]
        for term, name in zip(terms, names, strict=True):
            if isinstance(term, OutputTerm) and term not in self._output_names:
                self._output_names[term] = name
            else:
                copies.append((term, name))
        for term in terms:
            self.value(term, node_id)
        for term, name in copies:
            self._write_node(op("Identity", term), [name], node_id)

    def value(self, term: Term, node_id: str) -> str:
        """Return the value name of a term, after writing the operators of the term if necessary."""
        if isinstance(term, str):
            return self.read(term)
        if isinstance(term, np.ndarray):
            constant_name = self.writer.unique_name(f"{node_id}.constant")
            self.writer.constant(constant_name, term)
            return constant_name
        output_term = term[0] if isinstance(term, OnnxOp) else term
        if output_term.op not in self._written:
            self._written.add(output_term.op)
            output_terms = [
                OutputTerm(output_term.op, output_index)
                for output_index in range(output_term.op.output_count)
            ]
            for operator_output in output_terms:
                if operator_output not in self._output_names:
                    self._output_names[operator_output] = self.writer.unique_name(
                        f"{node_id}.{output_term.op.type}"
                    )
            self._write_node(
                output_term.op, [self._output_names[output] for output in output_terms], node_id
            )
        return self._output_names[output_term]

    def _write_node(self, operator: OnnxOp, output_names: Sequence[str], node_id: str) -> None:
        input_names = [
            None if term is None else self.value(term, node_id) for term in operator.inputs
        ]
        names_read = [input_name for input_name in input_names if input_name is not None]
        args = _named_arguments(operator, input_names)
        self.writer.node(
            f"onnx::{operator.type}",
            output_names,
            args=args,
            names_read=names_read,
            node_id=node_id,
        )


def only_output(layer: Layer) -> LayerPort:
    """Return the output port of a layer that has exactly one output."""
    if len(layer.outputs) != 1:
        raise ModelError(f"a {layer.type} has one output, not {len(layer.outputs)}", layer.where)
    return layer.outputs[0]


def _default_name(layer: Layer, position: int) -> str:
    return layer.name if len(layer.outputs) == 1 else f"{layer.name}.{position}"


def _declared_type(layer: Layer, port: LayerPort) -> tuple[str, Extents]:
    """Return the dtype and shape that the file declares for an output port of a layer.

    A port without axes has no known shape.
    """
    if layer.type in ("Parameter", "Const"):
        element_type = layer.attributes.get("element_type")
        shape_text = layer.attributes.get("shape")
        dtype = (
            port.dtype
            if element_type in UNKNOWN_TYPES
            else dtype_of_type(str(element_type), layer.where)
        )
        return dtype, port.shape if shape_text is None else parse_shape(shape_text, layer.where)
    return port.dtype, port.shape or None


def _named_arguments(operator: OnnxOp, inputs: list[str | None]) -> Content:
    """Return the inputs and attributes of an operator by their names in ONNX's schema.

    An omitted argument is written as None if an input has the name of the argument.
    """
    op_schema = schema(operator.type, operator.attributes, len(inputs))
    formal_inputs = op_schema.inputs
    args: Content = {}
    for input_index, input_name in enumerate(inputs):
        formal_input = formal_inputs[min(input_index, len(formal_inputs) - 1)]
        if formal_input.option == _VARIADIC:
            args.setdefault(formal_input.name, []).append(input_name)
        elif input_name is not None:
            args[formal_input.name] = input_name
    args |= operator.attributes
    formal_names = [
        formal_input.name for formal_input in formal_inputs if formal_input.option != _VARIADIC
    ]
    for argument in (*formal_names, *op_schema.attributes):
        if argument in inputs and argument not in args:
            args[argument] = None
    return args
