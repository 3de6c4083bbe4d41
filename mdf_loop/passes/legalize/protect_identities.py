"""Numbers that are 1, or 0, for float32 only: ONNX Runtime would leave out what they do.

    y: float64 = Mul(x, 0.99999999)  ->   y = Neg(Mul(x, -0.99999999))
    y: float64 = Div(x, 0.99999999)  ->   y = Neg(Div(x, -0.99999999))
    y: float64 = Add(x, 1e-300)      ->   y = Sub(1e-300, Neg(x))
    y: float64 = Sub(x, 1e-300)      ->   y = Sub(-1e-300, Neg(x))

It takes a product with a constant for one that changes nothing when the constant, as float32, is 1:
a slow decay would stand still, and `log(x + 1e-300)` be infinite. Keeps: results bit for bit.

Source: onnxruntime 1.32, its rule for operations that do nothing (NoopElimination).
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Array, Op, Program, Value
from mdf_loop.ops.compositions.words import operand
from mdf_loop.passes.rewrite import rewrite


def protect_identities(program: Program) -> Program:
    """The program without such constants where ONNX Runtime looks at them."""
    return rewrite(program, _rule)


def _rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
    is_scaled, is_sum = op.op_type in ("Mul", "Div"), op.op_type in ("Add", "Sub")
    if not (is_scaled or is_sum) or op.outputs[0].dtype != "float64":
        return None
    x, y = operand(op, 0), operand(op, 1)
    sides = [(x, y), (y, x)] if op.op_type in ("Mul", "Add") else [(x, y)]
    for other, constant in sides:
        array = b.constant_of(constant)
        if array is not None and array.size == 1 and _is_near(array.item(), float(is_scaled)):
            return (_seen(b, op.op_type, other, array),)
    return None


def _is_near(number: float, neutral: float) -> bool:
    is_close = abs(number - neutral) < 1e-6  # a large number is none of float32's
    return number != neutral and is_close and bool(np.float32(number) == neutral)


def _seen(b: Builder, op_type: str, other: Value, constant: Array) -> Value:
    """The same with a number that is not taken for 1, or that is no second operand."""
    if op_type in ("Mul", "Div"):
        return b.op("Neg", b.op(op_type, other, b.constant(-constant)))
    first = constant if op_type == "Add" else -constant
    return b.op("Sub", b.constant(first), b.op("Neg", other))
