"""Compute a loop that only adds to its carried values as prefix sums, to save calls of kernels.

    loop %i < %n                                  %first = Add(%a, %zs[0])
      carry %x from %a to %b             ->       %xs = CumSum(ScatterND(%zs, 0, %first), axis=0)
      scan %z of %zs
      %b = Add(%x, %z)
      record %b giving %xs

Examples are a random walk whose steps are pregenerated, and its time. ONNX Runtime adds one row after the
other, as the loop does. Keeps: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Op, Value, body_inputs, results
from mdf_loop.ops.build_helpers import ints, scalar


class PrefixSum(Struct, frozen=True, eq=False):
    """A carried value, and its addend: rows, or a value that is the same in all iterations."""

    carried: Carried
    rows: Value | None
    same: Value | None


def find_prefix_sums(loop: Loop) -> tuple[PrefixSum, ...]:
    """Return the prefix sums that a counted loop computes and records, or nothing if it does more."""
    sums = tuple(_find_prefix_sum(loop, carried) for carried in loop.carried)
    known = {value for c in loop.carried for value in (c.enter, c.leave)}
    has_no_other_work = len(loop.ops) == len(sums) and all(
        each.row in known for each in loop.recorded
    )
    complete = tuple(each for each in sums if each is not None)
    return (
        complete if loop.kind == "for" and has_no_other_work and len(complete) == len(sums) else ()
    )


def _find_prefix_sum(loop: Loop, carried: Carried) -> PrefixSum | None:
    maker = next((op for op in loop.ops if carried.leave in results(op)), None)
    if not isinstance(maker, Op) or maker.op_type != "Add" or not carried.keeps_shape:
        return None
    others = [value for value in maker.inputs if value is not carried.enter]
    if len(others) != 1 or others[0] is None:
        return None
    (added,) = others
    for scanned in loop.scanned:
        if scanned.row is added:
            is_same_shape = added.shape == carried.enter.shape and not (
                scanned.axis or scanned.backward
            )
            return PrefixSum(carried, scanned.rows, None) if is_same_shape else None
    inside = {*body_inputs(loop), *(value for op in loop.ops for value in results(op))}
    return None if added in inside else PrefixSum(carried, None, added)


def prefix_sums(b: Builder, loop: Loop, sums: Iterable[PrefixSum]) -> dict[Value, Value]:
    """Return the stacked recordings of a loop of sums, which has at least one iteration and exactly as many rows."""
    assert loop.trip_count is not None
    recorded = {each.row for each in loop.recorded}
    front, zero = ints(b, 0), scalar(b, 0, "int64")
    count = b.op("Unsqueeze", loop.trip_count, front)
    stacks = {}
    for each in sums:
        initial, rows = each.carried.initial, each.rows
        if rows is None:
            shape = b.op("Concat", count, b.op("Shape", initial), axis=0)
            rows = b.op("Expand", each.same, shape)
        first = b.op("Add", initial, b.op("Gather", rows, zero, axis=0))
        addends = b.op("ScatterND", rows, b.constant([[0]]), b.op("Unsqueeze", first, front))
        stacks[each.carried.leave] = stack = b.op("CumSum", addends, zero)
        if each.carried.enter in recorded:
            before, but_last = b.op("Unsqueeze", initial, front), ints(b, -1)
            later = b.op("Slice", stack, front, but_last, front)
            stacks[each.carried.enter] = b.op("Concat", before, later, axis=0)
    return stacks
