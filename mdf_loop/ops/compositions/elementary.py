"""Elementary functions in float64: at most 4 ulp from the true value, checked with mpmath.

All are made of Exp, Log, Sqrt and arithmetic, which every ONNX runtime has in float64. They keep
the sign of zero, give what IEEE 754 asks for at infinities and outside their domains (nan), and
use no branch: every element is computed one way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import number, odd, operand, polynomial, scaled, shifted
from mdf_loop.ops.words import cast

if TYPE_CHECKING:
    from mdf_loop.build import Builder

LARGEST_EXP = 700.0
"""`exp` of it is finite, with room for a factor."""

HUGE = 2.0**500
"""Its square is finite, and 1 is nothing beside it."""


def one(b: Builder, like: Value) -> Value:
    """1 in the dtype of `like`."""
    return number(b, 1.0, like)


# --- exp(x) - 1 and log(1 + x) ----------------------------------------------------------------


def log1p(b: Builder, x: Value) -> Value:
    """`log(1 + x)`, also for tiny x.

        u = 1 + x; Where(u == 1, x, log(u) * (x / (u - 1)))

    Within 3 ulp. Source: W. Kahan; D. Goldberg, doi:10.1145/103162.103163, theorem 4.
    """
    u = shifted(b, x, 1.0)
    limit = number(b, HUGE, x)
    near, exact = b.op("Min", shifted(b, u, -1.0), limit), b.op("Min", x, limit)
    log = b.op("Mul", b.op("Log", u), b.op("Div", exact, near))
    return b.op("Where", b.op("Equal", u, number(b, 1.0, x)), x, log)


def expm1(b: Builder, x: Value) -> Value:
    """`exp(x) - 1`, also for tiny x; for x between -40 and 700.

        u = exp(x); Where(u == 1, x, (u - 1) * (x / log(u)))

    Within 4 ulp. Source: N. Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1.
    """
    u = b.op("Exp", x)
    value = b.op("Mul", shifted(b, u, -1.0), b.op("Div", x, b.op("Log", u)))
    return b.op("Where", b.op("Equal", u, one(b, x)), x, value)


# --- hyperbolic functions ---------------------------------------------------------------------


def _split_exp(b: Builder, a: Value) -> tuple[Value, Value, Value]:
    """`exp(a)` in two factors that do not overflow: (cut a, exp(cut a), exp(a - cut a))."""
    cut = b.op("Min", a, number(b, LARGEST_EXP, a))
    return cut, b.op("Exp", cut), b.op("Exp", b.op("Sub", a, cut))


def cosh(b: Builder, op: Op) -> Value:
    """`(e + 1/e) / 2` with `e = exp(|x|)`, beyond 700 in two factors. Within 2 ulp."""
    x = operand(op)
    _, e, rest = _split_exp(b, b.op("Abs", x))
    half = number(b, 0.5, x)
    return b.op("Add", b.op("Mul", b.op("Mul", half, e), rest), b.op("Div", half, e))


def sinh(b: Builder, op: Op) -> Value:
    """`(t + t / (t + 1)) / 2` with `t = expm1(|x|)`, beyond 700 in two factors. Within 4 ulp."""
    x = operand(op)
    a = b.op("Abs", x)
    cut, e, rest = _split_exp(b, a)
    t = expm1(b, cut)
    both = scaled(b, b.op("Add", t, b.op("Div", t, e)), 0.5)
    return odd(b, x, b.op("Mul", both, rest))


def asinh(b: Builder, op: Op) -> Value:
    """`log1p(a + a*a / (1 + sqrt(1 + a*a)))` of `a = |x|`; beyond h = 2**500, plus `log(a / h)`."""
    x = operand(op)
    whole = b.op("Abs", x)
    a = b.op("Min", whole, number(b, HUGE, x))
    square = b.op("Mul", a, a)
    root = shifted(b, b.op("Sqrt", shifted(b, square, 1.0)), 1.0)
    near = log1p(b, b.op("Add", a, b.op("Div", square, root)))
    beyond = b.op("Max", scaled(b, whole, 1 / HUGE), one(b, x))
    return odd(b, x, b.op("Add", near, b.op("Log", beyond)))


def acosh(b: Builder, op: Op) -> Value:
    """`log1p(t + sqrt(t) * sqrt(t + 2))` of `t = x - 1`; beyond h = 2**500, plus `log(x / h)`."""
    x = operand(op)
    cut = b.op("Min", x, number(b, HUGE, x))
    t = shifted(b, cut, -1.0)
    root = b.op("Mul", b.op("Sqrt", t), b.op("Sqrt", shifted(b, t, 2.0)))
    near = log1p(b, b.op("Add", t, root))
    beyond = b.op("Max", scaled(b, x, 1 / HUGE), one(b, x))
    return b.op("Add", near, b.op("Log", beyond))


def atanh(b: Builder, op: Op) -> Value:
    """Half of `log1p(2a / (1 - a))` of `a = |x|`, with the sign of x. Within 4 ulp."""
    x = operand(op)
    a = b.op("Abs", x)
    ratio = b.op("Div", scaled(b, a, 2.0), b.op("Sub", one(b, x), a))
    return odd(b, x, scaled(b, log1p(b, ratio), 0.5))


# --- circular functions -----------------------------------------------------------------------

_PI_2 = tuple(
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
"""pi/2 in parts of 24 bits, the last of 53: whole multiples up to 2**29 of the first are exact."""

_TAN_P = (-1.30936939181383777838e4, 1.15351664838587416140e6, -1.79565251976484877988e7)
_TAN_Q = (
    *(1.0, 1.36812963470692954678e4, -1.32089234440210967447e6),
    *(2.50083801823357915839e7, -5.38695755929454629881e7),
)
_TAN_EXACT = 2.0**29


def tan(b: Builder, op: Op) -> Value:
    """The tangent of r, or -1 over it: `r = |x| - n * pi/2`; the sign of x.

    Within 4 ulp for |x| <= 2**29, also beside the poles and zeros, where Sin / Cos of ONNX
    Runtime is not (its vector code knows multiples of pi only absolutely). Beyond, Sin / Cos.
    Source: S. Moshier, Cephes, double/tan.c.
    """
    x = operand(op)
    a = b.op("Abs", x)
    limit = number(b, _TAN_EXACT, x)
    r = b.op("Min", a, limit)
    n = b.op("Round", scaled(b, r, 2 / math.pi))
    for part in _PI_2:
        r = b.op("Sub", r, scaled(b, n, part))
    z = b.op("Mul", r, r)
    fraction = b.op("Div", polynomial(b, z, _TAN_P), polynomial(b, z, _TAN_Q))
    y = b.op("Add", r, b.op("Mul", r, b.op("Mul", z, fraction)))
    even = b.op("Equal", b.op("Mod", n, number(b, 2.0, x), fmod=1), number(b, 0.0, x))
    near = b.op("Where", even, y, b.op("Div", number(b, -1.0, x), y))
    far = b.op("Div", b.op("Sin", a), b.op("Cos", a))
    return odd(b, x, b.op("Where", b.op("Less", a, limit), near, far))


_ATAN_P = (
    *(-8.750608600031904122785e-1, -1.615753718733365076637e1),
    *(-7.500855792314704667340e1, -1.228866684490136173410e2, -6.485021904942025371773e1),
)
_ATAN_Q = (
    *(1.0, 2.485846490142306297962e1, 1.650270098316988542046e2),
    *(4.328810604912902668951e2, 4.853903996359136964868e2, 1.945506571482613964425e2),
)
_LOW_PI_2 = 6.123233995736765886130e-17
"""pi/2 minus its float64."""


def atan(b: Builder, op: Op) -> Value:
    """`atan(t)` by a fraction of polynomials; t is |x| brought into [-1/3, 1/2].

        s = 1/|x| beyond 1, taken from pi/2;    t = (s - 1) / (s + 1) beyond 1/2, added to pi/4

    Within 3 ulp. Source: S. Moshier, Cephes, double/atan.c.
    """
    x = operand(op)
    a = b.op("Abs", x)
    s = b.op("Min", a, b.op("Reciprocal", a))
    upper = cast(b, b.op("Greater", s, number(b, 0.5, x)), x.dtype)
    below = b.op("Add", one(b, x), b.op("Mul", upper, s))
    t = b.op("Div", b.op("Sub", s, upper), below)
    z = b.op("Mul", t, t)
    fraction = b.op("Div", polynomial(b, z, _ATAN_P), polynomial(b, z, _ATAN_Q))
    tail = b.op("Mul", t, b.op("Mul", z, fraction))
    tail = b.op("Add", tail, scaled(b, upper, _LOW_PI_2 / 2))
    near = b.op("Add", scaled(b, upper, math.pi / 4), b.op("Add", t, tail))
    beyond = cast(b, b.op("Greater", a, one(b, x)), x.dtype)
    far = b.op("Sub", near, scaled(b, beyond, math.pi / 2))
    return odd(b, x, b.op("Abs", b.op("Sub", far, scaled(b, beyond, _LOW_PI_2))))


_ASIN_P = (
    *(3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02),
    *(2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01, 0.0),
)
_ASIN_Q = (
    *(7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e00),
    *(-2.40339491173441421878e00, 1.0),
)


def _asin_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """(asin of s, whether |x| > 1/2) with s = |x|, or sqrt((1 - |x|) / 2) beyond 1/2."""
    a = b.op("Abs", x)
    upper = b.op("Greater", a, number(b, 0.5, x))
    half = scaled(b, b.op("Sub", one(b, x), a), 0.5)
    z = b.op("Where", upper, half, b.op("Mul", a, a))
    s = b.op("Where", upper, b.op("Sqrt", half), a)
    fraction = b.op("Div", polynomial(b, z, _ASIN_P), polynomial(b, z, _ASIN_Q))
    return b.op("Add", s, b.op("Mul", s, fraction)), upper


def asin(b: Builder, op: Op) -> Value:
    """The angle `s + s * R(s*s)` of `s = |x|`; beyond 1/2, pi/2 less twice that of sqrt((1-s)/2).

    Nan beyond 1.     Within 3 ulp. Source: fdlibm, e_asin.c.
    """
    x = operand(op)
    angle, upper = _asin_parts(b, x)
    folded = shifted(b, scaled(b, angle, 2.0), -_LOW_PI_2)
    far = b.op("Sub", number(b, math.pi / 2, x), folded)
    return odd(b, x, b.op("Where", upper, far, angle))


def acos(b: Builder, op: Op) -> Value:
    """`pi/2 - asin(x)`, beyond 1/2 `2 asin(sqrt((1 - |x|) / 2))`, from pi for negative x.

    Within 3 ulp; nan beyond 1. Source: fdlibm, e_acos.c.
    """
    x = operand(op)
    angle, upper = _asin_parts(b, x)
    signed = shifted(b, b.op("Mul", b.op("Sign", x), angle), -_LOW_PI_2)
    near = b.op("Sub", number(b, math.pi / 2, x), signed)
    negative = cast(b, b.op("Less", x, number(b, 0.0, x)), x.dtype)
    gap = b.op("Sub", scaled(b, angle, 2.0), scaled(b, negative, 2 * _LOW_PI_2))
    far = b.op("Abs", b.op("Sub", scaled(b, negative, math.pi), gap))
    return b.op("Where", upper, far, near)
