"""Batched loops that run all iterations, after which each member's final values are selected.

    loop %i < %most while %go for each batch       loop %i < %most
      carry %x from %a to %b giving %last            carry %x from %a to %b
      scan %z of %zs                                 scan %z of %zs
      %b = Add(%x, %z)                        ->     %b = Add(%x, %z)
      %c = Less(%b, 1)                               record %b giving %bs
      continue if %c                               %cs = Less(%bs, 1)
      count giving %count                          %end = ArgMin([%go, *%cs, False])
                                                   %count = Min(%end, %most)
                                                   %last = %bs[%count - 1] if %count > 0 else %a

Without masks, an iteration takes a third of the time, and operations that only the condition needs run once
for many iterations. The pass saves time if few members stop within one run of the program, as with
pregenerated random numbers. If zero iterations are requested, one iteration still runs, because ONNX Runtime
cannot infer the number of members from an empty recording. Preserves: results bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Carried,
    Loop,
    Op,
    Operation,
    Program,
    Recorded,
    Value,
    is_fixed,
    reads,
    results,
)
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.build_helpers import cast, ints, scalar
from mdf_loop.passes.failing import constant_lookup, first_that_may_fail
from mdf_loop.passes.segments.prefix_sums import find_prefix_sums, prefix_sums
from mdf_loop.passes.segments.vectorize_elementwise import (
    is_exact_elementwise,
    vectorize_elementwise,
)

MAX_RUN_ITERATIONS = 512
"""Maximum number of iterations of one run, since finished members compute unused values."""

MAX_CARRIED_ELEMENTS = 8
"""Maximum number of carried elements per member, since the values of all iterations are stored."""

SELECT_DTYPES = ("float64", "float32", "int64", "int32")
"""Allowed dtypes of carried values: ONNX Runtime has a `Where` kernel for these dtypes."""


def run_past_termination(program: Program, max_iterations: Value) -> Program:
    """Let a batched loop run all iterations, and select each member's final values afterwards.

    Args:
        program: A program with one loop, which has members.
        max_iterations: The maximum number of iterations of the loop.
    """
    (loop,) = (op for op in program.ops if isinstance(op, Loop))
    if not _can_run_past_termination(program, loop):
        return program
    loop_position = program.ops.index(loop)
    b = Builder.for_rewrite_of(program)
    with b.at(loop.where, loop.name):
        trip_count = b.op("Max", max_iterations, scalar(b, 1, "int64"))
        b.ops += (
            substitute(op, {max_iterations: trip_count}) for op in program.ops[:loop_position]
        )
        loop_ops = _operations_in_loop(loop)
        condition_ops = [op for op in loop.ops if isinstance(op, Op) and op not in loop_ops]
        stacks_by_value = _stacks_to_record(b, loop, loop_ops, condition_ops)
        counted_loop = _loop_without_condition(b, loop, trip_count, loop_ops, stacks_by_value)
        if loop_sums := find_prefix_sums(counted_loop):
            stacks_by_value = prefix_sums(b, counted_loop, loop_sums)
        else:
            b.ops.append(counted_loop)
        b.ops += _select_last_values(
            b,
            loop,
            max_iterations,
            vectorize_elementwise(b, condition_ops, {**stacks_by_value, **_scanned_arrays(loop)}),
        )
    return replace(program, ops=(*b.ops, *program.ops[loop_position + 1 :]))


# --- supported loops ------------------------------------------------------------------------------


def _can_run_past_termination(program: Program, loop: Loop) -> bool:
    """Return True if extra iterations of finished members cannot fail and need little memory."""
    computed_values = {value for op in loop.ops for value in results(op)}
    read_values = {value for op in loop.ops for value in reads(op)}
    input_values = {program_input.value for program_input in program.inputs}
    return (
        loop.member_axis is not None
        and loop.condition_out in computed_values
        and not loop.recorded
        and loop.condition_in not in read_values
        and all(isinstance(op, Op) for op in loop.ops)
        and first_that_may_fail(loop.ops, constant_lookup(program.ops)) is None
        and not any(
            scanned.rows in input_values or scanned.axis or scanned.is_backward
            for scanned in loop.scanned
        )
        and all(_has_fixed_member_shape(carried, loop.member_axis) for carried in loop.carried)
        and sum(math.prod(_member_shape(carried)) for carried in loop.carried)
        <= MAX_CARRIED_ELEMENTS
    )


def _has_fixed_member_shape(carried: Carried, member_axis: str) -> bool:
    """Return True if the shape of a carried value is known for each batch member."""
    batched_shape = carried.body_input.shape or ()
    has_fixed_shape = batched_shape[:1] == (member_axis,) and is_fixed(batched_shape[1:])
    return has_fixed_shape and carried.keeps_shape and carried.body_input.dtype in SELECT_DTYPES


def _member_shape(carried: Carried) -> tuple[int, ...]:
    """Return the shape of a carried value for one batch member."""
    member_shape = (carried.body_input.shape or ())[1:]
    assert is_fixed(member_shape)
    return member_shape


# --- iterations -----------------------------------------------------------------------------------


def _operations_in_loop(loop: Loop) -> set[Operation]:
    """Return the operations that must stay in a loop, rather than be computed after the loop."""
    needed_values = {carried.body_output for carried in loop.carried}
    loop_ops: set[Operation] = set()
    for op in reversed(loop.ops):
        can_leave_loop = (
            isinstance(op, Op) and is_exact_elementwise(op) and op.outputs[0].shape is not None
        )
        if not can_leave_loop or not needed_values.isdisjoint(results(op)):
            loop_ops.add(op)
            needed_values.update(reads(op))
    return loop_ops


def _scanned_arrays(loop: Loop) -> dict[Value, Value]:
    """Return a mapping from each row value of a loop body to the array that the loop scans."""
    return {scanned.row: scanned.rows for scanned in loop.scanned}


def _stacks_to_record(
    b: Builder, loop: Loop, loop_ops: Iterable[Operation], condition_ops: Iterable[Op]
) -> dict[Value, Value]:
    """Create an array of rows for each loop-body value that operations after the loop read."""
    assert loop.condition_out is not None
    loop_values = {loop.iteration, *(carried.body_input for carried in loop.carried)}
    loop_values.update(value for op in loop_ops for value in results(op))
    needed_values = [*(carried.body_output for carried in loop.carried), loop.condition_out]
    needed_values += [value for op in condition_ops for value in reads(op)]
    row_extent = next(
        (scanned.rows.shape[0] for scanned in loop.scanned if scanned.rows.shape),
        b.name("iterations"),
    )
    return {
        value: b.new(value.dtype, (row_extent, *(value.shape or ())), f"{value.name} of all")
        for value in dict.fromkeys(needed_values)
        if value in loop_values
    }


def _loop_without_condition(
    b: Builder,
    loop: Loop,
    trip_count: Value,
    loop_ops: set[Operation],
    stacks: Mapping[Value, Value],
) -> Loop:
    """Return a loop without a condition, which records the values that later operations read."""
    return replace(
        loop,
        trip_count=trip_count,
        condition=None,
        condition_in=b.new("bool", (), "condition"),
        condition_out=None,
        carried=tuple(
            replace(
                carried,
                final=b.new(
                    carried.final.dtype, carried.final.shape, f"{carried.final.name} at the end"
                ),
            )
            for carried in loop.carried
        ),
        recorded=tuple(Recorded(value, stack) for value, stack in stacks.items()),
        ops=tuple(op for op in loop.ops if op in loop_ops),
        iteration_count=None,
        last_condition=None,
        member_axis=None,
    )


# --- results of each member -----------------------------------------------------------------------


def _select_last_values(
    b: Builder, loop: Loop, max_iterations: Value, rows: Mapping[Value, Value]
) -> list[Operation]:
    """Return operations that compute the iteration count and final values of each batch member."""
    assert loop.condition is not None
    assert loop.condition_out is not None
    first_axis = ints(b, 0)
    initial_condition = b.op("Unsqueeze", loop.condition, first_axis)
    condition_rows = b.op(
        "Concat",
        initial_condition,
        rows[loop.condition_out],
        b.op("Xor", initial_condition, initial_condition),
        axis=0,
    )
    first_false_row = b.op("ArgMin", cast(b, condition_rows, "uint8"), axis=0, keepdims=0)
    iteration_count = b.op("Min", first_false_row, max_iterations)
    final_ops = (
        [Op("Greater", (first_false_row, max_iterations), (loop.last_condition,))]
        if loop.last_condition
        else []
    )
    if loop.iteration_count is not None:
        final_ops.append(Op("Identity", (iteration_count,), (loop.iteration_count,)))
    last_row_index = b.op(
        "Max", b.op("Sub", iteration_count, scalar(b, 1, "int64")), scalar(b, 0, "int64")
    )
    has_iterations = b.op("Greater", iteration_count, scalar(b, 0, "int64"))
    for carried in loop.carried:
        member_axes = range(1, 1 + len(_member_shape(carried)))
        row_positions, has_iterations_mask = (
            b.op("Unsqueeze", value, ints(b, *member_axes)) if member_axes else value
            for value in (last_row_index, has_iterations)
        )
        if member_axes:
            row_positions = b.op("Expand", row_positions, b.op("Shape", carried.initial))
        last_values = b.op(
            "GatherElements",
            rows[carried.body_output],
            b.op("Unsqueeze", row_positions, first_axis),
            axis=0,
        )
        selection_operands = (
            has_iterations_mask,
            b.op("Squeeze", last_values, first_axis),
            carried.initial,
        )
        final_ops.append(Op("Where", selection_operands, (carried.final,)))
    return [replace(op, where=loop.where) for op in final_ops]
