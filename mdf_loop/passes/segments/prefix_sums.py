"""A loop whose iterations only add to what is carried, as sums: in a loop each operation costs a call.

    loop %i < %n                                  %first = Add(%a, %zs[0])
      carry %x from %a to %b             ->       %xs = CumSum(ScatterND(%zs, 0, %first), axis=0)
      scan %z of %zs
      %b = Add(%x, %z)
      record %b giving %xs

So is a random walk, whose steps are drawn before it, and its time. ONNX Runtime sums one row after the
other, as the loop does. Keeps: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Op, Value, body_inputs, results
from mdf_loop.ops.words import ints, scalar


class PrefixSum(Struct, frozen=True, eq=False):
    """What is carried, and what is added to it: rows, or in all iterations the same."""

    carried: Carried
    rows: Value | None
    same: Value | None


def find_prefix_sums(loop: Loop) -> tuple[PrefixSum, ...]:
    """All that a counted loop makes and records, if it is sums; else nothing."""
    sums = tuple(_sum(loop, carried) for carried in loop.carried)
    known = {value for c in loop.carried for value in (c.enter, c.leave)}
    alone = len(loop.ops) == len(sums) and all(each.row in known for each in loop.recorded)
    found = tuple(each for each in sums if each is not None)
    return found if loop.kind == "for" and alone and len(found) == len(sums) else ()


def _sum(loop: Loop, carried: Carried) -> PrefixSum | None:
    maker = next((op for op in loop.ops if carried.leave in results(op)), None)
    if not isinstance(maker, Op) or maker.op_type != "Add" or not carried.keeps_shape:
        return None
    others = [value for value in maker.inputs if value is not carried.enter]
    if len(others) != 1 or others[0] is None:
        return None
    (added,) = others
    for scanned in loop.scanned:
        if scanned.row is added:
            alike = added.shape == carried.enter.shape and not (scanned.axis or scanned.backward)
            return PrefixSum(carried, scanned.rows, None) if alike else None
    inside = {*body_inputs(loop), *(value for op in loop.ops for value in results(op))}
    return None if added in inside else PrefixSum(carried, None, added)


def prefix_sums(b: Builder, loop: Loop, sums: Iterable[PrefixSum]) -> dict[Value, Value]:
    """What a loop of sums records, stacked; it has at least one iteration, and no row more."""
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
        begun = b.op("ScatterND", rows, b.constant([[0]]), b.op("Unsqueeze", first, front))
        stacks[each.carried.leave] = made = b.op("CumSum", begun, zero)
        if each.carried.enter in recorded:
            before, but_last = b.op("Unsqueeze", initial, front), ints(b, -1)
            rest = b.op("Slice", made, front, but_last, front)
            stacks[each.carried.enter] = b.op("Concat", before, rest, axis=0)
    return stacks
