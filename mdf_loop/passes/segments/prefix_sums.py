"""Replacement of loops that only accumulate sums by prefix sums, for fewer kernel calls.

    loop %i < %n                                  %first = Add(%a, %zs[0])
      carry %x from %a to %b             ->       %xs = CumSum(ScatterND(%zs, 0, %first), axis=0)
      scan %z of %zs
      %b = Add(%x, %z)
      record %b giving %xs

Examples are the position and the time of a random walk whose steps are pregenerated. `CumSum` of ONNX Runtime
adds the rows in order, as the loop does. Preserves: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Op, Value, body_inputs, results
from mdf_loop.ops.build_helpers import ints, scalar


class PrefixSum(Struct, frozen=True, eq=False):
    """Carried value to which each iteration adds a scanned row, or one loop-invariant value."""

    carried: Carried
    addend_rows: Value | None
    invariant_addend: Value | None


def find_prefix_sums(loop: Loop) -> tuple[PrefixSum, ...]:
    """Return the sums that a loop accumulates, or () if it computes anything else."""
    optional_sums = tuple(_find_prefix_sum(loop, carried) for carried in loop.carried)
    carried_values = {
        value for carried in loop.carried for value in (carried.body_input, carried.body_output)
    }
    has_only_sums = len(loop.ops) == len(optional_sums) and all(
        recorded.row in carried_values for recorded in loop.recorded
    )
    complete_sums = tuple(prefix_sum for prefix_sum in optional_sums if prefix_sum is not None)
    return (
        complete_sums
        if loop.kind == "for" and has_only_sums and len(complete_sums) == len(optional_sums)
        else ()
    )


def _find_prefix_sum(loop: Loop, carried: Carried) -> PrefixSum | None:
    producer = next((op for op in loop.ops if carried.body_output in results(op)), None)
    if not isinstance(producer, Op) or producer.op_type != "Add" or not carried.keeps_shape:
        return None
    other_operands = [value for value in producer.inputs if value is not carried.body_input]
    if len(other_operands) != 1 or other_operands[0] is None:
        return None
    (addend,) = other_operands
    for scanned in loop.scanned:
        if scanned.row is addend:
            is_same_shape = addend.shape == carried.body_input.shape and not (
                scanned.axis or scanned.is_backward
            )
            return PrefixSum(carried, scanned.rows, None) if is_same_shape else None
    body_values = {*body_inputs(loop), *(value for op in loop.ops for value in results(op))}
    return None if addend in body_values else PrefixSum(carried, None, addend)


def prefix_sums(
    b: Builder, loop: Loop, prefix_sum_specs: Iterable[PrefixSum]
) -> dict[Value, Value]:
    """Append prefix sums that replace a loop, and return the array of sums for each carried value.

    The loop has at least one iteration, and one row for each.
    """
    assert loop.trip_count is not None
    recorded_rows = {recorded.row for recorded in loop.recorded}
    first_axis, zero = ints(b, 0), scalar(b, 0, "int64")
    row_count = b.op("Unsqueeze", loop.trip_count, first_axis)
    stacks_by_value = {}
    for prefix_sum in prefix_sum_specs:
        initial_value, addend_rows = prefix_sum.carried.initial, prefix_sum.addend_rows
        if addend_rows is None:
            stacked_shape = b.op("Concat", row_count, b.op("Shape", initial_value), axis=0)
            addend_rows = b.op("Expand", prefix_sum.invariant_addend, stacked_shape)
        first_sum = b.op("Add", initial_value, b.op("Gather", addend_rows, zero, axis=0))
        addends = b.op(
            "ScatterND", addend_rows, b.constant([[0]]), b.op("Unsqueeze", first_sum, first_axis)
        )
        stacks_by_value[prefix_sum.carried.body_output] = stacked_sums = b.op(
            "CumSum", addends, zero
        )
        if prefix_sum.carried.body_input in recorded_rows:
            initial_row, last_position = b.op("Unsqueeze", initial_value, first_axis), ints(b, -1)
            earlier_sums = b.op("Slice", stacked_sums, first_axis, last_position, first_axis)
            stacks_by_value[prefix_sum.carried.body_input] = b.op(
                "Concat", initial_row, earlier_sums, axis=0
            )
    return stacks_by_value
