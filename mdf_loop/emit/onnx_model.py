"""Conversion of a `Program` to standard ONNX in opset 17, or in the lowest opset that has all operations.

The modules `loop_node`, `if_node`, `scan_node` and `where_node` list the forms that ONNX Runtime refuses or
computes wrongly. The model avoids these forms. onnx_ir builds the graph.
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
from mdf_loop.emit.scope import (
    ModelWriter,
    NodeRegistry,
    OnnxScope,
    WriteOps,
    tensor_shape,
    value_type,
)
from mdf_loop.emit.transposed_products import separate_transposed_products
from mdf_loop.emit.weights import LARGE_CONSTANT_BYTES
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
from mdf_loop.ir.types import MAX_FILE_BYTES
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.opset import encode_at_opset, ir_version
from mdf_loop.ops.registry import Decomposition, row_of

LoopWriter: TypeAlias = Callable[[OnnxScope, Loop, WriteOps], None]
"""Function that appends a loop to a scope."""

GuardWriter: TypeAlias = Callable[[OnnxScope, Guard], None]
"""Function that appends a guard to a scope."""


class NodeWriters(Struct, frozen=True):
    """Functions for one target runtime that write loops and run-time checks as ONNX nodes.

    Attributes:
        main_loop_writer: Writer of the loops of the main graph.
        inner_loop_writer: Writer of the loops in bodies.
        guard_writer: Writer of the guards (run-time checks).
    """

    main_loop_writer: LoopWriter = write_loop
    inner_loop_writer: LoopWriter = write_loop
    guard_writer: GuardWriter = write_guard


STANDARD_WRITERS = NodeWriters()
"""Writers of nodes that every ONNX runtime can execute."""

CPU_WRITERS = NodeWriters(main_loop_writer=write_scan)
"""Writers of the nodes that ONNX Runtime's CPU provider executes fastest."""

CUDA_WRITERS = NodeWriters(guard_writer=write_host_guard)
"""Writers of nodes for ONNX Runtime's CUDA provider, whose kernels do not check indices."""


def to_onnx(program: Program) -> onnx.ModelProto:
    """Convert a program to an ONNX model.

    Inputs and outputs keep their names. The name of a node begins with the path in the MDF document.

    Raises:
        ModelError: The program has no outputs.
        UnsupportedError: Bodies are nested more deeply, or constants are larger, than an ONNX file allows.
    """
    _check_outputs(program.name, program.outputs)
    _check_nesting(program.ops)
    _check_size(_list_constants(program))
    return oir.to_proto(_build_model(program, NodeRegistry()))


_INTERNAL_DTYPES = (oir.DataType.STRING, oir.DataType.COMPLEX64, oir.DataType.COMPLEX128)
"""Dtypes of constants that ONNX Runtime accepts only inside of the model."""


class SessionModel:
    """ONNX model of a program for an ONNX Runtime session, with large constants kept separate.

    The large constants are not copied, and their size may exceed the limit of an ONNX file.

    Args:
        program: The program.
        writers: Writers of the nodes for the CPU provider.
        extra_inputs: Inputs of the model that only loops for the CPU read.
        cuda_program: Returns the program for the CUDA provider. None means the same program.

    Attributes:
        for_cpu: The model for the CPU provider.
        large_constants: The constants that both models read from outside, by name.
        nodes: Operations of the program by the names of the nodes of both models.

    Raises:
        ModelError, UnsupportedError: As `to_onnx`.
    """

    def __init__(
        self,
        program: Program,
        writers: NodeWriters = CPU_WRITERS,
        extra_inputs: Sequence[Value] = (),
        cuda_program: Callable[[], Program] | None = None,
    ) -> None:
        _check_outputs(program.name, program.outputs)
        _check_nesting(program.ops)
        _check_size(
            [
                constant
                for constant in _list_constants(program)
                if constant.array.nbytes < LARGE_CONSTANT_BYTES
            ]
        )
        self.program = program
        self.nodes = NodeRegistry()
        self._extra_inputs = extra_inputs
        self._cuda_program = cuda_program
        session_model = _build_model(program, self.nodes, writers, extra_inputs)
        self.for_cpu, self.large_constants = _externalize_large_constants(session_model)
        separate_transposed_products(self.for_cpu, "Identity")

    def model_for_cuda(self) -> onnx.ModelProto:
        """Return the ONNX model for the CUDA provider, with large constants kept separate."""
        cuda_program = self.program if self._cuda_program is None else self._cuda_program()
        cuda_model = _build_model(cuda_program, self.nodes, CUDA_WRITERS, self._extra_inputs)
        return _externalize_large_constants(cuda_model)[0]


def _externalize_large_constants(model: oir.Model) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the ONNX model without its large constants, and the large constants by name."""
    large_constants: dict[str, Array] = {}
    for constant_name, initializer in model.graph.initializers.items():
        tensor = initializer.const_value
        if (
            tensor is not None
            and tensor.dtype not in _INTERNAL_DTYPES
            and tensor.nbytes >= LARGE_CONSTANT_BYTES
        ):
            large_constants[constant_name] = np.ascontiguousarray(tensor.numpy())
            initializer.const_value = oir.ExternalTensor(
                "given apart",
                0,
                tensor.nbytes,
                tensor.dtype,
                shape=oir.Shape(large_constants[constant_name].shape),
                name=constant_name,
            )
    return oir.to_proto(model), large_constants


def _check_outputs(name: str, outputs: Collection[Any]) -> None:
    """Raise ModelError if the model has no outputs."""
    if not outputs:
        raise ModelError(
            f"there is nothing to compute: '{name}' has no output ports",
            "$",
            "add an output port, or name what a run is to give: record=['node.parameter'] "
            "(--record node.parameter)",
        )


_MAX_NESTED_BODIES = 31
"""Maximum depth of nested bodies in an ONNX file.

protobuf reads 100 nested messages. Each body takes 3 of them, and the model and a type take 7.
"""


def _check_nesting(ops: Iterable[Operation], depth: int = 0) -> None:
    """Raise UnsupportedError if bodies are nested more deeply than an ONNX file allows."""
    for operation in ops:
        for body in bodies(operation):
            if depth == _MAX_NESTED_BODIES:
                assert isinstance(operation, Loop | If)
                raise UnsupportedError(
                    f"'{operation.name}' is inside {depth} loops and choices; an ONNX file can hold no more "
                    "than that inside each other",
                    operation.where,
                    "nest less: compute some of it outside, or make two loops one",
                )
            _check_nesting(body.ops, depth + 1)


_MAX_CONSTANT_BYTES = MAX_FILE_BYTES - 2**24
"""Maximum total size of the constants of a model in bytes, which leaves space for names and nodes."""


def _list_constants(program: Program) -> list[Constant]:
    """Return the constants of a program and of all its bodies."""
    return [operation for operation in walk(program.ops) if isinstance(operation, Constant)]


def _check_size(constants: Collection[Constant]) -> None:
    """Raise UnsupportedError if the constants exceed the size limit of an ONNX file."""
    total_bytes = sum(constant.array.nbytes for constant in constants)
    if total_bytes > _MAX_CONSTANT_BYTES:
        largest_constant = max(constants, key=lambda constant: constant.array.nbytes)
        raise UnsupportedError(
            f"the arrays of the model have {total_bytes} bytes; one ONNX model holds 2 GB at most",
            largest_constant.value.where,
            "make the largest ones inputs of the model",
        )


def _build_model(
    program: Program,
    nodes: NodeRegistry,
    writers: NodeWriters = STANDARD_WRITERS,
    extra_inputs: Sequence[Value] = (),
) -> oir.Model:
    """Convert a program to an onnx_ir model, and register the written nodes in `nodes`."""
    model_writer = ModelWriter(program, nodes)

    def write(scope: OnnxScope, ops: Iterable[Operation], append_loop: LoopWriter) -> None:
        for program_operation in ops:
            if isinstance(program_operation, Loop):
                append_loop(scope, program_operation, write_inner)
            elif isinstance(program_operation, If):
                write_if(scope, program_operation, write_inner)
            elif isinstance(program_operation, Guard):
                writers.guard_writer(scope, program_operation)
            elif isinstance(program_operation, Op) and program_operation.op_type == "Where":
                write_where(scope, program_operation)
            else:
                _write_operation(scope, program_operation)

    def write_inner(scope: OnnxScope, ops: Iterable[Operation]) -> None:
        write(scope, ops, writers.inner_loop_writer)

    program_inputs = {program_input.value for program_input in program.inputs}
    graph_inputs = [
        model_writer.declare_value(program_input.value, program_input.value.name)
        for program_input in program.inputs
    ]
    graph_inputs += [model_writer.declare_value(value, value.name) for value in extra_inputs]
    main_scope = OnnxScope(model_writer, program_inputs)
    for output in program.outputs:
        if output.value not in program_inputs:
            main_scope.output_names.setdefault(output.value, output.name)
    write(main_scope, program.ops, writers.main_loop_writer)
    graph_outputs = [
        _build_output(main_scope, output.name, output.value, program_inputs)
        for output in program.outputs
    ]
    main_graph = oir.Graph(
        graph_inputs,
        graph_outputs,
        nodes=main_scope.onnx_nodes,
        initializers=list(model_writer.initializers.values()),
        opset_imports={
            "": model_writer.opset,
            **{domain: 1 for domain in model_writer.domains if domain},
        },
        name=program.name or "model",
    )
    return oir.Model(
        main_graph,
        ir_version=ir_version(model_writer.opset),
        producer_name="mdf_loop",
        metadata_props={"mdf.graph": program.name},
    )


def _write_operation(scope: OnnxScope, operation: Op | Constant) -> None:
    """Append the node of an operation without bodies, or register a constant."""
    writer = scope.writer
    if isinstance(operation, Constant):
        constant_name = writer.free_name(operation.value)
        writer.onnx_values[operation.value] = writer.constant(operation.array, constant_name)
        return
    decomposition = row_of(operation.op_type).onnx_decomposition
    if decomposition is not None:
        _write_replacement(scope, _build_replacement(writer.builder, operation, decomposition))
        return
    added_inputs, attributes = encode_at_opset(operation, writer.opset)
    onnx_inputs = [
        None if operand is None else writer.onnx_values[operand] for operand in operation.inputs
    ]
    onnx_inputs += [
        None if input_array is None else writer.constant(input_array)
        for input_array in added_inputs
    ]
    onnx_outputs = [
        scope.define_value(output) if output is not None else None
        for output in writer.read_outputs(operation)
    ]
    scope.append_node(
        operation.op_type, onnx_inputs, onnx_outputs, dict(attributes), operation.where
    )


def _write_replacement(scope: OnnxScope, operations: Iterable[Operation]) -> None:
    """Append the nodes of the operations that replace an operation which ONNX lacks."""
    for operation in operations:
        if isinstance(operation, Constant):  # under a name that no other graph uses
            scope.writer.onnx_values[operation.value] = scope.writer.constant(operation.array)
        elif isinstance(operation, If):
            write_if(scope, operation, _write_replacement)
        else:
            assert isinstance(operation, Op)
            _write_operation(scope, operation)


def _build_replacement(b: Builder, op: Op, decomposition: Decomposition) -> Iterator[Operation]:
    """Yield the operations that replace an operation which ONNX lacks."""
    previous_op_count = len(b.ops)
    with b.at(op.where, op.outputs[0].name):
        replacement = decomposition(b, op)
        if replacement in op.inputs:
            replacement = b.op("Identity", replacement)
    assert isinstance(replacement, Value)
    for operation in b.ops[previous_op_count:]:
        yield substitute(operation, {replacement: op.outputs[0]})


def _build_output(
    scope: OnnxScope, name: str, value: Value, program_inputs: set[Value]
) -> oir.Value:
    """Return the ONNX graph output for a program value, copied if necessary."""
    onnx_source = scope.writer.onnx_values[value]
    if onnx_source.name == name and value in program_inputs:
        return onnx_source
    if (
        onnx_source.name == name
        and not onnx_source.is_initializer()
        and value not in program_inputs
    ):
        return onnx_source
    graph_output = oir.Value(
        name=name, type=value_type(value.dtype), shape=tensor_shape(value.shape)
    )
    scope.append_node("Identity", [onnx_source], [graph_output])
    return graph_output
