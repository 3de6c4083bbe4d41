"""Compute a loop that only adds to its carried values as prefix sums, to reduce the number of kernel calls.

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
    """Carried value with its addend: rows, or the loop-invariant value `same`."""

    carried: Carried
    rows: Value | None
    same: Value | None


def find_prefix_sums(loop: Loop) -> tuple[PrefixSum, ...]:
    """Return the prefix sums of a counted loop, or an empty tuple if the loop also has other operations."""
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
    """Return the stacked recordings of a loop of prefix sums.

    The loop has at least one iteration, and one row for each.
    """
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
