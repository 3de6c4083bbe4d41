"""Lowering of Python's operators: arithmetic, comparison, logic, selection.

Operators on weakly typed numbers return weakly typed numbers. Operators on other values follow numpy's
promotion (`terms`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar
from typing import cast as typed

import numpy as np

from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import select_value
from mdf_loop.lower.guards import check_value, guard_value
from mdf_loop.lower.signs import with_sign_of
from mdf_loop.lower.terms import (
    Term,
    as_float,
    common_dtype,
    fits_dtype,
    literal,
    plain_result,
    promote,
    promote_numbers,
    tensor,
)
from mdf_loop.lower.texts import equal_texts
from mdf_loop.ops.build_helpers import cast, ints, is_scalar, kind, scalar, sum_of
from mdf_loop.ops.decompositions.arithmetic import NEGATIVE_POWER_MESSAGE
from mdf_loop.ops.registry import row_of

__all__ = ["Term", "cast", "check_value", "guard_value", "literal", "promote", "tensor"]

_L = TypeVar("_L", bound=Callable[..., Value])


def _fold_python_numbers(compute: Callable[..., Any]) -> Callable[[_L], _L]:
    """Return a decorator that evaluates an operator on Python numbers at compile time.

    Results of weakly typed operands are weakly typed.
    """

    def decorate(lower: _L) -> _L:
        @functools.wraps(lower)
        def apply(b: ModelBuilder, *values: Value) -> Value:
            folded_constant = plain_result(b, compute, values)
            if folded_constant is not None:
                return folded_constant
            lowered_value = lower(b, *values)
            return b.mark_weak(lowered_value) if all(map(b.is_weak, values)) else lowered_value

        return typed(_L, apply)

    return decorate


# --- arithmetic -------------------------------------------------------------------------------


def _arithmetic(
    symbol: str, op_type: str, compute: Callable[..., Any]
) -> Callable[[ModelBuilder, Value, Value], Value]:
    bool_op_type = {"+": "Or", "*": "And"}.get(symbol)

    def apply(b: ModelBuilder, left: Value, right: Value) -> Value:
        is_random_product = symbol == "*" and (_is_random(b, left) or _is_random(b, right))
        left, right = promote(b, left, right)
        if left.dtype == "bool":
            if is_scalar(left) and is_scalar(right):  # Python's True + True is 2
                left, right = cast(b, left, "int64"), cast(b, right, "int64")
            elif bool_op_type is not None:
                return b.op(bool_op_type, left, right)
            else:
                raise OperandError(
                    f"'{symbol}' has no meaning for truth values",
                    hint="use 'and', 'or', 'not' or make them numbers first, e.g. 1*(x > 0)",
                )
        computed_value = b.op(op_type, left, right)
        return (
            _zero_if_factor_is_zero(b, computed_value, left, right)
            if is_random_product
            else computed_value
        )

    apply.__doc__ = f"Return `left {symbol} right` with numpy's promotion."
    return _fold_python_numbers(compute)(apply)


def _is_random(b: ModelBuilder, value: Value) -> bool:
    """Return True if the value is the result of a random draw, whose numbers are finite."""
    producer = b.producers.get(value)
    return isinstance(producer, Op) and row_of(producer.op_type).is_random


def _zero_if_factor_is_zero(b: ModelBuilder, product: Value, *factors: Value) -> Value:
    """Return constant zeros for a product of random numbers and a zero constant."""
    constant_factors = [array for factor in factors if (array := b.constant_of(factor)) is not None]
    known_extents = [extent for extent in product.shape or () if isinstance(extent, int)]
    if all(array.any() for array in constant_factors) or product.shape != tuple(known_extents):
        return product
    return b.constant(np.zeros(known_extents, product.dtype))


add = _arithmetic("+", "Add", operator.add)
subtract = _arithmetic("-", "Sub", operator.sub)
multiply = _arithmetic("*", "Mul", operator.mul)


@_fold_python_numbers(operator.truediv)
def divide(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left / right` as a true division, also of integers."""
    left, right = promote(b, left, right)
    return b.op("Div", as_float(b, left), as_float(b, right))


@_fold_python_numbers(operator.mod)
def modulo(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left % right` with the sign of `right`, as in Python and numpy."""
    return b.op("Mod", *promote_numbers(b, left, right))


@_fold_python_numbers(operator.floordiv)
def floor_divide(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left // right`, rounded down, as in Python and numpy.

    For floats, the result of a division by zero is `left / right`.
    """
    left, right = promote_numbers(b, left, right)
    if kind(left) == "f":
        division_dtype = (
            "float32" if left.dtype in ("float16", "bfloat16") else left.dtype
        )  # as numpy
        floor_quotient = _float_quotient(
            b, cast(b, left, division_dtype), cast(b, right, division_dtype)
        )
        return cast(b, floor_quotient, left.dtype)
    return b.op("Div", b.op("Sub", left, b.op("Mod", left, right)), right)


def _float_quotient(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return the exact `floor(left / right)`, where a zero has the sign of `left / right`.

        remainder = fmod(left, right)
        Round((left - remainder) / right - (1 if remainder * Sign(right) < 0 else 0))

    `left - remainder` is a multiple of `right`, so the quotient is an integer except for rounding errors.
    """
    zero, one = scalar(b, 0, left.dtype), scalar(b, 1, left.dtype)
    remainder = b.op("Mod", left, right, fmod=1)
    has_opposite_sign = b.op("Less", b.op("Mul", remainder, b.op("Sign", right)), zero)
    exact_quotient = b.op("Div", b.op("Sub", left, remainder), right)
    rounded_quotient = b.op(
        "Round", b.op("Sub", exact_quotient, b.op("Where", has_opposite_sign, one, zero))
    )
    unrounded_quotient = b.op("Div", left, right)
    magnitude = b.op(
        "Abs", b.op("Where", b.op("Equal", right, zero), unrounded_quotient, rounded_quotient)
    )
    return with_sign_of(b, magnitude, unrounded_quotient)


def _python_power(base: Any, exponent: Any) -> Any:
    """Return `base ** exponent` of Python numbers, or raise for integers far beyond 64 bits."""
    are_integers = isinstance(base, int) and isinstance(exponent, int)
    if are_integers and exponent > 1 and (abs(base).bit_length() - 1) * exponent >= 64:
        raise OverflowError
    return base**exponent


@_fold_python_numbers(_python_power)
def power(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left ** right`, with an integer result for integers.

    Exponents of integers must not be negative.
    """
    constant_exponent = b.constant_of(right)
    left, right = promote_numbers(b, left, right)
    if kind(left) == "f":
        return b.op("Pow", left, right)
    if constant_exponent is None and kind(right) == "i":
        is_nonnegative = b.op("GreaterOrEqual", right, scalar(b, 0, right.dtype))
        right = guard_value(b, right, is_nonnegative, NEGATIVE_POWER_MESSAGE)
    elif constant_exponent is not None and np.any(constant_exponent < 0):
        raise OperandError(
            NEGATIVE_POWER_MESSAGE, hint="make the base a number with a point, e.g. 2.0"
        )
    wide_base = cast(b, left, "int64")  # ONNX has Pow of int32 and int64 only
    return cast(b, b.op("Pow", wide_base, cast(b, right, "uint64")), left.dtype)


def matmul(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return the matrix product `left @ right` with numpy's type promotion."""
    if is_scalar(left) or is_scalar(right):
        raise OperandError(
            f"'@' needs arrays, got {left.type} and {right.type}", hint="use '*' for numbers"
        )
    left, right = promote(b, left, right)
    if kind(left) == "f":
        return float_product(b, left, right)
    integer_product = b.op("MatMul", cast(b, left, "int64"), cast(b, right, "int64"))
    return cast(b, integer_product, left.dtype)


def float_product(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return the matrix product `left @ right` of floats.

    For two vectors, the result is an ordered sum of products.

    Therefore results are bit-identical in every form of the program, for one run and for a batch.
    """
    if left.dtype == right.dtype and left.shape == right.shape and len(left.shape or ()) == 1:
        return sum_of(b, b.op("Mul", left, right), (0,))
    return b.op("MatMul", left, right)


@_fold_python_numbers(operator.neg)
def negative(b: ModelBuilder, value: Value) -> Value:
    """Return `-value`, element by element."""
    if value.dtype == "bool":
        if not is_scalar(value):
            raise OperandError("'-' has no meaning for truth values", hint="use 'not'")
        value = cast(b, value, "int64")
    if kind(value) == "u":
        return b.op("Sub", scalar(b, 0, value.dtype), value)
    return b.op("Neg", value)


@_fold_python_numbers(operator.pos)
def positive(b: ModelBuilder, value: Value) -> Value:
    """Return `+value`, element by element."""
    return cast(b, value, "int64") if value.dtype == "bool" else value


@_fold_python_numbers(operator.abs)
def absolute(b: ModelBuilder, value: Value) -> Value:
    """Return `abs(value)`, element by element."""
    if value.dtype == "bool":
        return cast(b, value, "int64") if is_scalar(value) else value
    return b.op("Abs", value)


# --- bits -------------------------------------------------------------------------------------


def _bitwise(
    symbol: str, op_type: str, compute: Callable[..., Any]
) -> Callable[[ModelBuilder, Value, Value], Value]:
    def apply(b: ModelBuilder, left: Value, right: Value) -> Value:
        if left.dtype != "bool" or right.dtype != "bool":
            raise ExpressionError(
                f"'{symbol}' combines truth values here, not {left.type} and {right.type}",
                hint=f"compare first, e.g. (a > 0) {symbol} (b > 0)",
            )
        return b.op(op_type, left, right)

    apply.__doc__ = f"Return `left {symbol} right` of bools."
    return _fold_python_numbers(compute)(apply)


bit_and = _bitwise("&", "And", operator.and_)
bit_or = _bitwise("|", "Or", operator.or_)
bit_xor = _bitwise("^", "Xor", operator.xor)


@_fold_python_numbers(operator.invert)
def invert(b: ModelBuilder, value: Value) -> Value:
    """Return `~value`, which is `not` for bools and `-1 - value` for integers."""
    if value.dtype == "bool":
        return b.op("Not", value)
    if kind(value) not in "iu":
        raise OperandError(f"'~' has no meaning for {value.type}", hint="use '-' or 'not'")
    all_bits = -1 if kind(value) == "i" else np.iinfo(value.dtype).max
    return b.op("Sub", scalar(b, all_bits, value.dtype), value)


def _shift(
    symbol: str, instead: str, compute: Callable[..., Any]
) -> Callable[[ModelBuilder, Value, Value], Value]:
    def bounded(number: int, places: int) -> Any:
        if places > 64:
            raise OverflowError
        return compute(number, places)

    def apply(b: ModelBuilder, left: Value, right: Value) -> Value:
        raise ExpressionError(f"'{symbol}' works on plain numbers only", hint=f"write '{instead}'")

    apply.__doc__ = f"Return `left {symbol} right` of plain numbers."
    return _fold_python_numbers(bounded)(apply)


left_shift = _shift("<<", "x * 2**n", operator.lshift)
right_shift = _shift(">>", "x // 2**n", operator.rshift)


# --- comparison -------------------------------------------------------------------------------


def _comparison(
    symbol: str, op_type: str, compute: Callable[..., Any]
) -> Callable[[ModelBuilder, Value, Value], Value]:
    def apply(b: ModelBuilder, left: Value, right: Value) -> Value:
        if left.dtype == right.dtype == "string" and op_type == "Equal":
            return equal_texts(b, left, right)
        left, right = _to_common_dtype(b, left, right)
        if left.dtype == "bool" and op_type != "Equal":
            left, right = cast(b, left, "int32"), cast(b, right, "int32")
        return b.op(op_type, left, right)

    apply.__doc__ = f"Return `left {symbol} right`, element by element."
    return _fold_python_numbers(compute)(apply)


def _to_common_dtype(b: ModelBuilder, left: Value, right: Value) -> tuple[Value, ...]:
    """Return two operands cast to one dtype, wide enough for a weakly typed number."""
    dtype = common_dtype(b, (left, right))
    if dtype != "uint64" and not (fits_dtype(b, left, dtype) and fits_dtype(b, right, dtype)):
        return cast(b, left, "int64"), cast(b, right, "int64")
    return promote(b, left, right)


less = _comparison("<", "Less", operator.lt)
less_equal = _comparison("<=", "LessOrEqual", operator.le)
greater = _comparison(">", "Greater", operator.gt)
greater_equal = _comparison(">=", "GreaterOrEqual", operator.ge)
equal = _comparison("==", "Equal", operator.eq)


@_fold_python_numbers(operator.ne)
def not_equal(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left != right`, element by element."""
    return b.op("Not", equal(b, left, right))


# --- logic and selection ----------------------------------------------------------------------


def truth(b: ModelBuilder, value: Value) -> Value:
    """Return `bool(value)` of a value with one element, or raise OperandError."""
    if kind(value) == "U":
        raise OperandError("text is neither true nor false")
    if value.shape is None or any(dim != 1 for dim in value.shape):
        raise OperandError(
            f"the truth of {value.type} is ambiguous: a condition has one element",
            hint="reduce it first, e.g. numpy.max(...) or numpy.all(...)",
        )
    return truths(b, as_scalar(b, value))


@_fold_python_numbers(operator.not_)
def negation(b: ModelBuilder, value: Value) -> Value:
    """Return `not value` of a value with one element."""
    return b.op("Not", truth(b, value))


def python_and(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left and right`, which is one of the operands, as in Python."""
    left_truth = truth(b, left)
    if left.dtype == right.dtype == "bool" and is_scalar(left) and is_scalar(right):
        return b.op("And", left, right)
    return select(b, left_truth, right, left)


def python_or(b: ModelBuilder, left: Value, right: Value) -> Value:
    """Return `left or right`, which is one of the operands, as in Python."""
    left_truth = truth(b, left)
    if left.dtype == right.dtype == "bool" and is_scalar(left) and is_scalar(right):
        return b.op("Or", left, right)
    return select(b, left_truth, left, right)


def as_scalar(b: ModelBuilder, value: Value) -> Value:
    """Reshape a value with one element to a scalar."""
    return value if is_scalar(value) else b.op("Reshape", value, ints(b))


def one_element(b: ModelBuilder, value: Value) -> Value | None:
    """Return a value as a scalar, or None if it is not known to have one element."""
    if value.shape is None or any(dim != 1 for dim in value.shape):
        return None
    return as_scalar(b, value)


def truths(b: ModelBuilder, value: Value) -> Value:
    """Return each element converted to a bool, where nan is true."""
    if kind(value) == "U":
        raise OperandError("text is neither true nor false")
    return value if value.dtype == "bool" else cast(b, value, "bool")


def select(b: ModelBuilder, test: Value, then: Value, otherwise: Value) -> Value:
    """Return `then if test else otherwise` for a scalar test and values of one shape."""
    constant_test = b.constant_of(test)
    if constant_test is not None:
        return b.mark_unrolled_if(test, then if constant_test else otherwise)
    if then is otherwise:
        return then
    if then.shape != otherwise.shape and not _may_be_equal(then, otherwise):
        raise OperandError(
            f"the two sides of 'if ... else' have different shapes: "
            f"{then.type} and {otherwise.type}",
            hint="give both sides one shape",
        )
    is_weak = b.is_weak(then) and b.is_weak(otherwise)
    then, otherwise = promote(b, then, otherwise)
    if not (is_fixed(then.shape) and is_fixed(otherwise.shape)):
        return select_value(b, test, then, otherwise)
    selected_value = b.op("Where", test, then, otherwise)
    return b.mark_weak(selected_value) if is_weak else selected_value


def _may_be_equal(left: Value, right: Value) -> bool:
    """Return True if two shapes differ at most in unknown extents."""
    if left.shape is None or right.shape is None:
        return True
    if len(left.shape) != len(right.shape):
        return False
    return all(
        left_extent == right_extent or isinstance(left_extent, str) or isinstance(right_extent, str)
        for left_extent, right_extent in zip(left.shape, right.shape, strict=True)
    )
