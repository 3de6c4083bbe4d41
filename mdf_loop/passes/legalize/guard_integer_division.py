"""Whole numbers divided by -1, of which the smallest number's ends the process in ONNX Runtime.

    q: int64[n] = Div(a, b)   ->   turns = Equal(b, -1); divisor = Where(turns, 1, b)
                                   q = Mul(Div(a, divisor), Where(turns, -1, 1))
    r: int64[n] = Mod(a, b)   ->   r = Mod(a, divisor)

The quotient of -2**63 and -1 wraps, as in numpy: it is -2**63; the rest is 0. Keeps: results bit
for bit, errors (a division by zero is one). Where an operand shows that the two cannot meet, the
division stays as it is. What looks at a divisor from outside of a loop stands in the loop, from
which `hoist_invariants` takes it, and for each division, which `eliminate_common_subexpressions` makes one.

Source: the processor's own division traps where the quotient overflows (Intel SDM, IDIV).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from mdf_loop.build import Builder
from mdf_loop.ir import Constant, Loop, Op, Operation, Program, Value, walk
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.compositions.words import number, operand
from mdf_loop.ops.registry import row_of
from mdf_loop.passes.rewrite import rewrite

_TRAPPING = ("int32", "int64")
"""Dtypes whose kernels leave the overflow to the processor; smaller ones divide as int32."""


def guard_integer_division(program: Program) -> Program:
    """The program without divisions that could end the process."""
    if not any(_traps(operation) for operation in walk(program.ops)):
        return program
    known = _Known()
    known.learn(walk(program.ops))

    def rule(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        return None if not _traps(op) or known.excludes(op) else (_divided(b, op),)

    return rewrite(program, rule)


def _traps(operation: Operation) -> bool:
    """Whether an operation divides whole numbers of a dtype where that may trap.

    The kernel of `fmod` divides in float64 (where 64 bits matter it is never asked).
    """
    if not isinstance(operation, Op) or operation.op_type not in ("Div", "Mod"):
        return False
    return operation.outputs[0].dtype in _TRAPPING and not operation.attributes.get("fmod")


def _divided(b: Builder, op: Op) -> Value:
    dividend, divisor = operand(op, 0), operand(op, 1)
    one, minus_one = number(b, 1, divisor), number(b, -1, divisor)
    if divisor.shape == () and b.constant_of(divisor) is not None:  # it is -1
        return b.op("Neg", dividend) if op.op_type == "Div" else b.op("Mod", dividend, one)
    turns = b.op("Equal", divisor, minus_one)
    quotient = b.op(op.op_type, dividend, b.op("Where", turns, one, divisor))
    if op.op_type == "Mod":
        return quotient
    return b.op("Mul", quotient, b.op("Where", turns, minus_one, one))


class _Known(Struct):
    """Values that are never -1, values that never hold the smallest number of their dtype."""

    never_minus_one: set[Value] = field(default_factory=set)
    never_smallest: set[Value] = field(default_factory=set)
    _minus_one: set[Value] = field(default_factory=set)
    _turns: set[tuple[Value, Value | None]] = field(default_factory=set)

    def excludes(self, op: Op) -> bool:
        """Whether the smallest number can never be divided by -1 here."""
        return op.inputs[0] in self.never_smallest or op.inputs[1] in self.never_minus_one

    def learn(self, operations: Iterable[Operation]) -> None:
        """What can be told of values without knowing them; operands come before results."""
        for operation in operations:
            if isinstance(operation, Constant):
                self._learn_constant(operation)
            elif isinstance(operation, Loop):
                numbered = operation.iteration if operation.first is None else None
                self._learn_both((numbered, operation.count))
            elif isinstance(operation, Op):
                self._learn_op(operation)

    def _learn_both(self, values: Iterable[Value | None]) -> None:
        for known in (self.never_minus_one, self.never_smallest):
            known.update(value for value in values if value is not None)

    def _learn_constant(self, constant: Constant) -> None:
        value, array = constant.value, constant.array
        if kind_of(value.dtype) != "i":
            return
        if not np.any(array == -1):
            self.never_minus_one.add(value)
        if not np.any(array == np.iinfo(array.dtype).min):
            self.never_smallest.add(value)
        if array.ndim == 0 and array == -1:
            self._minus_one.add(value)

    def _learn_op(self, op: Op) -> None:
        row = row_of(op.op_type)
        if row.never_negative(op):
            self._learn_both(op.outputs)
        elif op.op_type == "Cast":
            self._learn_cast(op)
        elif row.moves is not None:
            self._learn_move(op, [op.inputs[k] for k in row.moves(op)])
        elif op.op_type == "Equal" and op.inputs[1] in self._minus_one:
            self._turns.add((op.outputs[0], op.inputs[0]))

    def _learn_cast(self, op: Op) -> None:
        """Whole numbers of a smaller dtype."""
        (source,), (made,) = op.inputs, op.outputs
        before = kind_of(source.dtype) if source is not None else ""
        if source is None or before not in "biu" or kind_of(made.dtype) != "i":
            return
        if np.dtype(made.dtype).itemsize <= np.dtype(source.dtype).itemsize:
            return
        self.never_smallest.add(made)
        if before != "i" or source in self.never_minus_one:
            self.never_minus_one.add(made)

    def _learn_move(self, op: Op, parts: Iterable[Value | None]) -> None:
        """What holds numbers of these operands only."""
        if self.never_smallest.issuperset(parts):
            self.never_smallest.update(op.outputs)
        if op.op_type == "Where" and (op.inputs[0], op.inputs[2]) in self._turns:
            parts = op.inputs[1:2]  # the other one is taken where it is not -1
        if self.never_minus_one.issuperset(parts):
            self.never_minus_one.update(op.outputs)
