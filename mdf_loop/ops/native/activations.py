"""Activations of few operations, in their own dtype, as ONNX Runtime's kernels compute them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.ir import Op
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.native.arithmetic import absolute, first
from mdf_loop.ops.native.code import Code, NotNative, is_float, is_single
from mdf_loop.ops.native.conversions import converted


def _number(code: Code, op: Op, name: str) -> str:
    """A number among the attributes."""
    return code.number(_attribute(op, name), first(op))


def _attribute(op: Op, name: str) -> Any:
    return onnx_schema.attribute(op.op_type, op.attributes, name)


def _bounded(code: Code, dtype: str, x: str, low: str, high: str) -> str:
    """`min(max(x, low), high)`; nan stays nan, and bounds nothing."""
    x = code.choose(code.less(dtype, x, low), dtype, low, x)
    return code.choose(code.less(dtype, high, x), dtype, high, x)


def clip(code: Code, op: Op, x: str, *bounds: str) -> str:
    """`min(max(x, low), high)`; where a bound is left out, that is the last number of the dtype.

    Raises:
        NotNative: a bound is an array, which the runtime refuses.
    """
    values, given = (*op.inputs[1:], None, None)[:2], iter(bounds)
    if any(value is not None and not is_single(value) for value in values):
        raise NotNative("it has onnx::Clip with bounds that are arrays")
    dtype = first(op)
    ends = np.finfo(dtype) if is_float(dtype) else np.iinfo(dtype)
    low, high = (
        code.number(end, dtype) if value is None else next(given)
        for value, end in zip(values, (ends.min, ends.max), strict=True)
    )
    return _bounded(code, dtype, x, low, high)


def relu(code: Code, op: Op, x: str) -> str:
    """`max(x, 0)`; -0.0 stays what it is."""
    dtype, zero = first(op), code.number(0, first(op))
    return code.choose(code.less(dtype, x, zero), dtype, zero, x)


def leaky_relu(code: Code, op: Op, x: str) -> str:
    """`alpha * x if x < 0 else x`."""
    return prelu(code, op, x, _number(code, op, "alpha"))


def prelu(code: Code, op: Op, x: str, slope: str) -> str:
    """`slope * x if x < 0 else x`."""
    dtype = first(op)
    below = code.less(dtype, x, code.number(0, dtype))
    return code.choose(below, dtype, code.binary("fmul", dtype, slope, x), x)


def thresholded_relu(code: Code, op: Op, x: str) -> str:
    """`x if x > alpha else 0`."""
    dtype = first(op)
    above = code.less(dtype, _number(code, op, "alpha"), x)
    return code.choose(above, dtype, x, code.number(0, dtype))


def hard_sigmoid(code: Code, op: Op, x: str) -> str:
    """`max(0, min(1, alpha * x + beta))`."""
    dtype = first(op)
    line = code.binary("fmul", dtype, _number(code, op, "alpha"), x)
    line = code.binary("fadd", dtype, line, _number(code, op, "beta"))
    return _bounded(code, dtype, line, code.number(0, dtype), code.number(1, dtype))


def hard_swish(code: Code, op: Op, x: str) -> str:
    """`x * max(0, min(1, x / 6 + 1/2))`."""
    dtype = first(op)
    line = code.binary("fmul", dtype, code.number(1 / 6, dtype), x)
    line = code.binary("fadd", dtype, line, code.number(0.5, dtype))
    part = _bounded(code, dtype, line, code.number(0, dtype), code.number(1, dtype))
    return code.binary("fmul", dtype, x, part)


def softsign(code: Code, op: Op, x: str) -> str:
    """`x / (1 + |x|)`."""
    dtype = first(op)
    below = code.binary("fadd", dtype, code.number(1, dtype), absolute(code, op, x))
    return code.binary("fdiv", dtype, x, below)


def shrink(code: Code, op: Op, x: str) -> str:
    """`x + bias if x < -lambd else x - bias if x > lambd else 0`; of small whole numbers in float32."""
    dtype = first(op)
    wide = dtype if is_float(dtype) else "float32"
    x = converted(code, dtype, x, wide)
    bias, limit = code.number(_attribute(op, "bias"), wide), _attribute(op, "lambd")
    below = code.less(wide, x, code.number(-limit, wide))
    above = code.less(wide, code.number(limit, wide), x)
    less = code.choose(above, wide, code.binary("fsub", wide, x, bias), code.number(0, wide))
    made = code.choose(below, wide, code.binary("fadd", wide, x, bias), less)
    return converted(code, wide, made, dtype)
