"""Lower bounds of the execution times of operations in ONNX Runtime, in microseconds.

Measured with `benchmarks/lazy_choices.py` (onnxruntime 1.31.1, AMD EPYC, one core). An operation
costs 0.2 us in addition to its work (`ops.costs`). A loop costs 3 us, and each iteration 1.5 us and its body.
"""

from __future__ import annotations

from collections.abc import Iterable

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Guard, If, Loop, Op, Operation, bodies
from mdf_loop.ops import row_of
from mdf_loop.ops.costs import CALL_MICROSECONDS

_LOOP_COST, _ITERATION_COST = 3.0, 1.5
_GUARD_COST = 4 * CALL_MICROSECONDS
"""Cost of a guard in microseconds. A guard is written as four operations (`emit.guard_node`)."""


def estimate_cost(b: Builder, operations: Iterable[Operation]) -> float:
    """Return a lower bound of the execution time of operations, in microseconds.

    `b` provides the constants.
    """
    return sum(_operation_cost(b, operation) for operation in operations)


def _operation_cost(b: Builder, operation: Operation) -> float:
    if isinstance(operation, Constant):
        return 0.0
    if isinstance(operation, Op):
        return CALL_MICROSECONDS + row_of(operation.op_type).min_microseconds(operation)
    if isinstance(operation, Guard):
        return _GUARD_COST
    body_costs = [estimate_cost(b, body.ops) for body in bodies(operation)]
    if isinstance(operation, If):
        return CALL_MICROSECONDS + min(body_costs)
    assert isinstance(operation, Loop)
    return _LOOP_COST + _min_iterations(b, operation) * (_ITERATION_COST + body_costs[0])


def _min_iterations(b: Builder, loop: Loop) -> int:
    """Return a lower bound of the number of iterations of a loop."""
    constant_trip_count = b.constant_of(loop.trip_count)
    return (
        0
        if constant_trip_count is None or loop.condition is not None
        else max(int(constant_trip_count), 0)
    )
