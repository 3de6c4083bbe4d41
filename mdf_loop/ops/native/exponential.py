"""Vectorized machine code of exp, exp(x) - 1, tanh and the logistic function.

All four use `exp(x) = 2**k exp(r)` with x = k log(2) + r and |r| <= log(2) / 2 (Cody and Waite 1980: log(2)
in two parts). One polynomial approximates exp(r). Remez' exchange algorithm computed its coefficients
(`benchmarks/coefficients.py`). The stated errors are the largest errors of several million numbers.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.ops.native.formula import (
    Register,
    exceeds,
    fma,
    polynomial,
    select,
    select_rare,
    with_sign,
)

INVERSE_LOG2 = float.fromhex("0x1.71547652b82fep+0")
"""1 / log(2)."""

LOG2_PARTS = (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"))
"""log(2) as a sum of two floats: the rounded number and the remainder."""

EXP_COEFFICIENTS = (
    0.5,
    0.16666666666666674,
    0.04166666666666658,
    0.008333333333322543,
    0.0013888888888942802,
    0.00019841269884128808,
    2.4801587197113855e-05,
    2.755724599326958e-06,
    2.7557388471278567e-07,
    2.5108476460216325e-08,
    2.0878378582644316e-09,
)
"""Coefficients of (exp(r) - 1 - r) / r**2 = EXP_COEFFICIENTS[0] + EXP_COEFFICIENTS[1] r + ...

The error of exp(r) - 1 is 0.02 * 2**-53.
"""

EXPONENT_BIAS = 1023
"""Bias of the stored exponent of a float64."""

ROUNDING_CONSTANT = 1.5 * 2.0**52 + EXPONENT_BIAS
"""Constant that rounds a float to an integer by addition. The last bits of the sum are the integer with the bias."""

MAX_NORMAL_ARGUMENT = 708.0
"""Limit of |x| up to which exp(x) is neither infinite nor subnormal."""

UNDERFLOW_LIMIT, OVERFLOW_LIMIT = -746.0, 709.79
"""Limits of x below which exp(x) is 0 and above which exp(x) is infinite."""

TANH_SATURATION = 20.0
"""Limit of x from which on tanh(x) is rounded to 1."""


class ReducedExponent(Struct, frozen=True):
    """Argument reduction `x = k log(2) + r + r_low` for the exponential function.

    The fields are meaningless for x out of the range of exp.
    """

    biased_exponent: Register
    """Integer whose last eleven bits are those of k + EXPONENT_BIAS."""

    r: Register
    r_low: Register

    def power_of_two(self) -> Register:
        """Return `2**k` as a float64. The result is valid only if it is a normal number."""
        return (self.biased_exponent << 52).float()

    def multiply_by_power(self, value: Register) -> Register:
        """Return `2**k * value`, rounded once, for a `value` near 1.

        k is from -1076 to 1024.

        The power of two is applied in two factors, which avoids overflow.
        """
        half_exponent = self.biased_exponent >> 1
        first_exponent, second_exponent = (
            half_exponent + EXPONENT_BIAS // 2,
            self.biased_exponent - half_exponent + (EXPONENT_BIAS + 1) // 2,
        )
        return value * (first_exponent << 52).float() * (second_exponent << 52).float()


def reduce_exponent(x: Register) -> ReducedExponent:
    """Split x into `k log(2) + r + r_low` with the nearest integer k, to compute exp(x)."""
    shifted_k = fma(x, INVERSE_LOG2, ROUNDING_CONSTANT)
    k = shifted_k - ROUNDING_CONSTANT
    x_minus_k_log2 = fma(k, -LOG2_PARTS[0], x)
    r = fma(k, -LOG2_PARTS[1], x_minus_k_log2)
    return ReducedExponent(shifted_k.bits(), r, fma(k, -LOG2_PARTS[1], x_minus_k_log2 - r))


def exp(x: Register) -> Register:
    """Return the exponential function of x.

    The error is at most 0.88 ulp.
    """
    reduction = reduce_exponent(x)
    exp_r = _exp_of_remainder(reduction.r)
    return select_rare(
        exceeds(x, MAX_NORMAL_ARGUMENT),
        exp_r * reduction.power_of_two(),
        lambda: exp_of_any(x, reduction, exp_r),
    )


def _exp_of_remainder(r: Register) -> Register:
    """Return `exp(r)` for |r| <= log(2) / 2."""
    return fma(fma(r, polynomial(r, r * r, EXP_COEFFICIENTS), 1.0), r, 1.0)


def exp_of_any(x: Register, reduction: ReducedExponent, exp_r: Register) -> Register:
    """Return `exp(x)` for any x, also for infinite, subnormal and zero results.

    Args:
        x: The operand.
        reduction: Argument reduction of `x`.
        exp_r: exp(r).
    """
    exp_or_zero = select(
        x < UNDERFLOW_LIMIT, x.to_register(0.0), reduction.multiply_by_power(exp_r)
    )
    exp_or_infinity = select(x > OVERFLOW_LIMIT, x.to_register(np.inf), exp_or_zero)
    return select(x.is_nan(), x, exp_or_infinity)


def expm1(x: Register) -> Register:
    """Return `e**x - 1`, accurate also for small x.

    The error is at most 1.25 ulp.
    """
    reduction = reduce_exponent(x)
    high_part, low_part = _expm1_parts(reduction)

    def remedy() -> Register:
        exp_minus_one = exp_of_any(x, reduction, _exp_of_remainder(reduction.r)) - 1.0
        return select(exceeds(x, MAX_NORMAL_ARGUMENT), exp_minus_one, high_part + low_part)

    return with_sign(select_rare(exceeds(x, MAX_NORMAL_ARGUMENT), high_part + low_part, remedy), x)


def _expm1_parts(reduction: ReducedExponent) -> tuple[Register, Register]:
    """Return `exp(x) - 1` as a large and a small summand, for x that is not large.

    With s = 2**k and exp(r) - 1 = r + m, the sum is (s - 1 + s r) + s m.
    """
    power_scale, r_square = reduction.power_of_two(), reduction.r * reduction.r
    m = fma(r_square, polynomial(reduction.r, r_square, EXP_COEFFICIENTS), reduction.r_low)
    scale_minus_one = power_scale - 1.0
    high_part = fma(power_scale, reduction.r, scale_minus_one)
    return high_part, fma(
        power_scale, m, fma(power_scale, reduction.r, scale_minus_one - high_part)
    )


def tanh(x: Register) -> Register:
    """Return the hyperbolic tangent of x.

    The error is at most 1.00 ulp.

    The result is `d / (d + 2)` with d = exp(2 |x|) - 1, and has the sign of x.
    """
    magnitude = abs(x)
    bounded_magnitude = select(
        magnitude > TANH_SATURATION, x.to_register(TANH_SATURATION), magnitude
    )
    high_part, low_part = _expm1_parts(reduce_exponent(bounded_magnitude + bounded_magnitude))
    numerator = high_part + low_part
    numerator_low = low_part - (numerator - high_part)
    denominator = numerator + 2.0
    denominator_low = numerator - (denominator - 2.0) + numerator_low
    return with_sign(_quotient(numerator, numerator_low, denominator, denominator_low), x)


def _quotient(
    numerator: Register, numerator_low: Register, denominator: Register, denominator_low: Register
) -> Register:
    """Return the quotient of two double-word numbers, corrected by the remainder."""
    inverse = 1.0 / denominator
    quotient = numerator * inverse
    remainder = fma(-quotient, denominator, numerator) + numerator_low
    return fma(fma(-quotient, denominator_low, remainder), inverse, quotient)


def sigmoid(x: Register) -> Register:
    """Return `1 / (1 + exp(-x))`, the logistic function.

    The error is at most 1.47 ulp.

    Below 0 the function is computed as `e / (1 + e)` with e = exp(x).
    """
    exp_of_negative = exp(-abs(x))
    denominator = exp_of_negative + 1.0
    numerator = select(x < 0.0, exp_of_negative, 1.0)
    return _quotient(
        numerator, x.to_register(0.0), denominator, exp_of_negative - (denominator - 1.0)
    )
