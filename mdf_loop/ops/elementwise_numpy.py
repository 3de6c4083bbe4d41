"""Numpy implementations of elementwise operations that onnx's reference lacks or computes differently."""

from __future__ import annotations

import math

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, kind_of
from mdf_loop.ops.decompositions.arithmetic import NEGATIVE_POWER_MESSAGE
from mdf_loop.ops.failure_conditions import DIVISION_BY_ZERO_MESSAGE, ZERO_DIVISOR_HINT


def divide(x: Array, y: Array) -> Array:
    """Return `x / y`, with integer quotients truncated toward zero.

    Raises:
        RunError: an integer is divided by zero.
    """
    if kind_of(dtype_name(x)) not in "iu":
        return np.divide(x, y)
    _refuse_zero_divisor(x, y)
    floor_quotient: Array = np.floor_divide(x, y)
    is_rounded_down = (x - floor_quotient * y != 0) & ((x < 0) != (y < 0))
    truncated_quotient: Array = floor_quotient + is_rounded_down.astype(floor_quotient.dtype)
    return truncated_quotient


def remainder(x: Array, y: Array, fmod: int = 0) -> Array:
    """Return the remainder of `x / y` with the sign of y, or with the sign of x if `fmod` is set.

    Raises:
        RunError: an integer is divided by zero.
    """
    if kind_of(dtype_name(x)) in "iu":
        _refuse_zero_divisor(x, y)
    signed_remainder: Array = np.fmod(x, y) if fmod else np.mod(x, y)
    return signed_remainder


def _refuse_zero_divisor(x: Array, y: Array) -> None:
    if np.any(np.broadcast_arrays(x, y)[1] == 0):
        raise RunError(DIVISION_BY_ZERO_MESSAGE, hint=ZERO_DIVISOR_HINT)


def power(x: Array, n: Array) -> Array:
    """Return `x ** n` in the dtype of x, with integers wrapped around on overflow.

    Raises:
        RunError: an integer has a negative exponent.
    """
    if not (x.dtype.kind in "iu" and n.dtype.kind in "iu"):
        return np.asarray(np.power(x, n)).astype(x.dtype)
    if np.any(n < 0):
        raise RunError(NEGATIVE_POWER_MESSAGE)
    wrapped_power = np.power(x.astype(np.uint64), n.astype(np.uint64))
    return np.asarray(wrapped_power).astype(x.dtype)


def clip(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """Return `x` clipped to two bounds, by default the finite limits of the dtype.

    A nan in `x` stays nan, and a bound of nan has no effect.

    Raises:
        RunError: a bound is no single number.
    """
    for clip_bound in (low, high):
        if clip_bound is not None and clip_bound.shape not in ((), (1,)):
            raise RunError("the bounds of onnx::Clip must be single numbers")
    if kind_of(dtype_name(x)) in "iu":
        lowest_finite_number, largest_finite_number = (
            np.array(dtype_limit, x.dtype)
            for dtype_limit in (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        )
    else:
        largest_finite_number = np.nextafter(np.array(np.inf, x.dtype), np.array(0, x.dtype))
        lowest_finite_number = -largest_finite_number
    low, high = (
        lowest_finite_number if low is None else low,
        largest_finite_number if high is None else high,
    )
    low, high = low.reshape(()), high.reshape(())
    bounded_x = np.where(x < low, low, x)
    return np.where(bounded_x > high, high, bounded_x)


def relu(x: Array) -> Array:
    """Return `max(x, 0)` with -0.0 and nan unchanged, as in ONNX Runtime."""
    return np.where(x < 0, np.zeros((), x.dtype), x)


def softsign(x: Array) -> Array:
    """Return `x / (1 + |x|)` for arrays, and for scalars, which onnx's reference refuses."""
    return np.asarray(np.divide(x, np.add(np.abs(x), 1, dtype=x.dtype)), x.dtype)


def hard_swish(x: Array) -> Array:
    """Return `x * clip(x / 6 + 0.5, 0, 1)`."""
    wide_x = np.asarray(x, np.float64 if x.dtype == np.float64 else np.float32)
    activations: Array = wide_x * np.clip(np.add(np.divide(wide_x, 6), 0.5), 0, 1)
    return activations.astype(x.dtype)


def gelu(x: Array, approximate: str = "none") -> Array:
    """Return `x` times the normal distribution function of `x`, or its tanh approximation."""
    wide_x = np.asarray(x, np.float64)
    if approximate == "tanh":
        tanh_curve = np.tanh(math.sqrt(2 / math.pi) * (wide_x + 0.044715 * wide_x**3))
    else:
        tanh_curve = erf(math.sqrt(0.5) * wide_x)
    activations: Array = (0.5 * wide_x * (1 + tanh_curve)).astype(x.dtype)
    return activations


def erf(x: Array) -> Array:
    """Return the error function of each element."""
    float64_x = np.asarray(x, np.float64)
    erf_values: Array = np.array([math.erf(number) for number in float64_x.flat]).reshape(
        float64_x.shape
    )
    return erf_values.astype(x.dtype)
