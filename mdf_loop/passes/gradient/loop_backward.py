"""A loop gone through backward: its body recomputed from what was recorded, and transposed.

    loop %i < %n                                   loop %k < %count
      carry %x from %x0 to %y                        carry %gx from %g_final to %g_x
      %y = Mul(%x, %w)                     ->        carry %sum from 0 to %more
      record %x giving %tape                         scan %x of %tape backward
                                                     %g_x = Mul(%gx, %w)
                                                     %more = Add(%sum, Mul(%gx, %x))

`gx` is how the number changes with what is carried into an iteration, `sum` how it changes with `w`.
"""

from __future__ import annotations

from mdf_loop.ir import Carried, Loop, Operation, Recorded, Scanned, Value
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.words import scalar
from mdf_loop.passes.gradient.executed_loop import ExecutedLoop, executed_loop
from mdf_loop.passes.gradient.executed_rows import restore_scan_axis, reverse_rows
from mdf_loop.passes.gradient.reverse import Reverse
from mdf_loop.passes.gradient.transpose_body import TransposedBody, transpose_body


def loop_backward(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Everything in one loop, last iteration to first."""
    ran = executed_loop(reverse, outside, loop)
    made = transpose_body(reverse, outside, ran.loop)
    _Backward(outside, ran, made).append()
    ran.back(reverse, outside)


class _Backward:
    """One iteration backward, as the body of a loop."""

    def __init__(self, outside: Sweep, ran: ExecutedLoop, body: TransposedBody) -> None:
        self.b = outside.b
        self.outside = outside
        self.ran = ran
        self.body = body

    def append(self) -> None:
        """Append the loop, and give what it gives."""
        b, body, loop = self.b, self.body, self.ran.loop
        number = b.new("int64", (), "iteration backward")
        carried = [*map(self._adjoint, body.leaving), *map(self._sum, body.captured)]
        recorded = [self._recorded(scanned) for scanned in loop.scanned]
        rows = [record for record in recorded if record is not None]
        ops = (*self._numbered(number), *body.ops)
        self.ran.backward(b, carried, rows, ops, self._scanned(), number)
        for c, backward in zip(body.leaving, carried, strict=False):
            self.ran.give(self.outside, c, backward.final)
        sums = carried[len(body.leaving) :]
        for value, backward in zip(body.captured, sums, strict=True):
            self.outside.add(value, backward.final)
        for scanned, stack in zip(loop.scanned, recorded, strict=True):
            if stack is not None:
                self.outside.add(
                    scanned.rows, restore_scan_axis(b, reverse_rows(b, stack.stack), scanned)
                )

    def _adjoint(self, carried: Carried) -> Carried:
        """The cotangent of what is carried, from that of the final value to that of the initial one."""
        enter = self.body.leaving[carried]
        first = self.outside.of.get(carried.final) or zeros(self.b, carried.final)
        leave = self.body.of(carried.enter) or zeros(self.body.b, enter)
        final = self.b.new(enter.dtype, carried.initial.shape, f"{carried.enter.name} change")
        return Carried(first, enter, leave, final, enter.name)

    def _sum(self, value: Value) -> Carried:
        """What all iterations together give what they all read."""
        b, made = self.b, self.body.of(value)
        assert made is not None
        enter = b.new(value.dtype, value.shape, f"{value.name} sum")
        leave = self.body.b.op("Add", enter, made)
        final = b.new(value.dtype, value.shape, f"{value.name} change")
        return Carried(zeros(b, value), enter, leave, final, enter.name)

    def _recorded(self, scanned: Scanned) -> Recorded | None:
        """What each iteration gives the row that it was given."""
        made = self.body.of(scanned.row)
        if made is None:
            return None
        shape = (self.ran.extent, *(scanned.row.shape or ()))
        stack = self.b.new(scanned.row.dtype, shape, f"{scanned.row.name} change")
        return Recorded(made, stack)

    def _scanned(self) -> tuple[Scanned, ...]:
        """What was recorded, what was scanned, and the cotangents of records: last row first."""
        inside, loop = self.body.inside, self.ran.loop
        given = [Scanned(self.ran.tape[c.enter], inside[c.enter], 0, True) for c in loop.carried]
        given += [Scanned(s.rows, inside[s.row], s.axis, not s.backward) for s in loop.scanned]
        rows = self.body.rows.items()
        given += [Scanned(self.ran.changes(self.outside, r), g, 0, True) for r, g in rows]
        return tuple(given)

    def _numbered(self, number: Value) -> list[Operation]:
        """The number that the iteration had."""
        inside, loop = self.b.body(), self.ran.loop
        last = self.b.op("Sub", self.ran.count, scalar(self.b, 1, "int64"))
        if loop.first is not None:
            last = self.b.op("Add", last, loop.first)
        was = inside.op("Sub", last, number)
        return [substitute(op, {was: self.body.inside[loop.iteration]}) for op in inside.ops]
