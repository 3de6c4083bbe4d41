"""A network -> an MDF graph: every layer becomes nodes, every value keeps its name.

Layers that own bodies (`OWNERS`) write their node themselves; all others are in the table `LAYERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.openvino.call import LAYERS, Call
from mdf_loop.importing.openvino.network import Layer
from mdf_loop.importing.openvino.place import Place
from mdf_loop.suggestion import suggestion

Owner: TypeAlias = "Callable[[Layer, Place], None]"

OWNERS: dict[str, Owner] = {}
"""Layer types with bodies -> what writes them."""

_FAMILIES = (
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
"""Modules of this folder with translators."""

_ENDS = ("Parameter", "Result", "Const")


def owner(*types: str) -> Callable[[Owner], Owner]:
    """Register the writer of layers that own bodies."""

    def register(write: Owner) -> Owner:
        OWNERS.update(dict.fromkeys(types, write))
        return write

    return register


def write_layers(place: Place) -> None:
    """Write every layer of the place's network, constants where they are needed.

    Raises:
        UnsupportedError: nobody can translate a layer; its type, name and opset.
    """
    for family in _FAMILIES:
        import_module(f"mdf_loop.importing.openvino.{family}")
    constants = [layer for layer in place.network.layers if layer.type == "Const"]
    for layer in constants:
        place.constant_layer(layer)
    for layer in place.network.layers:
        if layer.type in OWNERS:
            OWNERS[layer.type](layer, place)
        elif layer.type not in _ENDS:
            _write_layer(layer, place)


def _write_layer(layer: Layer, place: Place) -> None:
    translate = LAYERS.get(layer.type)
    if translate is None:
        opset = f" ({layer.opset})" if layer.opset else ""
        raise UnsupportedError(
            f"the layer type {layer.type}{opset} cannot be read",
            layer.where,
            suggestion(layer.type, [*LAYERS, *OWNERS]) if _is_close(layer.type) else "",
        )
    found = translate(Call(layer, place))
    results = found if isinstance(found, tuple) else (found,)
    names = [place.names[layer.id, port.id] for port in layer.outputs]
    _refuse_missing(layer, place, len(results))
    place.emit(results[: len(names)], names[: len(results)], layer.name)
    place.follow(layer)


def _is_close(kind: str) -> bool:
    return kind.lower() in {known.lower() for known in LAYERS}


def _refuse_missing(layer: Layer, place: Place, count: int) -> None:
    """An output that is read, but that the translation does not give."""
    if not layer.outputs:
        raise ModelError(f"a {layer.type} needs an output port", layer.where)
    missing = {(layer.id, port.id) for port in layer.outputs[count:]}
    if missing and missing & set(place.network.sources.values()):
        raise UnsupportedError(
            f"only the first {count} outputs of the layer type {layer.type} can be read",
            layer.where,
        )
