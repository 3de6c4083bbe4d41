"""A loop whose members all run on to its end, and then are given what they had when they stopped.

    loop %i < %most while %go for each batch       loop %i < %most
      carry %x from %a to %b giving %last            carry %x from %a to %b
      scan %z of %zs                                 scan %z of %zs
      %b = Add(%x, %z)                        ->     %b = Add(%x, %z)
      %c = Less(%b, 1)                               record %b giving %bs
      continue if %c                               %cs = Less(%bs, 1)
      count giving %count                          %end = ArgMin([%go, *%cs, False])
                                                   %count = Min(%end, %most)
                                                   %last = %bs[%count - 1] if %count > 0 else %a

Without masks an iteration costs a third, and what only the condition needs is computed for many at
once. It pays where few stop in one run of the program, as those do of which numbers are drawn ahead.
One iteration is run where none is asked for: ONNX Runtime does not know how many members of none
there are. Keeps: results bit for bit.
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
from mdf_loop.ops.words import cast, ints, scalar
from mdf_loop.passes.failing import constants_of, first_that_may_fail
from mdf_loop.passes.segments.prefix_sums import find_prefix_sums, prefix_sums
from mdf_loop.passes.segments.vectorize_elementwise import (
    is_exact_elementwise,
    vectorize_elementwise,
)

MAX_ITERATIONS = 512
"""Iterations of one run: so many may be in vain for the last member."""

MAX_CARRIED_ELEMENTS = 8
"""Numbers that a member carries: those of all iterations are kept until the end."""

SELECT_DTYPES = ("float64", "float32", "int64", "int32")
"""Dtypes of carried values: the runtime has a choice of them by truths."""


def run_past_termination(program: Program, most: Value) -> Program:
    """The program of one loop of members, which runs so many iterations at most."""
    (loop,) = (op for op in program.ops if isinstance(op, Loop))
    if not _can_run_on(program, loop):
        return program
    at = program.ops.index(loop)
    b = Builder.resume(program)
    with b.at(loop.where, loop.name):
        some = b.op("Max", most, scalar(b, 1, "int64"))
        b.ops += (substitute(op, {most: some}) for op in program.ops[:at])
        stay = _staying(loop)
        later = [op for op in loop.ops if isinstance(op, Op) and op not in stay]
        stacks = _stacks(b, loop, stay, later)
        running = _running(b, loop, some, stay, stacks)
        if sums := find_prefix_sums(running):
            stacks = prefix_sums(b, running, sums)
        else:
            b.ops.append(running)
        b.ops += _ended(
            b, loop, most, vectorize_elementwise(b, later, {**stacks, **_scanned(loop)})
        )
    return replace(program, ops=(*b.ops, *program.ops[at + 1 :]))


# --- which loops ----------------------------------------------------------------------------------


def _can_run_on(program: Program, loop: Loop) -> bool:
    """Whether what it makes of members that have stopped is harmless, and little."""
    made = {value for op in loop.ops for value in results(op)}
    read = {value for op in loop.ops for value in reads(op)}
    given = {entry.value for entry in program.inputs}
    return (
        loop.members is not None
        and loop.condition_out in made
        and not loop.recorded
        and loop.condition_in not in read
        and all(isinstance(op, Op) for op in loop.ops)
        and first_that_may_fail(loop.ops, constants_of(program.ops)) is None
        and not any(s.rows in given or s.axis or s.backward for s in loop.scanned)
        and all(_is_of_members(carried, loop.members) for carried in loop.carried)
        and sum(math.prod(_own(carried)) for carried in loop.carried) <= MAX_CARRIED_ELEMENTS
    )


def _is_of_members(carried: Carried, members: str) -> bool:
    """Whether each member carries a known number of numbers."""
    shape = carried.enter.shape or ()
    known = shape[:1] == (members,) and is_fixed(shape[1:])
    return known and carried.keeps_shape and carried.enter.dtype in SELECT_DTYPES


def _own(carried: Carried) -> tuple[int, ...]:
    """The shape of what one member carries."""
    own = (carried.enter.shape or ())[1:]
    assert is_fixed(own)
    return own


# --- iterations -----------------------------------------------------------------------------------


def _staying(loop: Loop) -> set[Operation]:
    """The operations that each iteration needs itself."""
    needed = {carried.leave for carried in loop.carried}
    stay: set[Operation] = set()
    for op in reversed(loop.ops):
        can_wait = (
            isinstance(op, Op) and is_exact_elementwise(op) and op.outputs[0].shape is not None
        )
        if not can_wait or not needed.isdisjoint(results(op)):
            stay.add(op)
            needed.update(reads(op))
    return stay


def _scanned(loop: Loop) -> dict[Value, Value]:
    """The rows that iterations are given."""
    return {scanned.row: scanned.rows for scanned in loop.scanned}


def _stacks(
    b: Builder, loop: Loop, stay: Iterable[Operation], later: Iterable[Op]
) -> dict[Value, Value]:
    """What iterations make that is read after them, and all of it."""
    assert loop.condition_out is not None
    inside = {loop.iteration, *(carried.enter for carried in loop.carried)}
    inside.update(value for op in stay for value in results(op))
    wanted = [*(carried.leave for carried in loop.carried), loop.condition_out]
    wanted += [value for op in later for value in reads(op)]
    extent = next((s.rows.shape[0] for s in loop.scanned if s.rows.shape), b.name("iterations"))
    return {
        value: b.new(value.dtype, (extent, *(value.shape or ())), f"{value.name} of all")
        for value in dict.fromkeys(wanted)
        if value in inside
    }


def _running(
    b: Builder, loop: Loop, some: Value, stay: set[Operation], stacks: Mapping[Value, Value]
) -> Loop:
    """The loop without a condition, which keeps what is read after it."""
    return replace(
        loop,
        trip_count=some,
        condition=None,
        condition_in=b.new("bool", (), "condition"),
        condition_out=None,
        carried=tuple(
            replace(c, final=b.new(c.final.dtype, c.final.shape, f"{c.final.name} at the end"))
            for c in loop.carried
        ),
        recorded=tuple(Recorded(value, stack) for value, stack in stacks.items()),
        ops=tuple(op for op in loop.ops if op in stay),
        count=None,
        last_condition=None,
        members=None,
    )


# --- what each has come to ------------------------------------------------------------------------


def _ended(b: Builder, loop: Loop, most: Value, rows: Mapping[Value, Value]) -> list[Operation]:
    """How many iterations each member has run, and what it had after them."""
    assert loop.condition is not None
    assert loop.condition_out is not None
    front = ints(b, 0)
    before = b.op("Unsqueeze", loop.condition, front)
    goes = b.op("Concat", before, rows[loop.condition_out], b.op("Xor", before, before), axis=0)
    end = b.op("ArgMin", cast(b, goes, "uint8"), axis=0, keepdims=0)
    count = b.op("Min", end, most)
    made = [Op("Greater", (end, most), (loop.last_condition,))] if loop.last_condition else []
    if loop.count is not None:
        made.append(Op("Identity", (count,), (loop.count,)))
    last = b.op("Max", b.op("Sub", count, scalar(b, 1, "int64")), scalar(b, 0, "int64"))
    some = b.op("Greater", count, scalar(b, 0, "int64"))
    for carried in loop.carried:
        behind = range(1, 1 + len(_own(carried)))
        place, ran = (
            b.op("Unsqueeze", value, ints(b, *behind)) if behind else value
            for value in (last, some)
        )
        if behind:
            place = b.op("Expand", place, b.op("Shape", carried.initial))
        at_end = b.op(
            "GatherElements", rows[carried.leave], b.op("Unsqueeze", place, front), axis=0
        )
        chosen = (ran, b.op("Squeeze", at_end, front), carried.initial)
        made.append(Op("Where", chosen, (carried.final,)))
    return [replace(op, where=loop.where) for op in made]
