"""Conversion of a network into an MDF graph: layers become nodes, and values keep their names.

The functions in `BODY_LAYER_WRITERS` write layers with bodies. All other layers are converted by the
functions in `TRANSLATORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.openvino.call import TRANSLATORS, LayerCall
from mdf_loop.importing.openvino.network import Layer
from mdf_loop.importing.openvino.network_writer import NetworkWriter
from mdf_loop.name_suggestions import suggest

BodyLayerWriter: TypeAlias = "Callable[[Layer, NetworkWriter], None]"

BODY_LAYER_WRITERS: dict[str, BodyLayerWriter] = {}
"""Writer of each layer type with bodies."""

_TRANSLATOR_MODULES = (
    *(
        "elementwise",
        "activations",
        "reductions",
        "shapes",
        "strided",
        "cells",
        "sequences",
        "images",
    ),
    *("loops", "branches"),
)
"""Modules of this package that register translators."""

_LAYERS_WITHOUT_TRANSLATOR = ("Parameter", "Result", "Const")


def body_layer(*types: str) -> Callable[[BodyLayerWriter], BodyLayerWriter]:
    """Register the decorated function as the writer of the layer types `types`, which have bodies."""

    def register(write: BodyLayerWriter) -> BodyLayerWriter:
        BODY_LAYER_WRITERS.update(dict.fromkeys(types, write))
        return write

    return register


def write_layers(network_writer: NetworkWriter) -> None:
    """Write all layers of an OpenVINO network into an MDF graph.

    A constant is written when a layer first reads it.

    Raises:
        UnsupportedError: A layer has no translator. The message has type, name and opset of the layer.
    """
    for module in _TRANSLATOR_MODULES:
        import_module(f"mdf_loop.importing.openvino.{module}")
    constant_layers = [layer for layer in network_writer.network.layers if layer.type == "Const"]
    for layer in constant_layers:
        network_writer.read_constant_layer(layer)
    for layer in network_writer.network.layers:
        if layer.type in BODY_LAYER_WRITERS:
            BODY_LAYER_WRITERS[layer.type](layer, network_writer)
        elif layer.type not in _LAYERS_WITHOUT_TRANSLATOR:
            _write_layer(layer, network_writer)


def _write_layer(layer: Layer, network_writer: NetworkWriter) -> None:
    translator = TRANSLATORS.get(layer.type)
    if translator is None:
        opset_text = f" ({layer.opset})" if layer.opset else ""
        raise UnsupportedError(
            f"the layer type {layer.type}{opset_text} cannot be read",
            layer.location,
            suggest(layer.type, [*TRANSLATORS, *BODY_LAYER_WRITERS])
            if _is_close(layer.type)
            else "",
        )
    translated_outputs = translator(LayerCall(layer, network_writer))
    output_terms = (
        translated_outputs if isinstance(translated_outputs, tuple) else (translated_outputs,)
    )
    output_names = [network_writer.value_names[layer.id, port.id] for port in layer.output_ports]
    _check_outputs(layer, network_writer, len(output_terms))
    network_writer.write_outputs(
        output_terms[: len(output_names)], output_names[: len(output_terms)], layer.name
    )
    network_writer.fold_convert(layer)


def _is_close(layer_type_name: str) -> bool:
    return layer_type_name.lower() in {layer_type.lower() for layer_type in TRANSLATORS}


def _check_outputs(layer: Layer, network_writer: NetworkWriter, count: int) -> None:
    """Raise an error if a layer reads an output that the ONNX translation does not compute."""
    if not layer.output_ports:
        raise ModelError(f"a {layer.type} needs an output port", layer.location)
    missing_ports = {(layer.id, port.id) for port in layer.output_ports[count:]}
    if missing_ports and missing_ports & set(network_writer.network.source_by_input.values()):
        raise UnsupportedError(
            f"only the first {count} outputs of the layer type {layer.type} can be read",
            layer.location,
        )
