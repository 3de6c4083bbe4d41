"""Conversion of OpenVINO's If layer to `onnx::If`.

Source: OpenVINO, If-8.
"""

from __future__ import annotations

from mdf_loop.errors import ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.graph import body_layer, write_layers
from mdf_loop.importing.openvino.network import Layer, read_network, require_child
from mdf_loop.importing.openvino.place import NetworkWriter
from mdf_loop.importing.openvino.ports import read_bindings

_BRANCH_METADATA = {"shapes": "dynamic"}
"""Metadata of a branch: branches of an OpenVINO If may have different shapes, as in ONNX."""


@body_layer("If")
def write_if(layer: Layer, network_writer: NetworkWriter) -> None:
    """Write an OpenVINO If layer as an `onnx::If` node with two branch graphs."""
    if not layer.inputs:
        raise ModelError("an If needs a condition", layer.where)
    condition = network_writer.read(network_writer.source(layer, 0))
    names_read = [condition]
    args: Content = {"cond": condition}
    for branch_key in ("then", "else"):
        args[f"{branch_key}_branch"] = _build_branch(layer, network_writer, branch_key, names_read)
    output_names = [network_writer.names[layer.id, port.id] for port in layer.outputs]
    network_writer.writer.node(
        "onnx::If", output_names, args=args, names_read=names_read, node_id=layer.name
    )


def _build_branch(
    layer: Layer, outer_writer: NetworkWriter, key: str, names_read: list[str]
) -> Content:
    where = f"{layer.where}, {key}"
    network = read_network(require_child(layer.element, f"{key}_body", where), where)
    port_map = require_child(layer.element, f"{key}_port_map", where)
    writer = GraphWriter(f"{layer.name}_{key}", outer_writer.writer)
    inner_writer = NetworkWriter(network, writer, outer_writer.weights)
    bound_ids: set[int] = set()
    for binding in read_bindings(port_map, "input", layer, network):
        outer_name = outer_writer.read(
            outer_writer.names[outer_writer.network.sources[layer.id, binding.port_id]]
        )
        inner_writer.names[binding.layer.id, binding.layer.outputs[0].id] = outer_name
        if outer_name in outer_writer.constants:
            inner_writer.constants[outer_name] = outer_writer.constants[outer_name]
        names_read.append(outer_name)
        bound_ids.add(binding.layer.id)
    for parameter in network.of_type("Parameter"):
        if parameter.id not in bound_ids:
            raise ModelError(
                "no entry of port_map brings a value to this Parameter", parameter.where
            )
    inner_writer.name_values()
    write_layers(inner_writer)
    results_by_port = {
        binding.port_id: binding.layer
        for binding in read_bindings(port_map, "output", layer, network)
    }
    for port in layer.outputs:
        if port.id not in results_by_port:
            raise ModelError(f"the output {port.id} is none of the {key}_body's", layer.where)
    output_names = [
        inner_writer.read(inner_writer.source(results_by_port[port.id], 0))
        for port in layer.outputs
    ]
    return writer.content(outputs=output_names, metadata=_BRANCH_METADATA)
