"""What ONNX Runtime's CUDA provider computes otherwise than the one for the CPU, so that it does not.

    y = Gather(x, i)             ->   j = i guarded by -n <= i < n; y = Gather(x, j)
    s = Sign(x)                  ->   s = Where(x == x, Sign(x), x)   # and others: see `ops.for_cuda`

    loop i < trip                     loop i < trip guarded by trip <= rows of xs
      scan %row of %xs           ->     scan %row of %xs

    loop i while going                loop i while going
      scan %row of %xs           ->     scan %row' of %xs
      ...                               row = row' guarded by i < rows of xs

    loop                              loop
      carry %x to %x             ->     %y = Identity(%x)
      record %x                         carry %x to %y
                                        record %y

What surely holds is not looked at. Keeps: results bit for bit, and which runs fail.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Guard,
    Loop,
    Op,
    Program,
    Scanned,
    Value,
    body_outputs,
)
from mdf_loop.ops.for_cuda import NO_POSITION, extent_of
from mdf_loop.ops.registry import Known, row_of
from mdf_loop.passes.failing import constants_of
from mdf_loop.passes.rewrite import rewrite, rewrite_loops


def for_cuda(program: Program) -> Program:
    """The program in which all that may fail is a guard, or looks at shapes."""
    known = constants_of(program.ops)

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        written = row_of(op.op_type).for_cuda
        made = None if written is None else written(b, op, known)
        return None if made is None else (made,)

    return rewrite_loops(rewrite(program, rule), lambda b, loop: _loop(b, loop, known))


def _loop(b: Builder, loop: Loop, known: Known) -> Loop:
    before, behind = b.body(), b.body()
    for each in loop.scanned:
        with b.at(loop.where, each.row.name), before.at(loop.where, each.row.name):
            loop = _checked(b, before, loop, each, known)
    passed = {value: behind.op("Identity", value) for value in _passed(loop)}
    return replace(
        loop,
        carried=tuple(replace(c, leave=passed.get(c.leave, c.leave)) for c in loop.carried),
        recorded=tuple(replace(r, row=passed.get(r.row, r.row)) for r in loop.recorded),
        ops=(*before.ops, *loop.ops, *behind.ops),
    )


def _passed(loop: Loop) -> set[Value]:
    """What enters an iteration and leaves it as it is."""
    return {carried.enter for carried in loop.carried}.intersection(body_outputs(loop))


def _checked(b: Builder, inside: Builder, loop: Loop, each: Scanned, known: Known) -> Loop:
    """The loop, the rows of a scan of which are counted: before it, or one by one where it may stop sooner."""
    trip, shape = known(loop.trip_count), each.rows.shape
    extent = None if shape is None else shape[each.axis]
    if isinstance(extent, int) and trip is not None and trip <= extent:
        return loop
    rows = extent_of(b, each.rows, each.axis)
    if loop.trip_count is not None and loop.condition is None:
        ok = b.op("LessOrEqual", loop.trip_count, rows)
        return replace(loop, trip_count=b.guard(loop.trip_count, ok, NO_POSITION))
    number = loop.iteration
    if loop.first is not None:
        number = inside.op("Sub", number, loop.first)
    unchecked = b.new(each.row.dtype, each.row.shape, each.row.name)
    guard = Guard(unchecked, inside.op("Less", number, rows), each.row, NO_POSITION, loop.where)
    inside.append(guard)
    scanned = tuple(replace(s, row=unchecked) if s is each else s for s in loop.scanned)
    return replace(loop, scanned=scanned)
