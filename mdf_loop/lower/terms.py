"""Values of expressions (tensors and tuples of tensors), and their type promotion.

Plain Python numbers of the document are weakly typed: they take the dtype of the other operand, as
in numpy. Arithmetic of plain numbers alone is done by Python at compile time.

Source: NumPy Enhancement Proposal 50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.checked_cast import cast_checked
from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.ir import Array, Value
from mdf_loop.ir.types import (
    kind_of,
    promoted_dtype,
    tensor_dtypes,
)
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import cast, ints, kind

Term: TypeAlias = "Value | tuple[Term, ...]"
"""Meaning of a name: a tensor, or a tuple of terms, such as the results of a loop."""


class OperatorResults(tuple["Term", ...]):
    """Results of an ONNX operator, where the bare name stands for the first: `pool` is `pool[0]`.

    MDF's engine returns the tuple, but MDF's importers write the bare name for the first result.
    """

    __slots__ = ()


_INT64 = np.iinfo(np.int64)
_PROMOTION_RANK_BY_KIND = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


# --- literals, tuples, casts ------------------------------------------------------------------


def literal(b: ModelBuilder, value: Any) -> Value:
    """Return the constant for a number, bool or (nested) list of numbers in the document.

    A single Python number is weakly typed. Floats get the compilation's precision.
    """
    is_weak = isinstance(value, bool | int | float)
    if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
        raise ExpressionError(
            f"a whole number of {value.bit_length()} bits does not fit into 64 bits",
            hint="give it a point, e.g. 1e30",
        )
    try:
        supported_array = as_supported_array(value, "the value", error=ExpressionError)
    except Ragged:
        raise ExpressionError(
            f"the list {_short_text(value)} is ragged: its rows have different lengths",
            hint="give all rows one length",
        ) from None
    if supported_array.dtype.kind in "US" and isinstance(value, list):
        raise ExpressionError(
            f"{_short_text(value)} is a list of text",
            hint=f'a list with names is written as text: "[{", ".join(map(str, value))}]"',
        )
    if not (_is_typed(value) or supported_array.dtype.kind in "biufUS"):
        raise ExpressionError(
            f"{_short_text(value)} is not a number, truth value or list of numbers"
        )
    if supported_array.dtype == np.float64:
        supported_array = cast_checked(
            supported_array, b.float_dtype, "the number", error=ExpressionError
        )
    return b.constant(supported_array, weak=is_weak)


def _is_typed(value: Any) -> bool:
    """Return True for a numpy array of a supported dtype, or an object array of strings."""
    if not isinstance(value, np.ndarray):
        return False
    if value.dtype.kind == "O":
        return all(isinstance(text, str) for text in value.flat)
    return str(value.dtype) in tensor_dtypes()


def _short_text(value: Any) -> str:
    try:
        text = str(value)
    except ValueError:  # an integer of thousands of digits
        return "of huge numbers"
    return text if len(text) <= 60 else text[:57] + "..."


def tensor(b: ModelBuilder, term: Term) -> Value:
    """Return a value of an expression as one tensor.

    Tensors of equal shapes in a tuple are stacked, as by numpy.array.
    """
    if isinstance(term, Value):
        return term
    if isinstance(term, OperatorResults):
        return tensor(b, term[0])
    if not term:
        return b.constant(np.zeros(0, b.float_dtype))
    members = promote(b, *(tensor(b, member) for member in term))
    _refuse_ragged(members)
    axis_operand = ints(b, 0)
    return b.op("Concat", *(b.op("Unsqueeze", member, axis_operand) for member in members), axis=0)


def _refuse_ragged(members: Sequence[Value]) -> None:
    """Raise an error if the parts of a list are known to have different shapes."""
    for member in members[1:]:
        first_shape, member_shape = members[0].shape, member.shape
        if first_shape is None or member_shape is None:
            continue
        extent_pairs = zip(first_shape, member_shape, strict=False)
        if len(first_shape) != len(member_shape) or any(
            isinstance(m, int) and isinstance(n, int) and m != n for m, n in extent_pairs
        ):
            raise OperandError(
                f"a list of {members[0].type} and {member.type} is no array: its parts have different "
                "shapes",
                hint="give all parts one shape, e.g. by numpy.ravel(x)",
            )


def as_float(b: ModelBuilder, value: Value) -> Value:
    """Cast integers and bools to the compilation's float dtype, and return floats unchanged."""
    return value if kind(value) == "f" else cast(b, value, b.float_dtype)


def as_plain(b: ModelBuilder, value: Value, dtype: str) -> Value:
    """Return `float(x)`, `int(x)` or `bool(x)` as a weakly typed value, like a Python number."""
    if b.is_weak(value) and value.dtype == dtype:
        return value
    cast_value = cast(b, value, dtype)
    constant_array = b.constant_of(cast_value)
    return mark_plain(
        b,
        b.op("Identity", cast_value)
        if cast_value is value and constant_array is None
        else cast_value,
    )


def as_numpy(b: ModelBuilder, value: Value) -> Value:
    """Give a weakly typed number a fixed dtype, as numpy's functions do."""
    if not b.is_weak(value):
        return value
    constant_array = b.constant_of(value)
    if constant_array is None:
        return b.op("Identity", value)
    return b.constant(constant_array, unrolled=b.is_unrolled_constant(value))


def mark_plain(b: ModelBuilder, value: Value) -> Value:
    """Mark a new value as weakly typed, like a Python number.

    No operation may read the value before.
    """
    constant_array = b.constant_of(value)
    if constant_array is None:
        return b.mark_weak(value)
    return b.constant(constant_array, weak=True, unrolled=b.is_unrolled_constant(value))


# --- promotion --------------------------------------------------------------------------------


def common_dtype(b: ModelBuilder, values: Sequence[Value]) -> str:
    """Return the dtype to which numpy promotes operands.

    Weak numbers adapt to typed operands of their kind.
    """
    for value in values:
        if kind(value) == "U":
            raise OperandError("text cannot take part in arithmetic")
    nonweak_dtypes = [value.dtype for value in values if not b.is_weak(value)]
    weak_dtypes = [value.dtype for value in values if b.is_weak(value)]
    dtype = promoted_dtype(nonweak_dtypes or weak_dtypes)
    for weak_dtype in weak_dtypes if nonweak_dtypes else ():
        if _PROMOTION_RANK_BY_KIND[kind_of(weak_dtype)] > _PROMOTION_RANK_BY_KIND[kind_of(dtype)]:
            dtype = b.float_dtype if kind_of(weak_dtype) == "f" else weak_dtype
    has_float64 = any(value.dtype == "float64" for value in values)
    if dtype == "float64" and b.float_dtype == "float32" and not has_float64:
        return "float32"
    return dtype


def promote(b: ModelBuilder, *values: Value) -> tuple[Value, ...]:
    """Return operands cast to their common dtype."""
    dtype = common_dtype(b, values)
    for value in values:
        if not fits_dtype(b, value, dtype):
            constant_number = b.constant_of(value)
            raise OperandError(
                f"the number {constant_number} does not fit into {dtype}",
                hint=f"make the {dtype} values wider first, e.g. numpy.int64(...)",
            )
        weak_number = b.constant_of(value) if b.is_weak(value) else None
        if weak_number is not None:
            cast_checked(weak_number, dtype, "the number", error=OperandError)
    return tuple(cast(b, value, dtype) for value in values)


def fits_dtype(b: ModelBuilder, value: Value, dtype: str) -> bool:
    """Return True unless a value is a weakly typed integer outside of the range of a dtype."""
    constant_array = b.constant_of(value)
    is_weak_int = (
        constant_array is not None and b.is_weak(value) and constant_array.dtype.kind == "i"
    )
    if constant_array is None or not is_weak_int or kind_of(dtype) not in "iu":
        return True
    target_dtype = np.dtype(dtype)
    return bool(np.iinfo(target_dtype).min <= int(constant_array) <= np.iinfo(target_dtype).max)


def promote_numbers(b: ModelBuilder, *values: Value) -> tuple[Value, ...]:
    """Return operands cast to their common dtype, with bools as integers."""
    values = promote(b, *values)
    return tuple(cast(b, value, "int64") if value.dtype == "bool" else value for value in values)


# --- plain numbers ----------------------------------------------------------------------------


def plain_numbers(b: ModelBuilder, values: Sequence[Value]) -> list[Any] | None:
    """Return operands as Python numbers, or None if one is not weakly typed or not constant."""
    constant_arrays: list[Array] = []
    for value in values:
        constant_array = b.constant_of(value)
        if constant_array is None or not b.is_weak(value) or b.is_unrolled_constant(value):
            return None
        constant_arrays.append(constant_array)
    return [array.item() for array in constant_arrays]


def plain_result(
    b: ModelBuilder, compute: Callable[..., Any], values: Sequence[Value]
) -> Value | None:
    """Apply `compute` to Python numbers at compile time, or return None for other operands.

    All operands must be weakly typed constants.
    """
    operands = plain_numbers(b, values)
    if operands is None:
        return None
    try:
        python_result = compute(*operands)
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    except OverflowError:
        raise ExpressionError("the result is too large for a number") from None
    except (ValueError, TypeError) as error:
        raise ExpressionError(f"{error} (for {', '.join(map(repr, operands))})") from None
    if isinstance(python_result, complex):
        raise ExpressionError("the result is a complex number")
    return literal(b, python_result)
