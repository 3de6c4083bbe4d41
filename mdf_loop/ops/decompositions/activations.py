"""Decompositions of activation functions, with parameters in the dtype of the operand, not in float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    operand,
    scale,
    shift,
)
from mdf_loop.ops.decompositions.elementary import expm1, log1p

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def clip(b: Builder, x: Value, low: float, high: float) -> Value:
    """Build operations that compute `min(max(x, low), high)`."""
    return b.op("Clip", x, constant_like(b, low, x), constant_like(b, high, x))


def positive_part(b: Builder, x: Value) -> Value:
    """Build operations that compute `max(x, 0)`."""
    return b.op("Max", x, constant_like(b, 0, x))


def negative_part(b: Builder, x: Value) -> Value:
    """Build operations that compute `min(x, 0)`."""
    return b.op("Min", x, constant_like(b, 0, x))


def relu(b: Builder, op: Op) -> Value:
    """Build operations that compute `max(x, 0)`."""
    return positive_part(b, operand(op))


def gelu(b: Builder, op: Op) -> Value:
    """Build operations that compute `x / 2 * (1 + erf(x / sqrt(2)))`, or its approximation by tanh.

    Source: ONNX operators, Gelu-20.
    """
    x = operand(op)
    if attribute(op, "approximate") == "tanh":
        cube = b.op("Mul", x, b.op("Mul", x, x))
        tanh_argument = b.op("Add", x, scale(b, cube, 0.044715))
        tanh_curve = b.op("Tanh", scale(b, tanh_argument, math.sqrt(2 / math.pi)))
    else:
        tanh_curve = b.op("Erf", scale(b, x, math.sqrt(0.5)))
    return b.op("Mul", scale(b, x, 0.5), shift(b, tanh_curve, 1))


def leaky_relu(b: Builder, op: Op) -> Value:
    """Build operations that compute `alpha * x if x < 0 else x`."""
    x = operand(op)
    return _scale_negative(b, x, constant_like(b, attribute(op, "alpha"), x))


def prelu(b: Builder, op: Op) -> Value:
    """Build operations that compute `slope * x if x < 0 else x`."""
    return _scale_negative(b, operand(op), operand(op, 1))


def _scale_negative(b: Builder, x: Value, slope: Value) -> Value:
    return b.op("Where", b.op("Less", x, constant_like(b, 0, x)), b.op("Mul", slope, x), x)


def thresholded_relu(b: Builder, op: Op) -> Value:
    """Build operations that compute `x if x > alpha else 0`."""
    x = operand(op)
    is_above = b.op("Greater", x, constant_like(b, attribute(op, "alpha"), x))
    return b.op("Where", is_above, x, constant_like(b, 0, x))


def _elu(b: Builder, x: Value, alpha: float, gamma: float = 1.0) -> Value:
    negative_branch = scale(b, expm1(b, clip(b, x, -40.0, 0.0)), alpha)
    return scale(b, b.op("Add", positive_part(b, x), negative_branch), gamma)


def elu(b: Builder, op: Op) -> Value:
    """Build operations that compute `max(x, 0) + alpha * (exp(min(x, 0)) - 1)`.

    Within 5 ulp.
    """
    return _elu(b, operand(op), attribute(op, "alpha"))


def celu(b: Builder, op: Op) -> Value:
    """Build operations that compute Celu: `max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`.

    This is `alpha * elu(x / alpha)`.
    """
    x, alpha = operand(op), attribute(op, "alpha")
    if not alpha > 0:
        raise UnsupportedError(f"onnx::Celu is composed for a positive alpha only, not {alpha}")
    return scale(b, _elu(b, b.op("Div", x, constant_like(b, alpha, x)), 1.0), alpha)


def selu(b: Builder, op: Op) -> Value:
    """Build operations that compute `gamma * (max(x, 0) + alpha * (exp(min(x, 0)) - 1))`.

    Within 5 ulp.
    """
    return _elu(b, operand(op), attribute(op, "alpha"), attribute(op, "gamma"))


def hard_sigmoid(b: Builder, op: Op) -> Value:
    """Build operations that compute `max(0, min(1, alpha * x + beta))`."""
    linear_x = scale(b, operand(op), attribute(op, "alpha"))
    return clip(b, shift(b, linear_x, attribute(op, "beta")), 0.0, 1.0)


def hard_swish(b: Builder, op: Op) -> Value:
    """Build operations that compute `x * max(0, min(1, x / 6 + 1/2))`."""
    x = operand(op)
    linear_x = shift(b, b.op("Div", x, constant_like(b, 6.0, x)), 0.5)
    return b.op("Mul", x, clip(b, linear_x, 0.0, 1.0))


def softplus(b: Builder, op: Op) -> Value:
    """Build operations that compute `log(1 + exp(x))` without overflow.

    Within 4 ulp.

    The formula is `max(x, 0) + log1p(exp(-|x|))`.
    """
    return _softplus(b, operand(op))


def mish(b: Builder, op: Op) -> Value:
    """Build operations that compute `x * tanh(log(1 + exp(x)))`."""
    x = operand(op)
    return b.op("Mul", x, b.op("Tanh", _softplus(b, x)))


def _softplus(b: Builder, x: Value) -> Value:
    return b.op("Add", positive_part(b, x), log1p(b, b.op("Exp", b.op("Neg", b.op("Abs", x)))))


def softsign(b: Builder, op: Op) -> Value:
    """Build operations that compute `x / (1 + |x|)`."""
    x = operand(op)
    return b.op("Div", x, shift(b, b.op("Abs", x), 1.0))


def shrink(b: Builder, op: Op) -> Value:
    """Build operations that compute `x + bias if x < -lambd else x - bias if x > lambd else 0`.

    ONNX Runtime's own kernel computes in float32, whatever the dtype.
    """
    x = operand(op)
    bias, threshold = attribute(op, "bias"), attribute(op, "lambd")
    negative_threshold, positive_threshold = -threshold, threshold
    if np.dtype(x.dtype).kind in "iu":
        if bias != int(bias):
            raise UnsupportedError(f"onnx::Shrink of whole numbers cannot have the bias {bias}")
        negative_threshold, positive_threshold = (
            math.ceil(negative_threshold),
            math.floor(positive_threshold),
        )
    zero = constant_like(b, 0, x)
    lower_branch = b.op(
        "Where", b.op("Less", x, constant_like(b, negative_threshold, x)), shift(b, x, bias), zero
    )
    return b.op(
        "Where",
        b.op("Greater", x, constant_like(b, positive_threshold, x)),
        shift(b, x, -bias),
        lower_branch,
    )
