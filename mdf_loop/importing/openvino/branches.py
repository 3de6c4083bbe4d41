"""Conversion of OpenVINO's If layer to `onnx::If`.

Source: OpenVINO, If-8.
"""

from __future__ import annotations

from mdf_loop.errors import ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.graph import body_layer, write_layers
from mdf_loop.importing.openvino.network import Layer, read_network, require_child
from mdf_loop.importing.openvino.network_writer import NetworkWriter
from mdf_loop.importing.openvino.ports import read_bindings

_BRANCH_METADATA = {"shapes": "dynamic"}
"""Metadata of a branch: branches of an OpenVINO If may have different shapes, as in ONNX."""


@body_layer("If")
def write_if(layer: Layer, network_writer: NetworkWriter) -> None:
    """Write an OpenVINO If layer as an `onnx::If` node with two branch graphs."""
    if not layer.input_ports:
        raise ModelError("an If needs a condition", layer.location)
    condition_name = network_writer.ensure_node(network_writer.input_name(layer, 0))
    names_read = [condition_name]
    arguments: Content = {"cond": condition_name}
    for branch_key in ("then", "else"):
        arguments[f"{branch_key}_branch"] = _build_branch(
            layer, network_writer, branch_key, names_read
        )
    output_names = [network_writer.value_names[layer.id, port.id] for port in layer.output_ports]
    network_writer.graph_writer.add_node(
        "onnx::If", output_names, args=arguments, names_read=names_read, node_id=layer.name
    )


def _build_branch(
    layer: Layer, outer_writer: NetworkWriter, key: str, names_read: list[str]
) -> Content:
    branch_location = f"{layer.location}, {key}"
    branch_network = read_network(
        require_child(layer.xml_element, f"{key}_body", branch_location), branch_location
    )
    port_map_element = require_child(layer.xml_element, f"{key}_port_map", branch_location)
    branch_writer = GraphWriter(f"{layer.name}_{key}", outer_writer.graph_writer)
    network_writer = NetworkWriter(branch_network, branch_writer, outer_writer.weights)
    bound_parameter_ids: set[int] = set()
    for binding in read_bindings(port_map_element, "input", layer, branch_network):
        outer_value_name = outer_writer.ensure_node(
            outer_writer.value_names[
                outer_writer.network.source_by_input[layer.id, binding.port_id]
            ]
        )
        network_writer.value_names[binding.layer.id, binding.layer.output_ports[0].id] = (
            outer_value_name
        )
        if outer_value_name in outer_writer.constant_arrays:
            network_writer.constant_arrays[outer_value_name] = outer_writer.constant_arrays[
                outer_value_name
            ]
        names_read.append(outer_value_name)
        bound_parameter_ids.add(binding.layer.id)
    for parameter in branch_network.layers_of_type("Parameter"):
        if parameter.id not in bound_parameter_ids:
            raise ModelError(
                "no entry of port_map brings a value to this Parameter", parameter.location
            )
    network_writer.name_values()
    write_layers(network_writer)
    result_layer_by_port = {
        binding.port_id: binding.layer
        for binding in read_bindings(port_map_element, "output", layer, branch_network)
    }
    for port in layer.output_ports:
        if port.id not in result_layer_by_port:
            raise ModelError(f"the output {port.id} is none of the {key}_body's", layer.location)
    output_names = [
        network_writer.ensure_node(network_writer.input_name(result_layer_by_port[port.id], 0))
        for port in layer.output_ports
    ]
    return branch_writer.graph_content(outputs=output_names, metadata=_BRANCH_METADATA)
