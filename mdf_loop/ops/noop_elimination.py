"""Operations that ONNX Runtime removes from a graph because they return an operand unchanged.

Source: onnxruntime 1.32, its rules for Identity, Slice, Expand and arithmetic (NoopElimination).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops.decompositions.build_helpers import operand

NOOP_OPERATORS = ("Identity", "Slice", "Expand")
"""Operations that return their first operand unchanged if they do not move or repeat elements."""

_NEUTRAL_OPERANDS = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}
"""Neutral second operands of arithmetic operations."""


def removable_operand(op: Op, constant_of: Callable[[Value], Array | None]) -> Value | None:
    """Return the operand that ONNX Runtime may return in place of an operation's result, or None."""
    if op.op_type in NOOP_OPERATORS:
        return operand(op)
    if op.op_type not in _NEUTRAL_OPERANDS:
        return None
    left_operand, right_operand = operand(op, 0), operand(op, 1)
    operand_pairs = (
        [(left_operand, right_operand), (right_operand, left_operand)]
        if op.op_type in ("Add", "Mul")
        else [(left_operand, right_operand)]
    )
    for kept_operand, neutral_operand in operand_pairs:
        constant_array = constant_of(neutral_operand)
        if constant_array is not None and bool(
            np.all(constant_array == _NEUTRAL_OPERANDS[op.op_type])
        ):
            return kept_operand
    return None
