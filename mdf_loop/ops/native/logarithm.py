"""Vectorized machine code of log and log(1 + x).

    x = 2**k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2);  s = f / (2 + f)
    log(1 + f) = log((1 + s) / (1 - s)) = f - (f**2 / 2 - s (f**2 / 2 + s**2 (LOG_COEFFICIENTS[0] + LOG_COEFFICIENTS[1] s**2 + ...)))

The algorithm is that of FreeBSD's msun (`e_log.c`). Remez' exchange algorithm computed the coefficients of
the polynomial (`benchmarks/coefficients.py`). The stated errors are the largest errors of several million
numbers.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.ops.native.formula import Register, fma, polynomial, select, select_rare, with_sign

LOG_COEFFICIENTS = (
    0.6666666666666734,
    0.3999999999941727,
    0.28571428741818855,
    0.22222198630731724,
    0.18183561380144894,
    0.15314124766263848,
    0.1479521853627614,
)
"""Coefficients of (log((1 + s) / (1 - s)) - 2 s) / s**3 = LOG_COEFFICIENTS[0] + LOG_COEFFICIENTS[1] s**2 + ...

The relative error of log(1 + f) is 0.02 * 2**-53.
"""

LOG2_PARTS = (float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45"))
"""log(2) as a sum of two floats: a number with few bits, whose product with k is exact, and the remainder."""

SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
"""Bits of sqrt(1/2) as an integer."""
ONE_BITS = 0x3FF0000000000000
"""Bits of 1.0 as an integer."""
MIN_NORMAL_BITS = 0x0010000000000000
"""Bits of the smallest normal number as an integer."""
FRACTION_MASK = 2**52 - 1
"""Mask of the bits of the fraction of a float64."""
TWO_52_BITS = 0x4330000000000000
"""Bits of 2.0**52 as an integer."""
INFINITY_BITS = 0x7FF0000000000000
"""Bits of infinity as an integer."""

SUBNORMAL_SHIFT = 54
"""Exponent of the power of two by which a subnormal number is multiplied."""


def log(x: Register) -> Register:
    """Return the natural logarithm of x.

    The error is at most 0.84 ulp.
    """

    def remedy() -> Register:
        is_subnormal = x < 2.0**-1022
        normalized_x = select(is_subnormal, x * 2.0**SUBNORMAL_SHIFT, x)
        return _log_of_special(
            x,
            _log(
                normalized_x,
                select(is_subnormal, x.to_register(-SUBNORMAL_SHIFT), 0.0),
                x.to_register(0.0),
            ),
        )

    return select_rare(_is_special(x), _log(x, x.to_register(0.0), x.to_register(0.0)), remedy)


def log1p(x: Register) -> Register:
    """Return `log(1 + x)`, accurate also for small x.

    The error is at most 0.88 ulp.
    """
    one_plus_x = 1.0 + x
    rounded_x = one_plus_x - 1.0
    rounding_error = (1.0 - (one_plus_x - rounded_x)) + (x - rounded_x)
    log_if_normal = _log(one_plus_x, x.to_register(0.0), rounding_error / one_plus_x)
    logarithm = select_rare(
        _is_special(one_plus_x), log_if_normal, lambda: _log_of_special(one_plus_x, log_if_normal)
    )
    return with_sign(logarithm, x)


def _is_special(x: Register) -> Register:
    """Return a bool register that is true if x is not a positive normal number."""
    return x.bits().is_outside(MIN_NORMAL_BITS, INFINITY_BITS)


def _log_of_special(x: Register, log_if_normal: Register) -> Register:
    """Return the logarithm of any x, including 0, infinity, negative numbers and nan.

    `log_if_normal` is the logarithm of all other x.
    """
    log_or_infinity = select(x < np.inf, log_if_normal, x)
    log_or_nan = select(x > 0.0, log_or_infinity, x.to_register(np.nan))
    return select(x.equals(0.0), x.to_register(-np.inf), log_or_nan)


def _log(x: Register, extra_exponent: Register, rest: Register) -> Register:
    """Return `log(x) + extra_exponent * log(2) + rest` for a normal (not subnormal) x.

    The absolute value of `rest` is small.
    """
    k, f = split_exponent(x)
    s = f / (2.0 + f)
    z = s * s
    half_f_square = 0.5 * f * f
    correction = fma(
        s,
        fma(z, polynomial(z, z * z, LOG_COEFFICIENTS), half_f_square),
        (k + extra_exponent) * LOG2_PARTS[1],
    )
    exponent_part = (k + extra_exponent) * LOG2_PARTS[0]
    high_part = exponent_part + f
    return high_part + ((f - (high_part - exponent_part)) - (half_f_square - correction) + rest)


def split_exponent(x: Register) -> tuple[Register, Register]:
    """Return the exponent k and the fraction f of a number `x = 2**k (1 + f)`."""
    shifted_bits = x.bits() + (ONE_BITS - SQRT_HALF_BITS)
    k = ((shifted_bits >> 52) | TWO_52_BITS).float() - (2.0**52 + 1023)
    return k, ((shifted_bits & FRACTION_MASK) + SQRT_HALF_BITS).float() - 1.0
