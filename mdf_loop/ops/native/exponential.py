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

PER_LOG2 = float.fromhex("0x1.71547652b82fep+0")
"""1 / log(2)."""

LOG2 = (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"))
"""log(2) as a sum of two floats: the rounded number and the remainder."""

EXP = (
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
"""Coefficients of (exp(r) - 1 - r) / r**2 = EXP[0] + EXP[1] r + ...

The error of exp(r) - 1 is 0.02 * 2**-53.
"""

BIAS = 1023
"""Bias of the stored exponent of a float64."""

ROUNDING_CONSTANT = 1.5 * 2.0**52 + BIAS
"""Constant that rounds a float to an integer by addition. The last bits of the sum are the integer with the bias."""

MAX_NORMAL = 708.0
"""Limit of |x| up to which exp(x) is neither infinite nor subnormal."""

UNDERFLOW, OVERFLOW = -746.0, 709.79
"""Limits of x below which exp(x) is 0 and above which exp(x) is infinite."""

TANH_SATURATION = 20.0
"""Limit of x from which on tanh(x) is rounded to 1."""


class ReducedExponent(Struct, frozen=True):
    """Argument reduction `x = k log(2) + r + rest`. The fields are meaningless for x out of the range of exp."""

    biased: Register
    """Integer whose last eleven bits are those of k + BIAS."""

    r: Register
    rest: Register

    def power_of_two(self) -> Register:
        """Return `2**k`, which must be a normal number."""
        return (self.biased << 52).float()

    def multiply_by_power(self, value: Register) -> Register:
        """Return `2**k * value`, rounded once, for a value near 1 and k from -1076 to 1024.

        The power of two is applied in two factors, which avoids overflow.
        """
        half = self.biased >> 1
        first_exponent, second_exponent = half + BIAS // 2, self.biased - half + (BIAS + 1) // 2
        return value * (first_exponent << 52).float() * (second_exponent << 52).float()


def reduce_exponent(x: Register) -> ReducedExponent:
    """Return the argument reduction of `x` with the nearest k."""
    shifted = fma(x, PER_LOG2, ROUNDING_CONSTANT)
    k = shifted - ROUNDING_CONSTANT
    x_minus_k_log2 = fma(k, -LOG2[0], x)
    r = fma(k, -LOG2[1], x_minus_k_log2)
    return ReducedExponent(shifted.bits(), r, fma(k, -LOG2[1], x_minus_k_log2 - r))


def exp(x: Register) -> Register:
    """Return `e**x`. The error is at most 0.88 ulp."""
    reduction = reduce_exponent(x)
    exp_r = _exp_of_remainder(reduction.r)
    return select_rare(
        exceeds(x, MAX_NORMAL),
        exp_r * reduction.power_of_two(),
        lambda: exp_of_any(x, reduction, exp_r),
    )


def _exp_of_remainder(r: Register) -> Register:
    """Return `exp(r)` for |r| <= log(2) / 2."""
    return fma(fma(r, polynomial(r, r * r, EXP), 1.0), r, 1.0)


def exp_of_any(x: Register, reduction: ReducedExponent, exp_r: Register) -> Register:
    """Return `exp(x)` for any x, including infinite, subnormal and zero results.

    Args:
        x: The operand.
        reduction: Argument reduction of `x`.
        exp_r: exp(r).
    """
    with_zero = select(x < UNDERFLOW, x.to_register(0.0), reduction.multiply_by_power(exp_r))
    with_infinity = select(x > OVERFLOW, x.to_register(np.inf), with_zero)
    return select(x.is_nan(), x, with_infinity)


def expm1(x: Register) -> Register:
    """Return `e**x - 1`, accurate also for small x. The error is at most 1.25 ulp."""
    reduction = reduce_exponent(x)
    large, small = _expm1_parts(reduction)

    def remedy() -> Register:
        large_result = exp_of_any(x, reduction, _exp_of_remainder(reduction.r)) - 1.0
        return select(exceeds(x, MAX_NORMAL), large_result, large + small)

    return with_sign(select_rare(exceeds(x, MAX_NORMAL), large + small, remedy), x)


def _expm1_parts(reduction: ReducedExponent) -> tuple[Register, Register]:
    """Return `exp(x) - 1` as a sum of a large and a small number, unless x is large.

    With s = 2**k and exp(r) - 1 = r + m, the sum is (s - 1 + s r) + s m.
    """
    scale, square = reduction.power_of_two(), reduction.r * reduction.r
    m = fma(square, polynomial(reduction.r, square, EXP), reduction.rest)
    scale_minus_one = scale - 1.0
    large = fma(scale, reduction.r, scale_minus_one)
    return large, fma(scale, m, fma(scale, reduction.r, scale_minus_one - large))


def tanh(x: Register) -> Register:
    """Return `d / (d + 2)` with d = exp(2 |x|) - 1, and the sign of x. The error is at most 1.00 ulp."""
    size = abs(x)
    bounded = select(size > TANH_SATURATION, x.to_register(TANH_SATURATION), size)
    large, small = _expm1_parts(reduce_exponent(bounded + bounded))
    numerator = large + small
    numerator_rest = small - (numerator - large)
    denominator = numerator + 2.0
    denominator_rest = numerator - (denominator - 2.0) + numerator_rest
    return with_sign(_quotient(numerator, numerator_rest, denominator, denominator_rest), x)


def _quotient(
    numerator: Register, numerator_rest: Register, denominator: Register, denominator_rest: Register
) -> Register:
    """Return `(above + above_rest) / (below + below_rest)`, as a quotient with a correction by its remainder."""
    inverse = 1.0 / denominator
    quotient = numerator * inverse
    remainder = fma(-quotient, denominator, numerator) + numerator_rest
    return fma(fma(-quotient, denominator_rest, remainder), inverse, quotient)


def sigmoid(x: Register) -> Register:
    """Return `1 / (1 + exp(-x))`, below 0 as `e / (1 + e)` with e = exp(x). The error is at most 1.47 ulp."""
    small = exp(-abs(x))
    denominator = small + 1.0
    numerator = select(x < 0.0, small, 1.0)
    return _quotient(numerator, x.to_register(0.0), denominator, small - (denominator - 1.0))
