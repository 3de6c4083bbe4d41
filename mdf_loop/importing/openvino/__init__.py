"""Import of an OpenVINO IR (`model.xml` with `model.bin`) as the content of an MDF model.

Source: OpenVINO IR versions 10 and 11, operation sets 1 to 16.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.elements import read_integer
from mdf_loop.importing.openvino.graph import write_layers
from mdf_loop.importing.openvino.network import Layer, output_names, read_network
from mdf_loop.importing.openvino.network_writer import NetworkWriter, only_output
from mdf_loop.importing.openvino.weights import Weights
from mdf_loop.importing.openvino.xml_file import read_xml
from mdf_loop.ir import Shape

SUPPORTED_IR_VERSIONS = (10, 11)


def read_ir(path: Path) -> Content:
    """Convert an OpenVINO IR file to the content of an MDF model.

    Raises:
        ModelError: A file is missing or damaged. The message names the place in the file.
        UnsupportedError: The model has an unsupported layer or element type.
    """
    net_element = read_xml(path)
    model_name = net_element.get("name") or path.stem
    _check_version(net_element, path)
    network = read_network(net_element)
    network_writer = NetworkWriter(
        network, GraphWriter(model_name), Weights(path.with_suffix(".bin"))
    )
    network_writer.name_values()
    for layer in network.layers_of_type("Parameter"):
        _write_input(layer, network_writer)
    write_layers(network_writer)
    graph_metadata = {"openvino": {"ir_version": int(net_element.get("version", ""))}}
    mdf_graph_content = network_writer.graph_writer.graph_content(
        outputs=_output_ports(network_writer), metadata=graph_metadata
    )
    return {path.stem: {"format": "ModECI MDF v0.4", "graphs": mdf_graph_content}}


def _check_version(net_element: Element, path: Path) -> None:
    if net_element.tag != "net":
        raise ModelError(
            f"the file holds <{net_element.tag[:40]}>, not an OpenVINO network (<net>)", str(path)
        )
    ir_version = read_integer(net_element.get("version"), "version of the net", str(path))
    if ir_version not in SUPPORTED_IR_VERSIONS:
        raise UnsupportedError(
            f"the file is an IR of version {ir_version}; read are {' and '.join(map(str, SUPPORTED_IR_VERSIONS))}",
            str(path),
            "write it anew with openvino.save_model",
        )


def _write_input(layer: Layer, network_writer: NetworkWriter) -> None:
    value_name = network_writer.value_names[layer.id, only_output(layer).id]
    dtype, shape = network_writer.value_dtypes[value_name], network_writer.value_shapes[value_name]
    if not dtype:
        raise ModelError("the element type of the Parameter is missing", layer.location)
    shape_with_names: Shape = None
    if shape is not None:
        shape_with_names = tuple(
            f"{value_name}_{axis}" if extent is None else extent
            for axis, extent in enumerate(shape)
        )
    layer_names = (layer.name, *only_output(layer).value_names)
    network_writer.graph_writer.add_input(
        value_name,
        dtype,
        shape_with_names,
        [layer_name for layer_name in layer_names if layer_name != value_name],
    )


def _output_ports(network_writer: NetworkWriter) -> dict[str, str]:
    """Return the MDF output port `node.port` of each model output, by output name."""
    port_by_output: dict[str, str] = {}
    for layer in network_writer.network.layers_of_type("Result"):
        if len(layer.input_ports) != 1:
            raise ModelError("a Result has one input", layer.location)
        value_name = network_writer.ensure_node(network_writer.input_name(layer, 0))
        candidate_names = (value_name, *output_names(layer), layer.name, f"{layer.name}_{layer.id}")
        output_name = next(
            output_name for output_name in candidate_names if output_name not in port_by_output
        )
        port_by_output[output_name] = (
            f"{network_writer.graph_writer.producer_id(value_name)}.{value_name}"
        )
    if not port_by_output:
        raise ModelError("the network gives nothing: it has no Result")
    return port_by_output
