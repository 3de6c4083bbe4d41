"""Elementary functions of `numpy.`, element by element: exp, log, sin, hypot ...

Whole numbers become numbers with a point of the compilation's precision first. What ONNX has no
operator for is composed so that the relative error stays within the last two bits or so.
"""

from __future__ import annotations

import math

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import names
from mdf_loop.lower.signs import is_negative, with_sign_of
from mdf_loop.lower.terms import as_float, literal, promote
from mdf_loop.ops.words import cast, kind, scalar

_OPERATORS = {
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
"""ONNX operators that are functions of numpy."""


def _register(op_type: str, spellings: tuple[str, ...]) -> None:
    @names(*(f"numpy.{name}" for name in spellings))
    def call(b: ModelBuilder, x: Value, /) -> Value:
        return b.op(op_type, as_float(b, x))

    call.__doc__ = f"`numpy.{spellings[0]}(x)`."


for _op_type, _spellings in _OPERATORS.items():
    _register(_op_type, _spellings)


def _like(b: ModelBuilder, number: float, x: Value) -> Value:
    return scalar(b, number, x.dtype)


def floats(b: ModelBuilder, *values: Value) -> list[Value]:
    """The values in one dtype with a point."""
    return [as_float(b, value) for value in promote(b, *values)]


# --- exponentials and logarithms ---------------------------------------------------------------


@names("numpy.exp2")
def exp2(b: ModelBuilder, x: Value, /) -> Value:
    """`2 ** x`."""
    x = as_float(b, x)
    return b.op("Pow", _like(b, 2, x), x)


@names("numpy.expm1")
def expm1(b: ModelBuilder, x: Value, /) -> Value:
    """`exp(x) - 1 = tanh(x / 2) * (exp(x) + 1)`, accurate near 0."""
    x = as_float(b, x)
    half = b.op("Tanh", b.op("Mul", x, _like(b, 0.5, x)))
    return b.op("Mul", half, b.op("Add", b.op("Exp", x), _like(b, 1, x)))


@names("numpy.log1p")
def log1p(b: ModelBuilder, x: Value, /) -> Value:
    """`log(1 + x)` with `u = 1 + x`: `log(u) * (x / (u - 1))`, which undoes the rounding of u.

    Source: W. Kahan; the quotient is 1 where u is exact (infinity too), and log(u) is x at u = 1.
    """
    x = as_float(b, x)
    one = _like(b, 1, x)
    u = b.op("Add", one, x)
    excess = b.op("Sub", u, one)
    ratio = b.op("Where", b.op("Equal", excess, x), one, b.op("Div", x, excess))
    exact = b.op("Mul", b.op("Log", u), ratio)
    grows = b.op("Greater", b.op("Abs", excess), _like(b, 0, x))
    return b.op("Where", grows, exact, x)  # not the other way round: x may be -0.0


def _logarithm(base: int) -> None:
    @names(f"numpy.log{base}")
    def call(b: ModelBuilder, x: Value, /) -> Value:
        x = as_float(b, x)
        near = b.op("Div", b.op("Log", x), _like(b, math.log(base), x))
        whole = b.op("Round", near)
        room = b.op("Mul", b.op("Abs", whole), _like(b, 2 * float(np.finfo(x.dtype).eps), x))
        close = b.op("LessOrEqual", b.op("Abs", b.op("Sub", near, whole)), room)
        return b.op("Where", close, whole, near)

    call.__doc__ = f"`log(x) / log({base})`, whole where x is a whole power of {base}."


_logarithm(2)
_logarithm(10)


@names("numpy.logaddexp")
def logaddexp(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """`log(exp(x1) + exp(x2)) = max + log1p(exp(-|x1 - x2|))`."""
    x1, x2 = floats(b, x1, x2)
    top = b.op("Max", x1, x2)
    apart = b.op("Abs", b.op("Sub", x1, x2))
    soft = b.op("Add", top, log1p(b, b.op("Exp", b.op("Neg", apart))))
    return b.op("Where", b.op("Equal", x1, x2), b.op("Add", x1, _like(b, math.log(2), x1)), soft)


# --- powers and roots --------------------------------------------------------------------------


@names("numpy.square")
def square(b: ModelBuilder, x: Value, /) -> Value:
    """`x * x`, in the dtype of x."""
    x = cast(b, x, "int64") if x.dtype == "bool" else x
    return b.op("Mul", x, x)


@names("numpy.reciprocal")
def reciprocal(b: ModelBuilder, x: Value, /) -> Value:
    """`1 / x`, in the dtype of x (whole numbers: towards zero)."""
    x = cast(b, x, "int64") if x.dtype == "bool" else x
    return b.op("Div", _like(b, 1, x), x)


@names("numpy.cbrt")
def cbrt(b: ModelBuilder, x: Value, /) -> Value:
    """The third root: `|x| ** (1/3)` and one step of Newton's method, with the sign of x."""
    x = as_float(b, x)
    size = b.op("Abs", x)
    near = b.op("Pow", size, _like(b, 1 / 3, x))
    quotient = b.op("Div", size, b.op("Mul", near, near))
    step = b.op("Div", b.op("Sub", quotient, near), _like(b, 3, x))
    root = b.op("Where", b.op("IsNaN", step), near, b.op("Add", near, step))
    return with_sign_of(b, root, x)


@names("numpy.float_power")
def float_power(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """`x1 ** x2`, always with a point."""
    return b.op("Pow", *floats(b, x1, x2))


@names("numpy.hypot")
def hypot(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """`sqrt(x1**2 + x2**2)` that does not overflow: the larger size times `sqrt(1 + ratio**2)`."""
    sizes = [b.op("Abs", x) for x in floats(b, x1, x2)]
    large, small = b.op("Max", *sizes), b.op("Min", *sizes)
    zero, one, infinity = (_like(b, n, large) for n in (0, 1, math.inf))
    ratio = b.op("Div", small, b.op("Where", b.op("Equal", large, zero), one, large))
    root = b.op("Sqrt", b.op("Add", one, b.op("Mul", ratio, ratio)))
    endless = b.op("Or", *(b.op("Equal", size, infinity) for size in sizes))
    return b.op("Where", endless, infinity, b.op("Mul", large, root))


# --- angles ------------------------------------------------------------------------------------


@names("numpy.degrees", "numpy.rad2deg")
def degrees(b: ModelBuilder, x: Value, /) -> Value:
    """`x * 180 / pi`."""
    x = as_float(b, x)
    return b.op("Mul", x, _like(b, 180 / math.pi, x))


@names("numpy.radians", "numpy.deg2rad")
def radians(b: ModelBuilder, x: Value, /) -> Value:
    """`x * pi / 180`."""
    x = as_float(b, x)
    return b.op("Mul", x, _like(b, math.pi / 180, x))


@names("numpy.signbit")
def signbit(b: ModelBuilder, x: Value, /) -> Value:
    """Whether x is negative, -0.0 (whose reciprocal is negative) too."""
    if kind(x) != "f":
        return ops.less(b, x, literal(b, 0))
    return is_negative(b, x)


@names("numpy.copysign")
def copysign(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """The size of x1 with the sign of x2."""
    x1, x2 = floats(b, x1, x2)
    return with_sign_of(b, b.op("Abs", x1), x2)


@names("numpy.arctan2", "numpy.atan2")
def arctan2(b: ModelBuilder, x1: Value, x2: Value, /) -> Value:
    """The angle of the point (x2, x1): `arctan |x1 / x2|` brought into its quadrant."""
    y, x = floats(b, x1, x2)
    up, side = b.op("Abs", y), b.op("Abs", x)
    same = b.op("Equal", up, side)  # 0/0 and inf/inf have an angle too
    ratio = b.op("Where", same, _like(b, 1, x), b.op("Div", up, side))
    none = b.op("Equal", b.op("Max", up, side), _like(b, 0, x))
    angle = b.op("Where", none, _like(b, 0, x), b.op("Atan", ratio))
    mirrored = b.op("Where", signbit(b, x), b.op("Sub", _like(b, math.pi, x), angle), angle)
    return copysign(b, mirrored, y)


@names("numpy.sinc")
def sinc(b: ModelBuilder, x: Value, /) -> Value:
    """`sin(pi x) / (pi x)`, 1 at 0."""
    x = as_float(b, x)
    at_zero = b.op("Equal", x, _like(b, 0, x))
    angle = b.op("Mul", x, _like(b, math.pi, x))
    return b.op("Where", at_zero, _like(b, 1, x), b.op("Div", b.op("Sin", angle), angle))
