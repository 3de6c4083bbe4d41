"""`x ** y` of many lanes.

    |x| = 2**k (1 + f);  s = f / (2 + f);  log|x| = k log(2) + s (2 + s**2 (2 / 3 + s**2 (POWER[0] + ...)))
    |x| ** y = exp(y log|x|)

The logarithm is a sum of two numbers (Dekker 1971, with fma for exact products), right to 2**-64 of
itself. The form is that of FreeBSD's msun (`e_pow.c`); the polynomial was found by Remez' exchange
(`benchmarks/coefficients.py`). The error given is the largest of several million numbers.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from mdf_loop.ops.native.exponential import EXP, LARGE, far, reduced
from mdf_loop.ops.native.formula import Number, called, choose, exceeds, fma, polynomial, where_rare
from mdf_loop.ops.native.logarithm import INFINITE, LOG2, RAISED, split

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
"""(log((1 + s) / (1 - s)) - 2 s - 2 / 3 s**3) / s**5 = POWER[0] + POWER[1] s**2 + ..."""

TWO_THIRDS = (float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55"))
"""2 / 3, and what that leaves."""


class Pair(Struct, frozen=True):
    """A sum of a large and a small number: twice as many digits."""

    large: Number
    small: Number

    def __mul__(self, other: Pair) -> Pair:
        large = self.large * other.large
        lost = fma(self.large, other.large, -large)
        return Pair(large, lost + fma(self.large, other.small, self.small * other.large))


def total(a: Number, b: Number, rest: Number | float | None = None) -> Pair:
    """`a + b + rest`, where b is not larger than a, unless a is 0, and the rest is small."""
    large = a + b
    small = (a - large) + b
    return Pair(large, small if rest is None else small + rest)


def power(x: Number, y: Number) -> Number:
    """`x ** y`, by the rules of C; error: 1.01 ulp, 0.63 ulp where |y log|x|| < 20.

    `x ** 2` is `x * x`; what is a whole number is met.
    """
    for n, known in KNOWN.items():
        if y.register == y.like(n).register:
            return known(x)
    made = called("power", _power, x, y)
    for n, known in KNOWN.items():
        made = choose(y.is_same(n), known(x), made)
    return made


def _power(x: Number, y: Number) -> Number:
    """`x ** y` of any y."""
    exponent = _times(y, _log(abs(x)))
    at = reduced(exponent.large)
    near_one = _near_one(total(at.r, at.rest + exponent.small))

    def remedy() -> Number:
        return _at_ends(x, y, far(exponent.large, at, near_one))

    rare = exceeds(exponent.large, LARGE) | x.bits().is_outside(1, INFINITE)
    return where_rare(rare, near_one * at.scale(), remedy)


def _log(x: Number) -> Pair:
    """The logarithm of a positive number."""
    subnormal = x < 2.0**-1022
    more, f = split(choose(subnormal, x * 2.0**RAISED, x))
    k = more - choose(subnormal, x.like(RAISED), 0.0)
    s = _part(f)
    z = s * s
    tail = z.large * polynomial(z.large, z.large * z.large, POWER)
    inner = z * total(x.like(TWO_THIRDS[0]), tail, TWO_THIRDS[1])
    fraction = s * total(x.like(2.0), inner.large, inner.small)
    made = total(k * LOG2[0], fraction.large, fma(k, LOG2[1], fraction.small))
    return total(made.large, made.small)


def _part(f: Number) -> Pair:
    """`f / (2 + f)`."""
    below = 2.0 + f
    below_rest = f - (below - 2.0)
    part = 1.0 / below
    quotient = f * part
    left = fma(-quotient, below_rest, fma(-quotient, below, f))
    return Pair(quotient, left * part)


def _times(y: Number, log: Pair) -> Pair:
    """`y * log`."""
    large = y * log.large
    return Pair(large, fma(y, log.small, fma(y, log.large, -large)))


def _near_one(x: Pair) -> Number:
    """`exp(x)` of a small x, rounded nearly once."""
    r, square = x.large, x.large * x.large
    small = fma(square, polynomial(r, square, EXP), fma(x.small, r, x.small))
    made = total(x.large.like(1.0), r, small)
    return made.large + made.small


# --- what is known --------------------------------------------------------------------------------


def _square(x: Number) -> Number:
    """`x ** 2`."""
    return x * x


def _cube(x: Number) -> Number:
    """`x ** 3`, rounded nearly once."""
    square = x * x
    made = square * x
    return _corrected(made, fma(fma(x, x, -square), x, fma(square, x, -made)))


def _fourth(x: Number) -> Number:
    """`x ** 4`, rounded nearly once."""
    square = x * x
    made = square * square
    return _corrected(made, fma(fma(x, x, -square) * 2.0, square, fma(square, square, -made)))


def _corrected(made: Number, lost: Number) -> Number:
    """The sum, unless it has no more digits: 0, infinite or nan."""
    better = made + lost
    return choose(made.is_same(0.0) | better.is_nan(), made, better)


KNOWN = {2.0: _square, 3.0: _cube, 4.0: _fourth}
"""What is done for an exponent, whether it is a constant or not."""


def _at_ends(x: Number, y: Number, usual: Number) -> Number:
    """The power of any x and y; `usual` is |x| ** y where both are finite and x is not 0."""
    zero, one, nan = x.like(0.0), x.like(1.0), x.like(np.nan)
    size = abs(x)
    at_end = size.is_same(0.0) | size.is_same(np.inf)
    grows = (size > 1.0) ^ (y < 0.0)
    extreme = choose(grows, x.like(np.inf), zero)
    made = choose(at_end | abs(y).is_same(np.inf), extreme, usual)
    made = choose(size.is_same(1.0), one, made)
    half = 0.5 * y
    fraction, odd = y > y.floor(), half > half.floor()
    made = choose((x.bits() < 0) & odd & (fraction ^ 1), -made, made)
    made = choose((x < 0.0) & fraction & (at_end ^ 1), nan, made)
    made = choose(x.is_nan() | y.is_nan(), nan, made)
    return choose(y.is_same(0.0) | x.is_same(1.0), one, made)
