"""An ONNX GraphProto as an MDF graph, so that it can be a loop's body.

Constants keep their dtype; the order of inputs and outputs is kept in `metadata`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from mdf_loop import onnx_ops
from mdf_loop.errors import ModelError, UnsupportedError


def graph_of_proto(proto: onnx.GraphProto) -> Any:
    """The MDF graph of a body in ONNX.

    Raises:
        UnsupportedError: an operator with sub-graphs other than Loop or of a foreign domain, or
            something sparse.
        ModelError: the proto is not a graph.
    """
    from modeci_mdf.mdf import Graph

    if not isinstance(proto, onnx.GraphProto):
        raise ModelError(f"a body in ONNX is a GraphProto, not {type(proto).__name__}")
    graph = Graph(id=proto.name or "body")
    graph.metadata = {
        "inputs": [value.name for value in proto.input],
        "outputs": [value.name for value in proto.output],
    }
    if proto.sparse_initializer:
        raise UnsupportedError("a sparse initializer in a body cannot be read")
    for tensor in proto.initializer:
        graph.nodes.append(_constant(tensor.name, numpy_helper.to_array(tensor), graph))
    for number, node in enumerate(proto.node):
        made = _constant_node(node, graph) if _is_constant(node) else _node(node, number, graph)
        graph.nodes.append(made)
    _connect(graph)
    return graph


def _constant(name: str, value: Any, graph: Any) -> Any:
    from modeci_mdf.mdf import Node, OutputPort, Parameter

    node = Node(id=_unused(f"{name}_value", graph))
    node.parameters.append(Parameter(id="value", value=value))
    node.output_ports.append(OutputPort(id=name, value="value"))
    return node


def _is_constant(proto: onnx.NodeProto) -> bool:
    return proto.op_type == "Constant" and proto.domain in _OWN_DOMAINS


_OWN_DOMAINS = ("", "ai.onnx")
_CONSTANT_DTYPES = {
    "value": None,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}


def _constant_node(proto: onnx.NodeProto, graph: Any) -> Any:
    """A Constant, whose numbers have the dtype that ONNX gives them."""
    attribute = proto.attribute[0]
    if attribute.name not in _CONSTANT_DTYPES:
        raise UnsupportedError(f"onnx::Constant with '{attribute.name}' in a body cannot be read")
    value = np.asarray(_attribute(proto, attribute), _CONSTANT_DTYPES[attribute.name])
    return _constant(proto.output[0], value, graph)


def _unused(wanted: str, graph: Any) -> str:
    taken = {node.id for node in graph.nodes}
    name, k = wanted, 1
    while name in taken:
        k += 1
        name = f"{wanted}_{k}"
    return name


def _node(proto: onnx.NodeProto, number: int, graph: Any) -> Any:
    from modeci_mdf.mdf import Function, InputPort, Node, OutputPort

    if proto.domain not in _OWN_DOMAINS:
        raise UnsupportedError(f"the operator {proto.domain}::{proto.op_type} is not part of ONNX")
    if proto.op_type == "Split" and len(proto.input) < 2:
        raise UnsupportedError(
            f"onnx::Split into {len(proto.output)} parts in a body cannot be read",
            hint="give the extents of the parts as its second input, 'split'",
        )
    node = Node(id=_unused(proto.name or f"{proto.op_type}_{number}", graph))
    names = [*proto.input, *(name for body in _bodies(proto) for name in _captured(body))]
    node.input_ports = [InputPort(id=name) for name in dict.fromkeys(names) if name]
    args = {**_inputs(proto), **{a.name: _attribute(proto, a) for a in proto.attribute}}
    function = Function(
        id=f"{proto.op_type}_{number}_result", function=f"onnx::{proto.op_type}", args=args
    )
    node.functions.append(function)
    several = len(proto.output) > 1
    for position, name in enumerate(proto.output):
        if name:
            value = f"{function.id}[{position}]" if several else function.id
            node.output_ports.append(OutputPort(id=name, value=value))
    return node


def _bodies(proto: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH]


def _captured(graph: onnx.GraphProto) -> list[str]:
    """The names that a body, or a body inside it, reads from outside."""
    inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    inside |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in node.input]
    read += [name for node in graph.node for body in _bodies(node) for name in _captured(body)]
    read += [value.name for value in graph.output]
    return [name for name in dict.fromkeys(read) if name and name not in inside]


def _inputs(proto: onnx.NodeProto) -> dict[str, Any]:
    if proto.op_type == "Loop":
        named = dict(zip(("M", "cond"), proto.input, strict=False))
        return {**named, "v_initial": list(proto.input[2:])}
    formals = onnx_ops.schema(proto.op_type).inputs
    args: dict[str, Any] = {}
    for position, name in enumerate(proto.input):
        formal = formals[min(position, len(formals) - 1)]
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
            args.setdefault(formal.name, []).append(name)
        elif name:
            args[formal.name] = name
    return args


def _attribute(proto: onnx.NodeProto, attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.GraphProto):
        if proto.op_type != "Loop":
            raise UnsupportedError(f"onnx::{proto.op_type} in a body cannot be read yet")
        return graph_of_proto(value)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SparseTensorProto | onnx.TypeProto):
        raise UnsupportedError(
            f"the attribute '{attribute.name}' of onnx::{proto.op_type} in a body cannot be read"
        )
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float):
        return value
    return [part.decode() if isinstance(part, bytes) else part for part in value]


def _connect(graph: Any) -> None:
    from modeci_mdf.mdf import Edge

    makers = {port.id: node.id for node in graph.nodes for port in node.output_ports}
    for node in graph.nodes:
        for port in node.input_ports:
            sender = makers.get(port.id)
            if sender is not None and sender != node.id:
                edge_id = f"{sender}_{node.id}_{port.id}"
                graph.edges.append(
                    Edge(
                        id=edge_id,
                        sender=sender,
                        sender_port=port.id,
                        receiver=node.id,
                        receiver_port=port.id,
                    )
                )
