"""Guards that make integer divisions by zero fail at run time, except for empty arrays.

    q: int64[2] = Div(a, 0)      ->      q' = Div(a, 1);  q = guard(q', false)

    q: int64[0, 2] = Div(a, b)   ->      q = Mul(a, b)
    q: int64[n] = Div(a, b)      ->      q = Div(a, Where(Size(a) == 0, 1, b))

ONNX Runtime's kernels refuse a constant divisor of 0 when the model is loaded, even in a branch or a loop
that never runs. A guard fails only if the quotient is computed and read, and its error names the place. The
kernels check computed divisors before they divide, so they also fail for an empty dividend. An empty product
has the shape of the quotient. Preserves: results bit for bit, errors.

Source: onnxruntime 1.32, the constructors and checks of Div and Mod in `element_wise_ops.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, is_fixed
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.build_helpers import scalar
from mdf_loop.ops.decompositions.build_helpers import constant_like, operand
from mdf_loop.ops.failure_conditions import DIVISION_BY_ZERO_MESSAGE
from mdf_loop.passes.rewrite import rewrite


def guard_zero_divisors(program: Program) -> Program:
    """Rewrite integer divisions to fail for a zero divisor at run time, not at load time.

    A division of an empty array does not fail.
    """
    producers: dict[Value, Op] = {}

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        producers[op.outputs[0]] = op
        return _guard_division(b, op, producers)

    return rewrite(program, rule)


def _guard_division(b: Builder, op: Op, producers: Mapping[Value, Op]) -> tuple[Value, ...] | None:
    """Return a guarded integer division if the divisor may be zero, else None.

    `producers` maps earlier results to their operations.
    """
    if op.op_type not in ("Div", "Mod") or kind_of(op.outputs[0].dtype) not in "iu":
        return None
    divisor = b.constant_of(operand(op, 1))
    if divisor is None:
        return _guard_empty_division(b, op, producers)
    if np.all(divisor):
        return None
    nonzero_divisor = b.constant(np.where(divisor == 0, np.array(1, divisor.dtype), divisor))
    quotient = b.op(op.op_type, operand(op), nonzero_divisor, **op.attributes)
    if is_fixed(quotient.shape) and 0 in quotient.shape:
        return (quotient,)
    false_constant = b.constant(np.array(False))
    if not is_fixed(quotient.shape):
        false_constant = b.op("Equal", b.op("Size", quotient), scalar(b, 0, "int64"))
    return (b.guard(quotient, false_constant, DIVISION_BY_ZERO_MESSAGE),)


def _guard_empty_division(
    b: Builder, op: Op, producers: Mapping[Value, Op]
) -> tuple[Value, ...] | None:
    """Return a quotient that allows a zero divisor if the dividend is an empty array, or None.

    None means that the division needs no change.
    """
    dividend, divisor = operand(op), operand(op, 1)
    if _is_guarded(producers, divisor, dividend):
        return None
    if not is_fixed(dividend.shape):
        is_empty = b.op("Equal", b.op("Size", dividend), scalar(b, 0, "int64"))
        nonzero_divisor = b.op("Where", is_empty, constant_like(b, 1, divisor), divisor)
        return (b.op(op.op_type, dividend, nonzero_divisor, **op.attributes),)
    return (b.op("Mul", dividend, divisor),) if 0 in dividend.shape else None


def _is_guarded(producers: Mapping[Value, Op], divisor: Value, dividend: Value) -> bool:
    """Return True if a `Where` already replaces a divisor by 1 for a dividend without elements."""
    selection_op = producers.get(divisor)
    if selection_op is None or selection_op.op_type != "Where":
        return False
    equality_op = producers.get(operand(selection_op))
    size_op = (
        producers.get(operand(equality_op))
        if equality_op is not None and equality_op.op_type == "Equal"
        else None
    )
    if size_op is not None and size_op.op_type == "Size" and operand(size_op) is dividend:
        return True
    return _is_guarded(producers, operand(selection_op, 2), dividend)
