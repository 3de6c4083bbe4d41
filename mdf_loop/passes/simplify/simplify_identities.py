"""Leave out arithmetic that changes no value, and choices that are no choice.

    x * 1, 1 * x, x / 1, x - 0, x + -0.0      ->   x
    x + 0.0, 0.0 + x      (x is never -0.0)   ->   x
    Where(True, x, y), Where(c, x, x)         ->   x
    StopGradient(x)                           ->   x

Keeps: results bit for bit, signs of zeros too; so `x + 0.0` stays where x may be -0.0, and
`0 * x`, which is not 0 for an infinite x, stays everywhere. What changes the dtype or the shape
of x stays too. Models written for many units and options are full of such factors.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops import row_of
from mdf_loop.ops.gradients import STOP
from mdf_loop.ops.words import holds_negative_zero
from mdf_loop.passes.rewrite import rewrite

_NUMBERS = frozenset({"float64", "float32", "int64", "int32"})


def simplify_identities(program: Program) -> Program:
    """The program without operations that give one of their operands."""
    return rewrite(program, _Neutral().rule)


class _Neutral:
    """Finds the operand that an operation gives; knows which values are never -0.0."""

    def __init__(self) -> None:
        self.no_negative_zero: set[Value] = set()

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """The operand that the operation gives, if it is one of them."""
        given = self._given(b, op)
        if given is None:
            if self._keeps_off_negative_zero(b, op):
                self.no_negative_zero.add(op.outputs[0])
            return None
        made = op.outputs[0]
        same = made.shape is not None and (given.dtype, given.shape) == (made.dtype, made.shape)
        return (given,) if same else None

    def _given(self, b: Builder, op: Op) -> Value | None:
        if op.op_type == "Where":
            return _only_choice(b, op)
        if op.op_type == STOP:
            return op.inputs[0]
        if len(op.inputs) != 2 or op.outputs[0].dtype not in _NUMBERS:
            return None
        left, right = op.inputs
        if left is None or right is None:
            return None
        if op.op_type in ("Mul", "Div") and _is_all(b, right, 1):
            return left
        if op.op_type == "Mul" and _is_all(b, left, 1):
            return right
        if op.op_type in ("Add", "Sub") and self._adds_nothing(b, right, left, op.op_type):
            return left
        if op.op_type == "Add" and self._adds_nothing(b, left, right, "Add"):
            return right
        return None

    def _adds_nothing(self, b: Builder, zero: Value, other: Value, op_type: str) -> bool:
        """Whether adding (or subtracting) the constant keeps every value of the other one."""
        array = b.constant_of(zero)
        if array is None or not _is_all(b, zero, 0):
            return False
        if array.dtype.kind == "i" or self._is_safe(b, other):
            return True
        return bool(np.all(np.signbit(array) == (op_type == "Add")))

    def _is_safe(self, b: Builder, value: Value) -> bool:
        """Whether no element can be -0.0."""
        array = b.constant_of(value)
        if array is not None and array.dtype.kind == "f":
            return not holds_negative_zero(array)
        return value in self.no_negative_zero

    def _keeps_off_negative_zero(self, b: Builder, op: Op) -> bool:
        """Whether no element that the operation gives can be -0.0, in round to nearest."""
        safe = [value is not None and self._is_safe(b, value) for value in op.inputs]
        match op.op_type:
            case "Add":
                return any(safe)  # -0.0 is the sum of two -0.0 alone
            case "Sub":
                return safe[0]  # and the difference of -0.0 and 0.0 alone
            case "Mul":
                return op.inputs[0] is op.inputs[1]
            case "Cast":
                return op.inputs[0] is not None and op.inputs[0].dtype in ("int64", "int32", "bool")
            case "Where":
                return all(safe[1:])
        return row_of(op.op_type).never_negative(op)


def _only_choice(b: Builder, op: Op) -> Value | None:
    condition, left, right = op.inputs
    if left is right:
        return left
    known = b.constant_of(condition)
    if known is None or known.size == 0 or known.min() != known.max():
        return None
    return left if known.min() else right


def _is_all(b: Builder, value: Value, number: int) -> bool:
    """Whether the value is a constant of nothing but this number."""
    array = b.constant_of(value)
    return array is not None and array.size > 0 and bool(np.all(array == number))
