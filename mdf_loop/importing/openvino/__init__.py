"""An OpenVINO IR (`model.xml` with `model.bin`) -> the content of an MDF model.

Source: OpenVINO IR versions 10 and 11, operation sets 1 to 16.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.elements import whole
from mdf_loop.importing.openvino.graph import write_layers
from mdf_loop.importing.openvino.network import Layer, output_names, read_network
from mdf_loop.importing.openvino.place import Place, only_output
from mdf_loop.importing.openvino.weights import Weights
from mdf_loop.importing.openvino.xml_file import read_xml
from mdf_loop.ir import Shape

VERSIONS = (10, 11)


def read_ir(path: Path) -> Content:
    """The model under its name: graphs of mappings, lists, numbers and arrays.

    Raises:
        ModelError: a file is missing or broken; where in it.
        UnsupportedError: a layer or an element type that cannot be read; it is named.
    """
    net = read_xml(path)
    name = net.get("name") or path.stem
    _refuse_other(net, path)
    network = read_network(net)
    place = Place(network, GraphWriter(name), Weights(path.with_suffix(".bin")))
    place.name_values()
    for layer in network.of_type("Parameter"):
        _write_input(layer, place)
    write_layers(place)
    about = {"openvino": {"ir_version": int(net.get("version", ""))}}
    graph = place.writer.content(outputs=_outputs(place), metadata=about)
    return {path.stem: {"format": "ModECI MDF v0.4", "graphs": graph}}


def _refuse_other(net: Element, path: Path) -> None:
    if net.tag != "net":
        raise ModelError(
            f"the file holds <{net.tag[:40]}>, not an OpenVINO network (<net>)", str(path)
        )
    version = whole(net.get("version"), "version of the net", str(path))
    if version not in VERSIONS:
        raise UnsupportedError(
            f"the file is an IR of version {version}; read are {' and '.join(map(str, VERSIONS))}",
            str(path),
            "write it anew with openvino.save_model",
        )


def _write_input(layer: Layer, place: Place) -> None:
    name = place.names[layer.id, only_output(layer).id]
    dtype, shape = place.dtypes[name], place.shapes[name]
    if not dtype:
        raise ModelError("the element type of the Parameter is missing", layer.where)
    named: Shape = None
    if shape is not None:
        named = tuple(f"{name}_{k}" if n is None else n for k, n in enumerate(shape))
    own = (layer.name, *only_output(layer).names)
    place.writer.input(name, dtype, named, [other for other in own if other != name])


def _outputs(place: Place) -> dict[str, str]:
    """The name of every Result -> `node.port`."""
    found: dict[str, str] = {}
    for layer in place.network.of_type("Result"):
        if len(layer.inputs) != 1:
            raise ModelError("a Result has one input", layer.where)
        value = place.read(place.source(layer, 0))
        names = (value, *output_names(layer), layer.name, f"{layer.name}_{layer.id}")
        name = next(name for name in names if name not in found)
        found[name] = f"{place.writer.producer(value)}.{value}"
    if not found:
        raise ModelError("the network gives nothing: it has no Result")
    return found
