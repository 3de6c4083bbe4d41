"""The graphs of an ONNX model while they are written: values, free names, nodes.

A `OnnxScope` is one graph, the main one or a body; the `Writer` is what all graphs of a model share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, field

from mdf_loop.bits import bits
from mdf_loop.build import Builder
from mdf_loop.cached_property import cached_property
from mdf_loop.ir import (
    Array,
    Guard,
    Loop,
    Op,
    Operation,
    Program,
    Recorded,
    Shape,
    Value,
    values_read,
)
from mdf_loop.ir.types import TypeWord, dtype_name, element_type, inside, is_optional, is_sequence
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.native.code import Failure
from mdf_loop.ops.onnx_schema import list_type, optional_outputs
from mdf_loop.ops.opset import opset_of_all


@functools.cache
def value_type(dtype: str) -> oir.TypeProtocol:
    """The type as ONNX has it, without a shape; one for all values."""
    if is_sequence(dtype):
        return oir.SequenceType(value_type(inside(dtype)))
    if is_optional(dtype):
        return oir.OptionalType(value_type(inside(dtype)))
    return oir.TensorType(oir.DataType(element_type(dtype)))


def tensor_shape(shape: Shape) -> oir.Shape | None:
    """The shape as ONNX has it."""
    return None if shape is None else oir.Shape(list(shape))


class Nodes(Struct, frozen=True):
    """What nodes of a model do for a program, by their names: all that the runtime's messages tell.

    `guards` fail for one of these, `rows` where the rows of a record differ in shape, and `loops`
    run one. Where a native loop fails at check k, the k-th of its `failures` says why.
    """

    guards: dict[str, Guard] = field(default_factory=dict)
    failures: dict[str, tuple[Failure, ...]] = field(default_factory=dict)
    rows: dict[str, tuple[Loop, Recorded]] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)


class Writer:
    """What all graphs of one model share: ONNX values, names, initializers.

    `nodes` is told what nodes are for. `builder` makes operations that the program itself does not have.
    """

    def __init__(self, program: Program, nodes: Nodes) -> None:
        self.nodes = nodes
        self._program = program
        self.values: dict[Value, oir.Value] = {}
        self.initializers: dict[tuple[str, bytes], oir.Value] = {}
        self.taken = {entry.value.name for entry in program.inputs}
        self.taken |= {output.name for output in program.outputs}
        self.count = 0
        self.opset = opset_of_all(program.ops)
        self.domains: set[str] = set()
        self._read = values_read(program)

    def read_outputs(self, op: Op) -> tuple[Value | None, ...]:
        """Return the outputs of an operation, with None for an optional one that nobody reads.

        An output that a node names is computed. With its second output MaxPool has no kernel in
        ONNX Runtime's blocked layout, for instance, and all convolutions around it lose theirs.
        """
        outputs = tuple(
            value if value in self._read or not optional else None
            for value, optional in zip(op.outputs, optional_outputs(op), strict=True)
        )
        last = max((k for k, value in enumerate(outputs) if value is not None), default=0)
        return outputs[: last + 1] if any(outputs) else op.outputs[:1]

    @cached_property
    def builder(self) -> Builder:
        """A builder that gives no name, and no name of an extent, that the program has."""
        return Builder.resume(self._program)

    def known(self, value: Value | None) -> Array | None:
        """The array of a constant."""
        made = None if value is None else self.values.get(value)
        return None if made is None or made.const_value is None else made.const_value.numpy()

    def declare(self, value: Value, name: str) -> oir.Value:
        """The ONNX value of a value of the program, under this name."""
        made = oir.Value(name=name, type=value_type(value.dtype), shape=tensor_shape(value.shape))
        self.values[value] = made
        return made

    def define(self, value: Value) -> oir.Value:
        """The ONNX value of a value made in the program, under a free name."""
        return self.declare(value, self.free_name(value))

    def free_name(self, value: Value) -> str:
        """The value's name, or one like it that nobody has."""
        name = value.name
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def fresh(self, base: str) -> str:
        """A name for a helper value or node."""
        self.count += 1
        return f"{base}#{self.count}"

    def number(self, loop: Loop) -> oir.Value:
        """A whole number that only the ONNX form of a loop needs: its iterations so far."""
        name = self.fresh(f"{loop.iteration.name}")
        return oir.Value(name=name, type=value_type("int64"), shape=oir.Shape([]))

    def like(self, value: oir.Value) -> oir.Value:
        """A value of the same type and shape, under a name of its own."""
        return oir.Value(name=self.fresh(value.name or ""), type=value.type, shape=value.shape)

    def constant(self, array: Array, name: str = "") -> oir.Value:
        """An initializer of the main graph."""
        array = np.asarray(array)
        texts = array.dtype.kind in "UO"
        data = repr(array.tolist()).encode() if texts else bits(array)
        key = (f"{array.dtype}{array.shape}", data)
        if key not in self.initializers:
            label = name or self.fresh("const")
            tensor = _tensor(array, label)
            value = oir.Value(
                name=label,
                type=value_type(dtype_name(array)),
                shape=oir.Shape(array.shape),
            )
            value.const_value = tensor
            self.initializers[key] = value
        return self.initializers[key]


class OnnxScope:
    """The nodes of one graph: the main one or a body.

    `inside` are the values that the graph has itself: what it is given, then what it makes.
    """

    def __init__(self, writer: Writer, inside: Iterable[Value]) -> None:
        self.writer = writer
        self.nodes: list[oir.Node] = []
        self.inside = set(inside)
        self.output_names: dict[Value, str] = {}

    def define(self, value: Value) -> oir.Value:
        """The ONNX value of a value that this graph makes."""
        self.inside.add(value)
        name = self.output_names.get(value)
        return self.writer.declare(value, name) if name else self.writer.define(value)

    def node(
        self,
        op_type: str,
        inputs: Sequence[oir.Value | None],
        outputs: Sequence[oir.Value | None],
        attributes: dict[str, Any] | None = None,
        where: str = "",
        domain: str = "",
    ) -> str:
        """Append a node and give its name, which says where in the MDF it comes from."""
        self.writer.domains.add(domain)
        plain = {k: _attribute(op_type, k, v) for k, v in (attributes or {}).items()}
        name = self.writer.fresh(f"{where} {op_type}".strip())
        self.nodes.append(
            oir.node(
                op_type,
                inputs,
                attributes=plain,
                domain=domain,
                outputs=[oir.Value(name="") if value is None else value for value in outputs],
                name=name,
            )
        )
        return name

    def helper(
        self, op_type: str, inputs: Sequence[oir.Value], like: oir.Value, **attributes: Any
    ) -> oir.Value:
        """A node that only the ONNX form needs; its result has the type of `like`."""
        made = oir.Value(name=self.writer.fresh(op_type), type=like.type, shape=like.shape)
        self.node(op_type, inputs, [made], attributes)
        return made

    def whole(self, op_type: str, *inputs: oir.Value, **attributes: Any) -> oir.Value:
        """A node that only the ONNX form needs; its result is whole numbers."""
        made = oir.Value(name=self.writer.fresh(op_type), type=value_type("int64"))
        self.node(op_type, inputs, [made], attributes)
        return made

    def truth(self, op_type: str, *inputs: oir.Value) -> oir.Value:
        """A node that only the ONNX form needs; its result is one truth value."""
        made = oir.Value(
            name=self.writer.fresh(op_type), type=value_type("bool"), shape=oir.Shape([])
        )
        self.node(op_type, inputs, [made])
        return made

    def copy(self, value: oir.Value) -> oir.Value:
        """The value through an Identity."""
        return self.helper("Identity", [value], value)

    def returned(self, value: Value, forbidden: Container[Value] = ()) -> oir.Value:
        """The value as an output of this body: a copy if it is an outer or a forbidden one."""
        made = self.writer.values[value]
        if value in self.inside and value not in forbidden:
            return made
        return self.copy(made)


WriteOps: TypeAlias = Callable[[OnnxScope, Iterable[Operation]], None]
"""Writes operations into a scope; what writes an operation with bodies is given it."""


def _tensor(array: Array, name: str | None = None) -> oir.TensorProtocol:
    if dtype_name(array) != "string":
        return oir.Tensor(array, name=name)
    texts = [str(text).encode() for text in array.flat]
    return oir.StringTensor(texts, shape=oir.Shape(array.shape), name=name)


def _attribute(op_type: str, name: str, value: Any) -> Any:
    if isinstance(value, TypeWord):
        return oir.AttrTypeProto(name, oir.TypeAndShape(value_type(value), None))
    if isinstance(value, np.ndarray):
        return _tensor(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple) and not value:  # of which the type cannot be seen
        return oir.Attr(name, oir.AttributeType(list_type(op_type, name)), [])
    return list(value) if isinstance(value, tuple) else value
