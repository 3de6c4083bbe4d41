"""Activation functions. Their parameters are used as given, not rounded to float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.elementary import expm1, log1p
from mdf_loop.ops.compositions.words import (
    attribute,
    number,
    operand,
    scaled,
    shifted,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def clip(b: Builder, x: Value, low: float, high: float) -> Value:
    """`min(max(x, low), high)`."""
    return b.op("Clip", x, number(b, low, x), number(b, high, x))


def positive(b: Builder, x: Value) -> Value:
    """`max(x, 0)`."""
    return b.op("Max", x, number(b, 0, x))


def negative(b: Builder, x: Value) -> Value:
    """`min(x, 0)`."""
    return b.op("Min", x, number(b, 0, x))


def relu(b: Builder, op: Op) -> Value:
    """`max(x, 0)`."""
    return positive(b, operand(op))


def gelu(b: Builder, op: Op) -> Value:
    """`x / 2 * (1 + erf(x / sqrt(2)))`, or its approximation by tanh.

    Source: ONNX operators, Gelu-20.
    """
    x = operand(op)
    if attribute(op, "approximate") == "tanh":
        cubed = b.op("Mul", x, b.op("Mul", x, x))
        inner = b.op("Add", x, scaled(b, cubed, 0.044715))
        part = b.op("Tanh", scaled(b, inner, math.sqrt(2 / math.pi)))
    else:
        part = b.op("Erf", scaled(b, x, math.sqrt(0.5)))
    return b.op("Mul", scaled(b, x, 0.5), shifted(b, part, 1))


def leaky_relu(b: Builder, op: Op) -> Value:
    """`alpha * x if x < 0 else x`."""
    x = operand(op)
    return _sloped(b, x, number(b, attribute(op, "alpha"), x))


def prelu(b: Builder, op: Op) -> Value:
    """`slope * x if x < 0 else x`."""
    return _sloped(b, operand(op), operand(op, 1))


def _sloped(b: Builder, x: Value, slope: Value) -> Value:
    return b.op("Where", b.op("Less", x, number(b, 0, x)), b.op("Mul", slope, x), x)


def thresholded_relu(b: Builder, op: Op) -> Value:
    """`x if x > alpha else 0`."""
    x = operand(op)
    above = b.op("Greater", x, number(b, attribute(op, "alpha"), x))
    return b.op("Where", above, x, number(b, 0, x))


def _elu(b: Builder, x: Value, alpha: float, gamma: float = 1.0) -> Value:
    below = scaled(b, expm1(b, clip(b, x, -40.0, 0.0)), alpha)
    return scaled(b, b.op("Add", positive(b, x), below), gamma)


def elu(b: Builder, op: Op) -> Value:
    """`max(x, 0) + alpha * (exp(min(x, 0)) - 1)`. Within 5 ulp."""
    return _elu(b, operand(op), attribute(op, "alpha"))


def celu(b: Builder, op: Op) -> Value:
    """`max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`, which is `alpha * elu(x / alpha)`."""
    x, alpha = operand(op), attribute(op, "alpha")
    if not alpha > 0:
        raise UnsupportedError(f"onnx::Celu is composed for a positive alpha only, not {alpha}")
    return scaled(b, _elu(b, b.op("Div", x, number(b, alpha, x)), 1.0), alpha)


def selu(b: Builder, op: Op) -> Value:
    """`gamma * (max(x, 0) + alpha * (exp(min(x, 0)) - 1))`. Within 5 ulp."""
    return _elu(b, operand(op), attribute(op, "alpha"), attribute(op, "gamma"))


def hard_sigmoid(b: Builder, op: Op) -> Value:
    """`max(0, min(1, alpha * x + beta))`."""
    line = scaled(b, operand(op), attribute(op, "alpha"))
    return clip(b, shifted(b, line, attribute(op, "beta")), 0.0, 1.0)


def hard_swish(b: Builder, op: Op) -> Value:
    """`x * max(0, min(1, x / 6 + 1/2))`."""
    x = operand(op)
    line = shifted(b, b.op("Div", x, number(b, 6.0, x)), 0.5)
    return b.op("Mul", x, clip(b, line, 0.0, 1.0))


def softplus(b: Builder, op: Op) -> Value:
    """`log(1 + exp(x))` as `max(x, 0) + log1p(exp(-|x|))`: no overflow. Within 4 ulp."""
    return _softplus(b, operand(op))


def mish(b: Builder, op: Op) -> Value:
    """`x * tanh(log(1 + exp(x)))`."""
    x = operand(op)
    return b.op("Mul", x, b.op("Tanh", _softplus(b, x)))


def _softplus(b: Builder, x: Value) -> Value:
    return b.op("Add", positive(b, x), log1p(b, b.op("Exp", b.op("Neg", b.op("Abs", x)))))


def softsign(b: Builder, op: Op) -> Value:
    """`x / (1 + |x|)`."""
    x = operand(op)
    return b.op("Div", x, shifted(b, b.op("Abs", x), 1.0))


def shrink(b: Builder, op: Op) -> Value:
    """`x + bias if x < -lambd else x - bias if x > lambd else 0`.

    ONNX Runtime's own kernel computes it in float32, whatever the dtype.
    """
    x = operand(op)
    bias, limit = attribute(op, "bias"), attribute(op, "lambd")
    low, high = -limit, limit
    if np.dtype(x.dtype).kind in "iu":
        if bias != int(bias):
            raise UnsupportedError(f"onnx::Shrink of whole numbers cannot have the bias {bias}")
        low, high = math.ceil(low), math.floor(high)
    zero = number(b, 0, x)
    below = b.op("Where", b.op("Less", x, number(b, low, x)), shifted(b, x, bias), zero)
    return b.op("Where", b.op("Greater", x, number(b, high, x)), shifted(b, x, -bias), below)
