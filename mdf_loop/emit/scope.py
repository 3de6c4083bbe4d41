"""State of an ONNX model during its construction: values, names and nodes.

An `OnnxScope` is one graph: the main graph, a body or a branch. The `ModelWriter` is the state that all graphs of
a model share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, field

from mdf_loop.array_digest import array_digest
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
from mdf_loop.ir.types import (
    TypeAttribute,
    dtype_name,
    element_type,
    inner_dtype,
    is_optional,
    is_sequence,
)
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.native.code import Failure
from mdf_loop.ops.onnx_schema import list_type, optional_outputs
from mdf_loop.ops.opset import opset_of_all


@functools.cache
def value_type(dtype: str) -> oir.TypeProtocol:
    """Return the ONNX type of a dtype, without a shape, as one shared object."""
    if is_sequence(dtype):
        return oir.SequenceType(value_type(inner_dtype(dtype)))
    if is_optional(dtype):
        return oir.OptionalType(value_type(inner_dtype(dtype)))
    return oir.TensorType(oir.DataType(element_type(dtype)))


def tensor_shape(shape: Shape) -> oir.Shape | None:
    """Return the ONNX shape for a shape of the program."""
    return None if shape is None else oir.Shape(list(shape))


class NodeRegistry(Struct, frozen=True):
    """Registry of program operations by the names of their ONNX nodes.

    Attributes:
        guard_by_node_name: Guards, by the nodes that fail for them.
        failures_by_node_name: Failures of native loops. A loop that fails at check k fails for the k-th reason.
        recording_by_node_name: Loop and record, by the nodes that fail if the rows of the record differ in shape.
        loop_by_node_name: Loops, by the nodes that execute them.
    """

    guard_by_node_name: dict[str, Guard] = field(default_factory=dict)
    failures_by_node_name: dict[str, tuple[Failure, ...]] = field(default_factory=dict)
    recording_by_node_name: dict[str, tuple[Loop, Recorded]] = field(default_factory=dict)
    loop_by_node_name: dict[str, Loop] = field(default_factory=dict)


class ModelWriter:
    """Writer of an ONNX model, with the values, names and initializers that all its graphs share.

    Attributes:
        node_registry: Registry of the operations that nodes execute, to be filled.
        onnx_values: ONNX values of the values of the program.
        initializers: Constants of the main graph, by dtype, shape and content.
        used_names: Names of values that are in use.
        name_count: Number of helper names so far.
        opset: Opset of the model.
        domains: Domains of the operators of the model.
    """

    def __init__(self, program: Program, nodes: NodeRegistry) -> None:
        self.node_registry = nodes
        self._program = program
        self.onnx_values: dict[Value, oir.Value] = {}
        self.initializers: dict[tuple[str, bytes], oir.Value] = {}
        self.used_names = {program_input.value.name for program_input in program.inputs}
        self.used_names |= {output.name for output in program.outputs}
        self.name_count = 0
        self.opset = opset_of_all(program.ops)
        self.domains: set[str] = set()
        self._values_read = values_read(program)

    def read_outputs(self, op: Op) -> tuple[Value | None, ...]:
        """Return the outputs of an operation, with None for each optional output that is unused.

        A kernel computes all outputs that its node names. For instance, a MaxPool with its second output has no
        kernel in ONNX Runtime's blocked layout, and all convolutions around the MaxPool lose theirs.
        """
        needed_outputs = tuple(
            value if value in self._values_read or not is_optional else None
            for value, is_optional in zip(op.outputs, optional_outputs(op), strict=True)
        )
        last_read_index = max(
            (k for k, value in enumerate(needed_outputs) if value is not None), default=0
        )
        return needed_outputs[: last_read_index + 1] if any(needed_outputs) else op.outputs[:1]

    @cached_property
    def builder(self) -> Builder:
        """Builder of additional operations, with names that the program does not use."""
        return Builder.for_rewrite_of(self._program)

    def constant_array(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None for another value."""
        onnx_value = None if value is None else self.onnx_values.get(value)
        if onnx_value is None or onnx_value.const_value is None:
            return None
        return onnx_value.const_value.numpy()

    def declare_value(self, value: Value, name: str) -> oir.Value:
        """Create the ONNX value of a program value, with the given name."""
        onnx_value = oir.Value(
            name=name, type=value_type(value.dtype), shape=tensor_shape(value.shape)
        )
        self.onnx_values[value] = onnx_value
        return onnx_value

    def define_value(self, value: Value) -> oir.Value:
        """Create the ONNX value of a program value, with a name that is not used yet."""
        return self.declare_value(value, self.free_name(value))

    def free_name(self, value: Value) -> str:
        """Return the name of a program value, with underscores appended until the name is unused."""
        unused_name = value.name
        while unused_name in self.used_names:
            unused_name += "_"
        self.used_names.add(unused_name)
        return unused_name

    def new_name(self, base: str) -> str:
        """Return a new name for a helper value or a node."""
        self.name_count += 1
        return f"{base}#{self.name_count}"

    def new_counter(self, loop: Loop) -> oir.Value:
        """Return a new int64 value that counts a loop's iterations from 0.

        The iteration number counts from `Loop.first_iteration`.
        """
        counter_name = self.new_name(f"{loop.iteration.name}")
        return oir.Value(name=counter_name, type=value_type("int64"), shape=oir.Shape([]))

    def new_like(self, value: oir.Value) -> oir.Value:
        """Return a new ONNX value with the type and shape of `value`."""
        return oir.Value(name=self.new_name(value.name or ""), type=value.type, shape=value.shape)

    def constant(self, constant_array: Array, name: str = "") -> oir.Value:
        """Return the initializer of a constant array. Equal arrays share one initializer."""
        constant_array = np.asarray(constant_array)
        is_text = constant_array.dtype.kind in "UO"
        content_key = (
            repr(constant_array.tolist()).encode() if is_text else array_digest(constant_array)
        )
        constant_key = (f"{constant_array.dtype}{constant_array.shape}", content_key)
        if constant_key not in self.initializers:
            initializer_name = name or self.new_name("const")
            constant_tensor = _to_tensor(constant_array, initializer_name)
            initializer = oir.Value(
                name=initializer_name,
                type=value_type(dtype_name(constant_array)),
                shape=oir.Shape(constant_array.shape),
            )
            initializer.const_value = constant_tensor
            self.initializers[constant_key] = initializer
        return self.initializers[constant_key]


class OnnxScope:
    """One ONNX graph under construction: the main graph, a body or a branch.

    Attributes:
        writer: State that all graphs of the model share.
        onnx_nodes: Nodes that were appended to the graph.
        inner_values: Values that the graph itself defines: its inputs and the results of its nodes.
        output_names: Names of the values that are outputs of the model.
    """

    def __init__(self, writer: ModelWriter, inside: Iterable[Value]) -> None:
        self.writer = writer
        self.onnx_nodes: list[oir.Node] = []
        self.inner_values = set(inside)
        self.output_names: dict[Value, str] = {}

    def define_value(self, value: Value) -> oir.Value:
        """Create the ONNX value for a program value that a node of this graph computes."""
        self.inner_values.add(value)
        output_name = self.output_names.get(value)
        return (
            self.writer.declare_value(value, output_name)
            if output_name
            else self.writer.define_value(value)
        )

    def append_node(
        self,
        op_type: str,
        inputs: Sequence[oir.Value | None],
        outputs: Sequence[oir.Value | None],
        attributes: dict[str, Any] | None = None,
        where: str = "",
        domain: str = "",
    ) -> str:
        """Append an ONNX node and return its name, which begins with the path in the MDF document."""
        self.writer.domains.add(domain)
        onnx_attributes = {
            name: _to_onnx_attribute(op_type, name, attribute)
            for name, attribute in (attributes or {}).items()
        }
        node_name = self.writer.new_name(f"{where} {op_type}".strip())
        self.onnx_nodes.append(
            oir.node(
                op_type,
                inputs,
                attributes=onnx_attributes,
                domain=domain,
                outputs=[oir.Value(name="") if value is None else value for value in outputs],
                name=node_name,
            )
        )
        return node_name

    def append_like(
        self, op_type: str, inputs: Sequence[oir.Value], like: oir.Value, **attributes: Any
    ) -> oir.Value:
        """Append a node with one output, whose declared type and shape are those of `like`.

        Return the output.
        """
        node_output = oir.Value(
            name=self.writer.new_name(op_type), type=like.type, shape=like.shape
        )
        self.append_node(op_type, inputs, [node_output], attributes)
        return node_output

    def append_int64_node(self, op_type: str, *inputs: oir.Value, **attributes: Any) -> oir.Value:
        """Append a helper node, and return its int64 output."""
        node_output = oir.Value(name=self.writer.new_name(op_type), type=value_type("int64"))
        self.append_node(op_type, inputs, [node_output], attributes)
        return node_output

    def append_bool_node(self, op_type: str, *inputs: oir.Value) -> oir.Value:
        """Append a helper node, and return its scalar bool output."""
        node_output = oir.Value(
            name=self.writer.new_name(op_type), type=value_type("bool"), shape=oir.Shape([])
        )
        self.append_node(op_type, inputs, [node_output])
        return node_output

    def append_copy(self, value: oir.Value) -> oir.Value:
        """Append an Identity of an ONNX value and return its output."""
        return self.append_like("Identity", [value], value)

    def graph_output(self, value: Value, forbidden: Container[Value] = ()) -> oir.Value:
        """Return an ONNX value that can be a graph output, copied if necessary.

        The value is copied if it is in `forbidden` or belongs to another graph.
        """
        onnx_value = self.writer.onnx_values[value]
        if value in self.inner_values and value not in forbidden:
            return onnx_value
        return self.append_copy(onnx_value)


WriteOps: TypeAlias = Callable[[OnnxScope, Iterable[Operation]], None]
"""Function that appends operations to a scope. Writers of operations with bodies call it for the bodies."""


def _to_tensor(array: Array, name: str | None = None) -> oir.TensorProtocol:
    """Return the ONNX tensor of an array of numbers or strings."""
    if dtype_name(array) != "string":
        return oir.Tensor(array, name=name)
    encoded_texts = [str(text).encode() for text in array.flat]
    return oir.StringTensor(encoded_texts, shape=oir.Shape(array.shape), name=name)


def _to_onnx_attribute(op_type: str, name: str, value: Any) -> Any:
    """Return an attribute value in the form that onnx_ir accepts."""
    if isinstance(value, TypeAttribute):
        return oir.AttrTypeProto(name, oir.TypeAndShape(value_type(value), None))
    if isinstance(value, np.ndarray):
        return _to_tensor(value)
    if isinstance(value, np.generic):
        return value.item()
    # An empty list does not show the type of its elements.
    if isinstance(value, list | tuple) and not value:
        return oir.Attr(name, oir.AttributeType(list_type(op_type, name)), [])
    return list(value) if isinstance(value, tuple) else value
