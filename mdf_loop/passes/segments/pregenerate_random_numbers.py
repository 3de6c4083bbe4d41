"""Generation of a loop's random numbers before the loop, for fewer kernel calls.

    loop %i < %most                                  %turns = Add(%n, Range(0, %most))
      carry %n: int64[batch] from %n0 to %more       %zs: float64[most, batch] = Normal(%turns, %key)
      %z: float64[batch] = Normal(%n, %key)    ->    loop %i < %most
      %more = Add(%n, 1)                               scan %z of %zs
      %x1 = Add(%x, %z)                                %x1 = Add(%x, %z)
      count giving %count                              count giving %count
                                                     %n_final = Add(%n0, Mul(%count, 1))

The pass moves every elementwise operation that depends only on iteration counters and on loop invariants.
A member that stops early does not read the numbers of later iterations. Preserves: results bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Carried,
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Scanned,
    Value,
    body_inputs,
    body_outputs,
    reads,
    results,
)
from mdf_loop.ops.build_helpers import cast, scalar
from mdf_loop.passes.segments.vectorize_elementwise import (
    insert_axes,
    is_exact_elementwise,
    vectorize_elementwise,
)

MAX_PREGENERATED_NUMBERS, MIN_PREGENERATED_ITERATIONS = 1 << 18, 16
"""Maximum number of random numbers to generate before a loop, and minimum number of its iterations."""

MIN_MOVED_OPERATIONS = 16
"""Minimum number of operations for which moving saves time: one random number takes forty or more."""


def pregenerate_random_numbers(program: Program, max_iterations: Value) -> Program:
    """Generate the random numbers of all iterations before the loop of a program.

    Args:
        program: A program whose last operation is its only loop.
        max_iterations: The largest number of iterations that the loop runs.
    """
    *ops_before_loop, loop = program.ops
    assert isinstance(loop, Loop)
    assert loop.iteration_count is not None or loop.condition is None
    increments_by_counter = _counters(
        loop, {op.value for op in ops_before_loop if isinstance(op, Constant)}
    )
    moved_ops = _operations_to_move(loop, increments_by_counter)
    if len(moved_ops) < MIN_MOVED_OPERATIONS:
        return program
    b = Builder.for_rewrite_of(program)
    with b.at(loop.where, loop.name):
        rows_by_value = _build_moved_operations(
            b, loop, max_iterations, increments_by_counter, moved_ops
        )
    remaining_ops = [op for op in loop.ops if op not in moved_ops]
    removable_counters = [
        carried
        for carried in loop.carried
        if carried.body_input in increments_by_counter
        and _is_used_only_to_count(carried, loop, remaining_ops)
    ]
    remaining_ops = [
        op
        for op in remaining_ops
        if not {*results(op)} & {carried.body_output for carried in removable_counters}
    ]
    loop_without_counters = replace(
        loop,
        ops=tuple(remaining_ops),
        carried=tuple(carried for carried in loop.carried if carried not in removable_counters),
    )
    read_values = {value for op in remaining_ops for value in reads(op)} | {
        *body_outputs(loop_without_counters)
    }
    pregenerated_rows = [
        Scanned(rows_by_value[op.outputs[0]], op.outputs[0])
        for op in moved_ops
        if op.outputs[0] in read_values
    ]
    scanning_loop = replace(loop_without_counters, scanned=(*loop.scanned, *pregenerated_rows))
    iteration_count = max_iterations if loop.iteration_count is None else loop.iteration_count
    final_counter_ops = [
        op
        for carried in removable_counters
        for op in _final_counter(
            b, loop, carried, iteration_count, increments_by_counter[carried.body_input]
        )
    ]
    return replace(program, ops=(*ops_before_loop, *b.ops, scanning_loop, *final_counter_ops))


def _is_used_only_to_count(carried: Carried, loop: Loop, inside: Sequence[Operation]) -> bool:
    """Return True if a loop body reads a counter only to increment it."""
    (increment,) = (op for op in inside if carried.body_output in results(op))
    values_read_elsewhere = (value for op in inside if op is not increment for value in reads(op))
    body_output_values = [
        value for value in body_outputs(loop) if value in (carried.body_input, carried.body_output)
    ]
    return (
        not {carried.body_input, carried.body_output} & {*values_read_elsewhere}
        and len(body_output_values) == 1
    )


def pregenerated_rows(program: Program, rewritten: Program) -> tuple[Value, ...]:
    """Return the rows of random numbers that the loop of a rewritten program scans."""
    original_rows, rewritten_rows = (
        {*_scanned_rows(scanning_program)} for scanning_program in (program, rewritten)
    )
    return tuple(rewritten_rows - original_rows)


def _scanned_rows(program: Program) -> list[Value]:
    loops = (operation for operation in program.ops if isinstance(operation, Loop))
    return [scanned.row for loop in loops for scanned in loop.scanned]


def total_elements(rows: Iterable[Value], members: int) -> int:
    """Return the total number of elements of arrays, for a batch of `members` members."""
    row_shapes = (row.shape or () for row in rows)
    return sum(
        math.prod(extent if isinstance(extent, int) else members for extent in shape)
        for shape in row_shapes
    )


def _final_counter(
    b: Builder, loop: Loop, carried: Carried, count: Value, step: Value
) -> tuple[Op, Op]:
    """Return operations that compute a counter after the loop: start plus count times step."""
    counter_increase = b.new("int64", carried.final.shape, f"{carried.final.name} more")
    return (
        Op("Mul", (count, step), (counter_increase,), where=loop.where),
        Op("Add", (carried.initial, counter_increase), (carried.final,), where=loop.where),
    )


def _counters(loop: Loop, constants: set[Value]) -> Mapping[Value, Value]:
    """Return carried integers that grow by a constant per iteration, with these constants."""
    producers = {op.outputs[0]: op for op in loop.ops if isinstance(op, Op)}
    increments_by_counter = {}
    for carried in loop.carried:
        producer, incoming_value = producers.get(carried.body_output), carried.body_input
        if producer is None or producer.op_type != "Add" or incoming_value.dtype != "int64":
            continue
        if incoming_value.shape != _counter_shape(loop):
            continue
        left_operand, right_operand = producer.inputs
        if (
            left_operand is incoming_value
            and right_operand in constants
            and right_operand is not None
            and right_operand.shape in ((), (1,))
        ):
            increments_by_counter[incoming_value] = right_operand
    return increments_by_counter


def _counter_shape(loop: Loop) -> tuple[str, ...]:
    """Return the shape of an iteration counter, which is (batch,) in a batched loop, else ()."""
    return () if loop.member_axis is None else (loop.member_axis,)


def _operations_to_move(loop: Loop, increments_by_counter: Mapping[Value, Value]) -> list[Op]:
    """Return the operations of a loop body that depend only on counters and outer values."""
    body_values = {*body_inputs(loop), *(value for op in loop.ops for value in results(op))}
    next_counters = {
        carried.body_output
        for carried in loop.carried
        if carried.body_input in increments_by_counter
    }
    movable_values = set(increments_by_counter)
    moved_ops: list[Op] = []
    for op in loop.ops:
        if not isinstance(op, Op) or not is_exact_elementwise(op) or op.outputs[0] in next_counters:
            continue
        operands = [value for value in op.inputs if value is not None]
        is_movable = all(
            value in movable_values or (value not in body_values and value.shape is not None)
            for value in operands
        )
        if (
            is_movable
            and op.outputs[0].shape is not None
            and not movable_values.isdisjoint(operands)
        ):
            moved_ops.append(op)
            movable_values.add(op.outputs[0])
    return moved_ops


def _build_moved_operations(
    b: Builder,
    loop: Loop,
    max_iterations: Value,
    increments_by_counter: Mapping[Value, Value],
    moved_ops: list[Op],
) -> Mapping[Value, Value]:
    """Append the operations moved out of a loop, computed for all iterations at once.

    Return the stacked results by the value of one iteration.
    """
    iteration_numbers = b.op("Range", scalar(b, 0, "int64"), max_iterations, scalar(b, 1, "int64"))
    iteration_column = insert_axes(b, iteration_numbers, 0, len(_counter_shape(loop)))
    rows_by_value = {}
    for carried in loop.carried:
        if carried.body_input not in increments_by_counter:
            continue
        initial_value, counter_increase = (
            carried.initial,
            b.op("Mul", iteration_column, increments_by_counter[carried.body_input]),
        )
        cast_ops = [
            op for op in moved_ops if op.inputs == (carried.body_input,) and _is_cast_to_words(op)
        ]
        for op in cast_ops:  # Cast the few addends instead of all sums.
            rows_by_value[op.outputs[0]] = b.op(
                "Add", cast(b, initial_value, "uint64"), cast(b, counter_increase, "uint64")
            )
        if any(carried.body_input in op.inputs for op in moved_ops if op not in cast_ops):
            rows_by_value[carried.body_input] = b.op("Add", initial_value, counter_increase)
    return vectorize_elementwise(
        b, [op for op in moved_ops if op.outputs[0] not in rows_by_value], rows_by_value
    )


def _is_cast_to_words(op: Op) -> bool:
    """Return True for a cast of integers to uint64.

    The cast may be applied to the summands of a sum instead of the sum.
    """
    return op.op_type == "Cast" and op.outputs[0].dtype == "uint64"
