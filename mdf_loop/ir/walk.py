"""Traversal of programs: operands, results, bodies, loops and captures of operations.

These functions run so often that they test types by `type(...) is`, which is three times as fast as
`isinstance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, cast

from msgspec.structs import replace

from mdf_loop.ir.program import (
    Array,
    Body,
    Constant,
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Program,
    Value,
)

_Operation = TypeVar("_Operation", bound=Operation)


def operands(operation: Operation) -> Iterator[Value]:
    """Yield the operands of an operation, without the values that only its bodies read."""
    if type(operation) is Op:
        yield from (value for value in operation.inputs if value is not None)
    elif type(operation) is Loop:
        control_values = (operation.trip_count, operation.condition, operation.first_iteration)
        yield from (value for value in control_values if value is not None)
        yield from (carried_value.initial for carried_value in operation.carried)
        yield from (scanned_input.rows for scanned_input in operation.scanned)
    elif type(operation) is Guard:
        yield from (operation.value, operation.condition)
    elif type(operation) is If:
        yield operation.condition


def results(operation: Operation) -> Iterator[Value]:
    """Yield the values that an operation defines in its own scope."""
    if type(operation) is Op or type(operation) is If:
        yield from operation.outputs
    elif type(operation) is Constant:
        yield operation.value
    elif type(operation) is Guard:
        yield operation.output
    elif type(operation) is Loop:
        yield from (carried_value.final for carried_value in operation.carried)
        yield from (recording.stack for recording in operation.recorded)
        yield from (
            value
            for value in (operation.iteration_count, operation.last_condition)
            if value is not None
        )


def body_inputs(loop: Loop) -> tuple[Value, ...]:
    """Return the inputs of a loop body: iteration number, condition, carried values, scanned rows."""
    return (
        loop.iteration,
        loop.condition_in,
        *(carried_value.body_input for carried_value in loop.carried),
        *(scanned_input.row for scanned_input in loop.scanned),
    )


def body_outputs(loop: Loop) -> tuple[Value, ...]:
    """Return the outputs of a loop body in ONNX's order: condition, carried values, recorded rows."""
    condition_outputs = () if loop.condition_out is None else (loop.condition_out,)
    return (
        *condition_outputs,
        *(carried_value.body_output for carried_value in loop.carried),
        *(recording.row for recording in loop.recorded),
    )


def bodies(operation: Operation) -> tuple[Body, ...]:
    """Return the bodies of an operation: one for a `Loop`, two for an `If`, none for any other operation."""
    if type(operation) is Loop:
        return (Body(body_inputs(operation), operation.ops, body_outputs(operation)),)
    if type(operation) is If:
        branches = (operation.then, operation.otherwise)
        return tuple(Body((), branch.ops, branch.outputs) for branch in branches)
    return ()


def with_bodies(operation: _Operation, ops: Sequence[tuple[Operation, ...]]) -> _Operation:
    """Return an operation with the operations in its bodies replaced.

    The operation itself is returned if no body changes.
    """
    if all(new_ops == body.ops for new_ops, body in zip(ops, bodies(operation), strict=True)):
        return operation
    if isinstance(operation, Loop):
        return cast(_Operation, replace(operation, ops=ops[0]))
    assert isinstance(operation, If)
    branches = (operation.then, operation.otherwise)
    then_branch, else_branch = (
        replace(branch, ops=new_ops) for branch, new_ops in zip(branches, ops, strict=True)
    )
    return cast(_Operation, replace(operation, then=then_branch, otherwise=else_branch))


def captures(operation: Operation) -> tuple[Value, ...]:
    """Return the values from outside that the bodies of an operation read, in order of first use."""
    outer_values: dict[Value, None] = {}
    for body in bodies(operation):
        local_values: set[Value] = set(body.inputs)
        for inner_operation in body.ops:
            outer_values.update(
                (value, None) for value in reads(inner_operation) if value not in local_values
            )
            local_values.update(results(inner_operation))
        outer_values.update((value, None) for value in body.outputs if value not in local_values)
    return tuple(outer_values)


def reads(operation: Operation) -> tuple[Value, ...]:
    """Return all values that an operation reads: operands, and outer values that its bodies capture."""
    return (*operands(operation), *captures(operation))


def values_read(program: Program) -> set[Value]:
    """Return all values that operations, bodies or outputs of a program read."""
    needed_values = {output.value for output in program.outputs}
    for operation in walk(program.ops):
        needed_values.update(operands(operation))
        for body in bodies(operation):
            needed_values.update(body.outputs)
    return needed_values


def walk(ops: Iterable[Operation]) -> Iterator[Operation]:
    """Yield every operation, with the operations in bodies after the operation that owns the bodies."""
    for operation in ops:
        yield operation
        for body in bodies(operation):
            yield from walk(body.ops)


def loops(program: Program) -> tuple[Loop, ...]:
    """Return the outermost loops of a program, in order."""
    return tuple(operation for operation in program.ops if isinstance(operation, Loop))


def true_constants(ops: Iterable[Operation]) -> set[Value]:
    """Return all values, also in nested bodies, that are constants with a single element True."""
    return {op.value for op in walk(ops) if isinstance(op, Constant) and is_true(op.array)}


def is_true(array: Array) -> bool:
    """Return True if an array has exactly one element, which is the bool True."""
    return array.dtype.kind == "b" and array.size == 1 and bool(array.all())


def always_true(loop: Loop, true_values: set[Value]) -> bool:
    """Return True if a loop's condition is known to be true initially and after every iteration."""
    if loop.condition_out is None:
        return False
    next_condition = skip_identities(loop.ops, loop.condition_out)
    is_always_true = next_condition in true_values or next_condition is loop.condition_in
    return loop.condition in true_values and is_always_true


def skip_identities(ops: Iterable[Operation], value: Value) -> Value:
    """Return the source of a chain of Identity operations that ends at `value`."""
    sources_by_copy = {
        op.outputs[0]: op.inputs[0] for op in ops if isinstance(op, Op) and op.op_type == "Identity"
    }
    while (source_value := sources_by_copy.get(value)) is not None:
        value = source_value
    return value
