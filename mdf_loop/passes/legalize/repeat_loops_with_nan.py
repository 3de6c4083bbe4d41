"""Loops with fast ArgMax and ArgMin kernels, which are rerun with nan checks if a nan occurs.

    loop %i < %n                           loop %i < %n while %ok giving %fast, last condition %all_ok
      %p = ArgMaximum(%x)           ->       %s = ReduceSum(%x); %ok = Equal(%s, %s)
      carry ... giving %y                    %p = ArgMax(%x)
                                           %y = %fast if %all_ok else (loop %i < %n ... giving %slow)

`ArgMaximum` needs a branch in each iteration as an ONNX model (see `ops.decompositions.extremes`), and the
branch is slower than a kernel. ONNX Runtime's `ArgMax` is right if no element is nan, and then the sum of all
elements equals itself. The new loop ends with the first iteration in which a sum is nan (also the sum of
opposite infinities). Then the old loop computes the results.

A wrong position must cause no error in the last iteration. So a loop is unchanged if an operation that may
fail reads the position in the same iteration. A loop that draws random numbers is unchanged, too.

Preserves: results bit for bit, errors. Only loops of the main graph with a trip count and without a
condition change. A loop in which nan occurs takes up to twice the time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeGuard

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Branch,
    Constant,
    If,
    Loop,
    Op,
    Operation,
    Program,
    Recorded,
    Value,
    captures,
    is_fixed,
    operands,
    results,
    walk,
)
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops import row_of
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.loop_reductions import NAN_UNAWARE_KERNELS
from mdf_loop.ops.registry import KnownArrays
from mdf_loop.passes.copying import copy_operations
from mdf_loop.passes.failing import can_execute_speculatively, constant_lookup

_CHECKED_DTYPES = ("float32", "float64")
"""Dtypes for which every runtime has the kernels `ReduceSum` and `Equal`."""


def repeat_loops_with_nan(program: Program, excluded: Collection[Loop] = ()) -> Program:
    """Run loops with ArgMax or ArgMin without nan checks, and rerun a loop if nan occurs.

    Args:
        program: The program.
        excluded: Loops that stay as they are, because machine code computes them.
    """
    candidate_loops = [
        operation
        for operation in program.ops
        if isinstance(operation, Loop) and operation not in excluded and _is_candidate(operation)
    ]
    if not candidate_loops:
        return program
    find_constant = constant_lookup(program.ops)
    selected_loops = {
        loop for loop in candidate_loops if _has_harmless_positions(loop, find_constant)
    }
    if not selected_loops:
        return program
    b = Builder.for_rewrite_of(program)
    for operation in program.ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
        elif operation in selected_loops:
            assert isinstance(operation, Loop)
            _append_both_loops(b, operation)
        else:
            b.ops.append(operation)
    return replace(program, ops=tuple(b.ops))


def _is_candidate(loop: Loop) -> bool:
    """Return True for a loop that has ArgMax or ArgMin, no condition and no random numbers."""
    control_values = (loop.condition, loop.last_condition, loop.member_axis)
    if loop.trip_count is None or control_values != (None, None, None):
        return False
    if not any(map(_is_position, loop.ops)):
        return False
    return not any(isinstance(op, Op) and row_of(op.op_type).is_random for op in walk(loop.ops))


def _has_harmless_positions(loop: Loop, find_constant: KnownArrays) -> bool:
    """Return True if wrong ArgMax results, due to nan, cannot cause errors in a loop body."""
    dependent_values: set[Value] = set()
    for operation in loop.ops:
        if _is_position(operation):
            dependent_values.update(results(operation))
        elif not dependent_values.isdisjoint({*operands(operation), *captures(operation)}):
            if not can_execute_speculatively(operation, find_constant):
                return False
            if not all(is_fixed(value.shape) for value in results(operation)):
                return False  # the shape may depend on the position
            dependent_values.update(results(operation))
    return True


def _is_position(operation: Operation) -> TypeGuard[Op]:
    """Return True for an `ArgMaximum` or `ArgMinimum` of float32 or float64."""
    if not isinstance(operation, Op) or operation.op_type not in NAN_UNAWARE_KERNELS:
        return False
    return operand(operation).dtype in _CHECKED_DTYPES


def _append_both_loops(b: Builder, loop: Loop) -> None:
    """Append a fast loop without nan checks, and an `If` that runs the original after a nan."""
    loop_until_nan = _loop_until_nan(b, loop)
    final_values = tuple(results(loop))
    repeated_loop_values = {
        value: b.new(value.dtype, value.shape, value.name) for value in final_values
    }
    repeated_loop = substitute(loop, repeated_loop_values)
    *nan_free_values, has_no_nan = results(loop_until_nan)
    b.append(loop_until_nan)
    b.append(
        If(
            loop.name,
            has_no_nan,
            Branch((), tuple(nan_free_values)),
            Branch((repeated_loop,), tuple(repeated_loop_values.values())),
            final_values,
            loop.where,
        )
    )


def _loop_until_nan(b: Builder, loop: Loop) -> Loop:
    """Return a copy of a loop with faster kernels, which ends at the first nan.

    Its last result is False if nan has ended the loop.
    """
    (fast_loop,), _ = copy_operations(b, (loop,), {})
    assert isinstance(fast_loop, Loop)
    body_builder = b.body()
    has_no_nan: Value | None = None
    for operation in fast_loop.ops:
        if not _is_position(operation):
            body_builder.ops.append(operation)
            continue
        body_builder.ops.append(replace(operation, op_type=NAN_UNAWARE_KERNELS[operation.op_type]))
        with body_builder.at(operation.where, operation.outputs[0].name):
            operand_sum = body_builder.op("ReduceSum", operand(operation), keepdims=0)
            has_operand_no_nan = body_builder.op("Equal", operand_sum, operand_sum)
            has_no_nan = (
                has_operand_no_nan
                if has_no_nan is None
                else body_builder.op("And", has_no_nan, has_operand_no_nan)
            )
    return replace(
        fast_loop,
        ops=tuple(body_builder.ops),
        condition=b.constant(np.array(True)),
        condition_out=has_no_nan,
        last_condition=b.new("bool", (), f"{loop.name}.is_number"),
        recorded=tuple(_with_unknown_count(b, recorded) for recorded in fast_loop.recorded),
    )


def _with_unknown_count(b: Builder, recorded: Recorded) -> Recorded:
    """Return a recorded value whose number of rows is unknown, as nan may end the loop early."""
    recorded_stack = recorded.stack
    if recorded_stack.shape is None:
        return recorded
    return replace(
        recorded, stack=replace(recorded_stack, shape=(b.name("rows"), *recorded_stack.shape[1:]))
    )
