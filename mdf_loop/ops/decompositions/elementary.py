"""Decompositions of elementary functions in float64, within 4 ulp of the true value by mpmath.

They consist of Exp, Log, Sqrt and arithmetic, which every ONNX runtime has in float64. They keep the sign of
zero and return the values of IEEE 754 at infinities and outside of their domains (nan). They have no branches:
every element is computed in one way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.decompositions.build_helpers import (
    constant_like,
    copy_sign,
    operand,
    polynomial,
    scale,
    shift,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder

MAX_EXP_ARGUMENT = 700.0
"""Argument below the overflow limit of `exp`, so that the result can still be multiplied by a factor."""

MAX_SQUARED_NUMBER = 2.0**500
"""Large number whose square is finite, and to which adding 1 changes nothing."""


def one_like(b: Builder, like: Value) -> Value:
    """Build the constant 1 in the dtype of `like`."""
    return constant_like(b, 1.0, like)


# --- exp(x) - 1 and log(1 + x) ----------------------------------------------------------------


def log1p(b: Builder, x: Value) -> Value:
    """Build operations that compute `log(1 + x)`, also for tiny x.

        u = 1 + x; Where(u == 1, x, log(u) * (x / (u - 1)))

    Within 3 ulp. Source: W. Kahan; D. Goldberg, doi:10.1145/103162.103163, theorem 4.
    """
    one_plus_x = shift(b, x, 1.0)
    magnitude_limit = constant_like(b, MAX_SQUARED_NUMBER, x)
    rounded_x, clipped_x = (
        b.op("Min", shift(b, one_plus_x, -1.0), magnitude_limit),
        b.op("Min", x, magnitude_limit),
    )
    log_of_x_plus_1 = b.op("Mul", b.op("Log", one_plus_x), b.op("Div", clipped_x, rounded_x))
    return b.op("Where", b.op("Equal", one_plus_x, constant_like(b, 1.0, x)), x, log_of_x_plus_1)


def expm1(b: Builder, x: Value) -> Value:
    """Build operations that compute `exp(x) - 1` accurately for x from -40 to 700, also near 0.

        u = exp(x); Where(u == 1, x, (u - 1) * (x / log(u)))

    Within 4 ulp. Source: N. Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1.
    """
    exp_x = b.op("Exp", x)
    corrected_exponential = b.op("Mul", shift(b, exp_x, -1.0), b.op("Div", x, b.op("Log", exp_x)))
    return b.op("Where", b.op("Equal", exp_x, one_like(b, x)), x, corrected_exponential)


# --- hyperbolic functions ---------------------------------------------------------------------


def _split_exp(b: Builder, a: Value) -> tuple[Value, Value, Value]:
    """Build `exp(a)` as a product of two finite factors, and return `min(a, 700)` and the factors.

    With `cut = min(a, 700)`, the factors are `exp(cut)` and `exp(a - cut)`.
    """
    clipped_a = b.op("Min", a, constant_like(b, MAX_EXP_ARGUMENT, a))
    return clipped_a, b.op("Exp", clipped_a), b.op("Exp", b.op("Sub", a, clipped_a))


def cosh(b: Builder, op: Op) -> Value:
    """Build operations that compute the hyperbolic cosine.

    Within 2 ulp.

    The formula is `(e + 1/e) / 2` with `e = exp(|x|)`, as two factors for |x| > 700.
    """
    x = operand(op)
    _, exponential, overflow_factor = _split_exp(b, b.op("Abs", x))
    one_half = constant_like(b, 0.5, x)
    return b.op(
        "Add",
        b.op("Mul", b.op("Mul", one_half, exponential), overflow_factor),
        b.op("Div", one_half, exponential),
    )


def sinh(b: Builder, op: Op) -> Value:
    """Build operations that compute the hyperbolic sine.

    Within 4 ulp.

    The formula is `(t + t / (t + 1)) / 2` with `t = expm1(|x|)`, as two factors for |x| > 700.
    """
    x = operand(op)
    a = b.op("Abs", x)
    clipped_a, exponential, overflow_factor = _split_exp(b, a)
    expm1_a = expm1(b, clipped_a)
    sum_of_terms = scale(b, b.op("Add", expm1_a, b.op("Div", expm1_a, exponential)), 0.5)
    return copy_sign(b, x, b.op("Mul", sum_of_terms, overflow_factor))


def asinh(b: Builder, op: Op) -> Value:
    """Build operations that compute the inverse hyperbolic sine.

    The formula is `log1p(a + a*a / (1 + sqrt(1 + a*a)))` with `a = |x|`.

    Beyond h = 2**500, use h in place of a and add `log(a / h)`.
    """
    x = operand(op)
    magnitude = b.op("Abs", x)
    a = b.op("Min", magnitude, constant_like(b, MAX_SQUARED_NUMBER, x))
    a_squared = b.op("Mul", a, a)
    root_plus_one = shift(b, b.op("Sqrt", shift(b, a_squared, 1.0)), 1.0)
    log_term = log1p(b, b.op("Add", a, b.op("Div", a_squared, root_plus_one)))
    overflow_factor = b.op("Max", scale(b, magnitude, 1 / MAX_SQUARED_NUMBER), one_like(b, x))
    return copy_sign(b, x, b.op("Add", log_term, b.op("Log", overflow_factor)))


def acosh(b: Builder, op: Op) -> Value:
    """Build operations that compute the inverse hyperbolic cosine.

    The formula is `log1p(t + sqrt(t) * sqrt(t + 2))` with `t = x - 1`.

    Beyond h = 2**500, use h in place of x and add `log(x / h)`.
    """
    x = operand(op)
    clipped_x = b.op("Min", x, constant_like(b, MAX_SQUARED_NUMBER, x))
    x_minus_one = shift(b, clipped_x, -1.0)
    sqrt_of_x2_minus_1 = b.op(
        "Mul", b.op("Sqrt", x_minus_one), b.op("Sqrt", shift(b, x_minus_one, 2.0))
    )
    log_term = log1p(b, b.op("Add", x_minus_one, sqrt_of_x2_minus_1))
    overflow_factor = b.op("Max", scale(b, x, 1 / MAX_SQUARED_NUMBER), one_like(b, x))
    return b.op("Add", log_term, b.op("Log", overflow_factor))


def atanh(b: Builder, op: Op) -> Value:
    """Build operations that compute the inverse hyperbolic tangent.

    Within 4 ulp.

    The formula is half of `log1p(2a / (1 - a))` with `a = |x|` and the sign of x.
    """
    x = operand(op)
    a = b.op("Abs", x)
    ratio = b.op("Div", scale(b, a, 2.0), b.op("Sub", one_like(b, x), a))
    return copy_sign(b, x, scale(b, log1p(b, ratio), 0.5))


# --- circular functions -----------------------------------------------------------------------

_HALF_PI_PARTS = tuple(
    map(
        float.fromhex,
        (
            "0x1.921fb40000000p+0",
            "0x1.4442d00000000p-24",
            "0x1.8469880000000p-48",
            "0x1.8cc5160000000p-72",
            "0x1.01b839a25204ap-96",
        ),
    )
)
"""Parts of pi/2 with 24 bits each, the last with 53; integer multiples up to 2**29 of the first are exact."""

_TAN_NUMERATOR = (-1.30936939181383777838e4, 1.15351664838587416140e6, -1.79565251976484877988e7)
_TAN_DENOMINATOR = (
    *(1.0, 1.36812963470692954678e4, -1.32089234440210967447e6),
    *(2.50083801823357915839e7, -5.38695755929454629881e7),
)
_MAX_REDUCED_ARGUMENT = 2.0**29


def tan(b: Builder, op: Op) -> Value:
    """Build operations that compute the tangent, from the reduced argument `|x| - n * pi/2`.

    Within 4 ulp for |x| <= 2**29, even near the poles and zeros. There, Sin / Cos of ONNX Runtime is less
    precise, because its vector code reduces by multiples of pi with an absolute error. For larger |x|, the
    result is Sin / Cos.
    Source: S. Moshier, Cephes, double/tan.c.
    """
    x = operand(op)
    a = b.op("Abs", x)
    argument_limit = constant_like(b, _MAX_REDUCED_ARGUMENT, x)
    reduced_a = b.op("Min", a, argument_limit)
    n = b.op("Round", scale(b, reduced_a, 2 / math.pi))
    for half_pi_part in _HALF_PI_PARTS:
        reduced_a = b.op("Sub", reduced_a, scale(b, n, half_pi_part))
    z = b.op("Mul", reduced_a, reduced_a)
    rational_term = b.op(
        "Div", polynomial(b, z, _TAN_NUMERATOR), polynomial(b, z, _TAN_DENOMINATOR)
    )
    y = b.op("Add", reduced_a, b.op("Mul", reduced_a, b.op("Mul", z, rational_term)))
    is_even = b.op(
        "Equal", b.op("Mod", n, constant_like(b, 2.0, x), fmod=1), constant_like(b, 0.0, x)
    )
    small_angle_tangent = b.op("Where", is_even, y, b.op("Div", constant_like(b, -1.0, x), y))
    large_angle_tangent = b.op("Div", b.op("Sin", a), b.op("Cos", a))
    return copy_sign(
        b,
        x,
        b.op("Where", b.op("Less", a, argument_limit), small_angle_tangent, large_angle_tangent),
    )


_ATAN_NUMERATOR = (
    *(-8.750608600031904122785e-1, -1.615753718733365076637e1),
    *(-7.500855792314704667340e1, -1.228866684490136173410e2, -6.485021904942025371773e1),
)
_ATAN_DENOMINATOR = (
    *(1.0, 2.485846490142306297962e1, 1.650270098316988542046e2),
    *(4.328810604912902668951e2, 4.853903996359136964868e2, 1.945506571482613964425e2),
)
_HALF_PI_ROUNDING_ERROR = 6.123233995736765886130e-17
"""Difference between pi/2 and pi/2 rounded to float64."""


def atan(b: Builder, op: Op) -> Value:
    """Build operations that compute the arctangent by a rational approximation.

    |x| is reduced to `atan_argument` in [-1/3, 1/2].

        reduced_a = 1/|x| beyond 1, subtracted from pi/2
        atan_argument = (reduced_a - 1) / (reduced_a + 1) beyond 1/2, added to pi/4

    Within 3 ulp. Source: S. Moshier, Cephes, double/atan.c.
    """
    x = operand(op)
    a = b.op("Abs", x)
    reduced_a = b.op("Min", a, b.op("Reciprocal", a))
    is_above_half = cast(b, b.op("Greater", reduced_a, constant_like(b, 0.5, x)), x.dtype)
    denominator = b.op("Add", one_like(b, x), b.op("Mul", is_above_half, reduced_a))
    atan_argument = b.op("Div", b.op("Sub", reduced_a, is_above_half), denominator)
    z = b.op("Mul", atan_argument, atan_argument)
    rational_term = b.op(
        "Div", polynomial(b, z, _ATAN_NUMERATOR), polynomial(b, z, _ATAN_DENOMINATOR)
    )
    polynomial_correction = b.op("Mul", atan_argument, b.op("Mul", z, rational_term))
    polynomial_correction = b.op(
        "Add", polynomial_correction, scale(b, is_above_half, _HALF_PI_ROUNDING_ERROR / 2)
    )
    angle = b.op(
        "Add",
        scale(b, is_above_half, math.pi / 4),
        b.op("Add", atan_argument, polynomial_correction),
    )
    is_above_one = cast(b, b.op("Greater", a, one_like(b, x)), x.dtype)
    reduced_angle = b.op("Sub", angle, scale(b, is_above_one, math.pi / 2))
    return copy_sign(
        b,
        x,
        b.op("Abs", b.op("Sub", reduced_angle, scale(b, is_above_one, _HALF_PI_ROUNDING_ERROR))),
    )


_ASIN_NUMERATOR = (
    *(3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02),
    *(2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01, 0.0),
)
_ASIN_DENOMINATOR = (
    *(7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e00),
    *(-2.40339491173441421878e00, 1.0),
)


def _build_reduced_asin(b: Builder, x: Value) -> tuple[Value, Value]:
    """Build the arcsine of an argument reduced to [0, 1/2], and the mask `|x| > 1/2`.

    The reduced argument is |x|, or sqrt((1 - |x|) / 2) for |x| > 1/2.
    """
    a = b.op("Abs", x)
    is_above_half = b.op("Greater", a, constant_like(b, 0.5, x))
    half_complement = scale(b, b.op("Sub", one_like(b, x), a), 0.5)
    z = b.op("Where", is_above_half, half_complement, b.op("Mul", a, a))
    asin_argument = b.op("Where", is_above_half, b.op("Sqrt", half_complement), a)
    rational_term = b.op(
        "Div", polynomial(b, z, _ASIN_NUMERATOR), polynomial(b, z, _ASIN_DENOMINATOR)
    )
    return b.op("Add", asin_argument, b.op("Mul", asin_argument, rational_term)), is_above_half


def asin(b: Builder, op: Op) -> Value:
    """Build operations that compute the arcsine as `s + s * R(s*s)` with `s = |x|`.

    For |x| > 1/2 the arcsine is pi/2 minus twice the arcsine of `sqrt((1 - |x|) / 2)`.

    The result is nan for |x| > 1. Within 3 ulp. Source: fdlibm, e_asin.c.
    """
    x = operand(op)
    reduced_asin, is_above_half = _build_reduced_asin(b, x)
    doubled_angle = shift(b, scale(b, reduced_asin, 2.0), -_HALF_PI_ROUNDING_ERROR)
    angle_above_half = b.op("Sub", constant_like(b, math.pi / 2, x), doubled_angle)
    return copy_sign(b, x, b.op("Where", is_above_half, angle_above_half, reduced_asin))


def acos(b: Builder, op: Op) -> Value:
    """Build operations that compute the arccosine from the arcsine.

    For |x| <= 1/2, the arccosine is `pi/2` minus the arcsine. For |x| > 1/2, the arccosine is computed from the
    arcsine of `sqrt((1 - |x|) / 2)`.

    For x > 1/2 the result is twice that arcsine. For x < -1/2 twice that arcsine is subtracted from pi. The result is
    nan for |x| > 1.
    Within 3 ulp. Source: fdlibm, e_acos.c.
    """
    x = operand(op)
    reduced_asin, is_above_half = _build_reduced_asin(b, x)
    signed_angle = shift(b, b.op("Mul", b.op("Sign", x), reduced_asin), -_HALF_PI_ROUNDING_ERROR)
    acos_below_half = b.op("Sub", constant_like(b, math.pi / 2, x), signed_angle)
    is_negative = cast(b, b.op("Less", x, constant_like(b, 0.0, x)), x.dtype)
    doubled_angle = b.op(
        "Sub", scale(b, reduced_asin, 2.0), scale(b, is_negative, 2 * _HALF_PI_ROUNDING_ERROR)
    )
    acos_above_half = b.op("Abs", b.op("Sub", scale(b, is_negative, math.pi), doubled_angle))
    return b.op("Where", is_above_half, acos_above_half, acos_below_half)
