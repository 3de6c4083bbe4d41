"""Conversion of an ONNX graph into an MDF graph, with a node for each node and a port for each value.

Bodies are arguments of their node, and the values that they capture are input ports of the node. The
MDF graph keeps node names, value names, dtypes, shapes, attributes, and the order of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.loop_conditions import LOOP_CONDITION, RUNTIME, interpretation_of
from mdf_loop.ir import Array, Shape
from mdf_loop.ir.types import element_type, is_tensor, type_of
from mdf_loop.ops import onnx_schema

STANDARD_DOMAINS = ("", "ai.onnx")
_CONSTANT_DTYPES = {
    "value": None,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}
_BRANCH_METADATA = {"shapes": "dynamic"}
"""Metadata of a branch: ONNX allows branches of different shapes."""

_LOOP_METADATA = {"semantics": "onnx"}
"""Metadata of a loop body with the semantics of ONNX.

Shapes may change between iterations, and a negative trip count means no iteration.
"""

_ONNX_DEFAULTS: dict[str, Content] = {
    "RoiAlign": {"coordinate_transformation_mode": "half_pixel"},
}
"""Attribute defaults of ONNX that MDF's functions lack. The importer writes these attributes."""

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def convert_main_graph(onnx_graph: onnx.GraphProto, graph_id: str, metadata: Content) -> Content:
    """Convert the main graph of an ONNX model to an MDF graph whose outputs have the same names.

    Each input of the ONNX graph becomes a node.
    """
    graph_writer = GraphWriter(graph_id)
    graph_writer.reserve_names(_value_names(onnx_graph))
    initializer_names = {tensor.name for tensor in onnx_graph.initializer}
    for onnx_value in onnx_graph.input:
        # Before IR version 4, initializers were also inputs.
        if onnx_value.name not in initializer_names:
            graph_writer.add_input(onnx_value.name, *_read_type(onnx_value.type))
    _write_graph(onnx_graph, graph_writer)
    for onnx_value in onnx_graph.output:
        _write_output_type(graph_writer, onnx_value)
    ports_by_output = {
        onnx_value.name: f"{graph_writer.producer_id(onnx_value.name)}.{onnx_value.name}"
        for onnx_value in onnx_graph.output
    }
    return graph_writer.graph_content(outputs=ports_by_output, metadata=metadata)


def convert_body(onnx_graph: onnx.GraphProto, outer_writer: GraphWriter | None = None) -> Content:
    """Convert the body graph of an ONNX If, Scan or SequenceMap to an MDF graph.

    The metadata state the order of the inputs and outputs.
    """
    graph_writer = GraphWriter(onnx_graph.name or "body", outer_writer)
    graph_writer.reserve_names(_value_names(onnx_graph))
    _write_graph(onnx_graph, graph_writer)
    input_names = [onnx_value.name for onnx_value in onnx_graph.input]
    output_names = [onnx_value.name for onnx_value in onnx_graph.output]
    return graph_writer.graph_content(
        inputs=input_names, outputs=output_names, metadata=_BRANCH_METADATA
    )


def convert_loop_body(
    proto: onnx.GraphProto, outer: GraphWriter | None = None, interpretation: str | None = None
) -> Content:
    """Convert the body graph of an ONNX Loop to an MDF graph.

    The iteration number and the condition are cast to the types that the ONNX body declares.

    Args:
        proto: The body.
        outer: The writer of the enclosing graph.
        interpretation: The interpretation of the condition, for an ambiguous loop.

    Raises:
        ModelError: `proto` is not a graph.
        UnsupportedError: The body has a part that MDF cannot represent.
    """
    if not isinstance(proto, onnx.GraphProto):
        raise ModelError(f"a body in ONNX is a GraphProto, not {type(proto).__name__}")
    graph_writer = GraphWriter(proto.name or "body", outer)
    graph_writer.reserve_names(_value_names(proto))
    input_names = [onnx_value.name for onnx_value in proto.input]
    for input_index, (value, standard_dtype) in enumerate(
        zip(proto.input, ("int64", "bool"), strict=False)
    ):
        dtype, shape = _read_type(value.type)
        if (dtype or standard_dtype, shape or ()) != (standard_dtype, ()):
            input_names[input_index] = _write_converted_input(
                graph_writer, value.name, dtype or standard_dtype, shape or ()
            )
    _write_graph(proto, graph_writer)
    output_names = [onnx_value.name for onnx_value in proto.output]
    loop_metadata = (
        _LOOP_METADATA
        if interpretation is None
        else {**_LOOP_METADATA, LOOP_CONDITION: interpretation}
    )
    return graph_writer.graph_content(
        inputs=input_names, outputs=output_names, metadata=loop_metadata
    )


def _write_converted_input(graph_writer: GraphWriter, name: str, dtype: str, shape: Shape) -> str:
    """Write nodes that convert a scalar body input to the type declared in the ONNX body.

    Return the scalar's name.
    """
    if not is_tensor(dtype):
        raise ModelError(f"a loop's body cannot take '{name}' as {dtype}: it is a single number")
    scalar_name, cast_name, shape_name = (
        graph_writer.unique_name(f"{name}_{suffix}") for suffix in ("scalar", "cast", "shape")
    )
    element_type_number = element_type(dtype)
    graph_writer.add_node(
        "onnx::Cast",
        [cast_name],
        args={"input": scalar_name, "to": element_type_number},
        names_read=[scalar_name],
    )
    graph_writer.add_constant(shape_name, np.ones(len(shape or ()), np.int64))
    graph_writer.add_node(
        "onnx::Reshape",
        [name],
        args={"data": cast_name, "shape": shape_name},
        names_read=[cast_name, shape_name],
    )
    return scalar_name


# --- values -----------------------------------------------------------------------------------


def _read_type(proto: onnx.TypeProto) -> tuple[str, Shape]:
    """Return the dtype and shape in an ONNX type declaration, with dtype `""` if undeclared."""
    type_kind_name = proto.WhichOneof("value")
    if type_kind_name is None or (
        type_kind_name == "tensor_type" and not proto.tensor_type.elem_type
    ):
        return "", None
    if type_kind_name not in ("tensor_type", "sequence_type", "optional_type"):
        raise UnsupportedError(f"a value of {type_kind_name.replace('_', ' ')} has no place in MDF")
    return type_of(proto)


def _write_output_type(graph_writer: GraphWriter, value: onnx.ValueInfoProto) -> None:
    """Copy the declared type of an ONNX graph output to the MDF port of the same name."""
    node_id = graph_writer.producer_id(value.name)
    if node_id is None:
        return
    dtype, shape = _read_type(value.type)
    port_content = graph_writer.nodes[node_id]["output_ports"][value.name]
    if dtype:
        port_content["type"] = dtype
    if shape:
        port_content["shape"] = [extent if isinstance(extent, int) else -1 for extent in shape]


def _value_names(proto: onnx.GraphProto) -> Iterable[str]:
    yield from (value.name for value in proto.input)
    yield from (tensor.name for tensor in proto.initializer)
    for node in proto.node:
        yield from node.output
        for body in _bodies_of(node):
            yield from _value_names(body)


# --- nodes ------------------------------------------------------------------------------------


def _write_graph(proto: onnx.GraphProto, writer: GraphWriter) -> None:
    if proto.sparse_initializer:
        raise UnsupportedError(f"the graph '{proto.name}' has sparse initializers")
    for tensor in proto.initializer:
        writer.add_constant(tensor.name, tensor_to_array(tensor))
    for node in proto.node:
        if node.domain not in STANDARD_DOMAINS:
            raise UnsupportedError(
                f"the operator {node.domain}::{node.op_type} is not part of ONNX"
            )
        if node.op_type == "Constant":
            writer.add_constant(node.output[0], _constant_array(node))
        else:
            _write_node(node, writer)


def tensor_to_array(tensor: onnx.TensorProto) -> Array:
    """Return the numbers or strings of a tensor as an array of the tensor's dtype."""
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        raise ModelError(f"the tensor '{tensor.name}' has no element type and no numbers")
    try:
        if tensor.data_type == onnx.TensorProto.STRING:  # onnx loses zeros at the end of a text
            return np.array(_decode_strings(tensor), object).reshape(tensor.dims)
        array: Array = numpy_helper.to_array(tensor)
    except ValueError:  # an array without elements, but with huge extents
        shape = list(tensor.dims)
        raise ModelError(f"the tensor '{tensor.name}' cannot have the shape {shape}") from None
    return array


def _decode_strings(tensor: onnx.TensorProto) -> list[str]:
    try:
        return [encoded_text.decode() for encoded_text in tensor.string_data]
    except UnicodeDecodeError:
        raise ModelError(f"a text of the tensor '{tensor.name}' is not UTF-8") from None


def _constant_array(node: onnx.NodeProto) -> Array:
    if len(node.attribute) != 1:
        output_names = ", ".join(node.output)
        raise ModelError(
            f"onnx::Constant '{output_names}' has {len(node.attribute)} values, not one"
        )
    (attribute,) = node.attribute
    if attribute.name not in _CONSTANT_DTYPES:
        raise UnsupportedError(f"onnx::Constant with '{attribute.name}' cannot be read")
    if attribute.name == "value":
        return tensor_to_array(attribute.t)
    attribute_value = _to_python(onnx.helper.get_attribute_value(attribute))
    return np.asarray(attribute_value, _CONSTANT_DTYPES[attribute.name])


def _write_node(node: onnx.NodeProto, graph_writer: GraphWriter) -> None:
    captured_names = [name for body in _bodies_of(node) for name in find_captured_names(body)]
    input_names = [*node.input, *captured_names]
    attributes = {
        attribute.name: _convert_attribute(node, attribute, graph_writer)
        for attribute in node.attribute
    }
    arguments = {**_input_arguments(node), **_ONNX_DEFAULTS.get(node.op_type, {}), **attributes}
    if node.op_type == "Split":  # the number of parts is the number of outputs
        arguments["num_outputs"] = len(node.output)
    for name in _shadowed_arguments(node, input_names, arguments):
        arguments[name] = None
    output_names = list(node.output)
    while len(output_names) > 1 and not output_names[-1]:
        output_names.pop()
    graph_writer.add_node(
        f"onnx::{node.op_type}",
        output_names,
        args=arguments,
        names_read=input_names,
        node_id=node.name,
    )


def _shadowed_arguments(
    node: onnx.NodeProto, input_names: list[str], arguments: Content
) -> list[str]:
    """Return the omitted arguments of an ONNX node that share a name with an input value.

    MDF would read the input with the name of the argument, unless the argument is written as None.
    """
    operator_schema = _schema_of(node)
    formal_input_names = [
        formal_input.name
        for formal_input in operator_schema.inputs
        if formal_input.option != _VARIADIC
    ]
    return [
        name
        for name in (*formal_input_names, *operator_schema.attributes)
        if name in input_names and name not in arguments
    ]


def _schema_of(node: onnx.NodeProto) -> onnx.defs.OpSchema:
    """Return the oldest schema, at the package's opset or later, with all attributes of a node."""
    attribute_names = [
        attribute.name for attribute in node.attribute if attribute.name != "num_outputs"
    ]
    return onnx_schema.schema(node.op_type, attribute_names, len(node.input))


def _bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [
        attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH
    ]


def find_captured_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names of outer values that a body or its nested bodies read."""
    local_names = {value.name for value in graph.input} | {
        tensor.name for tensor in graph.initializer
    }
    local_names |= {name for node in graph.node for name in node.output}
    names_read = [name for node in graph.node for name in node.input]
    names_read += [
        name
        for node in graph.node
        for body in _bodies_of(node)
        for name in find_captured_names(body)
    ]
    names_read += [value.name for value in graph.output]
    return [name for name in dict.fromkeys(names_read) if name and name not in local_names]


def _input_arguments(node: onnx.NodeProto) -> Content:
    if node.op_type == "Loop":
        loop_arguments: Content = dict(zip(("M", "cond"), node.input, strict=False))
        if interpretation_of(node) == RUNTIME:
            loop_arguments["cond"] = True
        loop_arguments = {name: argument for name, argument in loop_arguments.items() if argument}
        return {**loop_arguments, "v_initial": list(node.input[2:])}
    formal_inputs = _schema_of(node).inputs
    arguments: Content = {}
    for input_index, input_name in enumerate(node.input):
        formal_input = formal_inputs[min(input_index, len(formal_inputs) - 1)]
        if formal_input.option == _VARIADIC:
            arguments.setdefault(formal_input.name, []).append(input_name)
        elif input_name:
            arguments[formal_input.name] = input_name
    return arguments


def _convert_attribute(
    node: onnx.NodeProto, attribute: onnx.AttributeProto, writer: GraphWriter
) -> Any:
    attribute_value = onnx.helper.get_attribute_value(attribute)
    if isinstance(attribute_value, onnx.GraphProto):
        if node.op_type == "Loop":
            return convert_loop_body(attribute_value, writer, interpretation_of(node))
        return convert_body(attribute_value, writer)
    if isinstance(attribute_value, onnx.TensorProto):
        return tensor_to_array(attribute_value)
    if isinstance(attribute_value, onnx.TypeProto):
        return _read_type(attribute_value)[0]
    if isinstance(attribute_value, onnx.SparseTensorProto):
        raise UnsupportedError(
            f"the attribute '{attribute.name}' of onnx::{node.op_type} cannot be read"
        )
    return _to_python(attribute_value)


def _to_python(value: Any) -> Any:
    """Convert the value of an ONNX attribute to Python numbers, text or lists."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float | str):
        return value
    return [_to_python(list_element) for list_element in value]
