"""Protection of arithmetic that ONNX Runtime removes as it rounds the constant to 1 or 0.

    y: float64 = Mul(x, 0.99999999)  ->   y = Neg(Mul(x, -0.99999999))
    y: float64 = Div(x, 0.99999999)  ->   y = Neg(Div(x, -0.99999999))
    y: float64 = Add(x, 1e-300)      ->   y = Sub(1e-300, Neg(x))
    y: float64 = Sub(x, 1e-300)      ->   y = Sub(-1e-300, Neg(x))

ONNX Runtime removes a product with a constant that is 1 when rounded to float32. Then a slow decay
would stand still, and `log(x + 1e-300)` would be infinite. Preserves: results bit for bit.

Source: onnxruntime 1.32, rewrite rule NoopElimination.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Array, Op, Program, Value
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.passes.rewrite import rewrite


def protect_identities(program: Program) -> Program:
    """Rewrite arithmetic that ONNX Runtime would remove as it rounds the constant to 1 or 0."""
    return rewrite(program, _protect_op)


def _protect_op(b: Builder, op: Op) -> tuple[Value, ...] | None:
    is_product, is_sum = op.op_type in ("Mul", "Div"), op.op_type in ("Add", "Sub")
    if not (is_product or is_sum) or op.outputs[0].dtype != "float64":
        return None
    left_operand, right_operand = operand(op, 0), operand(op, 1)
    operand_orders = (
        [(left_operand, right_operand), (right_operand, left_operand)]
        if op.op_type in ("Mul", "Add")
        else [(left_operand, right_operand)]
    )
    for variable_operand, constant_operand in operand_orders:
        constant_array = b.constant_of(constant_operand)
        if (
            constant_array is not None
            and constant_array.size == 1
            and _rounds_to_neutral(constant_array.item(), float(is_product))
        ):
            return (_rewrite_with_negation(b, op.op_type, variable_operand, constant_array),)
    return None


def _rounds_to_neutral(number: float, neutral: float) -> bool:
    is_close_to_neutral = abs(number - neutral) < 1e-6  # first: a large number overflows in float32
    return number != neutral and is_close_to_neutral and bool(np.float32(number) == neutral)


def _rewrite_with_negation(b: Builder, op_type: str, variable: Value, constant: Array) -> Value:
    """Append arithmetic with two negations that is equal to `op_type(variable, constant)`."""
    if op_type in ("Mul", "Div"):
        return b.op("Neg", b.op(op_type, variable, b.constant(-constant)))
    added_constant = constant if op_type == "Add" else -constant
    return b.op("Sub", b.constant(added_constant), b.op("Neg", variable))
