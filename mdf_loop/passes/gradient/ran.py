"""A loop that has run: what it has recorded, how often it ran, and just the rows that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mdf_loop.ir import Loop, Op, Value
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.reverse import Reverse, Tape
from mdf_loop.passes.gradient.rows_that_ran import rows_that_ran


@dataclass(frozen=True, slots=True)
class RanLoop:
    """A loop with as many rows as it had iterations.

    Attributes:
        loop: that loop.
        count: how many iterations there were.
        tape: what entered each of them.
        extent: the name of the number of rows.
        cuts: the operations that make rows of what was given.
    """

    loop: Loop
    count: Value
    tape: Tape
    extent: str
    cuts: Sequence[Op]

    def back(self, reverse: Reverse, outside: Sweep) -> None:
        """Give what rows were cut from what these have got."""
        reverse.back(outside, self.cuts)


def has_run(reverse: Reverse, outside: Sweep, loop: Loop) -> RanLoop:
    """What is known of a loop that records what it carries."""
    assert loop.count is not None
    b = outside.b
    before = len(b.ops)
    ran = rows_that_ran(b, loop, reverse.active)
    cuts = [op for op in b.ops[before:] if isinstance(op, Op)]
    tape = reverse.tapes[loop]
    names = [stack.shape[0] for stack in tape.values() if stack.shape]
    extent = str(names[0]) if names else b.name("tape")
    return RanLoop(ran, loop.count, tape, extent, cuts)
