"""Removal of arithmetic identities such as `x * 1`, and of selections with a known result.

    x * 1, 1 * x, x / 1, x - 0, x + -0.0      ->   x
    x + 0.0, 0.0 + x      (x is never -0.0)   ->   x
    Where(True, x, y), Where(c, x, x)         ->   x
    StopGradient(x)                           ->   x

Preserves: results bit for bit, including the signs of zeros. So `x + 0.0` stays if x may be -0.0. `0 * x`
always stays, because `0 * x` is not 0 for an infinite x. An operation that changes the dtype or the shape of
x also stays. Models with many units and options contain many such factors.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops import row_of
from mdf_loop.ops.build_helpers import holds_negative_zero
from mdf_loop.ops.stop_gradient import STOP_GRADIENT
from mdf_loop.passes.rewrite import rewrite

_NUMBER_DTYPES = frozenset({"float64", "float32", "int64", "int32"})


def simplify_identities(program: Program) -> Program:
    """Remove operations that return one of their operands unchanged, such as `x * 1`."""
    return rewrite(program, _IdentityFinder().rule)


class _IdentityFinder:
    """Rewrite rule that finds operations which return one of their operands unchanged."""

    def __init__(self) -> None:
        self.never_negative_zero_values: set[Value] = set()

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """Return the operand that an operation returns unchanged, or None to keep the operation."""
        unchanged_operand = self._unchanged_operand(b, op)
        if unchanged_operand is None:
            if self._never_returns_negative_zero(b, op):
                self.never_negative_zero_values.add(op.outputs[0])
            return None
        op_output = op.outputs[0]
        has_same_type = op_output.shape is not None and (
            unchanged_operand.dtype,
            unchanged_operand.shape,
        ) == (
            op_output.dtype,
            op_output.shape,
        )
        return (unchanged_operand,) if has_same_type else None

    def _unchanged_operand(self, b: Builder, op: Op) -> Value | None:
        if op.op_type == "Where":
            return _only_selected_operand(b, op)
        if op.op_type == STOP_GRADIENT:
            return op.inputs[0]
        if len(op.inputs) != 2 or op.outputs[0].dtype not in _NUMBER_DTYPES:
            return None
        left_operand, right_operand = op.inputs
        if left_operand is None or right_operand is None:
            return None
        if op.op_type in ("Mul", "Div") and _is_constant_of(b, right_operand, 1):
            return left_operand
        if op.op_type == "Mul" and _is_constant_of(b, left_operand, 1):
            return right_operand
        if op.op_type in ("Add", "Sub") and self._is_neutral_term(
            b, right_operand, left_operand, op.op_type
        ):
            return left_operand
        if op.op_type == "Add" and self._is_neutral_term(b, left_operand, right_operand, "Add"):
            return right_operand
        return None

    def _is_neutral_term(self, b: Builder, zero: Value, other: Value, op_type: str) -> bool:
        """Return True if adding (or subtracting) a constant 0 keeps all values, including -0.0."""
        constant_array = b.constant_of(zero)
        if constant_array is None or not _is_constant_of(b, zero, 0):
            return False
        if constant_array.dtype.kind == "i" or self._is_never_negative_zero(b, other):
            return True
        return bool(np.all(np.signbit(constant_array) == (op_type == "Add")))

    def _is_never_negative_zero(self, b: Builder, value: Value) -> bool:
        """Return True if no element of a value can be -0.0."""
        constant_array = b.constant_of(value)
        if constant_array is not None and constant_array.dtype.kind == "f":
            return not holds_negative_zero(constant_array)
        return value in self.never_negative_zero_values

    def _never_returns_negative_zero(self, b: Builder, op: Op) -> bool:
        """Return True if no element of an operation's result can be -0.0, given its operands."""
        are_never_negative_zero = [
            value is not None and self._is_never_negative_zero(b, value) for value in op.inputs
        ]
        match op.op_type:
            case "Add":
                return any(are_never_negative_zero)  # only the sum of two -0.0 is -0.0
            case "Sub":
                return are_never_negative_zero[0]  # only -0.0 - 0.0 is -0.0
            case "Mul":
                return op.inputs[0] is op.inputs[1]
            case "Cast":
                return op.inputs[0] is not None and op.inputs[0].dtype in ("int64", "int32", "bool")
            case "Where":
                return all(are_never_negative_zero[1:])
        return row_of(op.op_type).never_negative(op)


def _only_selected_operand(b: Builder, op: Op) -> Value | None:
    """Return the operand that a `Where` always selects, or None if both can be selected."""
    condition, then_operand, else_operand = op.inputs
    if then_operand is else_operand:
        return then_operand
    constant_condition = b.constant_of(condition)
    if (
        constant_condition is None
        or constant_condition.size == 0
        or constant_condition.min() != constant_condition.max()
    ):
        return None
    return then_operand if constant_condition.min() else else_operand


def _is_constant_of(b: Builder, value: Value, number: int) -> bool:
    """Return True if a value is a constant whose elements all equal `number`."""
    constant_array = b.constant_of(value)
    return (
        constant_array is not None
        and constant_array.size > 0
        and bool(np.all(constant_array == number))
    )
