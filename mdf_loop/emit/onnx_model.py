"""`Program` -> standard ONNX, by onnx_ir: opset 17, or the lowest that has all operations.

What ONNX Runtime gets wrong or refuses is kept from it: see `loop_node`, `if_node`, `scan_node`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from mdf_loop.emit.guard_node import write_guard
from mdf_loop.emit.if_node import write_if
from mdf_loop.emit.loop_node import write_loop
from mdf_loop.emit.scan_node import write_scan
from mdf_loop.emit.scope import Nodes, OnnxScope, WriteOps, Writer, tensor_shape, value_type
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
from mdf_loop.ir.types import LARGEST_FILE
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.opset import ir_version, said_at

LoopWriter: TypeAlias = Callable[[OnnxScope, Loop, WriteOps], None]
"""Appends a loop to a scope."""


def to_onnx(program: Program) -> onnx.ModelProto:
    """The program as an ONNX model; inputs and outputs keep their names, nodes name their MDF path.

    Raises:
        ModelError: the program gives nothing.
        UnsupportedError: bodies are nested deeper, or constants larger, than a file can hold.
    """
    refuse_nothing(program.name, program.outputs)
    _refuse_too_deep(program.ops)
    _refuse_too_large(_constants(program))
    return oir.to_proto(_model(program, write_loop, Nodes()))


LARGE = 1 << 20
"""Bytes from which a constant is given to the runtime as it is, and not inside the model."""

_INSIDE = (oir.DataType.STRING, oir.DataType.COMPLEX64, oir.DataType.COMPLEX128)
"""Elements that the runtime takes inside the model only."""


class SessionModel:
    """A program as a model for ONNX Runtime, and apart from it the large constants by name.

    They are copied nowhere, and may be larger than a file can be. The CPU provider is given loops
    as `outermost` and `inner` write them, others plain ones; `more` are inputs that those read. `nodes` are what those of both are for.

    Raises:
        ModelError, UnsupportedError: as `to_onnx`.
    """

    def __init__(
        self,
        program: Program,
        outermost: LoopWriter = write_scan,
        inner: LoopWriter = write_loop,
        more: Sequence[Value] = (),
    ) -> None:
        refuse_nothing(program.name, program.outputs)
        _refuse_too_deep(program.ops)
        _refuse_too_large([c for c in _constants(program) if c.array.nbytes < LARGE])
        self._program = program
        self._more = more
        self.nodes = Nodes()
        self.for_cpu, self.apart = _with_apart(_model(program, outermost, self.nodes, inner, more))

    def for_others(self) -> onnx.ModelProto:
        """The model for other providers, with the same constants apart."""
        return _with_apart(_model(self._program, write_loop, self.nodes, more=self._more))[0]


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
    program: Program,
    write_outermost: LoopWriter,
    nodes: Nodes,
    write_inner: LoopWriter = write_loop,
    more: Sequence[Value] = (),
) -> oir.Model:
    writer = Writer(program, nodes)

    def inner(scope: OnnxScope, ops: Iterable[Operation]) -> None:
        _write(scope, ops, write_inner, inner)

    given = {entry.value for entry in program.inputs}
    inputs = [writer.declare(entry.value, entry.value.name) for entry in program.inputs]
    inputs += [writer.declare(value, value.name) for value in more]
    scope = OnnxScope(writer, given)
    for output in program.outputs:
        if output.value not in given:
            scope.output_names.setdefault(output.value, output.name)
    _write(scope, program.ops, write_outermost, inner)
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


def _write(
    scope: OnnxScope, ops: Iterable[Operation], write_own_loop: LoopWriter, inner: WriteOps
) -> None:
    """Append operations; those in bodies are written by `inner`."""
    writer = scope.writer
    for operation in ops:
        if isinstance(operation, Constant):
            made = writer.constant(operation.array, writer.free_name(operation.value))
            writer.values[operation.value] = made
        elif isinstance(operation, Op):
            behind, attributes = said_at(operation, writer.opset)
            inputs = [None if v is None else writer.values[v] for v in operation.inputs]
            inputs += [None if array is None else writer.constant(array) for array in behind]
            outputs = [scope.define(v) for v in operation.outputs]
            scope.node(operation.op_type, inputs, outputs, dict(attributes), operation.where)
        elif isinstance(operation, Guard):
            write_guard(scope, operation)
        elif isinstance(operation, Loop):
            write_own_loop(scope, operation, inner)
        else:
            write_if(scope, operation, inner)


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
