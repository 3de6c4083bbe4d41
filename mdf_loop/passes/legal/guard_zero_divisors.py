"""Replace an integer division by a constant zero by a guard that fails in the run.

    q: int64[2] = Div(a, 0)      ->      q' = Div(a, 1);  q = guard(q', false)

ONNX Runtime's kernels refuse a constant divisor of 0 when the model is loaded, even in a branch or
a loop that never runs. A guard fails only where the quotient is computed and read, with its place.
A quotient without elements divides nothing, and does not fail. Keeps: results bit for bit, errors.

Source: onnxruntime 1.32, the constructors of Div and Mod in `element_wise_ops.cc`.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, is_fixed
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.compositions.words import operand
from mdf_loop.ops.failing import DIVIDED_BY_ZERO
from mdf_loop.ops.words import scalar
from mdf_loop.passes.rewrite import rewrite


def guard_zero_divisors(program: Program) -> Program:
    """Return the program without integer quotients and remainders whose divisor holds a constant zero."""
    return rewrite(program, _guarded)


def _guarded(b: Builder, op: Op) -> tuple[Value, ...] | None:
    if op.op_type not in ("Div", "Mod") or kind_of(op.outputs[0].dtype) not in "iu":
        return None
    divisor = b.constant_of(operand(op, 1))
    if divisor is None or np.all(divisor):
        return None
    harmless = b.constant(np.where(divisor == 0, np.array(1, divisor.dtype), divisor))
    quotient = b.op(op.op_type, operand(op), harmless, **op.attributes)
    if is_fixed(quotient.shape) and 0 in quotient.shape:
        return (quotient,)
    divides_nothing = b.constant(np.array(False))
    if not is_fixed(quotient.shape):
        divides_nothing = b.op("Equal", b.op("Size", quotient), scalar(b, 0, "int64"))
    return (b.guard(quotient, divides_nothing, DIVIDED_BY_ZERO),)
