"""Machine code of simple activation functions, in the dtype of the operand as in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.native.arithmetic import absolute, operand_dtype
from mdf_loop.ops.native.code import Code, NotNative, is_float, is_single
from mdf_loop.ops.native.conversions import convert


def _attribute_constant(code: Code, op: Op, name: str) -> str:
    """Return a numeric attribute of an operation as an LLVM constant of the operand's dtype."""
    return code.constant(_attribute(op, name), operand_dtype(op))


def _attribute(op: Op, name: str) -> Any:
    """Return the value of an operation's attribute, or the default value that ONNX defines."""
    return onnx_schema.attribute(op.op_type, op.attributes, name)


def _clamp(code: Code, dtype: str, x: str, low: str, high: str) -> str:
    """Write LLVM code of `min(max(x, low), high)`, which is nan if x is nan.

    A bound of nan has no effect.
    """
    x = code.select(code.less(dtype, x, low), dtype, low, x)
    return code.select(code.less(dtype, high, x), dtype, high, x)


def clip(code: Code, op: Op, x: str, *bounds: str) -> str:
    """Write LLVM code of ONNX's `Clip`: `min(max(x, low), high)`.

    The default of a bound is the smallest or largest number of the dtype.

    Raises:
        NotNative: A bound is an array, which the runtime refuses.
    """
    bound_operands, bound_registers = (*op.inputs[1:], None, None)[:2], iter(bounds)
    if any(operand is not None and not is_single(operand) for operand in bound_operands):
        raise NotNative("it has onnx::Clip with bounds that are arrays")
    dtype = operand_dtype(op)
    dtype_limits = np.finfo(dtype) if is_float(dtype) else np.iinfo(dtype)
    lower_bound, upper_bound = (
        code.constant(dtype_limit, dtype) if operand is None else next(bound_registers)
        for operand, dtype_limit in zip(
            bound_operands, (dtype_limits.min, dtype_limits.max), strict=True
        )
    )
    return _clamp(code, dtype, x, lower_bound, upper_bound)


def relu(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `max(x, 0)`, which leaves -0.0 unchanged."""
    dtype, zero_literal = operand_dtype(op), code.constant(0, operand_dtype(op))
    return code.select(code.less(dtype, x, zero_literal), dtype, zero_literal, x)


def leaky_relu(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `alpha * x if x < 0 else x`."""
    return prelu(code, op, x, _attribute_constant(code, op, "alpha"))


def prelu(code: Code, op: Op, x: str, slope: str) -> str:
    """Write LLVM code of `slope * x if x < 0 else x`."""
    dtype = operand_dtype(op)
    is_negative = code.less(dtype, x, code.constant(0, dtype))
    return code.select(is_negative, dtype, code.binary("fmul", dtype, slope, x), x)


def thresholded_relu(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `x if x > alpha else 0`."""
    dtype = operand_dtype(op)
    is_above_threshold = code.less(dtype, _attribute_constant(code, op, "alpha"), x)
    return code.select(is_above_threshold, dtype, x, code.constant(0, dtype))


def hard_sigmoid(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `max(0, min(1, alpha * x + beta))`."""
    dtype = operand_dtype(op)
    linear_term = code.binary("fmul", dtype, _attribute_constant(code, op, "alpha"), x)
    linear_term = code.binary("fadd", dtype, linear_term, _attribute_constant(code, op, "beta"))
    return _clamp(code, dtype, linear_term, code.constant(0, dtype), code.constant(1, dtype))


def hard_swish(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `x * max(0, min(1, x / 6 + 1/2))`."""
    dtype = operand_dtype(op)
    linear_term = code.binary("fmul", dtype, code.constant(1 / 6, dtype), x)
    linear_term = code.binary("fadd", dtype, linear_term, code.constant(0.5, dtype))
    factor = _clamp(code, dtype, linear_term, code.constant(0, dtype), code.constant(1, dtype))
    return code.binary("fmul", dtype, x, factor)


def softsign(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `x / (1 + |x|)`."""
    dtype = operand_dtype(op)
    denominator = code.binary("fadd", dtype, code.constant(1, dtype), absolute(code, op, x))
    return code.binary("fdiv", dtype, x, denominator)


def shrink(code: Code, op: Op, x: str) -> str:
    """Write LLVM code of `x + bias if x < -lambd else x - bias if x > lambd else 0`.

    Integers are computed in float32.
    """
    dtype = operand_dtype(op)
    compute_dtype = dtype if is_float(dtype) else "float32"
    x = convert(code, dtype, x, compute_dtype)
    bias, threshold = code.constant(_attribute(op, "bias"), compute_dtype), _attribute(op, "lambd")
    is_below = code.less(compute_dtype, x, code.constant(-threshold, compute_dtype))
    is_above = code.less(compute_dtype, code.constant(threshold, compute_dtype), x)
    else_register = code.select(
        is_above,
        compute_dtype,
        code.binary("fsub", compute_dtype, x, bias),
        code.constant(0, compute_dtype),
    )
    shrunk_x = code.select(
        is_below, compute_dtype, code.binary("fadd", compute_dtype, x, bias), else_register
    )
    return convert(code, compute_dtype, shrunk_x, dtype)
