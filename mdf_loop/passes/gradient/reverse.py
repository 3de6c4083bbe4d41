"""Reverse mode: from the cotangents of what a scope makes to those of what it reads.

    forward    the operations as they are; each loop also records what it carries into each iteration
    backward   last to first, each operation gives its operands what they get; a loop is one that goes
               backward over these records, a choice is one of the same condition

Source: reverse accumulation (Linnainmaa 1970), checkpoint by recomputing the body (Griewank 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import (
    Branch,
    Carried,
    Constant,
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Recorded,
    Value,
    captures,
    results,
)
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops.derivatives.rule import is_float
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.copying import copy_operations, without_guards

Tape: TypeAlias = Mapping[Value, Value]
"""By what enters an iteration the record of it, a row for each iteration."""

LoopBackward: TypeAlias = "Callable[[Reverse, Sweep, Loop], None]"
"""Gives what a loop reads what it gets of the cotangents of its results."""


class Reverse(Struct):
    """What is known of a program while it is differentiated.

    Attributes:
        active: what depends on that by which is differentiated, and copies of it.
        chosen: what a choice may leave out.
        through_loop: how a loop is gone through.
        most: through how many iterations of an outermost loop, the last ones; None: all of them.
        tapes: of each loop that is gone through.
    """

    active: set[Value]
    chosen: set[Value]
    through_loop: LoopBackward
    most: int | None = None
    tapes: dict[Loop, Tape] = field(default_factory=dict)

    def copy_operations(
        self, b: Builder, ops: Iterable[Operation], swaps: Mapping[Value, Value]
    ) -> tuple[list[Operation], dict[Value, Value]]:
        """Operations that have run once more, of which the same is known."""
        kept, passed = without_guards(ops)
        made, new = copy_operations(b, kept, swaps)
        new |= {guarded: new.get(value, value) for guarded, value in passed.items()}
        self.active.update(copy for value, copy in new.items() if value in self.active)
        self.chosen.update(copy for value, copy in new.items() if value in self.chosen)
        return made, new

    def changes(self, value: Value) -> bool:
        """Whether a value is a number with a point that depends on what is differentiated by."""
        return is_float(value) and value in self.active

    # --- forward --------------------------------------------------------------------------------

    def forward(self, b: Builder, ops: Iterable[Operation]) -> list[Operation]:
        """Append the operations; loops record what they carry. What was appended, constants left out."""
        appended: list[Operation] = []
        for operation in ops:
            if isinstance(operation, Constant):
                b.adopt(operation)
                continue
            if isinstance(operation, Loop) and not self.active.isdisjoint(results(operation)):
                operation = self._recording(b, operation)
            b.ops.append(operation)
            appended.append(operation)
        return appended

    def _recording(self, b: Builder, loop: Loop) -> Loop:
        records, extent = [], b.name("tape")
        for c in loop.carried:
            _refuse_changing(loop, c)
            stack = b.new(c.enter.dtype, (extent, *(c.enter.shape or ())), f"{c.enter.name} tape")
            records.append(Recorded(c.enter, stack))
        count = loop.count or b.new("int64", (), f"{loop.name} iterations")
        taped = replace(loop, recorded=(*loop.recorded, *records), count=count)
        self.tapes[taped] = {record.row: record.stack for record in records}
        return taped

    # --- backward -------------------------------------------------------------------------------

    def back(self, sweep: Sweep, ops: Iterable[Operation]) -> None:
        """Go backward over operations, last to first."""
        for operation in reversed(list(ops)):
            if not isinstance(operation, Constant) and sweep.reaches(operation):
                with sweep.b.at(operation.where, "change"):
                    self._through(sweep, operation)

    def sweep(self, b: Builder, of: Mapping[Value, Value]) -> Sweep:
        """Cotangents in a scope, which begin with these."""
        sweep = Sweep(b, self.active, self.chosen)
        for value, change in of.items():
            sweep.add(value, change)
        return sweep

    def _through(self, sweep: Sweep, operation: Operation) -> None:
        if isinstance(operation, Op):
            sweep.through(operation)
        elif isinstance(operation, Guard):
            sweep.add(operation.value, sweep.of.get(operation.output))
        elif isinstance(operation, If):
            self._through_choice(sweep, operation)
        elif isinstance(operation, Loop):
            self.through_loop(self, sweep, operation)

    def _through_choice(self, sweep: Sweep, choice: If) -> None:
        """The same branch, backward: the one that was not taken gives zeros."""
        b = sweep.b
        wanted = [value for value in captures(choice) if sweep.wants(value)]
        if not wanted:
            return
        given = {o: sweep.of[o] for o in choice.outputs if o in sweep.of}
        then, otherwise = (
            self._branch(b, branch, choice, given, wanted)
            for branch in (choice.then, choice.otherwise)
        )
        outputs = tuple(b.new(value.dtype, value.shape, f"{value.name} change") for value in wanted)
        name = b.name(f"{choice.name} backward")
        b.append(If(name, choice.condition, then, otherwise, outputs, choice.where))
        for value, change in zip(wanted, outputs, strict=True):
            sweep.add(value, change)

    def _branch(
        self,
        b: Builder,
        branch: Branch,
        choice: If,
        given: Mapping[Value, Value],
        wanted: Iterable[Value],
    ) -> Branch:
        inside = b.body()
        ops, new = self.copy_operations(b, branch.ops, {})
        ops = self.forward(inside, ops)
        sweep = self.sweep(inside, {})
        for leaf, output in zip(branch.leaves, choice.outputs, strict=True):
            sweep.add(new.get(leaf, leaf), given.get(output))
        self.back(sweep, ops)
        leaves = tuple(_leaf(inside, sweep, value) for value in wanted)
        return Branch(tuple(inside.ops), leaves)


def _leaf(inside: Builder, sweep: Sweep, value: Value) -> Value:
    """What a branch gives a value; a leaf is made in its branch."""
    return inside.op("Identity", sweep.of.get(value) or zeros(inside, value))


def refuse_sequence(loop: Loop, enter: Value, name: str) -> None:
    """Refuse what does not change element by element.

    Raises:
        UnsupportedError: it is no array.
    """
    if not is_tensor(enter.dtype):
        raise UnsupportedError(
            f"'{name or enter.name}' of the loop '{loop.name}' is {enter.dtype}: "
            "loops that carry it have no derivative",
            loop.where,
            "carry an array",
        )


def _refuse_changing(loop: Loop, carried: Carried) -> None:
    """Refuse what cannot be recorded row by row.

    Raises:
        UnsupportedError: it is no array, or may change its shape.
    """
    refuse_sequence(loop, carried.enter, carried.name)
    if carried.enter.shape is None or (loop.dynamic_shapes and not carried.keeps_shape):
        raise UnsupportedError(
            f"'{carried.name or carried.enter.name}' of the loop '{loop.name}' may change its shape: "
            "loops that carry it have no derivative",
            loop.where,
            "carry an array of one shape, and compile with shapes='strict'",
        )
