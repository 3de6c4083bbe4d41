"""Immutable layers, ports and edges of an OpenVINO IR file, with all references checked.

Source: OpenVINO IR versions 10 and 11.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping
from typing import TypeVar
from xml.etree.ElementTree import Element

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.errors import CycleError, ModelError, UnsupportedError
from mdf_loop.importing.openvino.elements import (
    Extents,
    dtype_of_precision,
    parse_port_shape,
    read_integer,
)

PortKey = tuple[int, int]
"""Layer id and port id."""


class LayerPort(Struct, frozen=True):
    """Port of a layer, with the type and the names of its value."""

    id: int  # port id, unique within the layer
    dtype: str  # dtype of the value, "" if unknown
    shape: Extents  # shape of the value
    value_names: tuple[str, ...] = ()


class Layer(Struct, frozen=True, eq=False):
    """Layer (operation) of an OpenVINO network."""

    id: int  # layer id in the file
    name: str  # unique layer name
    type: str  # layer type, such as "Add"
    opset: str  # opset of the operator, such as "opset1"
    attributes: Mapping[str, str]  # attributes of the `<data>` element
    input_ports: tuple[LayerPort, ...]
    output_ports: tuple[LayerPort, ...]
    xml_element: Element
    location: str  # description of the layer for error messages


class Network(Struct, frozen=True, eq=False):
    """OpenVINO network: layers in topological order, and the output port that feeds each input port."""

    layers: tuple[Layer, ...]  # layers in topological order
    layers_by_id: Mapping[int, Layer]
    source_by_input: Mapping[PortKey, PortKey]  # output port that feeds each input port

    def layer(self, layer_id: int, what: str, where: str) -> Layer:
        """Return the layer of the network with a given id.

        Raises:
            ModelError: The network has no such layer.
        """
        if layer_id not in self.layers_by_id:
            raise ModelError(f"{what} names the layer {layer_id}, which does not exist", where)
        return self.layers_by_id[layer_id]

    def layers_of_type(self, layer_type: str) -> tuple[Layer, ...]:
        """Return the layers of one type, in the order of the file."""
        return tuple(layer for layer in self.layers_by_id.values() if layer.type == layer_type)


def require_child(element: Element, tag: str, where: str) -> Element:
    """Return the child of an XML element with this tag, or raise ModelError if it is missing."""
    child_element = element.find(tag)
    if child_element is None:
        raise ModelError(f"<{element.tag}> has no <{tag}>", where)
    return child_element


def read_network(element: Element, where: str = "") -> Network:
    """Parse the layers and edges of a `<net>` element or of the `<body>` of a loop.

    Raises:
        ModelError: An id is missing, unknown or repeated.
        CycleError: The layers depend on each other in a cycle.
    """
    parsed_layers = [
        _parse_layer(layer_element, where)
        for layer_element in require_child(element, "layers", where).findall("layer")
    ]
    layers = _make_names_unique(parsed_layers)
    layers_by_id = _unique_dict(((layer.id, layer) for layer in layers), "layer id", where)
    edges = [
        _parse_edge(edge_element, layers_by_id, where)
        for edge_element in require_child(element, "edges", where).findall("edge")
    ]
    source_by_input = _unique_dict(
        ((target_port, source_port) for source_port, target_port in edges),
        "input port with an edge",
        where,
    )
    for layer in layers:
        for port in layer.input_ports:
            if (layer.id, port.id) not in source_by_input:
                raise ModelError(f"no edge feeds the input port {port.id}", layer.location)
    return Network(
        _sort_layers(layers, layers_by_id, source_by_input), layers_by_id, source_by_input
    )


K = TypeVar("K")
V = TypeVar("V")


def _unique_dict(key_value_pairs: Iterable[tuple[K, V]], what: str, where: str) -> dict[K, V]:
    values_by_key: dict[K, V] = {}
    for key, value in key_value_pairs:
        if key in values_by_key:
            raise ModelError(f"the {what} {key} is there twice", where)
        values_by_key[key] = value
    return values_by_key


def _parse_layer(element: Element, outside: str) -> Layer:
    layer_name = element.get("name", "")
    layer_id = read_integer(
        element.get("id"), "id of a layer", _join_paths(outside, f"layer '{layer_name}'")
    )
    layer_location = _join_paths(outside, f"layer '{layer_name}' (id {layer_id})")
    layer_type = element.get("type")
    if not layer_type:
        raise ModelError("'type' is missing", layer_location)
    opset = element.get("version", "")
    data_element = element.find("data")
    attributes = {} if data_element is None else dict(data_element.attrib)
    try:
        input_ports, output_ports = (
            _parse_ports(element, port_tag, layer_location) for port_tag in ("input", "output")
        )
    except UnsupportedError as error:
        raise UnsupportedError(
            f"the layer type {layer_type}: {error.findings[0].what}", layer_location
        ) from None
    _unique_dict(
        ((port.id, port) for port in (*input_ports, *output_ports)), "port id", layer_location
    )
    return Layer(
        layer_id,
        layer_name or layer_type,
        layer_type,
        opset,
        attributes,
        input_ports,
        output_ports,
        element,
        layer_location,
    )


def _make_names_unique(layers: list[Layer]) -> list[Layer]:
    """Return the layers with unique names, by appending the layer's id to a repeated name."""
    used_names: set[str] = set()
    renamed_layers: list[Layer] = []
    for layer in layers:
        unique_layer_name = f"{layer.name}_{layer.id}" if layer.name in used_names else layer.name
        used_names.add(unique_layer_name)
        renamed_layers.append(replace(layer, name=unique_layer_name))
    return renamed_layers


def _join_paths(outside: str, here: str) -> str:
    return f"{outside} > {here}" if outside else here


def _parse_ports(element: Element, tag: str, where: str) -> tuple[LayerPort, ...]:
    ports_element = element.find(tag)
    return (
        ()
        if ports_element is None
        else tuple(
            _parse_port(port_element, where) for port_element in ports_element.findall("port")
        )
    )


def _parse_port(element: Element, where: str) -> LayerPort:
    port_id = read_integer(element.get("id"), "id of a port", where)
    dtype = dtype_of_precision(element.get("precision", ""), where)
    shape = parse_port_shape(
        [dim_element.text or "" for dim_element in element.findall("dim")], where
    )
    if element.find("rank") is not None:
        shape = None
    return LayerPort(port_id, dtype, shape, _split_names(element.get("names", "")))


def _split_names(text: str) -> tuple[str, ...]:
    r"""Split a list of names at its commas. A comma within a name is written `\,`."""
    names_with_escapes = text.replace("\\,", "\0").split(",")
    return tuple(
        name_with_escapes.replace("\0", ",").strip()
        for name_with_escapes in names_with_escapes
        if name_with_escapes.strip()
    )


def output_names(layer: Layer) -> tuple[str, ...]:
    """Return the names that the file declares for the value of a Result layer."""
    return _split_names(layer.xml_element.get("output_names", ""))


def _parse_edge(
    element: Element, layers_by_id: Mapping[int, Layer], where: str
) -> tuple[PortKey, PortKey]:
    attribute_keys = ("from-layer", "from-port", "to-layer", "to-port")
    from_layer, from_port, to_layer, to_port = (
        read_integer(element.get(attribute_key), attribute_key, where)
        for attribute_key in attribute_keys
    )
    for attribute_key, layer_id, port_id, inputs_or_outputs in (
        ("from", from_layer, from_port, "outputs"),
        ("to", to_layer, to_port, "inputs"),
    ):
        if layer_id not in layers_by_id:
            raise ModelError(
                f"an edge goes {attribute_key} layer {layer_id}, which does not exist", where
            )
        layer = layers_by_id[layer_id]
        layer_ports = layer.output_ports if inputs_or_outputs == "outputs" else layer.input_ports
        if port_id not in {port.id for port in layer_ports}:
            raise ModelError(
                f"an edge goes {attribute_key} port {port_id}, which is none of its {inputs_or_outputs}",
                layer.location,
            )
    return (from_layer, from_port), (to_layer, to_port)


def _sort_layers(
    layers: list[Layer],
    layers_by_id: Mapping[int, Layer],
    source_by_input: Mapping[PortKey, PortKey],
) -> tuple[Layer, ...]:
    sorter = graphlib.TopologicalSorter(
        {
            layer.id: [source_by_input[layer.id, port.id][0] for port in layer.input_ports]
            for layer in layers
        }
    )
    try:
        return tuple(layers_by_id[layer_id] for layer_id in sorter.static_order())
    except graphlib.CycleError as error:
        cycle_text = " -> ".join(f"'{layers_by_id[layer_id].name}'" for layer_id in error.args[1])
        raise CycleError(f"layers wait for each other: {cycle_text}", layers[0].location) from None
