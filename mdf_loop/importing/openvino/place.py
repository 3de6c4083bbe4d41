"""A graph being written: the names of its values, what is known of them, and the writer.

A Const becomes a node when something reads it as a value; one that only tells an axis or an order
becomes an attribute and leaves no node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from onnx import defs

from mdf_loop.errors import ModelError
from mdf_loop.importing.graph_writer import Content, GraphWriter
from mdf_loop.importing.openvino.elements import (
    OPEN_TYPES,
    Extents,
    dtype_of_type,
    extents_of,
    numpy_dtype,
    whole,
    wholes,
)
from mdf_loop.importing.openvino.network import Layer, Network, Port, PortKey
from mdf_loop.importing.openvino.weights import Weights
from mdf_loop.ir import Array
from mdf_loop.ops.onnx_schema import schema

_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
SMALL = 4096
"""Constants up to this size are followed through Convert, to be read as axes and orders."""


class OnnxOp(Struct, frozen=True, eq=False):
    """An ONNX operator of values; without `outputs` it gives one."""

    type: str
    inputs: tuple[Term | None, ...]
    attributes: Mapping[str, object]
    outputs: int = 1

    def __getitem__(self, index: int) -> Part:
        return Part(self, index)


class Part(Struct, frozen=True):
    """One output of an operator that gives several."""

    op: OnnxOp
    index: int


Term: TypeAlias = str | Array | OnnxOp | Part
"""A value: its name, a constant, or how it is computed."""


def op(op_type: str, *inputs: Term | None, **attributes: object) -> OnnxOp:
    """`onnx::op_type` of these inputs; None leaves an optional input out."""
    return OnnxOp(op_type, inputs, attributes)


def parts(count: int, op_type: str, *inputs: Term | None, **attributes: object) -> tuple[Part, ...]:
    """The outputs of an operator that gives several."""
    whole = OnnxOp(op_type, inputs, attributes, count)
    return tuple(whole[k] for k in range(count))


class Place:
    """Writes the operations of one network into one MDF graph."""

    def __init__(self, network: Network, writer: GraphWriter, weights: Weights) -> None:
        self.network = network
        self.writer = writer
        self.weights = weights
        self.names: dict[PortKey, str] = {}
        self.known: dict[str, Array] = {}
        self.dtypes: dict[str, str] = {}
        self.shapes: dict[str, Extents] = {}
        self._pending: dict[str, Array] = {}
        self._made: dict[Part, str] = {}
        self._written: set[OnnxOp] = set()

    # --- names ----------------------------------------------------------------------------------

    def name_values(self) -> None:
        """Name every value as the file does: the first name of its port, else its layer's."""
        seen: set[str] = set()
        for layer in self.network.written.values():
            for k, port in enumerate(layer.outputs):
                name = self.names.get((layer.id, port.id))
                if name is None:
                    wanted = port.names[0] if port.names else _unnamed(layer, k)
                    wanted = f"{wanted}_{layer.id}" if wanted in seen else wanted
                    seen.add(wanted)
                    name = self.names[layer.id, port.id] = self.writer.unique_name(wanted)
                self.dtypes[name], self.shapes[name] = _stated(layer, port)

    def source(self, layer: Layer, position: int) -> str:
        """The name of the value that the layer's input at that position reads."""
        return self.names[self.network.sources[layer.id, layer.inputs[position].id]]

    # --- values ---------------------------------------------------------------------------------

    def constant_layer(self, layer: Layer) -> None:
        """Keep the numbers of a Const until they are needed."""
        about, where = layer.attributes, layer.where
        dtype = dtype_of_type(about.get("element_type", ""), where)
        shape = wholes(about.get("shape", ""), "shape", where)
        if any(extent < 0 for extent in shape):
            raise ModelError(f"a Const cannot have the shape {list(shape)}", where)
        size, offset = (whole(about.get(key), key, where) for key in ("size", "offset"))
        name = self.names[layer.id, only_output(layer).id]
        array = self.weights.array(offset, size, dtype, shape, where)
        self.known[name] = array
        self._pending[name] = array

    def follow(self, layer: Layer) -> None:
        """Know the numbers that a Convert makes of few known ones."""
        if layer.type != "Convert":
            return
        found = self.known.get(self.source(layer, 0))
        if found is not None and found.size <= SMALL:
            name = self.names[layer.id, layer.outputs[0].id]
            with np.errstate(all="ignore"):
                self.known[name] = found.astype(numpy_dtype(self.dtypes[name]))

    def read(self, name: str) -> str:
        """The same name; if it is that of a Const, its node is there from now on."""
        if name in self._pending:
            self.writer.constant(name, self._pending.pop(name))
        return name

    def emit(self, roots: Sequence[Term], names: Sequence[str], node_id: str) -> None:
        """Write what the results `roots` take; they are called `names`."""
        later: list[tuple[Term, str]] = []
        results: list[Term] = [root[0] if isinstance(root, OnnxOp) else root for root in roots]
        for part, name in zip(results, names, strict=True):
            if isinstance(part, Part) and part not in self._made:
                self._made[part] = name
            else:
                later.append((part, name))
        for part in results:
            self.value(part, node_id)
        for part, name in later:
            self._write(op("Identity", part), [name], node_id)

    def value(self, term: Term, node_id: str) -> str:
        """The name of a value; it is written if it is not there yet."""
        if isinstance(term, str):
            return self.read(term)
        if isinstance(term, np.ndarray):
            name = self.writer.unique_name(f"{node_id}.constant")
            self.writer.constant(name, term)
            return name
        part = term[0] if isinstance(term, OnnxOp) else term
        if part.op not in self._written:
            self._written.add(part.op)
            places = [Part(part.op, k) for k in range(part.op.outputs)]
            for place in places:
                if place not in self._made:
                    self._made[place] = self.writer.unique_name(f"{node_id}.{part.op.type}")
            self._write(part.op, [self._made[place] for place in places], node_id)
        return self._made[part]

    def _write(self, what: OnnxOp, names: Sequence[str], node_id: str) -> None:
        inputs = [None if term is None else self.value(term, node_id) for term in what.inputs]
        reads = [name for name in inputs if name is not None]
        args = _arguments(what, inputs)
        self.writer.node(f"onnx::{what.type}", names, args=args, reads=reads, node_id=node_id)


def only_output(layer: Layer) -> Port:
    """The one output port of a layer."""
    if len(layer.outputs) != 1:
        raise ModelError(f"a {layer.type} has one output, not {len(layer.outputs)}", layer.where)
    return layer.outputs[0]


def _unnamed(layer: Layer, position: int) -> str:
    return layer.name if len(layer.outputs) == 1 else f"{layer.name}.{position}"


def _stated(layer: Layer, port: Port) -> tuple[str, Extents]:
    """The type of a value; a port without axes may be a number, or anything."""
    if layer.type in ("Parameter", "Const"):
        word = layer.attributes.get("element_type")
        text = layer.attributes.get("shape")
        dtype = port.dtype if word in OPEN_TYPES else dtype_of_type(str(word), layer.where)
        return dtype, port.shape if text is None else extents_of(text, layer.where)
    return port.dtype, port.shape or None


def _arguments(what: OnnxOp, inputs: list[str | None]) -> Content:
    """Inputs by the names of ONNX's schema, and attributes.

    One that is left out is stated as none where a value that is read has its name.
    """
    signature = schema(what.type, what.attributes, len(inputs))
    formals = signature.inputs
    args: Content = {}
    for position, name in enumerate(inputs):
        formal = formals[min(position, len(formals) - 1)]
        if formal.option == _VARIADIC:
            args.setdefault(formal.name, []).append(name)
        elif name is not None:
            args[formal.name] = name
    args |= what.attributes
    known = [formal.name for formal in formals if formal.option != _VARIADIC]
    for word in (*known, *signature.attributes):
        if word in inputs and word not in args:
            args[word] = None
    return args
