"""Random numbers of some iterations at once, before these: in a loop each operation costs a call.

    loop %i < %most                                  %turns = Add(%n, Range(0, %most))
      carry %n: int64[batch] from %n0 to %more       %zs: float64[most, batch] = Normal(%turns, %key)
      %z: float64[batch] = Normal(%n, %key)    ->    loop %i < %most
      %more = Add(%n, 1)                               scan %z of %zs
      %x1 = Add(%x, %z)                                %x1 = Add(%x, %z)
      count giving %count                              count giving %count
                                                     %n_final = Add(%n0, Mul(%count, 1))

So is all that is computed number by number of what counts iterations, and of what is the same in all of
them. Numbers of iterations that a member does not come to are not read. Keeps: results bit for bit.
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
from mdf_loop.ops.words import cast, scalar
from mdf_loop.passes.segments.vectorize_elementwise import (
    insert_axes,
    is_exact_elementwise,
    vectorize_elementwise,
)

MAX_PREGENERATED_NUMBERS, MIN_PREGENERATED_ITERATIONS = 1 << 18, 16
"""Numbers that are drawn before a loop begins, and of how many iterations at least."""

MIN_MOVED_OPERATIONS = 16
"""Operations from which on it pays: a number has forty or more."""


def pregenerate_random_numbers(program: Program, most: Value) -> Program:
    """The program of one loop, its last operation, which runs so many iterations at most."""
    *before, loop = program.ops
    assert isinstance(loop, Loop)
    assert loop.count is not None or loop.condition is None
    steps = _steps(loop, {op.value for op in before if isinstance(op, Constant)})
    moved = _moved(loop, steps)
    if len(moved) < MIN_MOVED_OPERATIONS:
        return program
    b = Builder.resume(program)
    with b.at(loop.where, loop.name):
        rows = _rows(b, loop, most, steps, moved)
    inside = [op for op in loop.ops if op not in moved]
    counted = [c for c in loop.carried if c.enter in steps and _only_counts(c, loop, inside)]
    inside = [op for op in inside if not {*results(op)} & {c.leave for c in counted}]
    smaller = replace(
        loop,
        ops=tuple(inside),
        carried=tuple(carried for carried in loop.carried if carried not in counted),
    )
    read = {value for op in inside for value in reads(op)} | {*body_outputs(smaller)}
    scanned = [Scanned(rows[op.outputs[0]], op.outputs[0]) for op in moved if op.outputs[0] in read]
    changed = replace(smaller, scanned=(*loop.scanned, *scanned))
    count = most if loop.count is None else loop.count
    after = [op for c in counted for op in _total(b, loop, c, count, steps[c.enter])]
    return replace(program, ops=(*before, *b.ops, changed, *after))


def _only_counts(carried: Carried, loop: Loop, inside: Sequence[Operation]) -> bool:
    """Whether nothing in an iteration reads it, other than what makes the next one."""
    (grows,) = (op for op in inside if carried.leave in results(op))
    others = (value for op in inside if op is not grows for value in reads(op))
    given = [value for value in body_outputs(loop) if value in (carried.enter, carried.leave)]
    return not {carried.enter, carried.leave} & {*others} and len(given) == 1


def pregenerated_rows(program: Program, made: Program) -> tuple[Value, ...]:
    """What an iteration is given of what is computed ahead, in the program that was made of one."""
    before, after = ({*_scanned(each)} for each in (program, made))
    return tuple(after - before)


def _scanned(program: Program) -> list[Value]:
    loops = (operation for operation in program.ops if isinstance(operation, Loop))
    return [scanned.row for loop in loops for scanned in loop.scanned]


def total_elements(rows: Iterable[Value], members: int) -> int:
    """How many numbers these are together, of so many members."""
    shapes = (row.shape or () for row in rows)
    return sum(math.prod(e if isinstance(e, int) else members for e in shape) for shape in shapes)


def _total(b: Builder, loop: Loop, carried: Carried, count: Value, step: Value) -> tuple[Op, Op]:
    """What a count has become, of each member after its own iterations."""
    made = b.new("int64", carried.final.shape, f"{carried.final.name} more")
    return (
        Op("Mul", (count, step), (made,), where=loop.where),
        Op("Add", (carried.initial, made), (carried.final,), where=loop.where),
    )


def _steps(loop: Loop, constants: set[Value]) -> Mapping[Value, Value]:
    """Carried whole numbers that grow by one and the same constant, and that."""
    makers = {op.outputs[0]: op for op in loop.ops if isinstance(op, Op)}
    found = {}
    for carried in loop.carried:
        maker, enter = makers.get(carried.leave), carried.enter
        if maker is None or maker.op_type != "Add" or enter.dtype != "int64":
            continue
        if enter.shape != _own(loop):
            continue
        first, step = maker.inputs
        if first is enter and step in constants and step is not None and step.shape in ((), (1,)):
            found[enter] = step
    return found


def _own(loop: Loop) -> tuple[str, ...]:
    """The shape of one number of an iteration: of all members, if there are some."""
    return () if loop.members is None else (loop.members,)


def _moved(loop: Loop, steps: Mapping[Value, Value]) -> list[Op]:
    """The operations that need nothing of an iteration but how many there were before it."""
    made = {*body_inputs(loop), *(value for op in loop.ops for value in results(op))}
    leaves = {carried.leave for carried in loop.carried if carried.enter in steps}
    counted = set(steps)
    moved: list[Op] = []
    for op in loop.ops:
        if not isinstance(op, Op) or not is_exact_elementwise(op) or op.outputs[0] in leaves:
            continue
        given = [value for value in op.inputs if value is not None]
        alike = all(v in counted or (v not in made and v.shape is not None) for v in given)
        if alike and op.outputs[0].shape is not None and not counted.isdisjoint(given):
            moved.append(op)
            counted.add(op.outputs[0])
    return moved


def _rows(
    b: Builder, loop: Loop, most: Value, steps: Mapping[Value, Value], moved: list[Op]
) -> Mapping[Value, Value]:
    """What the operations give in all iterations, by what they give in one."""
    numbers = b.op("Range", scalar(b, 0, "int64"), most, scalar(b, 1, "int64"))
    column = insert_axes(b, numbers, 0, len(_own(loop)))
    rows = {}
    for carried in loop.carried:
        if carried.enter not in steps:
            continue
        before, more = carried.initial, b.op("Mul", column, steps[carried.enter])
        casts = [op for op in moved if op.inputs == (carried.enter,) and _wraps(op)]
        for op in casts:  # of few numbers, not of all of them
            rows[op.outputs[0]] = b.op("Add", cast(b, before, "uint64"), cast(b, more, "uint64"))
        if any(carried.enter in op.inputs for op in moved if op not in casts):
            rows[carried.enter] = b.op("Add", before, more)
    return vectorize_elementwise(b, [op for op in moved if op.outputs[0] not in rows], rows)


def _wraps(op: Op) -> bool:
    """Whether it is the cast of a whole number to words: a sum of such is that of what it sums."""
    return op.op_type == "Cast" and op.outputs[0].dtype == "uint64"
