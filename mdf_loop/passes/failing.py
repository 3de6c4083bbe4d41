"""Detection of operations that may raise an error at run time, or may not terminate.

An operation that cannot fail may be executed speculatively: before a loop of no iterations, or in the branch
that is not chosen. `ops.failure_conditions` has the rule of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mdf_loop.ir import Array, Constant, Guard, Loop, Op, Operation, Value, bodies, walk
from mdf_loop.ops import row_of
from mdf_loop.ops.registry import KnownArrays, qualified_name


def constant_lookup(ops: Iterable[Operation]) -> Callable[[Value | None], Array | None]:
    """Return a function that maps a constant value to its array, and other values to None.

    Constants in loop bodies and branches are included.
    """
    arrays_by_value: dict[Value | None, Array]
    arrays_by_value = {op.value: op.array for op in walk(ops) if isinstance(op, Constant)}
    return arrays_by_value.get


def first_that_may_fail(ops: Iterable[Operation], find_constant: KnownArrays) -> Operation | None:
    """Return the first operation that may fail or never terminate, or None if all are safe."""
    for operation in ops:
        if isinstance(operation, Op) and row_of(operation.op_type).may_fail(
            operation, find_constant
        ):
            return operation
        if isinstance(operation, Guard):
            return operation
        if isinstance(operation, Loop) and operation.trip_count is None:
            return operation
        for body in bodies(operation):
            failing_operation = first_that_may_fail(body.ops, find_constant)
            if failing_operation is not None:
                return failing_operation
    return None


def can_execute_speculatively(operation: Operation, find_constant: KnownArrays) -> bool:
    """Return True if an operation cannot fail, so that the program may execute it speculatively."""
    return first_that_may_fail((operation,), find_constant) is None


def operation_name(operation: Operation) -> str:
    """Return the name of an operation, as used in error messages."""
    if isinstance(operation, Op):
        return qualified_name(operation.op_type)
    if isinstance(operation, Guard):
        return f"the check '{operation.message}'"
    return "a constant" if isinstance(operation, Constant) else f"'{operation.name}'"
