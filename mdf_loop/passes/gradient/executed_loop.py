"""A loop that has run: what it has recorded, how often it ran, and just the rows that it was given.

Where derivatives are truncated, it is the last iterations of it: what these begin with is a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Loop, Op, Operation, Recorded, Scanned, Value
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.words import ints, scalar
from mdf_loop.passes.gradient.executed_rows import executed_rows
from mdf_loop.passes.gradient.reverse import Reverse, Tape

_ALL = int(np.iinfo(np.int64).max)


class ExecutedLoop(Struct, frozen=True):
    """A loop with as many rows as it had iterations.

    Attributes:
        loop: that loop.
        count: how many iterations there were, of those that are looked at.
        skipped: how many there were before these; None: none.
        tape: what entered each of them.
        extent: the name of the number of rows.
        cuts: the operations that make rows of what was given.
    """

    loop: Loop
    count: Value
    skipped: Value | None
    tape: Tape
    extent: str
    cuts: Sequence[Op]

    def back(self, reverse: Reverse, outside: Sweep) -> None:
        """Give what rows were cut from what these have got."""
        reverse.back(outside, self.cuts)

    def backward(
        self,
        b: Builder,
        carried: Iterable[Carried],
        recorded: Iterable[Recorded],
        ops: Iterable[Operation],
        scanned: Iterable[Scanned],
        iteration: Value | None = None,
    ) -> None:
        """Append the loop that goes back over the iterations, whatever its body is."""
        b.append(
            Loop(
                name=b.name(f"{self.loop.name} backward"),
                trip_count=self.count,
                condition=None,
                iteration=iteration or b.new("int64", (), "iteration backward"),
                condition_in=b.new("bool", (), "go"),
                condition_out=None,
                carried=tuple(carried),
                recorded=tuple(recorded),
                ops=tuple(ops),
                scanned=tuple(scanned),
                where=self.loop.where,
            )
        )

    def changes(self, outside: Sweep, recorded: Recorded) -> Value:
        """The cotangents of the rows that a loop has recorded."""
        return _after(outside.b, outside.of[recorded.stack], self.skipped)

    def give(self, outside: Sweep, carried: Carried, change: Value) -> None:
        """Give what a carried value begins with what it gets; a constant gets nothing."""
        b = outside.b
        if self.skipped is not None:
            is_first = b.op("Equal", self.skipped, scalar(b, 0, "int64"))
            change = b.op("Where", is_first, change, zeros(b, change))
        outside.add(carried.initial, change)


def executed_loop(reverse: Reverse, outside: Sweep, loop: Loop) -> ExecutedLoop:
    """What is known of a loop that records what it carries."""
    assert loop.count is not None
    b, tape = outside.b, reverse.tapes[loop]
    names = [stack.shape[0] for stack in tape.values() if stack.shape]
    extent = str(names[0]) if names else b.name("tape")
    count, skipped = loop.count, None
    if reverse.most is not None and b.parent is None:
        count = b.op("Min", loop.count, scalar(b, reverse.most, "int64"))
        skipped = b.op("Sub", loop.count, count)
        tape = {value: _after(b, stack, skipped) for value, stack in tape.items()}
    before = len(b.ops)
    ran = executed_rows(b, loop, skipped, reverse.active)
    if skipped is not None:
        first = skipped if loop.first is None else b.op("Add", loop.first, skipped)
        ran = replace(ran, first=first)
    cuts = [op for op in b.ops[before:] if isinstance(op, Op)]
    return ExecutedLoop(ran, count, skipped, tape, extent, cuts)


def _after(b: Builder, rows: Value, skipped: Value | None) -> Value:
    """The rows behind those that are skipped."""
    if skipped is None:
        return rows
    first = b.op("Reshape", skipped, ints(b, 1))
    return b.op("Slice", rows, first, ints(b, _ALL), ints(b, 0))
