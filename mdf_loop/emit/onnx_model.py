"""`Program` -> standard ONNX, by onnx_ir: opset 17, or the lowest that has all operations.

What ONNX Runtime gets wrong or refuses is kept from it: see `loop_node`, `if_node`, `scan_node`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from msgspec import Struct

from mdf_loop.build import Builder
from mdf_loop.emit.guard_node import write_guard, write_host_guard
from mdf_loop.emit.if_node import write_if
from mdf_loop.emit.loop_node import write_loop
from mdf_loop.emit.scan_node import write_scan
from mdf_loop.emit.scope import Nodes, OnnxScope, WriteOps, Writer, tensor_shape, value_type
from mdf_loop.emit.transposed_products import part_transposed
from mdf_loop.emit.weights import LARGE
from mdf_loop.emit.where_node import write_where
from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.ir import (
    Array,
    Constant,
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Program,
    Value,
    bodies,
    walk,
)
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.types import LARGEST_FILE
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.opset import ir_version, said_at
from mdf_loop.ops.registry import Composition, row_of

LoopWriter: TypeAlias = Callable[[OnnxScope, Loop, WriteOps], None]
"""Appends a loop to a scope."""

GuardWriter: TypeAlias = Callable[[OnnxScope, Guard], None]
"""Appends a guard to a scope."""


class Forms(Struct, frozen=True):
    """How that is written of which ONNX has several forms.

    Attributes:
        outermost: loops of the main graph.
        inner: loops in bodies.
        guard: guards.
    """

    outermost: LoopWriter = write_loop
    inner: LoopWriter = write_loop
    guard: GuardWriter = write_guard


PLAIN = Forms()
"""What all runtimes take."""

FOR_CPU = Forms(outermost=write_scan)
"""What is fast on ONNX Runtime's CPU provider."""

FOR_CUDA = Forms(guard=write_host_guard)
"""What fails on its CUDA provider where it fails on the CPU."""


def to_onnx(program: Program) -> onnx.ModelProto:
    """The program as an ONNX model; inputs and outputs keep their names, nodes name their MDF path.

    Raises:
        ModelError: the program gives nothing.
        UnsupportedError: bodies are nested deeper, or constants larger, than a file can hold.
    """
    refuse_nothing(program.name, program.outputs)
    _refuse_too_deep(program.ops)
    _refuse_too_large(_constants(program))
    return oir.to_proto(_model(program, Nodes()))


_INSIDE = (oir.DataType.STRING, oir.DataType.COMPLEX64, oir.DataType.COMPLEX128)
"""Elements that the runtime takes inside the model only."""


class SessionModel:
    """A program as a model for ONNX Runtime, and apart from it the large constants by name.

    They are copied nowhere, and may be larger than a file can be. The CPU provider is given it in
    `forms`, CUDA's what `for_cuda` makes of it; `more` are inputs that loops for the CPU
    read. `nodes` are what those of both are for.

    Raises:
        ModelError, UnsupportedError: as `to_onnx`.
    """

    def __init__(
        self,
        program: Program,
        forms: Forms = FOR_CPU,
        more: Sequence[Value] = (),
        for_cuda: Callable[[Program], Program] = lambda program: program,
    ) -> None:
        refuse_nothing(program.name, program.outputs)
        _refuse_too_deep(program.ops)
        _refuse_too_large([c for c in _constants(program) if c.array.nbytes < LARGE])
        self.program = program
        self.nodes = Nodes()
        self._more = more
        self._for_cuda = for_cuda
        self.for_cpu, self.apart = _with_apart(_model(program, self.nodes, forms, more))
        part_transposed(self.for_cpu, "Identity")

    def on_cuda(self) -> onnx.ModelProto:
        """The model for the CUDA provider, with the same constants apart."""
        program = self._for_cuda(self.program)
        return _with_apart(_model(program, self.nodes, FOR_CUDA, self._more))[0]


def _with_apart(model: oir.Model) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model without its large constants, and these."""
    apart: dict[str, Array] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.dtype not in _INSIDE and tensor.nbytes >= LARGE:
            apart[name] = np.ascontiguousarray(tensor.numpy())
            value.const_value = oir.ExternalTensor(
                "given apart",
                0,
                tensor.nbytes,
                tensor.dtype,
                shape=oir.Shape(apart[name].shape),
                name=name,
            )
    return oir.to_proto(model), apart


def refuse_nothing(name: str, outputs: Collection[Any]) -> None:
    """Refuse a model that gives nothing."""
    if not outputs:
        raise ModelError(
            f"there is nothing to compute: '{name}' has no output ports",
            "$",
            "add an output port, or name what a run is to give: record=['node.parameter'] "
            "(--record node.parameter)",
        )


_DEEPEST = 31
"""Bodies inside each other that can be read back: protobuf reads 100 messages inside each other,
of which a body takes 3, and the model around it and a type inside it take 7."""


def _refuse_too_deep(ops: Iterable[Operation], depth: int = 0) -> None:
    for operation in ops:
        for body in bodies(operation):
            if depth == _DEEPEST:
                assert isinstance(operation, Loop | If)
                raise UnsupportedError(
                    f"'{operation.name}' is inside {depth} loops and choices; an ONNX file can hold no more "
                    "than that inside each other",
                    operation.where,
                    "nest less: compute some of it outside, or make two loops one",
                )
            _refuse_too_deep(body.ops, depth + 1)


_MOST_BYTES = LARGEST_FILE - 2**24
"""How large the arrays of a model may be, so that names, types and nodes have room beside them."""


def _constants(program: Program) -> list[Constant]:
    return [operation for operation in walk(program.ops) if isinstance(operation, Constant)]


def _refuse_too_large(constants: Collection[Constant]) -> None:
    total = sum(constant.array.nbytes for constant in constants)
    if total > _MOST_BYTES:
        largest = max(constants, key=lambda constant: constant.array.nbytes)
        raise UnsupportedError(
            f"the arrays of the model have {total} bytes; one ONNX model holds 2 GB at most",
            largest.value.where,
            "make the largest ones inputs of the model",
        )


def _model(
    program: Program, nodes: Nodes, forms: Forms = PLAIN, more: Sequence[Value] = ()
) -> oir.Model:
    writer = Writer(program, nodes)

    def write(scope: OnnxScope, ops: Iterable[Operation], loop: LoopWriter) -> None:
        for operation in ops:
            if isinstance(operation, Loop):
                loop(scope, operation, inner)
            elif isinstance(operation, If):
                write_if(scope, operation, inner)
            elif isinstance(operation, Guard):
                forms.guard(scope, operation)
            elif isinstance(operation, Op) and operation.op_type == "Where":
                write_where(scope, operation)
            else:
                _write(scope, operation)

    def inner(scope: OnnxScope, ops: Iterable[Operation]) -> None:
        write(scope, ops, forms.inner)

    given = {entry.value for entry in program.inputs}
    inputs = [writer.declare(entry.value, entry.value.name) for entry in program.inputs]
    inputs += [writer.declare(value, value.name) for value in more]
    scope = OnnxScope(writer, given)
    for output in program.outputs:
        if output.value not in given:
            scope.output_names.setdefault(output.value, output.name)
    write(scope, program.ops, forms.outermost)
    outputs = [_output(scope, each.name, each.value, given) for each in program.outputs]
    graph = oir.Graph(
        inputs,
        outputs,
        nodes=scope.nodes,
        initializers=list(writer.initializers.values()),
        opset_imports={"": writer.opset, **{domain: 1 for domain in writer.domains if domain}},
        name=program.name or "model",
    )
    return oir.Model(
        graph,
        ir_version=ir_version(writer.opset),
        producer_name="mdf_loop",
        metadata_props={"mdf.graph": program.name},
    )


def _write(scope: OnnxScope, operation: Op | Constant) -> None:
    """Append what has no body."""
    writer = scope.writer
    if isinstance(operation, Constant):
        made = writer.constant(operation.array, writer.free_name(operation.value))
        writer.values[operation.value] = made
        return
    form = row_of(operation.op_type).onnx_form
    if form is not None:
        _write_spelled(scope, _spelled(writer.builder, operation, form))
        return
    behind, attributes = said_at(operation, writer.opset)
    inputs = [None if v is None else writer.values[v] for v in operation.inputs]
    inputs += [None if array is None else writer.constant(array) for array in behind]
    outputs = [scope.define(v) if v is not None else None for v in writer.read_outputs(operation)]
    scope.node(operation.op_type, inputs, outputs, dict(attributes), operation.where)


def _write_spelled(scope: OnnxScope, operations: Iterable[Operation]) -> None:
    """Append the operations that an operation is spelled in, with the branches among them."""
    for operation in operations:
        if isinstance(operation, Constant):  # under a name that no graph gives anew
            scope.writer.values[operation.value] = scope.writer.constant(operation.array)
        elif isinstance(operation, If):
            write_if(scope, operation, _write_spelled)
        else:
            assert isinstance(operation, Op)
            _write(scope, operation)


def _spelled(b: Builder, op: Op, form: Composition) -> Iterator[Operation]:
    """Yield the operations that spell an operation which ONNX lacks."""
    begin = len(b.ops)
    with b.at(op.where, op.outputs[0].name):
        replacement = form(b, op)
        if replacement in op.inputs:
            replacement = b.op("Identity", replacement)
    assert isinstance(replacement, Value)
    for spelled in b.ops[begin:]:
        yield substitute(spelled, {replacement: op.outputs[0]})


def _output(scope: OnnxScope, name: str, value: Value, given: set[Value]) -> oir.Value:
    """The graph output; inputs of another name, constants and values given twice are copied."""
    made = scope.writer.values[value]
    if made.name == name and value in given:
        return made
    if made.name == name and not made.is_initializer() and value not in given:
        return made
    out = oir.Value(name=name, type=value_type(value.dtype), shape=tensor_shape(value.shape))
    scope.node("Identity", [made], [out])
    return out
