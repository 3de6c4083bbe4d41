"""Cost model of loop iterations, as machine code and with ONNX Runtime's kernels.

    native = sum of all operations;  standard = iteration + sum of (call + all operations)

The estimate depends only on the loop and its extents, not on the number of iterations or on measurements. So
the decision for a loop is the same for short and long runs. The figures are those of `ops.speeds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdf_loop.ir import Array, Constant, If, Loop, Op, Operation, Value, is_fixed, results, walk
from mdf_loop.ops import row_of
from mdf_loop.ops.costs import transcendental_microseconds
from mdf_loop.ops.speeds import (
    ARITHMETIC_COST,
    FUNCTION_COST,
    MOVEMENT_COST,
    OTHER_OPERATION_COST,
    ZERO_COST,
    LoopCostRule,
    OperationCost,
)

CALL_NANOSECONDS, ITERATION_NANOSECONDS = 400.0, 500.0
"""Nanoseconds of overhead of one kernel call and of one loop iteration in ONNX Runtime."""

INNER_ITERATIONS = 1000
"""Assumed number of iterations of an inner loop whose trip count is unknown."""

NATIVE_COST_MARGIN = 1.05
"""Factor by which the estimate of machine code may exceed that of ONNX Runtime for the loop to be native."""


def is_slower(native: Loop, standard: Loop, constants: Mapping[Value, Array]) -> bool:
    """Return True if machine code for a loop is estimated to be slower than ONNX Runtime.

    A loop with extents that are known only at run time is assumed to be faster as machine code.

    Args:
        native: The loop with operations that have machine code.
        standard: The loop as ONNX Runtime executes it.
        constants: Constants of the program.
    """
    native_values = (value for operation in walk(native.ops) for value in results(operation))
    if not all(is_fixed(value.shape) for value in native_values):
        return False
    native_cost = _estimate_ops(native.ops, constants).native_nanoseconds
    return native_cost > NATIVE_COST_MARGIN * (
        ITERATION_NANOSECONDS + _estimate_ops(standard.ops, constants).standard_nanoseconds
    )


def _estimate_ops(ops: Iterable[Operation], constants: Mapping[Value, Array]) -> OperationCost:
    """Estimate the execution time of operations, as machine code and in ONNX Runtime.

    The time in ONNX Runtime includes the overhead of kernel calls.
    """
    operation_costs = [
        _estimate_operation(operation, constants)
        for operation in ops
        if not isinstance(operation, Constant)
    ]
    return OperationCost(
        sum(cost.native_nanoseconds for cost in operation_costs),
        sum(CALL_NANOSECONDS + cost.standard_nanoseconds for cost in operation_costs),
    )


def _estimate_operation(operation: Operation, constants: Mapping[Value, Array]) -> OperationCost:
    if isinstance(operation, Op):
        return cost_rule_of(operation)(operation)
    if isinstance(operation, If):
        branch_costs = [
            _estimate_ops(branch.ops, constants) for branch in (operation.then, operation.otherwise)
        ]
        return OperationCost(*(max(costs) for costs in zip(*branch_costs, strict=True)))
    if isinstance(operation, Loop):
        iteration_count = _iteration_count(operation, constants)
        native_cost, standard_cost = _estimate_ops(operation.ops, constants)
        return OperationCost(
            iteration_count * native_cost, iteration_count * (ITERATION_NANOSECONDS + standard_cost)
        )
    return OperationCost(0.0, 0.0)


def _iteration_count(loop: Loop, constants: Mapping[Value, Array]) -> int:
    trip_count = None if loop.trip_count is None else constants.get(loop.trip_count)
    return INNER_ITERATIONS if trip_count is None else max(int(trip_count.item()), 0)


def cost_rule_of(op: Op) -> LoopCostRule:
    """Return the cost rule of an operation, which estimates the execution time."""
    operation_row = row_of(op.op_type)
    if operation_row.loop_cost is not None:
        return operation_row.loop_cost
    if operation_row.keeps_order or operation_row.reads_only_shapes:
        return ZERO_COST
    if operation_row.is_elementwise:
        return (
            FUNCTION_COST
            if operation_row.min_microseconds is transcendental_microseconds
            else ARITHMETIC_COST
        )
    return OTHER_OPERATION_COST if operation_row.moved_operands is None else MOVEMENT_COST
