"""Decomposition of the error function in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.decompositions.build_helpers import constant_like, copy_sign, operand, polynomial

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_NUMERATOR_NEAR_ZERO = (
    *(9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3),
    *(7.00332514112805075473e3, 5.55923013010394962768e4),
)
_DENOMINATOR_NEAR_ZERO = (
    *(1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3),
    *(2.26290000613890934246e4, 4.92673942608635921086e4),
)
_NUMERATOR_FAR_FROM_ZERO = (
    *(2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0),
    *(4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2),
    *(9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2),
)
_DENOMINATOR_FAR_FROM_ZERO = (
    *(1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2),
    *(9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3),
    *(1.65666309194161350182e3, 5.57535340817727675546e2),
)


def erf(b: Builder, op: Op) -> Value:
    """Build operations that compute the error function by two rational approximations.

    The function is `2/sqrt(pi) * integral of exp(-t*t) from 0 to x`.

        |x| <= 1    x * R(x*x)
        |x| > 1     1 - exp(-x*x) * S(|x|), with the sign of x

    Within 3 ulp. Source: S. Moshier, Cephes, double/ndtr.c.
    """
    x = operand(op)
    a = b.op("Min", b.op("Abs", x), constant_like(b, 6.0, x))
    a_squared = b.op("Mul", a, a)
    ratio_near_zero = b.op(
        "Div",
        polynomial(b, a_squared, _NUMERATOR_NEAR_ZERO),
        polynomial(b, a_squared, _DENOMINATOR_NEAR_ZERO),
    )
    ratio_far_from_zero = b.op(
        "Div",
        polynomial(b, a, _NUMERATOR_FAR_FROM_ZERO),
        polynomial(b, a, _DENOMINATOR_FAR_FROM_ZERO),
    )
    one = constant_like(b, 1.0, x)
    erf_far_from_zero = b.op(
        "Sub", one, b.op("Mul", b.op("Exp", b.op("Neg", a_squared)), ratio_far_from_zero)
    )
    return copy_sign(
        b,
        x,
        b.op("Where", b.op("Greater", a, one), erf_far_from_zero, b.op("Mul", a, ratio_near_zero)),
    )
