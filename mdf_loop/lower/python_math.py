"""Lowering of the functions of Python's module `math`, which take single numbers.

For plain numbers, Python computes the result at compile time. For run-time values, the call is lowered by
the equivalent function of `numpy.`, in the compilation's precision.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from mdf_loop.errors import ExpressionError, OperandError, UnsupportedError
from mdf_loop.ir import Value
from mdf_loop.lower import elementary, rounding
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arguments import Terms
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import function, register_as
from mdf_loop.lower.guards import check_fits_int64
from mdf_loop.lower.terms import as_plain, literal, mark_plain, plain_result, tensor
from mdf_loop.ops.build_helpers import cast, is_scalar, kind, scalar

_NUMPY_EQUIVALENTS = {
    **{name: name for name in ("exp", "exp2", "expm1", "log1p", "log2", "log10", "sqrt", "cbrt")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{name: name for name in ("degrees", "radians", "fabs", "atan2", "copysign", "fmod")},
    **{"pow": "float_power", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite"},
}
_INTEGER_FUNCTIONS = {"floor": rounding.floor, "ceil": rounding.ceil, "trunc": rounding.trunc}
_COMPILE_TIME_FUNCTIONS = {
    **dict.fromkeys(("gcd", "lcm", "comb", "perm", "nextafter", "remainder"), 2),
    **dict.fromkeys(("factorial", "gamma", "lgamma", "erfc", "ulp"), 1),
}
"""Functions that ONNX's operators cannot compute exactly, with their number of arguments."""

_MAX_FACTORIAL_ARGUMENT = 10_000
"""Maximum argument of factorial, comb and perm. Results for larger arguments overflow."""


def _cast_scalars(b: ModelBuilder, name: str, values: tuple[Value, ...]) -> list[Value]:
    """Cast scalars to floats of the compilation's precision, or raise an error for an array."""
    for value in values:
        if not is_scalar(value):
            numpy_name = f"numpy.{name}"
            raise OperandError(
                f"'math.{name}' takes one number, not {value.type}",
                hint=f"write {numpy_name}" if _is_in_math(numpy_name) else "",
            )
    return [cast(b, value, b.float_dtype) for value in values]


def _is_in_math(name: str) -> bool:
    try:
        function(name)
    except (UnsupportedError, NameError):
        return False
    return True


def _register_numpy_function(name: str, numpy_name: str) -> None:
    lower_numpy_function: Callable[..., Value] = function(f"numpy.{numpy_name}").lower  # type: ignore[assignment]
    python_function = getattr(math, name)

    def apply(b: ModelBuilder, *values: Value) -> Value:
        folded_constant = plain_result(b, python_function, values)
        if folded_constant is not None:
            return folded_constant
        return mark_plain(b, lower_numpy_function(b, *_cast_scalars(b, name, values)))

    def unary_function(b: ModelBuilder, x: Value, /) -> Value:
        return apply(b, x)

    def binary_function(b: ModelBuilder, x: Value, y: Value, /) -> Value:
        return apply(b, x, y)

    call_with_arity = (
        unary_function
        if len(inspect.signature(lower_numpy_function).parameters) == 2
        else binary_function
    )
    call_with_arity.__doc__ = f"Return `math.{name}`."
    register_as(f"math.{name}")(call_with_arity)


for _name, _numpy_name in _NUMPY_EQUIVALENTS.items():
    _register_numpy_function(_name, _numpy_name)


def _register_integer_function(name: str, lower: Callable[[ModelBuilder, Value], Value]) -> None:
    @register_as(f"math.{name}")
    def call(b: ModelBuilder, x: Value, /) -> Value:
        folded_constant = plain_result(b, getattr(math, name), (x,))
        if folded_constant is not None:
            return folded_constant
        (float_argument,) = _cast_scalars(b, name, (x,))
        if kind(x) in "iub":
            return as_plain(b, x, "int64")
        return as_plain(b, check_fits_int64(b, lower(b, float_argument), f"math.{name}"), "int64")

    call.__doc__ = f"Return `math.{name}(x)`, an integer."


for _name, _lower in _INTEGER_FUNCTIONS.items():
    _register_integer_function(_name, _lower)


def _limit_arguments(name: str) -> Callable[..., Any]:
    def compute(*numbers: Any) -> Any:
        if name in ("factorial", "comb", "perm") and max(numbers) > _MAX_FACTORIAL_ARGUMENT:
            raise OverflowError
        return getattr(math, name)(*numbers)

    return compute


def _register_plain_function(name: str, argument_count: int) -> None:
    def apply(b: ModelBuilder, *values: Value) -> Value:
        folded_constant = plain_result(b, _limit_arguments(name), values)
        if folded_constant is None:
            raise UnsupportedError(
                f"'math.{name}' can only be compiled for numbers known when the model is compiled",
                hint="give it plain numbers, or compute it outside and give it as an input",
            )
        return folded_constant

    def unary_function(b: ModelBuilder, x: Value, /) -> Value:
        return apply(b, x)

    def binary_function(b: ModelBuilder, x: Value, y: Value, /) -> Value:
        return apply(b, x, y)

    register_as(f"math.{name}")(unary_function if argument_count == 1 else binary_function)


for _name, _argument_count in _COMPILE_TIME_FUNCTIONS.items():
    _register_plain_function(_name, _argument_count)


@register_as("math.log")
def logarithm(b: ModelBuilder, x: Value, base: Value | None = None, /) -> Value:
    """Return `math.log(x)`, or `log(x) / log(base)`."""
    operands = (x,) if base is None else (x, base)
    python_number = plain_result(b, math.log, operands)
    if python_number is not None:
        return python_number
    logarithms = [b.op("Log", argument) for argument in _cast_scalars(b, "log", operands)]
    return mark_plain(b, logarithms[0] if base is None else b.op("Div", *logarithms))


@register_as("math.erf")
def erf(b: ModelBuilder, x: Value, /) -> Value:
    """Return the error function of x."""
    python_number = plain_result(b, math.erf, (x,))
    return python_number or mark_plain(b, b.op("Erf", *_cast_scalars(b, "erf", (x,))))


@register_as("math.hypot")
def hypot(b: ModelBuilder, /, *coordinates: Value) -> Value:
    """Return the Euclidean norm `sqrt(x**2 + y**2 + ...)` without overflow."""
    python_number = plain_result(b, math.hypot, coordinates)
    if python_number is not None:
        return python_number
    hypotenuse, *further_coordinates = _cast_scalars(b, "hypot", coordinates)
    for coordinate in further_coordinates or [scalar(b, 0, hypotenuse.dtype)]:
        hypotenuse = elementary.hypot(b, hypotenuse, coordinate)
    return mark_plain(b, hypotenuse)


@register_as("math.modf")
def modf(b: ModelBuilder, x: Value, /) -> tuple[Value, Value]:
    """Return the fractional and the integer part of x, both with the sign of x."""
    fractional_part, integer_part = rounding.modf(b, *_cast_scalars(b, "modf", (x,)))
    return mark_plain(b, fractional_part), mark_plain(b, integer_part)


@register_as("math.isclose")
def isclose(
    b: ModelBuilder, x: Value, y: Value, /, *, rel_tol: float = 1e-09, abs_tol: float = 0.0
) -> Value:
    """Return True if `|x - y| <= max(rel_tol * max(|x|, |y|), abs_tol)` for finite numbers, or `x == y`."""
    first_number, second_number = _cast_scalars(b, "isclose", (x, y))
    dtype = first_number.dtype
    largest_magnitude = b.op("Max", b.op("Abs", first_number), b.op("Abs", second_number))
    tolerance = b.op("Mul", scalar(b, rel_tol, dtype), largest_magnitude)
    tolerance = b.op("Max", tolerance, scalar(b, abs_tol, dtype))
    is_within_tolerance = b.op(
        "LessOrEqual", b.op("Abs", b.op("Sub", first_number, second_number)), tolerance
    )
    is_finite = b.op("Less", largest_magnitude, scalar(b, math.inf, dtype))
    is_close = b.op(
        "Or",
        b.op("And", is_within_tolerance, is_finite),
        b.op("Equal", first_number, second_number),
    )
    return mark_plain(b, is_close)


@register_as("math.prod")
def product(b: ModelBuilder, iterable: Terms, /, *, start: Value | None = None) -> Value:
    """Return `math.prod`: `start * first * second * ...`, from left to right."""
    running_product = literal(b, 1) if start is None else start
    for factor in iterable:
        running_product = ops.multiply(b, running_product, tensor(b, factor))
    return running_product


@register_as("math.fsum")
def exact_sum(b: ModelBuilder, seq: Terms, /) -> Value:
    """Return `math.fsum(seq)`, a sum that is rounded once.

    The numbers must be known at compile time.
    """
    constant_arrays = [b.evaluated(tensor(b, summand)) for summand in seq]
    if any(array is None for array in constant_arrays):
        raise UnsupportedError(
            "'math.fsum' rounds only once, which no operator of ONNX does",
            hint="write numpy.sum(x), or sum(x)",
        )
    try:
        return literal(b, math.fsum(float(array) for array in constant_arrays if array is not None))
    except (OverflowError, ValueError) as error:
        raise ExpressionError(f"math.fsum: {error}") from None
