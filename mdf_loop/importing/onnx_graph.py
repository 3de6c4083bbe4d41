"""An ONNX graph -> an MDF graph: every node a node, every value a port of its name.

Bodies stand in the args of their node; what they capture are input ports of it. Node names, value
names, dtypes, shapes, attributes and the order of inputs and outputs are those of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.loop_conditions import LOOP_CONDITION, RUNTIME, reading_of
from mdf_loop.ir import Array, Shape
from mdf_loop.ir.types import element_type, is_tensor, type_of
from mdf_loop.ops import onnx_schema

OWN_DOMAINS = ("", "ai.onnx")
_CONSTANTS = {
    "value": None,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}
_AS_ONNX = {"shapes": "dynamic"}
"""What ONNX allows: branches of different shapes."""

_LOOP = {"semantics": "onnx"}
"""A loop's body that means what ONNX says: shapes may change, and a negative trip count is none."""

_OTHER_DEFAULTS: dict[str, Content] = {
    "RoiAlign": {"coordinate_transformation_mode": "half_pixel"},
}
"""Defaults at our opset that MDF's functions do not have: an imported node states them."""

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def main_graph(proto: onnx.GraphProto, graph_id: str, metadata: Content) -> Content:
    """The graph of a model: its inputs are nodes, its outputs keep their names."""
    writer = GraphWriter(graph_id)
    writer.reserve(_value_names(proto))
    given = {tensor.name for tensor in proto.initializer}
    for value in proto.input:
        if value.name not in given:  # before IR version 4 initializers were inputs too
            writer.input(value.name, *_type(value.type))
    _write(proto, writer)
    for value in proto.output:
        _state_type(writer, value)
    outputs = {value.name: f"{writer.maker(value.name)}.{value.name}" for value in proto.output}
    return writer.content(outputs=outputs, metadata=metadata)


def body_graph(proto: onnx.GraphProto, outer: GraphWriter | None = None) -> Content:
    """A body: its inputs and outputs in order are in its metadata."""
    writer = GraphWriter(proto.name or "body", outer)
    writer.reserve(_value_names(proto))
    _write(proto, writer)
    inputs = [value.name for value in proto.input]
    names = [value.name for value in proto.output]
    return writer.content(inputs=inputs, outputs=names, metadata=_AS_ONNX)


def loop_body(
    proto: onnx.GraphProto, outer: GraphWriter | None = None, reading: str | None = None
) -> Content:
    """Return a loop's body; iteration number and condition come in the types that it declares.

    Args:
        proto: the body.
        outer: the writer of the graph around it.
        reading: of an ambiguous loop, how its condition is read.

    Raises:
        ModelError: it is no graph.
        UnsupportedError: it holds something that MDF cannot say.
    """
    if not isinstance(proto, onnx.GraphProto):
        raise ModelError(f"a body in ONNX is a GraphProto, not {type(proto).__name__}")
    writer = GraphWriter(proto.name or "body", outer)
    writer.reserve(_value_names(proto))
    inputs = [value.name for value in proto.input]
    for position, (value, usual) in enumerate(zip(proto.input, ("int64", "bool"), strict=False)):
        dtype, shape = _type(value.type)
        if (dtype or usual, shape or ()) != (usual, ()):
            inputs[position] = _converted(writer, value.name, dtype or usual, shape or ())
    _write(proto, writer)
    names = [value.name for value in proto.output]
    about = _LOOP if reading is None else {**_LOOP, LOOP_CONDITION: reading}
    return writer.content(inputs=inputs, outputs=names, metadata=about)


def _converted(writer: GraphWriter, name: str, dtype: str, shape: Shape) -> str:
    """Make `name` of a scalar in its usual dtype; the name of that scalar."""
    if not is_tensor(dtype):
        raise ModelError(f"a loop's body cannot take '{name}' as {dtype}: it is a single number")
    scalar, cast, axes = (writer.fresh(f"{name}_{what}") for what in ("scalar", "cast", "shape"))
    to = element_type(dtype)
    writer.node("onnx::Cast", [cast], args={"input": scalar, "to": to}, reads=[scalar])
    writer.constant(axes, np.ones(len(shape or ()), np.int64))
    writer.node("onnx::Reshape", [name], args={"data": cast, "shape": axes}, reads=[cast, axes])
    return scalar


# --- values -----------------------------------------------------------------------------------


def _type(proto: onnx.TypeProto) -> tuple[str, Shape]:
    """The type that the file states: dtype (empty if none) and shape."""
    kind = proto.WhichOneof("value")
    if kind is None or (kind == "tensor_type" and not proto.tensor_type.elem_type):
        return "", None
    if kind not in ("tensor_type", "sequence_type", "optional_type"):
        raise UnsupportedError(f"a value of {kind.replace('_', ' ')} has no place in MDF")
    return type_of(proto)


def _state_type(writer: GraphWriter, value: onnx.ValueInfoProto) -> None:
    """Write the type that the file states for an output at its port."""
    maker = writer.maker(value.name)
    if maker is None:
        return
    dtype, shape = _type(value.type)
    port = writer.nodes[maker]["output_ports"][value.name]
    if dtype:
        port["type"] = dtype
    if shape:
        port["shape"] = [extent if isinstance(extent, int) else -1 for extent in shape]


def _value_names(proto: onnx.GraphProto) -> Iterable[str]:
    yield from (value.name for value in proto.input)
    yield from (tensor.name for tensor in proto.initializer)
    for node in proto.node:
        yield from node.output
        for body in _bodies(node):
            yield from _value_names(body)


# --- nodes ------------------------------------------------------------------------------------


def _write(proto: onnx.GraphProto, writer: GraphWriter) -> None:
    if proto.sparse_initializer:
        raise UnsupportedError(f"the graph '{proto.name}' has sparse initializers")
    for tensor in proto.initializer:
        writer.constant(tensor.name, array_of(tensor))
    for node in proto.node:
        if node.domain not in OWN_DOMAINS:
            raise UnsupportedError(
                f"the operator {node.domain}::{node.op_type} is not part of ONNX"
            )
        if node.op_type == "Constant":
            writer.constant(node.output[0], _constant(node))
        else:
            _write_node(node, writer)


def array_of(tensor: onnx.TensorProto) -> Array:
    """The numbers (or text) of a tensor in its own dtype."""
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        raise ModelError(f"the tensor '{tensor.name}' has no element type and no numbers")
    try:
        if tensor.data_type == onnx.TensorProto.STRING:  # onnx loses zeros at the end of a text
            return np.array(_texts(tensor), object).reshape(tensor.dims)
        array: Array = numpy_helper.to_array(tensor)
    except ValueError:  # no elements, but extents beyond all memory
        shape = list(tensor.dims)
        raise ModelError(f"the tensor '{tensor.name}' cannot have the shape {shape}") from None
    return array


def _texts(tensor: onnx.TensorProto) -> list[str]:
    try:
        return [text.decode() for text in tensor.string_data]
    except UnicodeDecodeError:
        raise ModelError(f"a text of the tensor '{tensor.name}' is not UTF-8") from None


def _constant(node: onnx.NodeProto) -> Array:
    if len(node.attribute) != 1:
        made = ", ".join(node.output)
        raise ModelError(f"onnx::Constant '{made}' has {len(node.attribute)} values, not one")
    (attribute,) = node.attribute
    if attribute.name not in _CONSTANTS:
        raise UnsupportedError(f"onnx::Constant with '{attribute.name}' cannot be read")
    if attribute.name == "value":
        return array_of(attribute.t)
    value = _plain(onnx.helper.get_attribute_value(attribute))
    return np.asarray(value, _CONSTANTS[attribute.name])


def _write_node(node: onnx.NodeProto, writer: GraphWriter) -> None:
    captured = [name for body in _bodies(node) for name in captures(body)]
    reads = [*node.input, *captured]
    stated = {a.name: _attribute(node, a, writer) for a in node.attribute}
    args = {**_inputs(node), **_OTHER_DEFAULTS.get(node.op_type, {}), **stated}
    if node.op_type == "Split":  # how many parts it makes only its outputs tell
        args["num_outputs"] = len(node.output)
    for name in _hidden(node, reads, args):
        args[name] = None
    outputs = list(node.output)
    while len(outputs) > 1 and not outputs[-1]:
        outputs.pop()
    writer.node(f"onnx::{node.op_type}", outputs, args=args, reads=reads, node_id=node.name)


def _hidden(node: onnx.NodeProto, reads: list[str], args: Content) -> list[str]:
    """Arguments left out whose names are those of values: an argument left out takes such a one."""
    schema = _schema(node)
    known = [formal.name for formal in schema.inputs if formal.option != _VARIADIC]
    return [name for name in (*known, *schema.attributes) if name in reads and name not in args]


def _schema(node: onnx.NodeProto) -> onnx.defs.OpSchema:
    """The first definition, from our opset on, that has the node's form."""
    names = [attribute.name for attribute in node.attribute if attribute.name != "num_outputs"]
    return onnx_schema.schema(node.op_type, names, len(node.input))


def _bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def captures(graph: onnx.GraphProto) -> list[str]:
    """The names that a body, or a body inside it, reads from outside."""
    inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    inside |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in node.input]
    read += [name for node in graph.node for body in _bodies(node) for name in captures(body)]
    read += [value.name for value in graph.output]
    return [name for name in dict.fromkeys(read) if name and name not in inside]


def _inputs(node: onnx.NodeProto) -> Content:
    if node.op_type == "Loop":
        named: Content = dict(zip(("M", "cond"), node.input, strict=False))
        if reading_of(node) == RUNTIME:
            named["cond"] = True
        return {**{k: v for k, v in named.items() if v}, "v_initial": list(node.input[2:])}
    formals = _schema(node).inputs
    args: Content = {}
    for position, name in enumerate(node.input):
        formal = formals[min(position, len(formals) - 1)]
        if formal.option == _VARIADIC:
            args.setdefault(formal.name, []).append(name)
        elif name:
            args[formal.name] = name
    return args


def _attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto, writer: GraphWriter) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.GraphProto):
        if node.op_type == "Loop":
            return loop_body(value, writer, reading_of(node))
        return body_graph(value, writer)
    if isinstance(value, onnx.TensorProto):
        return array_of(value)
    if isinstance(value, onnx.TypeProto):
        return _type(value)[0]
    if isinstance(value, onnx.SparseTensorProto):
        raise UnsupportedError(
            f"the attribute '{attribute.name}' of onnx::{node.op_type} cannot be read"
        )
    return _plain(value)


def _plain(value: Any) -> Any:
    """An attribute as documents hold it: numbers, text, lists of them."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float | str):
        return value
    return [_plain(part) for part in value]
