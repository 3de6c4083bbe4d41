"""Cotangents of values, gathered from the operations that read them, last to first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Op, Operation, Value, results
from mdf_loop.ops.derivatives.rule import (
    Changes,
    Derivative,
    General,
    Pointwise,
    Through,
    Transposed,
    hides_floats,
    is_float,
)
from mdf_loop.ops.derivatives.shapes import typed, zeros
from mdf_loop.ops.registry import row_of, title

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def derivative_of(op: Op) -> Derivative | None:
    """The rule of an operation: its own, or that it is composed; None if there is none."""
    row = row_of(op.op_type)
    if row.derivative is not None or row.composed is None:
        return row.derivative
    return Through(row.composed)


def rule_of(op: Op) -> Pointwise | General:
    """The rule of an operation whose derivative is asked for.

    Raises:
        UnsupportedError: there is none.
    """
    rule = derivative_of(op)
    if rule is None or isinstance(rule, Through):
        raise UnsupportedError(
            f"{title(op.op_type)} has no derivative here",
            op.where,
            "differentiate by what does not go through it, or write it with other functions",
        )
    return rule


class Sweep:
    """Cotangents of values in a scope; those of `wanted` values only, and of `chosen` ones safely.

    What is `chosen` goes into a choice that may leave elements of it out.
    """

    def __init__(
        self, b: Builder, wanted: Collection[Value], chosen: Collection[Value] = ()
    ) -> None:
        self.b = b
        self.of: dict[Value, Value] = {}
        self._wanted = wanted
        self._chosen = chosen

    def add(self, value: Value | None, change: Value | None) -> None:
        """One more reader of a value has answered."""
        if value is None or change is None or not self.wants(value):
            return
        change = typed(self.b, change, value)
        before = self.of.get(value)
        self.of[value] = change if before is None else self.b.op("Add", before, change)

    def wants(self, value: Value | None) -> bool:
        """Whether the cotangent of a value is asked for."""
        return value is not None and is_float(value) and value in self._wanted

    def reaches(self, operation: Operation) -> bool:
        """Whether anything that an operation makes has a cotangent."""
        return not self.of.keys().isdisjoint(results(operation))

    def through(self, op: Op) -> None:
        """Give the operands of an operation what they get of the cotangents of its results."""
        wanted = [k for k, x in enumerate(op.inputs) if self.wants(x)]
        if not wanted and not any(hides_floats(x) and x in self._wanted for x in op.inputs):
            return
        rule = rule_of(op)
        given = [self.of.get(output) for output in op.outputs]
        is_chosen = not set(op.outputs).isdisjoint(self._chosen)
        for k in wanted:
            if is_chosen and isinstance(rule, Pointwise):
                self.add(op.inputs[k], rule.chosen_cotangent(self.b, op, given, k))
            else:
                self.add(op.inputs[k], rule.cotangent(self.b, op, given, k))


def by_transposing(transposed: Transposed) -> General:
    """A rule whose tangents are those that its cotangents imply.

    The cotangents of operands are linear in those `g` of results: transposed once more, that is the
    change of results.
    """

    def tangents(b: Builder, op: Op, given: Changes) -> Changes:
        scratch = b.body()
        changes = [
            b.new(output.dtype, output.shape) if is_float(output) else None for output in op.outputs
        ]
        linear = {g for g in changes if g is not None}
        pairs = [
            (transposed(scratch, op, changes, k), t)
            for k, t in enumerate(given)
            if t is not None and op.inputs[k] is not None
        ]
        ops = [
            _plain(operation) for operation in scratch.ops if not isinstance(operation, Constant)
        ]
        b.ops += [o for o in scratch.ops if isinstance(o, Constant)]
        b.ops += _others(ops, linear)
        sweep = Sweep(b, linear)
        for made, t in pairs:
            sweep.add(made, t)
        for operation in reversed(ops):
            if sweep.reaches(operation):
                sweep.through(operation)
        b.release(linear)
        return [None if g is None else sweep.of.get(g) or zeros(b, g) for g in changes]

    return General(tangents, transposed)


def _plain(operation: Operation) -> Op:
    assert isinstance(operation, Op), "a rule is made of plain operations"
    return operation


def _others(ops: Iterable[Op], linear: set[Value]) -> Sequence[Op]:
    """The operations that need none of the values, to which all is added that does."""
    others = []
    for op in ops:
        if linear.isdisjoint(op.inputs):
            others.append(op)
        else:
            linear.update(op.outputs)
    return others
