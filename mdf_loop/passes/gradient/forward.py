"""Forward mode of a program: it also gives the tangents of outputs, for those of inputs.

    program(%x, %w)               program(%x, %w, %tangent of x)
      %y = Mul(%x, %w)      ->      %y = Mul(%x, %w)
      output y = %y                 %ty = Mul(%tangent of x, %w)
                                    output y = %y
                                    output tangent of y = %ty

`y` changes by `tangent of y` where `x` changes by `tangent of x`. A loop carries, scans and records
tangents beside what it carries, scans and records; how often it runs is held fixed.

Source: forward accumulation (Wengert 1964).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import (
    Array,
    Branch,
    Carried,
    Constant,
    Guard,
    If,
    Input,
    InputRole,
    Loop,
    Op,
    Operation,
    Output,
    OutputRole,
    Program,
    Recorded,
    Scanned,
    Value,
    operands,
    results,
)
from mdf_loop.ops.derivatives.rule import hides_floats, is_float
from mdf_loop.ops.derivatives.shapes import zeros
from mdf_loop.ops.derivatives.sweep import rule_of
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.batching.varying import propagate_varying
from mdf_loop.passes.gradient.decompose_for_derivatives import decompose_for_derivatives
from mdf_loop.passes.gradient.derivative_errors import report_all_underivable
from mdf_loop.passes.gradient.reverse import refuse_sequence

UNIT_EXTENT = "unit"
"""What the extent is called of an axis of tangents that are looked at together."""


def tangent_of(name: str) -> str:
    """What the tangent of an input or an output is called."""
    return f"tangent of {name}"


def tangents(program: Program, wrt: Collection[str], of: Collection[str]) -> Program:
    """The program that also gives how outputs change when inputs do.

    Args:
        program: as it was read, or one that gives derivatives already.
        wrt: inputs; how each changes is an input of the new program.
        of: outputs; how each changes is an output of the new program.

    Raises:
        UnsupportedError: something between them has no derivative; the sentence names it.
    """
    program = decompose_for_derivatives(program, frozenset(wrt))
    b = Builder.resume(program)
    inputs = {entry.value.name: entry.value for entry in program.inputs}
    outputs = {output.name: output.value for output in program.outputs}
    for name, value in (
        *((name, inputs[name]) for name in wrt),
        *((name, outputs[name]) for name in of),
    ):
        _refuse_whole(name, value)
    given = {inputs[name]: _tangent(b, inputs[name], tangent_of(name)) for name in wrt}
    active = set(given)
    propagate_varying(program.ops, active)
    forward = _Forward(active, dict(given))
    with report_all_underivable(program, active):
        forward.scope(b, program.ops)
    made = [
        Output(tangent_of(name), forward.known(b, outputs[name]), OutputRole.CHANGE, name)
        for name in of
    ]
    return replace(
        program,
        inputs=(
            *program.inputs,
            *(Input(t, role=InputRole.CHANGE, of=value.name) for value, t in given.items()),
        ),
        ops=tuple(b.ops),
        outputs=(*program.outputs, *made),
    )


def jacobian_forward(program: Program, wrt: Collection[str], of: Collection[str]) -> Program:
    """The program of many tangents at once: as `tangents`, which have an axis of units in front.

    Given `units`, what an output changes by are the columns of its Jacobian.
    """
    return batch(tangents(program, wrt, of), [tangent_of(name) for name in wrt], UNIT_EXTENT)


def unit_tangents(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Changes of values, of which in each unit one element of all changes by one."""
    total = sum(np.size(array) for array in arrays.values())
    rows, made = np.eye(total), {}
    for name, array in arrays.items():
        own, rows = np.split(rows, [np.size(array)], axis=1)
        made[name] = own.reshape(total, *np.shape(array)).astype(array.dtype)
    return made


class _Forward:
    """Tangents of values, gathered scope by scope; of what has none they are zeros.

    `active` is what depends on that by which is differentiated.
    """

    def __init__(self, active: Collection[Value], of: dict[Value, Value]) -> None:
        self._active = active
        self._of = of

    def known(self, b: Builder, value: Value) -> Value:
        """The tangent of a value."""
        return self._of.get(value) or zeros(b, value)

    def scope(self, b: Builder, ops: Iterable[Operation]) -> None:
        """Append the operations, each with what makes the tangents of its results."""
        for operation in ops:
            if isinstance(operation, Constant):
                b.adopt(operation)
            elif not any(map(self._changes, results(operation))):
                b.ops.append(operation)
            else:
                with b.at(operation.where, "change"):
                    self._through(b, operation)

    def _changes(self, value: Value) -> bool:
        """Whether a value may have a tangent, or may hold what would need one."""
        return (is_float(value) and value in self._active) or self._hides(value)

    def _hides(self, value: Value) -> bool:
        """Whether it is a sequence, or optional, and may hold what changes."""
        return hides_floats(value) and value in self._active

    def _through(self, b: Builder, operation: Operation) -> None:
        if isinstance(operation, Loop):
            self._loop(b, operation)
        elif isinstance(operation, If):
            self._choice(b, operation)
        else:
            b.ops.append(operation)
            if isinstance(operation, Op):
                self._op(b, operation)
            elif isinstance(operation, Guard) and operation.value in self._of:
                self._of[operation.output] = self._of[operation.value]

    def _op(self, b: Builder, op: Op) -> None:
        if not any(value in self._of or self._hides(value) for value in operands(op)):
            return
        given = [None if value is None else self._of.get(value) for value in op.inputs]
        changes = rule_of(op).tangents(b, op, given)
        pairs = zip(op.outputs, changes, strict=True)
        self._of.update((value, t) for value, t in pairs if t is not None)

    def _loop(self, b: Builder, loop: Loop) -> None:
        body = b.body()
        scanned = [self._scanned(b, s) for s in loop.scanned if s.rows in self._of]
        entering = [c for c in loop.carried if self._changes(c.enter)]
        for c in entering:
            refuse_sequence(loop, c.enter, c.name)
            self._of[c.enter] = _tangent(b, c.enter)
        self.scope(body, loop.ops)
        carried = [self._carried(b, body, c) for c in entering]
        recorded = [self._recorded(b, r) for r in loop.recorded if r.row in self._of]
        b.append(
            replace(
                loop,
                carried=(*loop.carried, *carried),
                recorded=(*loop.recorded, *recorded),
                scanned=(*loop.scanned, *scanned),
                ops=tuple(body.ops),
            )
        )

    def _scanned(self, b: Builder, s: Scanned) -> Scanned:
        row = self._of[s.row] = _tangent(b, s.row)
        return replace(s, rows=self._of[s.rows], row=row)

    def _carried(self, b: Builder, body: Builder, c: Carried) -> Carried:
        initial, leave = self.known(b, c.initial), self.known(body, c.leave)
        final = self._of[c.final] = _tangent(b, c.final)
        return Carried(initial, self._of[c.enter], leave, final, final.name)

    def _recorded(self, b: Builder, r: Recorded) -> Recorded:
        stack = self._of[r.stack] = _tangent(b, r.stack)
        return Recorded(self._of[r.row], stack, stack.name)

    def _choice(self, b: Builder, choice: If) -> None:
        """The branch that is taken gives tangents, too."""
        branches = (choice.then, choice.otherwise)
        inner = [b.body() for _ in branches]
        for inside, branch in zip(inner, branches, strict=True):
            self.scope(inside, branch.ops)
        leaves = zip(choice.outputs, *(branch.leaves for branch in branches), strict=True)
        changing = [
            (k, output)
            for k, (output, *both) in enumerate(leaves)
            if not self._of.keys().isdisjoint(both)
        ]
        then, otherwise = (
            Branch(
                tuple(inside.ops),
                (*branch.leaves, *(self.known(inside, branch.leaves[k]) for k, _ in changing)),
            )
            for inside, branch in zip(inner, branches, strict=True)
        )
        made = {output: _tangent(b, output) for _, output in changing}
        outputs = (*choice.outputs, *made.values())
        b.append(replace(choice, then=then, otherwise=otherwise, outputs=outputs))
        self._of.update(made)


def _tangent(b: Builder, value: Value, name: str = "") -> Value:
    """What stands for the tangent of a value: it has its type."""
    return b.new(value.dtype, value.shape, name or f"{value.name} tangent")


def _refuse_whole(name: str, value: Value) -> None:
    """Refuse what has no tangent.

    Raises:
        UnsupportedError: it is of whole numbers, of truths, or no array.
    """
    if not is_float(value):
        raise UnsupportedError(
            f"'{name}' is {value.type}, which does not change a little: "
            "only numbers with a point have derivatives",
            value.where,
            "differentiate what is float64",
        )
