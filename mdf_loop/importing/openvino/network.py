"""Layers, ports and edges of an IR as immutable data, with all ids checked.

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

    id: int
    dtype: str
    shape: Extents
    names: tuple[str, ...] = ()


class Layer(Struct, frozen=True, eq=False):
    """Operation of an OpenVINO network. `element` is its XML element in the file."""

    id: int
    name: str
    type: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[LayerPort, ...]
    outputs: tuple[LayerPort, ...]
    element: Element
    where: str


class Network(Struct, frozen=True, eq=False):
    """OpenVINO network: layers in topological order, and the output port that feeds each input port."""

    layers: tuple[Layer, ...]
    layers_by_id: Mapping[int, Layer]
    sources: Mapping[PortKey, PortKey]

    def layer(self, layer_id: int, what: str, where: str) -> Layer:
        """Return the layer of the network with a given id.

        Raises:
            ModelError: The network has no such layer.
        """
        if layer_id not in self.layers_by_id:
            raise ModelError(f"{what} names the layer {layer_id}, which does not exist", where)
        return self.layers_by_id[layer_id]

    def of_type(self, layer_type: str) -> tuple[Layer, ...]:
        """Return the layers of one type, in the order of the file."""
        return tuple(layer for layer in self.layers_by_id.values() if layer.type == layer_type)


def require_child(element: Element, tag: str, where: str) -> Element:
    """Return the child of an XML element with this tag, or raise ModelError if it is missing."""
    subelement = element.find(tag)
    if subelement is None:
        raise ModelError(f"<{element.tag}> has no <{tag}>", where)
    return subelement


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
    sources = _unique_dict(
        ((target, source) for source, target in edges), "input port with an edge", where
    )
    for layer in layers:
        for port in layer.inputs:
            if (layer.id, port.id) not in sources:
                raise ModelError(f"no edge feeds the input port {port.id}", layer.where)
    return Network(_sort_layers(layers, layers_by_id, sources), layers_by_id, sources)


K = TypeVar("K")
V = TypeVar("V")


def _unique_dict(pairs: Iterable[tuple[K, V]], what: str, where: str) -> dict[K, V]:
    entries: dict[K, V] = {}
    for key, entry in pairs:
        if key in entries:
            raise ModelError(f"the {what} {key} is there twice", where)
        entries[key] = entry
    return entries


def _parse_layer(element: Element, outside: str) -> Layer:
    layer_name = element.get("name", "")
    layer_id = read_integer(
        element.get("id"), "id of a layer", _join_paths(outside, f"layer '{layer_name}'")
    )
    where = _join_paths(outside, f"layer '{layer_name}' (id {layer_id})")
    layer_type = element.get("type")
    if not layer_type:
        raise ModelError("'type' is missing", where)
    opset = element.get("version", "")
    data_element = element.find("data")
    attributes = {} if data_element is None else dict(data_element.attrib)
    try:
        inputs, outputs = (_parse_ports(element, tag, where) for tag in ("input", "output"))
    except UnsupportedError as error:
        raise UnsupportedError(
            f"the layer type {layer_type}: {error.findings[0].what}", where
        ) from None
    _unique_dict(((port.id, port) for port in (*inputs, *outputs)), "port id", where)
    return Layer(
        layer_id,
        layer_name or layer_type,
        layer_type,
        opset,
        attributes,
        inputs,
        outputs,
        element,
        where,
    )


def _make_names_unique(layers: list[Layer]) -> list[Layer]:
    """Return the layers with unique names, by appending the layer's id to a repeated name."""
    used_names: set[str] = set()
    renamed_layers: list[Layer] = []
    for layer in layers:
        unique_name = f"{layer.name}_{layer.id}" if layer.name in used_names else layer.name
        used_names.add(unique_name)
        renamed_layers.append(replace(layer, name=unique_name))
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
    shape = parse_port_shape([dim.text or "" for dim in element.findall("dim")], where)
    if element.find("rank") is not None:
        shape = None
    return LayerPort(port_id, dtype, shape, _split_names(element.get("names", "")))


def _split_names(text: str) -> tuple[str, ...]:
    r"""Split a list of names at its commas. A comma within a name is written `\,`."""
    escaped_names = text.replace("\\,", "\0").split(",")
    return tuple(
        escaped_name.replace("\0", ",").strip()
        for escaped_name in escaped_names
        if escaped_name.strip()
    )


def output_names(layer: Layer) -> tuple[str, ...]:
    """Return the names that the file declares for the value of a Result layer."""
    return _split_names(layer.element.get("output_names", ""))


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
        if port_id not in {port.id for port in getattr(layers_by_id[layer_id], inputs_or_outputs)}:
            raise ModelError(
                f"an edge goes {attribute_key} port {port_id}, which is none of its {inputs_or_outputs}",
                layers_by_id[layer_id].where,
            )
    return (from_layer, from_port), (to_layer, to_port)


def _sort_layers(
    layers: list[Layer], layers_by_id: Mapping[int, Layer], sources: Mapping[PortKey, PortKey]
) -> tuple[Layer, ...]:
    sorter = graphlib.TopologicalSorter(
        {layer.id: [sources[layer.id, port.id][0] for port in layer.inputs] for layer in layers}
    )
    try:
        return tuple(layers_by_id[layer_id] for layer_id in sorter.static_order())
    except graphlib.CycleError as error:
        cycle_text = " -> ".join(f"'{layers_by_id[layer_id].name}'" for layer_id in error.args[1])
        raise CycleError(f"layers wait for each other: {cycle_text}", layers[0].where) from None
