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
    choose,
    exceeds,
    fma,
    polynomial,
    where_rare,
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

WHOLE = 1.5 * 2.0**52 + BIAS
"""Constant that rounds a float to an integer by addition. The last bits of the sum are the integer with the bias."""

LARGE = 708.0
"""Limit of |x| up to which exp(x) is neither infinite nor subnormal."""

LEAST, MOST = -746.0, 709.79
"""Limits of x below which exp(x) is 0 and above which exp(x) is infinite."""

FLAT = 20.0
"""Limit of x from which on tanh(x) is rounded to 1."""


class ReducedExponent(Struct, frozen=True):
    """Argument reduction `x = k log(2) + r + rest`. The fields are meaningless for x out of the range of exp."""

    biased: Register
    """Integer whose last eleven bits are those of k + BIAS."""

    r: Register
    rest: Register

    def scale(self) -> Register:
        """Return `2**k`, which must be a normal number."""
        return (self.biased << 52).float()

    def scaled(self, value: Register) -> Register:
        """Return `2**k * value`, rounded once, for a value near 1 and k from -1076 to 1024.

        The power of two is applied in two factors, which avoids overflow.
        """
        half = self.biased >> 1
        first, second = half + BIAS // 2, self.biased - half + (BIAS + 1) // 2
        return value * (first << 52).float() * (second << 52).float()


def reduced(x: Register) -> ReducedExponent:
    """Return the argument reduction of `x` with the nearest k."""
    shifted = fma(x, PER_LOG2, WHOLE)
    k = shifted - WHOLE
    most = fma(k, -LOG2[0], x)
    r = fma(k, -LOG2[1], most)
    return ReducedExponent(shifted.bits(), r, fma(k, -LOG2[1], most - r))


def exp(x: Register) -> Register:
    """Return `e**x`. The error is at most 0.88 ulp."""
    at = reduced(x)
    near_one = _near_one(at.r)
    return where_rare(exceeds(x, LARGE), near_one * at.scale(), lambda: far(x, at, near_one))


def _near_one(r: Register) -> Register:
    """Return `exp(r)` for |r| <= log(2) / 2."""
    return fma(fma(r, polynomial(r, r * r, EXP), 1.0), r, 1.0)


def far(x: Register, at: ReducedExponent, near_one: Register) -> Register:
    """Return `exp(x)` for any x, including infinite, subnormal and zero results.

    Args:
        x: The operand.
        at: Argument reduction of `x`.
        near_one: exp(r).
    """
    above = choose(x < LEAST, x.like(0.0), at.scaled(near_one))
    known = choose(x > MOST, x.like(np.inf), above)
    return choose(x.is_nan(), x, known)


def expm1(x: Register) -> Register:
    """Return `e**x - 1`, accurate also for small x. The error is at most 1.25 ulp."""
    at = reduced(x)
    large, small = _less_one(at)

    def remedy() -> Register:
        there = far(x, at, _near_one(at.r)) - 1.0
        return choose(exceeds(x, LARGE), there, large + small)

    return with_sign(where_rare(exceeds(x, LARGE), large + small, remedy), x)


def _less_one(at: ReducedExponent) -> tuple[Register, Register]:
    """Return `exp(x) - 1` as a sum of a large and a small number, unless x is large.

    With s = 2**k and exp(r) - 1 = r + m, the sum is (s - 1 + s r) + s m.
    """
    scale, square = at.scale(), at.r * at.r
    m = fma(square, polynomial(at.r, square, EXP), at.rest)
    less = scale - 1.0
    large = fma(scale, at.r, less)
    return large, fma(scale, m, fma(scale, at.r, less - large))


def tanh(x: Register) -> Register:
    """Return `d / (d + 2)` with d = exp(2 |x|) - 1, and the sign of x. The error is at most 1.00 ulp."""
    size = abs(x)
    bounded = choose(size > FLAT, x.like(FLAT), size)
    large, small = _less_one(reduced(bounded + bounded))
    above = large + small
    above_rest = small - (above - large)
    below = above + 2.0
    below_rest = above - (below - 2.0) + above_rest
    return with_sign(_quotient(above, above_rest, below, below_rest), x)


def _quotient(
    above: Register, above_rest: Register, below: Register, below_rest: Register
) -> Register:
    """Return `(above + above_rest) / (below + below_rest)`, as a quotient with a correction by its remainder."""
    part = 1.0 / below
    quotient = above * part
    left = fma(-quotient, below, above) + above_rest
    return fma(fma(-quotient, below_rest, left), part, quotient)


def sigmoid(x: Register) -> Register:
    """Return `1 / (1 + exp(-x))`, below 0 as `e / (1 + e)` with e = exp(x). The error is at most 1.47 ulp."""
    small = exp(-abs(x))
    below = small + 1.0
    above = choose(x < 0.0, small, 1.0)
    return _quotient(above, x.like(0.0), below, small - (below - 1.0))
