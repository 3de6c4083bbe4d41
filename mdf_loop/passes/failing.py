"""Which operations may fail for some values of their operands, or may never end.

What may not fail can be computed where it would not have been: before a loop of no iterations, on
the side of a choice that is not taken. Rows of operations (`ops.failing`) say it for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mdf_loop.ir import Array, Constant, Guard, Loop, Op, Operation, Value, bodies, walk
from mdf_loop.ops import row_of
from mdf_loop.ops.registry import Known, title


def constants_of(ops: Iterable[Operation]) -> Callable[[Value | None], Array | None]:
    """What is known of values by the constants among operations, those in bodies too."""
    found: dict[Value | None, Array]
    found = {op.value: op.array for op in walk(ops) if isinstance(op, Constant)}
    return found.get


def first_that_may_fail(ops: Iterable[Operation], known: Known) -> Operation | None:
    """The first operation that may fail, or may never end; None if there is none."""
    for operation in ops:
        if isinstance(operation, Op) and row_of(operation.op_type).may_fail(operation, known):
            return operation
        if isinstance(operation, Guard):
            return operation
        if isinstance(operation, Loop) and operation.trip_count is None:
            return operation
        for body in bodies(operation):
            found = first_that_may_fail(body.ops, known)
            if found is not None:
                return found
    return None


def can_move(operation: Operation, known: Known) -> bool:
    """Whether an operation may be computed where it would not have been: it cannot fail."""
    return first_that_may_fail((operation,), known) is None


def name_of(operation: Operation) -> str:
    """What an operation is called in an error."""
    if isinstance(operation, Op):
        return title(operation.op_type)
    if isinstance(operation, Guard):
        return f"the check '{operation.sentence}'"
    return "a constant" if isinstance(operation, Constant) else f"'{operation.name}'"
