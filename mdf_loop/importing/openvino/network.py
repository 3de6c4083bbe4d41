"""The elements of an IR as frozen data: layers with their ports, edges, bodies. All ids checked.

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
    extents_of_port,
    whole,
)

PortKey = tuple[int, int]
"""(layer id, port id)"""


class Port(Struct, frozen=True):
    """A port of a layer: what it carries, and the names of that value."""

    id: int
    dtype: str
    shape: Extents
    names: tuple[str, ...] = ()


class Layer(Struct, frozen=True, eq=False):
    """An operation; `element` is what the file says of it."""

    id: int
    name: str
    type: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    element: Element
    where: str


class Network(Struct, frozen=True, eq=False):
    """Layers in an order in which they can be computed, by id as written, and who feeds whom."""

    layers: tuple[Layer, ...]
    written: Mapping[int, Layer]
    sources: Mapping[PortKey, PortKey]

    def layer(self, layer_id: int, what: str, where: str) -> Layer:
        """The layer of that id.

        Raises:
            ModelError: there is none.
        """
        if layer_id not in self.written:
            raise ModelError(f"{what} names the layer {layer_id}, which does not exist", where)
        return self.written[layer_id]

    def of_type(self, kind: str) -> tuple[Layer, ...]:
        """The layers of a type, in the file's order."""
        return tuple(layer for layer in self.written.values() if layer.type == kind)


def child(element: Element, tag: str, where: str) -> Element:
    """The part of an element that must be there."""
    found = element.find(tag)
    if found is None:
        raise ModelError(f"<{element.tag}> has no <{tag}>", where)
    return found


def read_network(element: Element, where: str = "") -> Network:
    """The layers and edges of a `<net>` or of a body.

    Raises:
        ModelError: an id is missing, unknown or there twice.
        CycleError: layers wait for each other.
    """
    found = [_layer(e, where) for e in child(element, "layers", where).findall("layer")]
    layers = _with_own_names(found)
    by_id = _once(((layer.id, layer) for layer in layers), "layer id", where)
    edges = [_edge(e, by_id, where) for e in child(element, "edges", where).findall("edge")]
    sources = _once(((to, source) for source, to in edges), "input port with an edge", where)
    for layer in layers:
        for port in layer.inputs:
            if (layer.id, port.id) not in sources:
                raise ModelError(f"no edge feeds the input port {port.id}", layer.where)
    return Network(_ordered(layers, by_id, sources), by_id, sources)


K = TypeVar("K")
V = TypeVar("V")


def _once(pairs: Iterable[tuple[K, V]], what: str, where: str) -> dict[K, V]:
    found: dict[K, V] = {}
    for key, value in pairs:
        if key in found:
            raise ModelError(f"the {what} {key} is there twice", where)
        found[key] = value
    return found


def _layer(element: Element, outside: str) -> Layer:
    name = element.get("name", "")
    layer_id = whole(element.get("id"), "id of a layer", _below(outside, f"layer '{name}'"))
    where = _below(outside, f"layer '{name}' (id {layer_id})")
    kind = element.get("type")
    if not kind:
        raise ModelError("'type' is missing", where)
    opset = element.get("version", "")
    data = element.find("data")
    attributes = {} if data is None else dict(data.attrib)
    try:
        inputs, outputs = (_ports(element, tag, where) for tag in ("input", "output"))
    except UnsupportedError as error:
        raise UnsupportedError(f"the layer type {kind}: {error.findings[0].what}", where) from None
    _once(((port.id, port) for port in (*inputs, *outputs)), "port id", where)
    return Layer(layer_id, name or kind, kind, opset, attributes, inputs, outputs, element, where)


def _with_own_names(layers: list[Layer]) -> list[Layer]:
    """The same layers; a name that another has already gets the layer's id."""
    seen: set[str] = set()
    own: list[Layer] = []
    for layer in layers:
        name = f"{layer.name}_{layer.id}" if layer.name in seen else layer.name
        seen.add(name)
        own.append(replace(layer, name=name))
    return own


def _below(outside: str, here: str) -> str:
    return f"{outside} > {here}" if outside else here


def _ports(element: Element, tag: str, where: str) -> tuple[Port, ...]:
    group = element.find(tag)
    return () if group is None else tuple(_port(e, where) for e in group.findall("port"))


def _port(element: Element, where: str) -> Port:
    port_id = whole(element.get("id"), "id of a port", where)
    dtype = dtype_of_precision(element.get("precision", ""), where)
    shape = extents_of_port([dim.text or "" for dim in element.findall("dim")], where)
    if element.find("rank") is not None:
        shape = None
    return Port(port_id, dtype, shape, _names(element.get("names", "")))


def _names(text: str) -> tuple[str, ...]:
    r"""Names with commas between them; a comma inside a name is written `\,`."""
    parts = text.replace("\\,", "\0").split(",")
    return tuple(part.replace("\0", ",").strip() for part in parts if part.strip())


def output_names(layer: Layer) -> tuple[str, ...]:
    """The names that a Result states for what it gives."""
    return _names(layer.element.get("output_names", ""))


def _edge(element: Element, by_id: Mapping[int, Layer], where: str) -> tuple[PortKey, PortKey]:
    ends = ("from-layer", "from-port", "to-layer", "to-port")
    layer, port, to_layer, to_port = (whole(element.get(end), end, where) for end in ends)
    for end, layer_id, port_id, side in (
        ("from", layer, port, "outputs"),
        ("to", to_layer, to_port, "inputs"),
    ):
        if layer_id not in by_id:
            raise ModelError(f"an edge goes {end} layer {layer_id}, which does not exist", where)
        if port_id not in {p.id for p in getattr(by_id[layer_id], side)}:
            raise ModelError(
                f"an edge goes {end} port {port_id}, which is none of its {side}",
                by_id[layer_id].where,
            )
    return (layer, port), (to_layer, to_port)


def _ordered(
    layers: list[Layer], by_id: Mapping[int, Layer], sources: Mapping[PortKey, PortKey]
) -> tuple[Layer, ...]:
    sorter = graphlib.TopologicalSorter(
        {layer.id: [sources[layer.id, port.id][0] for port in layer.inputs] for layer in layers}
    )
    try:
        return tuple(by_id[layer_id] for layer_id in sorter.static_order())
    except graphlib.CycleError as error:
        names = " -> ".join(f"'{by_id[layer_id].name}'" for layer_id in error.args[1])
        raise CycleError(f"layers wait for each other: {names}", layers[0].where) from None
