"""Lowering of elementwise functions of `numpy.`: exp, log, sin, hypot ...

Integers are first converted to floats of the compilation's precision. Functions without an ONNX operator
are decomposed so that the relative error stays within about the last two bits.
"""

from __future__ import annotations

import math

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.signs import is_negative, with_sign_of
from mdf_loop.lower.terms import as_float, literal, promote
from mdf_loop.ops.build_helpers import cast, kind, scalar

_NUMPY_NAMES = {
    "Exp": ("exp",),
    "Log": ("log",),
    "Sqrt": ("sqrt",),
    "Sin": ("sin",),
    "Cos": ("cos",),
    "Tan": ("tan",),
    "Sinh": ("sinh",),
    "Cosh": ("cosh",),
    "Tanh": ("tanh",),
    "Asin": ("arcsin", "asin"),
    "Acos": ("arccos", "acos"),
    "Atan": ("arctan", "atan"),
    "Asinh": ("arcsinh", "asinh"),
    "Acosh": ("arccosh", "acosh"),
    "Atanh": ("arctanh", "atanh"),
}
"""Names of the equivalent functions of numpy, by ONNX operator."""


def _register_operator(op_type: str, spellings: tuple[str, ...]) -> None:
    @register_as(*(f"numpy.{name}" for name in spellings))
    def call(b: ModelBuilder, x: Value, /) -> Value:
        return b.op(op_type, as_float(b, x))

    call.__doc__ = f"Return `numpy.{spellings[0]}(x)`."


for _op_type, _spellings in _NUMPY_NAMES.items():
    _register_operator(_op_type, _spellings)


def _constant_like(b: ModelBuilder, number: float, x: Value) -> Value:
    return scalar(b, number, x.dtype)


def as_common_floats(b: ModelBuilder, *values: Value) -> list[Value]:
    """Return values cast to their common float dtype."""
    return [as_float(b, value) for value in promote(b, *values)]


# --- exponentials and logarithms ---------------------------------------------------------------


@register_as("numpy.exp2")
def exp2(b: ModelBuilder, x: Value, /) -> Value:
    """Return `2 ** x`."""
    x = as_float(b, x)
    return b.op("Pow", _constant_like(b, 2, x), x)


@register_as("numpy.expm1")
def expm1(b: ModelBuilder, x: Value, /) -> Value:
    """Return `exp(x) - 1 = tanh(x / 2) * (exp(x) + 1)`, accurate near 0."""
    x = as_float(b, x)
    tanh_of_half = b.op("Tanh", b.op("Mul", x, _constant_like(b, 0.5, x)))
    return b.op("Mul", tanh_of_half, b.op("Add", b.op("Exp", x), _constant_like(b, 1, x)))


@register_as("numpy.log1p")
def log1p(b: ModelBuilder, x: Value, /) -> Value:
    """Return `log(1 + x)`, accurate near 0.

    It is `log(u) * (x / (u - 1))` with `u = 1 + x`.

    The quotient corrects the rounding of u (W. Kahan). The quotient is 1 if u is exact (also at infinity).
    For u = 1, the result is x.
    """
    x = as_float(b, x)
    one = _constant_like(b, 1, x)
    one_plus_x = b.op("Add", one, x)
    rounded_x = b.op("Sub", one_plus_x, one)
    rounding_correction = b.op("Where", b.op("Equal", rounded_x, x), one, b.op("Div", x, rounded_x))
    corrected_log = b.op("Mul", b.op("Log", one_plus_x), rounding_correction)
    is_nonzero = b.op("Greater", b.op("Abs", rounded_x), _constant_like(b, 0, x))
    return b.op(
        "Where", is_nonzero, corrected_log, x
    )  # only the else branch keeps the sign of -0.0


def _register_logarithm(base: int) -> None:
    @register_as(f"numpy.log{base}")
    def call(b: ModelBuilder, x: Value, /) -> Value:
        x = as_float(b, x)
        log_quotient = b.op("Div", b.op("Log", x), _constant_like(b, math.log(base), x))
        nearest_integer = b.op("Round", log_quotient)
        tolerance = b.op(
            "Mul",
            b.op("Abs", nearest_integer),
            _constant_like(b, 2 * float(np.finfo(x.dtype).eps), x),
        )
        is_near_integer = b.op(
            "LessOrEqual", b.op("Abs", b.op("Sub", log_quotient, nearest_integer)), tolerance
        )
        return b.op("Where", is_near_integer, nearest_integer, log_quotient)

    call.__doc__ = (
        f"Return `log(x) / log({base})`, an exact integer if x is an integer power of {base}."
    )


_register_logarithm(2)
_register_logarithm(10)


@register_as("numpy.logaddexp")
def logaddexp(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return `log(exp(x1) + exp(x2)) = max + log1p(exp(-|x1 - x2|))`."""
    x1, x2 = as_common_floats(b, x1, x2)
    maximum = b.op("Max", x1, x2)
    distance = b.op("Abs", b.op("Sub", x1, x2))
    stable_sum = b.op("Add", maximum, log1p(b, b.op("Exp", b.op("Neg", distance))))
    return b.op(
        "Where",
        b.op("Equal", x1, x2),
        b.op("Add", x1, _constant_like(b, math.log(2), x1)),
        stable_sum,
    )


# --- powers and roots --------------------------------------------------------------------------


@register_as("numpy.square")
def square(b: ModelBuilder, x: Value, /) -> Value:
    """Return `x * x`, element by element, in the dtype of x."""
    x = cast(b, x, "int64") if x.dtype == "bool" else x
    return b.op("Mul", x, x)


@register_as("numpy.reciprocal")
def reciprocal(b: ModelBuilder, x: Value, /) -> Value:
    """Return `1 / x` in the dtype of x, truncated toward zero for integers."""
    x = cast(b, x, "int64") if x.dtype == "bool" else x
    return b.op("Div", _constant_like(b, 1, x), x)


@register_as("numpy.cbrt")
def cbrt(b: ModelBuilder, x: Value, /) -> Value:
    """Return the cube root of each element, with the sign of x.

    It is `|x| ** (1/3)`, improved by one step of Newton's method.
    """
    x = as_float(b, x)
    magnitude = b.op("Abs", x)
    root_estimate = b.op("Pow", magnitude, _constant_like(b, 1 / 3, x))
    magnitude_quotient = b.op("Div", magnitude, b.op("Mul", root_estimate, root_estimate))
    newton_step = b.op(
        "Div", b.op("Sub", magnitude_quotient, root_estimate), _constant_like(b, 3, x)
    )
    magnitude_root = b.op(
        "Where", b.op("IsNaN", newton_step), root_estimate, b.op("Add", root_estimate, newton_step)
    )
    return with_sign_of(b, magnitude_root, x)


@register_as("numpy.float_power")
def float_power(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return `x1 ** x2` computed as floats."""
    return b.op("Pow", *as_common_floats(b, x1, x2))


@register_as("numpy.hypot")
def hypot(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return `sqrt(x1**2 + x2**2)` without overflow.

    It is the larger magnitude times `sqrt(1 + ratio**2)`.
    """
    magnitudes = [b.op("Abs", x) for x in as_common_floats(b, x1, x2)]
    larger_magnitude, smaller_magnitude = b.op("Max", *magnitudes), b.op("Min", *magnitudes)
    zero, one, infinity = (_constant_like(b, n, larger_magnitude) for n in (0, 1, math.inf))
    magnitude_ratio = b.op(
        "Div",
        smaller_magnitude,
        b.op("Where", b.op("Equal", larger_magnitude, zero), one, larger_magnitude),
    )
    scaled_hypotenuse = b.op(
        "Sqrt", b.op("Add", one, b.op("Mul", magnitude_ratio, magnitude_ratio))
    )
    is_infinite = b.op("Or", *(b.op("Equal", magnitude, infinity) for magnitude in magnitudes))
    return b.op("Where", is_infinite, infinity, b.op("Mul", larger_magnitude, scaled_hypotenuse))


# --- angles ------------------------------------------------------------------------------------


@register_as("numpy.degrees", "numpy.rad2deg")
def degrees(b: ModelBuilder, x: Value, /) -> Value:
    """Return angles in radians converted to degrees."""
    x = as_float(b, x)
    return b.op("Mul", x, _constant_like(b, 180 / math.pi, x))


@register_as("numpy.radians", "numpy.deg2rad")
def radians(b: ModelBuilder, x: Value, /) -> Value:
    """Return angles in degrees converted to radians."""
    x = as_float(b, x)
    return b.op("Mul", x, _constant_like(b, math.pi / 180, x))


@register_as("numpy.signbit")
def signbit(b: ModelBuilder, x: Value, /) -> Value:
    """Return True for negative numbers and -0.0."""
    if kind(x) != "f":
        return ops.less(b, x, literal(b, 0))
    return is_negative(b, x)


@register_as("numpy.copysign")
def copysign(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return the magnitude of x1 with the sign of x2, element by element."""
    x1, x2 = as_common_floats(b, x1, x2)
    return with_sign_of(b, b.op("Abs", x1), x2)


@register_as("numpy.arctan2", "numpy.atan2")
def arctan2(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """Return the angle of the point (x2, x1) in radians.

    It is `arctan |x1 / x2|`, moved into its quadrant.
    """
    y, x = as_common_floats(b, x1, x2)
    y_magnitude, x_magnitude = b.op("Abs", y), b.op("Abs", x)
    is_diagonal = b.op(
        "Equal", y_magnitude, x_magnitude
    )  # the angle is defined although 0/0 and inf/inf are nan
    y_to_x_ratio = b.op(
        "Where", is_diagonal, _constant_like(b, 1, x), b.op("Div", y_magnitude, x_magnitude)
    )
    is_origin = b.op("Equal", b.op("Max", y_magnitude, x_magnitude), _constant_like(b, 0, x))
    angle = b.op("Where", is_origin, _constant_like(b, 0, x), b.op("Atan", y_to_x_ratio))
    mirrored_angle = b.op(
        "Where", signbit(b, x), b.op("Sub", _constant_like(b, math.pi, x), angle), angle
    )
    return copysign(b, mirrored_angle, y)


@register_as("numpy.sinc")
def sinc(b: ModelBuilder, x: Value, /) -> Value:
    """Return `sin(pi x) / (pi x)`, which is 1 at 0."""
    x = as_float(b, x)
    is_zero = b.op("Equal", x, _constant_like(b, 0, x))
    pi_x = b.op("Mul", x, _constant_like(b, math.pi, x))
    return b.op("Where", is_zero, _constant_like(b, 1, x), b.op("Div", b.op("Sin", pi_x), pi_x))
