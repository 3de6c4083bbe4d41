"""Lowering of NumPy's rounding, sign and nan functions: floor, sign, clip, isnan ..."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.elementary import as_common_floats
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.signs import with_sign_of
from mdf_loop.lower.terms import as_float, promote, promote_numbers
from mdf_loop.ops.build_helpers import cast, kind, scalar

# --- rounding ----------------------------------------------------------------------------------


def _register_rounding(op_type: str, *spellings: str) -> Callable[[ModelBuilder, Value], Value]:
    @register_as(*spellings)
    def call(b: ModelBuilder, x: Value, /) -> Value:
        return b.op(op_type, x) if kind(x) == "f" else x

    call.__doc__ = f"Return `{spellings[0]}(x)`; integers are unchanged."
    return call


floor = _register_rounding("Floor", "numpy.floor")
ceil = _register_rounding("Ceil", "numpy.ceil")


@register_as("numpy.trunc", "numpy.fix")
def trunc(b: ModelBuilder, x: Value, /) -> Value:
    """Return x truncated toward zero, with integers unchanged."""
    if kind(x) != "f":
        return x
    # Where drops the sign of a zero in its first branch.
    is_positive = b.op("Greater", x, scalar(b, 0, x.dtype))
    return b.op("Where", is_positive, floor(b, x), ceil(b, x))


@register_as("numpy.rint")
def rint(b: ModelBuilder, x: Value, /) -> Value:
    """Return each element rounded to the nearest integer as a float, halves to even."""
    return b.op("Round", as_float(b, x))


@register_as("numpy.round", "numpy.around")
def round_decimals(b: ModelBuilder, a: Value, /, decimals: int = 0) -> Value:
    """Return numbers rounded to `decimals` decimal places, halves to even, as in numpy."""
    if kind(a) != "f":
        return a if decimals >= 0 else cast(b, round_decimals(b, as_float(b, a), decimals), a.dtype)
    if decimals == 0:
        return b.op("Round", a)
    power_of_ten = scalar(b, 10.0 ** abs(decimals), a.dtype)
    scaling_op, unscaling_op = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return b.op(unscaling_op, b.op("Round", b.op(scaling_op, a, power_of_ten)), power_of_ten)


# --- signs -------------------------------------------------------------------------------------


@register_as("numpy.absolute", "numpy.abs")
def absolute(b: ModelBuilder, x: Value, /) -> Value:
    """Return `|x|`, with bools unchanged."""
    return x if kind(x) in "bu" else b.op("Abs", x)


@register_as("numpy.fabs")
def fabs(b: ModelBuilder, x: Value, /) -> Value:
    """Return `|x|` as a float."""
    return b.op("Abs", as_float(b, x))


@register_as("numpy.positive")
def positive(b: ModelBuilder, x: Value, /) -> Value:
    """Return `+x`, element by element."""
    return x


@register_as("numpy.sign")
def sign(b: ModelBuilder, x: Value, /) -> Value:
    """Return the sign of x as -1, 0 or 1, and nan for nan."""
    if kind(x) not in "iuf":
        raise OperandError("numpy.sign has no meaning for truth values", hint="write 1*x")
    return b.op("Sign", x)


@register_as("numpy.heaviside")
def heaviside(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return the Heaviside step function: 0 for x1 < 0, x2 for x1 = 0, 1 for x1 > 0."""
    x1, x2 = as_common_floats(b, x1, x2)
    zero, one = scalar(b, 0, x1.dtype), scalar(b, 1, x1.dtype)
    step_value = b.op("Where", b.op("Greater", x1, zero), one, x1)  # keeps nan
    step_value = b.op("Where", b.op("Less", x1, zero), zero, step_value)
    return b.op("Where", b.op("Equal", x1, zero), x2, step_value)


# --- minimum and maximum ------------------------------------------------------------------------


def _register_extreme(
    op_type: str, logic: str, *spellings: str
) -> Callable[[ModelBuilder, Value, Value], Value]:
    @register_as(*spellings)
    def call(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
        x1, x2 = promote(b, x1, x2)
        return b.op(logic if x1.dtype == "bool" else op_type, x1, x2)

    call.__doc__ = f"Return `{spellings[0]}(x1, x2)`, element by element; nan if either is nan."
    return call


maximum = _register_extreme("Max", "Or", "numpy.maximum")
minimum = _register_extreme("Min", "And", "numpy.minimum")


def _register_nan_ignoring(
    extreme: Callable[[ModelBuilder, Value, Value], Value], name: str
) -> None:
    @register_as(name)
    def call(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
        x1, x2 = promote(b, x1, x2)
        extremes = extreme(b, x1, x2)
        if kind(x1) != "f":
            return extremes
        return b.op("Where", b.op("IsNaN", x1), x2, b.op("Where", b.op("IsNaN", x2), x1, extremes))

    call.__doc__ = f"Return `{name}(x1, x2)`; nan only if both are nan."


_register_nan_ignoring(maximum, "numpy.fmax")
_register_nan_ignoring(minimum, "numpy.fmin")


@register_as("numpy.clip")
def clip(
    b: ModelBuilder,
    a: Value,
    /,
    a_min: Value | None = None,
    a_max: Value | None = None,
    *,
    min: Value | None = None,
    max: Value | None = None,
) -> Value:
    """Return `a` limited to the interval from `a_min` to `a_max`, where None is no limit."""
    lower_limit, upper_limit = a_min or min, a_max or max
    clip_limits = [
        clip_limit for clip_limit in (lower_limit, upper_limit) if clip_limit is not None
    ]
    a, *clip_limits = promote(b, a, *clip_limits)
    if lower_limit is not None:
        a = maximum(b, a, clip_limits.pop(0))
    return minimum(b, a, clip_limits.pop(0)) if upper_limit is not None else a


# --- nan and infinity ----------------------------------------------------------------------------


@register_as("numpy.isnan")
def isnan(b: ModelBuilder, x: Value, /) -> Value:
    """Return True where x is nan."""
    return b.op("IsNaN", as_float(b, x))


def _register_infinity_test(number: float, name: str) -> None:
    @register_as(name)
    def call(b: ModelBuilder, x: Value, /) -> Value:
        x = as_float(b, x)
        return b.op("Equal", x, scalar(b, number, x.dtype))

    call.__doc__ = f"Return True where x is {number}."


_register_infinity_test(math.inf, "numpy.isposinf")
_register_infinity_test(-math.inf, "numpy.isneginf")


@register_as("numpy.isinf")
def isinf(b: ModelBuilder, x: Value, /) -> Value:
    """Return True where x is infinite."""
    x = as_float(b, x)
    return b.op("Equal", b.op("Abs", x), scalar(b, math.inf, x.dtype))


@register_as("numpy.isfinite")
def isfinite(b: ModelBuilder, x: Value, /) -> Value:
    """Return True where x is finite."""
    x = as_float(b, x)
    return b.op("Less", b.op("Abs", x), scalar(b, math.inf, x.dtype))


@register_as("numpy.nan_to_num")
def nan_to_num(
    b: ModelBuilder,
    x: Value,
    /,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    """Return x with nan replaced by `nan`, and infinities by `posinf` and `neginf`.

    The default for infinities is the largest number of the dtype.
    """
    if kind(x) != "f":
        return x
    dtype_limits = np.finfo(x.dtype)
    positive_limit = float(dtype_limits.max) if posinf is None else posinf
    negative_limit = float(dtype_limits.min) if neginf is None else neginf
    replaced_values = b.op("Where", b.op("IsNaN", x), scalar(b, nan, x.dtype), x)
    for infinity, replacement in ((math.inf, positive_limit), (-math.inf, negative_limit)):
        is_infinity = b.op("Equal", x, scalar(b, infinity, x.dtype))
        replaced_values = b.op(
            "Where", is_infinity, scalar(b, replacement, x.dtype), replaced_values
        )
    return replaced_values


# --- quotient and remainder ----------------------------------------------------------------------


@register_as("numpy.fmod")
def fmod(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return the remainder of `x1 / x2` with the sign of x1, element by element."""
    x1, x2 = promote_numbers(b, x1, x2)
    return b.op("Mod", x1, x2, fmod=1)


@register_as("numpy.modf")
def modf(b: ModelBuilder, x: Value, /) -> tuple[Value, Value]:
    """Return the fractional and the integer part of x, both with the sign of x."""
    x = as_float(b, x)
    integer_part = trunc(b, x)
    is_infinite = isinf(b, x)
    fraction_magnitude = b.op(
        "Where", is_infinite, scalar(b, 0, x.dtype), b.op("Abs", b.op("Sub", x, integer_part))
    )
    return with_sign_of(b, fraction_magnitude, x), integer_part


@register_as("numpy.divmod", "divmod")
def divmod_(b: ModelBuilder, x1: Value, x2: Value, /) -> tuple[Value, Value]:
    """Return the floor quotient and remainder `(x1 // x2, x1 % x2)`."""
    return ops.floor_divide(b, x1, x2), ops.modulo(b, x1, x2)
