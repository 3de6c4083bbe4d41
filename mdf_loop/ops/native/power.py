"""Vectorized machine code of `x ** y`.

    |x| = 2**k (1 + f);  s = f / (2 + f);  log|x| = k log(2) + s (2 + s**2 (2 / 3 + s**2 (POWER[0] + ...)))
    |x| ** y = exp(y log|x|)

The logarithm is a sum of two numbers (Dekker 1971, with fma for exact products) with a relative error of
2**-64. The algorithm is that of FreeBSD's msun (`e_pow.c`). Remez' exchange algorithm computed the
coefficients of the polynomial (`benchmarks/coefficients.py`). The stated error is the largest error of several
million numbers.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.ops.native.exponential import EXP, MAX_NORMAL, exp_of_any, reduce_exponent
from mdf_loop.ops.native.formula import (
    Register,
    call_function,
    exceeds,
    fma,
    polynomial,
    select,
    select_rare,
)
from mdf_loop.ops.native.logarithm import INFINITY_BITS, LOG2, SUBNORMAL_SHIFT, split_exponent

POWER = (
    0.3999999999999998,
    0.28571428571445096,
    0.22222222217539764,
    0.18181818869909208,
    0.15384556898742124,
    0.13336316347553495,
    0.11674840347142486,
    0.11988830516593173,
)
"""Coefficients of (log((1 + s) / (1 - s)) - 2 s - 2 / 3 s**3) / s**5 = POWER[0] + POWER[1] s**2 + ..."""

TWO_THIRDS = (float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55"))
"""2 / 3 as a sum of two floats: the rounded number and the remainder."""


class DoubleWord(Struct, frozen=True):
    """Sum of a large and a small number, with twice as many digits as one number."""

    large: Register
    small: Register

    def __mul__(self, other: DoubleWord) -> DoubleWord:
        large = self.large * other.large
        lost = fma(self.large, other.large, -large)
        return DoubleWord(large, lost + fma(self.large, other.small, self.small * other.large))


def add_words(a: Register, b: Register, rest: Register | float | None = None) -> DoubleWord:
    """Return `a + b + rest` as a double word, for |b| <= |a| (or a of 0) and a small rest."""
    large = a + b
    small = (a - large) + b
    return DoubleWord(large, small if rest is None else small + rest)


def power(x: Register, y: Register) -> Register:
    """Return `x ** y` by the rules of C. The error is at most 1.01 ulp, or 0.63 ulp if |y log|x|| < 20.

    `x ** 2` equals `x * x`. A power that is an integer is exact.
    """
    for n, power_of_n in POWERS.items():
        if y.register == y.to_register(n).register:
            return power_of_n(x)
    selected = call_function("power", _power, x, y)
    for n, power_of_n in POWERS.items():
        selected = select(y.equals(n), power_of_n(x), selected)
    return selected


def _power(x: Register, y: Register) -> Register:
    """Return `x ** y` for every y."""
    exponent = _times(y, _log(abs(x)))
    reduction = reduce_exponent(exponent.large)
    exp_r = _exp_of_small(add_words(reduction.r, reduction.rest + exponent.small))

    def remedy() -> Register:
        return _power_of_special(x, y, exp_of_any(exponent.large, reduction, exp_r))

    is_rare = exceeds(exponent.large, MAX_NORMAL) | x.bits().is_outside(1, INFINITY_BITS)
    return select_rare(is_rare, exp_r * reduction.power_of_two(), remedy)


def _log(x: Register) -> DoubleWord:
    """Return the logarithm of a positive number as a double word."""
    is_subnormal = x < 2.0**-1022
    biased_exponent, f = split_exponent(select(is_subnormal, x * 2.0**SUBNORMAL_SHIFT, x))
    k = biased_exponent - select(is_subnormal, x.to_register(SUBNORMAL_SHIFT), 0.0)
    s = _reduced_fraction(f)
    z = s * s
    tail = z.large * polynomial(z.large, z.large * z.large, POWER)
    inner = z * add_words(x.to_register(TWO_THIRDS[0]), tail, TWO_THIRDS[1])
    fraction = s * add_words(x.to_register(2.0), inner.large, inner.small)
    logarithm = add_words(k * LOG2[0], fraction.large, fma(k, LOG2[1], fraction.small))
    return add_words(logarithm.large, logarithm.small)


def _reduced_fraction(f: Register) -> DoubleWord:
    """Return `f / (2 + f)` as a double word."""
    denominator = 2.0 + f
    denominator_rest = f - (denominator - 2.0)
    inverse = 1.0 / denominator
    quotient = f * inverse
    remainder = fma(-quotient, denominator_rest, fma(-quotient, denominator, f))
    return DoubleWord(quotient, remainder * inverse)


def _times(y: Register, log: DoubleWord) -> DoubleWord:
    """Return `y * log` as a double word."""
    large = y * log.large
    return DoubleWord(large, fma(y, log.small, fma(y, log.large, -large)))


def _exp_of_small(x: DoubleWord) -> Register:
    """Return `exp(x)` for a small x, with little more than one rounding error."""
    r, square = x.large, x.large * x.large
    small = fma(square, polynomial(r, square, EXP), fma(x.small, r, x.small))
    exponential = add_words(x.large.to_register(1.0), r, small)
    return exponential.large + exponential.small


# --- constant exponents ---------------------------------------------------------------------------


def _square(x: Register) -> Register:
    """Return `x ** 2`."""
    return x * x


def _cube(x: Register) -> Register:
    """Return `x ** 3`, with little more than one rounding error."""
    square = x * x
    cube = square * x
    return _add_correction(cube, fma(fma(x, x, -square), x, fma(square, x, -cube)))


def _fourth(x: Register) -> Register:
    """Return `x ** 4`, with little more than one rounding error."""
    square = x * x
    fourth = square * square
    return _add_correction(
        fourth, fma(fma(x, x, -square) * 2.0, square, fma(square, square, -fourth))
    )


def _add_correction(rounded: Register, correction: Register) -> Register:
    """Return `rounded + lost`, or `rounded` if it is 0, infinite or nan."""
    corrected = rounded + correction
    return select(rounded.equals(0.0) | corrected.is_nan(), rounded, corrected)


POWERS = {2.0: _square, 3.0: _cube, 4.0: _fourth}
"""Formulas for the exponents 2, 3 and 4, by exponent."""


def _power_of_special(x: Register, y: Register, common: Register) -> Register:
    """Return `x ** y` for any x and y. `common` is |x| ** y if x and y are finite and x is not 0."""
    zero, one, nan = x.to_register(0.0), x.to_register(1.0), x.to_register(np.nan)
    size = abs(x)
    at_end = size.equals(0.0) | size.equals(np.inf)
    is_growing = (size > 1.0) ^ (y < 0.0)
    limit = select(is_growing, x.to_register(np.inf), zero)
    selected = select(at_end | abs(y).equals(np.inf), limit, common)
    selected = select(size.equals(1.0), one, selected)
    half = 0.5 * y
    fraction, odd = y > y.floor(), half > half.floor()
    selected = select((x.bits() < 0) & odd & (fraction ^ 1), -selected, selected)
    selected = select((x < 0.0) & fraction & (at_end ^ 1), nan, selected)
    selected = select(x.is_nan() | y.is_nan(), nan, selected)
    return select(y.equals(0.0) | x.equals(1.0), one, selected)
