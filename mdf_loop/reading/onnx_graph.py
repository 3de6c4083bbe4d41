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
        UnsupportedError: an operator with sub-graphs other than Loop, or of a foreign domain.
        ModelError: the proto is not a graph.
    """
    from modeci_mdf.mdf import Graph, Node, OutputPort, Parameter

    if not isinstance(proto, onnx.GraphProto):
        raise ModelError(f"a body in ONNX is a GraphProto, not {type(proto).__name__}")
    graph = Graph(id=proto.name or "body")
    graph.metadata = {
        "inputs": [value.name for value in proto.input],
        "outputs": [value.name for value in proto.output],
    }
    makers: dict[str, str] = {}
    for tensor in proto.initializer:
        node = Node(id=_unused(f"{tensor.name}_value", graph))
        node.parameters.append(Parameter(id="value", value=numpy_helper.to_array(tensor)))
        node.output_ports.append(OutputPort(id=tensor.name, value="value"))
        graph.nodes.append(node)
        makers[tensor.name] = node.id
    for number, onnx_node in enumerate(proto.node):
        node = _node(onnx_node, number, graph)
        graph.nodes.append(node)
        makers.update((port.id, node.id) for port in node.output_ports)
    _connect(graph, makers)
    return graph


def _unused(wanted: str, graph: Any) -> str:
    taken = {node.id for node in graph.nodes}
    name, k = wanted, 1
    while name in taken:
        k += 1
        name = f"{wanted}_{k}"
    return name


def _node(proto: onnx.NodeProto, number: int, graph: Any) -> Any:
    from modeci_mdf.mdf import Function, InputPort, Node, OutputPort

    if proto.domain not in ("", "ai.onnx"):
        raise UnsupportedError(f"the operator {proto.domain}::{proto.op_type} is not part of ONNX")
    node = Node(id=_unused(proto.name or f"{proto.op_type}_{number}", graph))
    node.input_ports = [InputPort(id=name) for name in dict.fromkeys(proto.input) if name]
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
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if not isinstance(value, int | float | str | np.ndarray) else value


def _connect(graph: Any, makers: dict[str, str]) -> None:
    from modeci_mdf.mdf import Edge

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
