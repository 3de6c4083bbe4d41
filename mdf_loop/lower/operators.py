"""Python's and numpy's operators on values: promotion, arithmetic, comparison, choice, subscripts.

Plain numbers of the document are weak (they take the dtype of what they meet), as Python's are
in numpy. Arithmetic of two plain numbers is Python's own and is done at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from mdf_loop import onnx_ops
from mdf_loop.build import Builder
from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.ir import Array, Value

Term: TypeAlias = "Value | tuple[Term, ...]"
"""What a name stands for: a tensor, or the tuple of a loop's results."""

_INT64 = np.iinfo(np.int64)
GUARD = "guard: "
"""Marks the place of a guard; the sentence for the user follows it."""

_KIND_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


# --- literals, tuples, casts ------------------------------------------------------------------


def literal(b: Builder, value: Any) -> Value:
    """A number, truth value or (nested) list of numbers of the document.

    Plain numbers are weak. Numbers with a point get the compilation's precision.
    """
    weak = isinstance(value, bool | int | float)
    if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
        raise ExpressionError(f"the whole number {value} does not fit into 64 bits")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ExpressionError(
            f"the list {_short(value)} is ragged: its rows have different lengths",
            hint="give all rows one length",
        ) from None
    if array.dtype.kind not in "biufUS":
        raise ExpressionError(f"{_short(value)} is not a number, truth value or list of numbers")
    if array.dtype == np.float64:
        array = array.astype(b.float_dtype)
    return b.constant(array, weak=weak)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def tensor(b: Builder, term: Term) -> Value:
    """The term as one tensor: a tuple of equal shapes is stacked, as numpy.array does."""
    if isinstance(term, Value):
        return term
    if not term:
        return b.constant(np.zeros(0, b.float_dtype))
    parts = promote(b, *(tensor(b, part) for part in term))
    axis = np.array([0])
    rows = [b.op("Unsqueeze", part, b.constant(axis)) for part in parts]
    return b.op("Concat", *rows, axis=0)


def cast(b: Builder, value: Value, dtype: str) -> Value:
    """The value in another dtype; itself if it has it already."""
    if value.dtype == dtype:
        return value
    array = b.constant_of(value)
    if array is not None and dtype != "string" and value.dtype != "string":
        with np.errstate(all="ignore"):
            return b.constant(array.astype(dtype))
    return b.op("Cast", value, to=onnx_ops.element_type(dtype))


def is_scalar(value: Value) -> bool:
    """Whether the value is known to have no axes."""
    return value.shape == ()


def rank(value: Value) -> int:
    """The number of axes, which must be known."""
    if value.shape is None:
        raise OperandError(f"the number of axes of '{value.name}' must be known here")
    return len(value.shape)


def common_dtype(b: Builder, values: Sequence[Value]) -> str:
    """The dtype numpy would compute in: weak numbers give way to typed values of their kind."""
    if any(value.dtype == "string" for value in values):
        raise OperandError("text cannot take part in arithmetic")
    strong = [np.dtype(v.dtype) for v in values if not b.is_weak(v)]
    weak = [np.dtype(v.dtype) for v in values if b.is_weak(v)]
    dtype = np.result_type(*strong) if strong else np.result_type(*weak)
    for other in weak if strong else ():
        if _KIND_RANK[other.kind] > _KIND_RANK[dtype.kind]:
            dtype = np.dtype(b.float_dtype) if other.kind == "f" else other
    if dtype == np.float64 and b.float_dtype == "float32" and not _states_float64(values):
        return "float32"
    return str(dtype)


def _states_float64(values: Sequence[Value]) -> bool:
    return any(value.dtype == "float64" for value in values)


def promote(b: Builder, *values: Value) -> tuple[Value, ...]:
    """The values in their common dtype."""
    dtype = common_dtype(b, values)
    return tuple(_cast_number(b, value, dtype) for value in values)


def _cast_number(b: Builder, value: Value, dtype: str) -> Value:
    array = b.constant_of(value)
    if array is not None and b.is_weak(value) and array.dtype.kind == "i":
        kind = np.dtype(dtype)
        if kind.kind in "iu" and not np.iinfo(kind).min <= array <= np.iinfo(kind).max:
            raise OperandError(f"the number {array} does not fit into {dtype}")
    return cast(b, value, dtype)


# --- arithmetic of plain numbers --------------------------------------------------------------

_PYTHON: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "neg": operator.neg,
    "abs": operator.abs,
}


def _plain(b: Builder, symbol: str, values: Sequence[Value]) -> Value | None:
    """Python's own result, if all operands are plain numbers known now."""
    arrays: list[Array] = []
    for value in values:
        array = b.constant_of(value)
        if array is None or not b.is_weak(value):
            return None
        arrays.append(array)
    try:
        result = _PYTHON[symbol](*(array.item() for array in arrays))
    except ZeroDivisionError as error:
        raise ExpressionError(f"division by zero: {error}") from None
    except OverflowError:
        raise ExpressionError("the result is too large for a number") from None
    if isinstance(result, complex):
        raise ExpressionError("the result is a complex number")
    return literal(b, result)


# --- operators --------------------------------------------------------------------------------


def _arithmetic(symbol: str, op_type: str) -> Callable[[Builder, Value, Value], Value]:
    logic = {"+": "Or", "*": "And"}.get(symbol)

    def apply(b: Builder, left: Value, right: Value) -> Value:
        plain = _plain(b, symbol, (left, right))
        if plain is not None:
            return plain
        left, right = promote(b, left, right)
        if left.dtype == "bool":
            if is_scalar(left) and is_scalar(right):  # Python's True + True is 2
                left, right = cast(b, left, "int64"), cast(b, right, "int64")
            elif logic is not None:
                return b.op(logic, left, right)
            else:
                raise OperandError(
                    f"'{symbol}' has no meaning for truth values",
                    hint="use 'and', 'or', 'not' or make them numbers first, e.g. 1*(x > 0)",
                )
        return b.op(op_type, left, right)

    apply.__doc__ = f"`left {symbol} right` with numpy's promotion."
    return apply


add = _arithmetic("+", "Add")
subtract = _arithmetic("-", "Sub")
multiply = _arithmetic("*", "Mul")


def as_float(b: Builder, value: Value) -> Value:
    """Whole numbers and truth values as numbers with a point."""
    return value if np.dtype(value.dtype).kind == "f" else cast(b, value, b.float_dtype)


def divide(b: Builder, left: Value, right: Value) -> Value:
    """`left / right`: true division, also of whole numbers."""
    plain = _plain(b, "/", (left, right))
    if plain is not None:
        return plain
    left, right = promote(b, left, right)
    return b.op("Div", as_float(b, left), as_float(b, right))


def modulo(b: Builder, left: Value, right: Value) -> Value:
    """`left % right` with the sign of `right`: fmod, then one correction, as numpy does."""
    plain = _plain(b, "%", (left, right))
    if plain is not None:
        return plain
    left, right = _numbers(b, left, right)
    if np.dtype(left.dtype).kind != "f":
        return b.op("Mod", left, right)
    remainder = b.op("Mod", left, right, fmod=1)
    zero = b.constant(np.zeros((), left.dtype))
    differs = b.op("Xor", b.op("Less", remainder, zero), b.op("Less", right, zero))
    wrong = b.op("And", differs, not_equal(b, remainder, zero))
    return b.op("Where", wrong, b.op("Add", remainder, right), remainder)


def floor_divide(b: Builder, left: Value, right: Value) -> Value:
    """`left // right`: rounded down, also for negative numbers."""
    plain = _plain(b, "//", (left, right))
    if plain is not None:
        return plain
    left, right = _numbers(b, left, right)
    exact = b.op("Sub", left, modulo(b, left, right))
    quotient = b.op("Div", exact, right)
    return b.op("Round", quotient) if np.dtype(left.dtype).kind == "f" else quotient


def _numbers(b: Builder, left: Value, right: Value) -> tuple[Value, Value]:
    left, right = promote(b, left, right)
    if left.dtype == "bool":
        return cast(b, left, "int64"), cast(b, right, "int64")
    return left, right


def power(b: Builder, left: Value, right: Value) -> Value:
    """`left ** right`. Whole numbers stay whole; a negative whole exponent of one is refused."""
    plain = _plain(b, "**", (left, right))
    if plain is not None:
        return plain
    exponent = b.constant_of(right)
    left, right = _numbers(b, left, right)
    if np.dtype(left.dtype).kind == "f":
        return b.op("Pow", left, right)
    sentence = "whole numbers cannot be raised to negative whole powers"
    if exponent is None:
        zero = b.constant(np.zeros((), right.dtype))
        right = guarded(b, right, b.op("GreaterOrEqual", right, zero), sentence)
    elif np.any(exponent < 0):
        raise OperandError(sentence, hint="make the base a number with a point, e.g. 2.0")
    return b.op("Pow", left, right)


def guarded(b: Builder, value: Value, ok: Value, sentence: str) -> Value:
    """`value`, but the run fails with `sentence` unless all of `ok` is true.

    ONNX has no assertion; an index that does not exist is one in every runtime.
    """
    shape = ok.shape
    if shape != ():
        ok = b.op("ReduceMin", cast(b, b.op("Reshape", ok, _minus_one(b)), "int32"), keepdims=0)
        ok = cast(b, ok, "bool")
    with b.at(f"{b.where} {GUARD}{sentence}", "guard"):
        table = b.constant(np.zeros(1, value.dtype))
        index = cast(b, b.op("Not", ok), "int64")
        zero = b.op("Gather", table, index, axis=0)
        return b.op("Add", value, zero)


def _minus_one(b: Builder) -> Value:
    return b.constant(np.array([-1]))


def matmul(b: Builder, left: Value, right: Value) -> Value:
    """`left @ right` with numpy's promotion."""
    if is_scalar(left) or is_scalar(right):
        raise OperandError(
            f"'@' needs arrays, got {left.type} and {right.type}", hint="use '*' for numbers"
        )
    left, right = _numbers(b, left, right)
    return b.op("MatMul", left, right)


def negative(b: Builder, value: Value) -> Value:
    """`-value`."""
    plain = _plain(b, "neg", (value,))
    if plain is not None:
        return plain
    if value.dtype == "bool":
        if not is_scalar(value):
            raise OperandError("'-' has no meaning for truth values", hint="use 'not'")
        value = cast(b, value, "int64")
    if np.dtype(value.dtype).kind == "u":
        return b.op("Sub", b.constant(np.zeros((), value.dtype)), value)
    return b.op("Neg", value)


def absolute(b: Builder, value: Value) -> Value:
    """`abs(value)`."""
    plain = _plain(b, "abs", (value,))
    if plain is not None:
        return plain
    return b.op("Abs", cast(b, value, "int64") if value.dtype == "bool" else value)


def _comparison(symbol: str, op_type: str) -> Callable[[Builder, Value, Value], Value]:
    def apply(b: Builder, left: Value, right: Value) -> Value:
        plain = _plain(b, symbol, (left, right))
        if plain is not None:
            return plain
        if left.dtype == right.dtype == "string":
            return b.op(op_type, left, right)
        left, right = promote(b, left, right)
        if left.dtype == "bool" and op_type != "Equal":
            left, right = cast(b, left, "int32"), cast(b, right, "int32")
        return b.op(op_type, left, right)

    apply.__doc__ = f"`left {symbol} right`, element by element."
    return apply


less = _comparison("<", "Less")
less_equal = _comparison("<=", "LessOrEqual")
greater = _comparison(">", "Greater")
greater_equal = _comparison(">=", "GreaterOrEqual")
equal = _comparison("==", "Equal")


def not_equal(b: Builder, left: Value, right: Value) -> Value:
    """`left != right`, element by element."""
    plain = _plain(b, "!=", (left, right))
    return plain if plain is not None else b.op("Not", equal(b, left, right))


def truth(b: Builder, value: Value) -> Value:
    """`bool(value)`: one truth value; more than one element has none."""
    if value.shape is None or any(dim != 1 for dim in value.shape):
        raise OperandError(
            f"the truth of {value.type} is ambiguous: a condition has one element",
            hint="reduce it first, e.g. numpy.max(...) or numpy.all(...)",
        )
    if not is_scalar(value):
        value = b.op("Reshape", value, b.constant(np.zeros(0, np.int64)))
    return truths(b, value)


def truths(b: Builder, value: Value) -> Value:
    """Every element as a truth value: zero is false, all else (nan too) is true."""
    return value if value.dtype == "bool" else cast(b, value, "bool")


def choose(b: Builder, test: Value, then: Value, otherwise: Value) -> Value:
    """`then if test else otherwise` for one test: both sides must have one shape."""
    if then.shape != otherwise.shape and not _broadcast_of_each_other(then, otherwise):
        raise OperandError(
            f"the two sides of 'if ... else' have different shapes: "
            f"{then.type} and {otherwise.type}",
            hint="give both sides one shape",
        )
    then, otherwise = promote(b, then, otherwise)
    return b.op("Where", test, then, otherwise)


def _broadcast_of_each_other(left: Value, right: Value) -> bool:
    """Whether unknown extents are all that keeps two shapes from being equal."""
    if left.shape is None or right.shape is None:
        return True
    if len(left.shape) != len(right.shape):
        return False
    return all(
        p == q or isinstance(p, str) or isinstance(q, str)
        for p, q in zip(left.shape, right.shape, strict=True)
    )
