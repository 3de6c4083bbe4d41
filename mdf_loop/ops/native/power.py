"""Vectorized machine code of the power `x ** y`.

    |x| = 2**k (1 + f);  s = f / (2 + f);  log|x| = k log(2) + s (2 + s**2 (2 / 3 + s**2 (POWER_COEFFICIENTS[0] + ...)))
    |x| ** y = exp(y log|x|)

The logarithm is a sum of two numbers (Dekker 1971, with fma for exact products) with a relative error of
2**-64. The algorithm is that of FreeBSD's msun (`e_pow.c`). Remez' exchange algorithm computed the
coefficients of the polynomial (`benchmarks/coefficients.py`). The stated error is the largest error of several
million numbers.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.ops.native.exponential import (
    EXP_COEFFICIENTS,
    MAX_NORMAL_ARGUMENT,
    exp_of_any,
    reduce_exponent,
)
from mdf_loop.ops.native.formula import (
    Register,
    call_function,
    exceeds,
    fma,
    polynomial,
    select,
    select_rare,
)
from mdf_loop.ops.native.logarithm import INFINITY_BITS, LOG2_PARTS, SUBNORMAL_SHIFT, split_exponent

POWER_COEFFICIENTS = (
    0.3999999999999998,
    0.28571428571445096,
    0.22222222217539764,
    0.18181818869909208,
    0.15384556898742124,
    0.13336316347553495,
    0.11674840347142486,
    0.11988830516593173,
)
"""Coefficients of (log((1 + s) / (1 - s)) - 2 s - 2 / 3 s**3) / s**5 = POWER_COEFFICIENTS[0] + POWER_COEFFICIENTS[1] s**2 + ..."""

TWO_THIRDS_PARTS = (float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55"))
"""2 / 3 as a sum of two floats: the rounded number and the remainder."""


class DoubleWord(Struct, frozen=True):
    """Number stored as a sum of a large and a small number (double-word arithmetic)."""

    high_part: Register
    low_part: Register

    def __mul__(self, other: DoubleWord) -> DoubleWord:
        high_part = self.high_part * other.high_part
        rounding_error = fma(self.high_part, other.high_part, -high_part)
        return DoubleWord(
            high_part,
            rounding_error + fma(self.high_part, other.low_part, self.low_part * other.high_part),
        )


def add_words(a: Register, b: Register, rest: Register | float | None = None) -> DoubleWord:
    """Return `a + b + rest` as a sum of two floats (double word), for |b| <= |a|."""
    high_part = a + b
    low_part = (a - high_part) + b
    return DoubleWord(high_part, low_part if rest is None else low_part + rest)


def power(x: Register, y: Register) -> Register:
    """Return the power `x ** y`, by the rules of C for special values.

    The error is at most 1.01 ulp.

    The error is at most 0.63 ulp if |y log|x|| < 20.

    `x ** 2` equals `x * x`. A power that is an integer is exact.
    """
    for exponent, compute_power in POWER_FORMULAS.items():
        if y.register == y.to_register(exponent).register:
            return compute_power(x)
    selected_power = call_function("power", _power, x, y)
    for exponent, compute_power in POWER_FORMULAS.items():
        selected_power = select(y.equals(exponent), compute_power(x), selected_power)
    return selected_power


def _power(x: Register, y: Register) -> Register:
    """Return the power `x ** y` for any exponent y."""
    exponent = _times(y, _log(abs(x)))
    reduction = reduce_exponent(exponent.high_part)
    exp_r = _exp_of_small(add_words(reduction.r, reduction.r_low + exponent.low_part))

    def remedy() -> Register:
        return _power_of_special(x, y, exp_of_any(exponent.high_part, reduction, exp_r))

    is_special_case = exceeds(exponent.high_part, MAX_NORMAL_ARGUMENT) | x.bits().is_outside(
        1, INFINITY_BITS
    )
    return select_rare(is_special_case, exp_r * reduction.power_of_two(), remedy)


def _log(x: Register) -> DoubleWord:
    """Return the natural logarithm of a positive number as a double word (sum of two numbers)."""
    is_subnormal = x < 2.0**-1022
    biased_exponent, f = split_exponent(select(is_subnormal, x * 2.0**SUBNORMAL_SHIFT, x))
    k = biased_exponent - select(is_subnormal, x.to_register(SUBNORMAL_SHIFT), 0.0)
    s = _reduced_fraction(f)
    z = s * s
    series_tail = z.high_part * polynomial(
        z.high_part, z.high_part * z.high_part, POWER_COEFFICIENTS
    )
    inner_sum = z * add_words(x.to_register(TWO_THIRDS_PARTS[0]), series_tail, TWO_THIRDS_PARTS[1])
    log_of_fraction = s * add_words(x.to_register(2.0), inner_sum.high_part, inner_sum.low_part)
    logarithm = add_words(
        k * LOG2_PARTS[0],
        log_of_fraction.high_part,
        fma(k, LOG2_PARTS[1], log_of_fraction.low_part),
    )
    return add_words(logarithm.high_part, logarithm.low_part)


def _reduced_fraction(f: Register) -> DoubleWord:
    """Return `f / (2 + f)` as a double word (sum of two numbers)."""
    denominator = 2.0 + f
    denominator_low = f - (denominator - 2.0)
    inverse = 1.0 / denominator
    quotient = f * inverse
    remainder = fma(-quotient, denominator_low, fma(-quotient, denominator, f))
    return DoubleWord(quotient, remainder * inverse)


def _times(y: Register, log: DoubleWord) -> DoubleWord:
    """Return the product of y and a double-word logarithm, as a double word."""
    high_part = y * log.high_part
    return DoubleWord(high_part, fma(y, log.low_part, fma(y, log.high_part, -high_part)))


def _exp_of_small(x: DoubleWord) -> Register:
    """Return `exp(x)` for a small double-word x, with little more than one rounding error."""
    r, r_square = x.high_part, x.high_part * x.high_part
    low_part = fma(
        r_square, polynomial(r, r_square, EXP_COEFFICIENTS), fma(x.low_part, r, x.low_part)
    )
    exponential = add_words(x.high_part.to_register(1.0), r, low_part)
    return exponential.high_part + exponential.low_part


# --- constant exponents ---------------------------------------------------------------------------


def _square(x: Register) -> Register:
    """Return the square of x."""
    return x * x


def _cube(x: Register) -> Register:
    """Return the cube of x, with little more than one rounding error."""
    square = x * x
    cube = square * x
    return _add_correction(cube, fma(fma(x, x, -square), x, fma(square, x, -cube)))


def _fourth(x: Register) -> Register:
    """Return the fourth power of x, with little more than one rounding error."""
    square = x * x
    fourth = square * square
    return _add_correction(
        fourth, fma(fma(x, x, -square) * 2.0, square, fma(square, square, -fourth))
    )


def _add_correction(rounded: Register, correction: Register) -> Register:
    """Add a correction to a rounded number, unless the number is 0, infinite or nan."""
    corrected_power = rounded + correction
    return select(rounded.equals(0.0) | corrected_power.is_nan(), rounded, corrected_power)


POWER_FORMULAS = {2.0: _square, 3.0: _cube, 4.0: _fourth}
"""Formulas for the exponents 2, 3 and 4, by exponent."""


def _power_of_special(x: Register, y: Register, magnitude_power: Register) -> Register:
    """Return `x ** y` for any x and y, by the rules of C for 0, infinity, nan and negative x.

    `magnitude_power` is |x| ** y if x and y are finite and x is not 0.
    """
    zero, one, nan = x.to_register(0.0), x.to_register(1.0), x.to_register(np.nan)
    magnitude = abs(x)
    is_zero_or_infinite = magnitude.equals(0.0) | magnitude.equals(np.inf)
    is_growing = (magnitude > 1.0) ^ (y < 0.0)
    limit_power = select(is_growing, x.to_register(np.inf), zero)
    selected_power = select(
        is_zero_or_infinite | abs(y).equals(np.inf), limit_power, magnitude_power
    )
    selected_power = select(magnitude.equals(1.0), one, selected_power)
    half_y = 0.5 * y
    has_fraction, is_odd = y > y.floor(), half_y > half_y.floor()
    selected_power = select(
        (x.bits() < 0) & is_odd & (has_fraction ^ 1), -selected_power, selected_power
    )
    selected_power = select(
        (x < 0.0) & has_fraction & (is_zero_or_infinite ^ 1), nan, selected_power
    )
    selected_power = select(x.is_nan() | y.is_nan(), nan, selected_power)
    return select(y.equals(0.0) | x.equals(1.0), one, selected_power)
