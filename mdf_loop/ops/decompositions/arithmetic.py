"""Decompositions of arithmetic operations on arrays and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.build_helpers import all_true, cast, ints
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    extents,
    operand,
    optional_operand,
    scale,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def mean(b: Builder, op: Op) -> Value:
    """Build operations that compute `(x0 + x1 + ...) / n`."""
    x = operand(op)
    operand_sum = b.op("Sum", *op.inputs)
    return b.op("Div", operand_sum, constant_like(b, len(op.inputs), x))


def cast_like(b: Builder, op: Op) -> Value:
    """Cast the first operand to the dtype of the second operand."""
    return cast(b, operand(op), operand(op, 1).dtype)


def mod(b: Builder, op: Op) -> Value:
    """Build the remainder of `x / y` for dtypes whose Mod kernel in ONNX Runtime is missing or wrong."""
    if kind_of(operand(op).dtype) == "f":
        return _float_mod(b, op)
    x, y = operand(op, 0), operand(op, 1)
    if kind_of(x.dtype) == "u":
        return b.op("Mod", x, y)
    return b.op("Sub", x, b.op("Mul", b.op("Div", x, y), y))  # This is fmod of 64-bit integers.


def _float_mod(b: Builder, op: Op) -> Value:
    """Build the exact remainder `x - floor(x / y) * y` of floats with the sign of y, as in numpy.mod.

        r = fmod(x, y) * Sign(y)                # in the direction of y
        (r + Where(r < 0, Abs(y), 0)) * Sign(y)

    ONNX does not define Mod of floats without fmod, and ONNX Runtime refuses it at run time.
    """
    x, y = operand(op, 0), operand(op, 1)
    zero, sign_of_y = constant_like(b, 0, x), b.op("Sign", y)
    truncated_remainder = b.op("Mul", b.op("Mod", x, y, fmod=1), sign_of_y)
    sign_correction = b.op("Where", b.op("Less", truncated_remainder, zero), b.op("Abs", y), zero)
    return b.op("Mul", b.op("Add", truncated_remainder, sign_correction), sign_of_y)


# --- integer powers ---------------------------------------------------------------------------

NEGATIVE_POWER_MESSAGE = "whole numbers cannot be raised to negative whole powers"

_LOW_EXPONENT_BITS = 6
"""Number of low bits of an exponent that repeated squaring handles; a series handles the higher bits."""

_SERIES_TERM_COUNT = 7
"""Number of terms of `(1 + 256 a) ** q` that may differ from 0 modulo 2**64."""


def power(b: Builder, op: Op) -> Value:
    """Build operations for `x ** n` for dtypes whose Pow kernel in ONNX Runtime is missing or wrong."""
    x, n = operand(op, 0), operand(op, 1)
    if "f" in (kind_of(x.dtype), kind_of(n.dtype)):  # An example is float32 ** uint32.
        float_power = b.op("Pow", cast(b, x, "float64"), cast(b, n, "float64"))
        return cast(b, float_power, x.dtype)
    exponent, int64_base = b.constant_of(n), cast(b, x, "int64")
    if exponent is not None and exponent.ndim == 0 and exponent >= 1:
        return cast(b, _build_constant_power(b, int64_base, int(exponent)), x.dtype)
    if kind_of(n.dtype) == "i" and (exponent is None or np.any(exponent < 0)):
        is_nonnegative = all_true(b, b.op("GreaterOrEqual", n, constant_like(b, 0, n)))
        n = b.guard(n, is_nonnegative, NEGATIVE_POWER_MESSAGE)
    return cast(b, _build_power(b, int64_base, n), x.dtype)


def _build_power(b: Builder, x: Value, n: Value) -> Value:
    """Build operations for `x ** n` of an int64 modulo 2**64, for an exponent that is not negative.

    ONNX Runtime's own kernel computes in float64 (3 ** 39 is wrong by 11) and saturates. Squaring handles the
    lowest six bits of the exponent. The blocks of 64 above them are handled at once: n = 64 q + r,
    x ** n = x ** r * (x ** 64) ** q.
    """
    one, two, block_size = (constant_like(b, k, x) for k in (1, 2, 2**_LOW_EXPONENT_BITS))
    int64_exponent = cast(b, n, "int64")
    if n.dtype == "uint64":  # uint64 exceeds the range of int64.
        shifted_exponent = b.op(
            "BitShift", n, b.constant(np.array(_LOW_EXPONENT_BITS, np.uint64)), direction="RIGHT"
        )
        block_count = cast(b, shifted_exponent, "int64")
    else:
        block_count = b.op("Div", int64_exponent, block_size)
    low_exponent = b.op("Sub", int64_exponent, b.op("Mul", block_count, block_size))
    power_product, squared_base = one, x
    for _ in range(_LOW_EXPONENT_BITS):
        is_odd = b.op("Equal", b.op("Mod", low_exponent, two), one)
        bit_factor = b.op("Where", is_odd, squared_base, one)
        power_product = (
            bit_factor if power_product is one else b.op("Mul", power_product, bit_factor)
        )
        squared_base, low_exponent = (
            b.op("Mul", squared_base, squared_base),
            b.op("Div", low_exponent, two),
        )
    known_block_count = b.constant_of(block_count)
    if known_block_count is not None and not known_block_count.any():
        return power_product
    return b.op("Mul", power_product, _power_of_64th(b, squared_base, block_count))


def _power_of_64th(b: Builder, power64: Value, q: Value) -> Value:
    """Build operations that compute `(x ** 64) ** q` modulo 2**64.

    An even x gives 0 unless q is 0. For an odd x, x ** 64 = 1 + 256 a. The terms from the eighth on of the
    binomial series are multiples of 2**64:

        (1 + 256 a) ** q = 1 + q (256 a / 1) (1 + (q - 1) (256 a / 2) (1 + (q - 2) (256 a / 3) (...)))

    256 a / k is exact in the 2-adic integers: the power of two is divided out, and the odd part has an
    inverse modulo 2**64.
    """
    zero, one, two = (constant_like(b, k, q) for k in (0, 1, 2))
    a = b.op("Div", b.op("Sub", power64, one), constant_like(b, 256, q))
    binomial_series = one
    for k in range(_SERIES_TERM_COUNT, 0, -1):
        power_of_two = k & -k
        coefficient = 256 // power_of_two * pow(k // power_of_two, -1, 2**64) % 2**64
        inverse_factor = b.constant(np.array(coefficient, np.uint64).view(np.int64))
        exponent_factor = b.op("Sub", q, constant_like(b, k - 1, q)) if k > 1 else q
        series_term = b.op("Mul", exponent_factor, b.op("Mul", a, inverse_factor))
        binomial_series = b.op(
            "Add",
            one,
            b.op("Mul", series_term, binomial_series)
            if binomial_series is not one
            else series_term,
        )
    is_odd = b.op("Equal", b.op("Mod", power64, two), one)
    even_power = b.op("Where", b.op("Equal", q, zero), one, zero)
    return b.op("Where", is_odd, binomial_series, even_power)


def _build_constant_power(b: Builder, x: Value, n: int) -> Value:
    """Build a power with a constant exponent by squaring: `x**5 = x * (x*x)*(x*x)`."""
    product: Value | None = None
    while n:
        if n & 1:
            product = x if product is None else b.op("Mul", product, x)
        n >>= 1
        x = b.op("Mul", x, x) if n else x
    assert product is not None
    return product


# --- matrices ---------------------------------------------------------------------------------


def gemm(b: Builder, op: Op) -> Value:
    """Build operations that compute Gemm: `alpha * A' @ B' + beta * C`.

    A' and B' are A and B, transposed if `transA` and `transB`.
    """
    left_factor, right_factor = (
        b.op("Transpose", operand(op, k), perm=(1, 0))
        if attribute(op, transpose_attribute)
        else operand(op, k)
        for k, transpose_attribute in enumerate(("transA", "transB"))
    )
    product = b.op("MatMul", left_factor, _scale_by_attribute(b, op, "alpha", right_factor))
    addend = optional_operand(op, 2)
    return (
        product
        if addend is None
        else b.op("Add", product, _scale_by_attribute(b, op, "beta", addend))
    )


def _scale_by_attribute(b: Builder, op: Op, attribute_name: str, value: Value) -> Value:
    scale_factor = attribute(op, attribute_name)
    if np.dtype(value.dtype).kind in "iu" and scale_factor != int(scale_factor):
        raise UnsupportedError(
            f"onnx::Gemm of whole numbers cannot have {attribute_name}={scale_factor}"
        )
    return scale(b, value, scale_factor)


_MAX_DET_ROWS = 32


def det(b: Builder, op: Op) -> Value:
    """Build the determinants of a stack of matrices by Gaussian elimination with partial pivoting.

    The elimination is unrolled.

    The first row replaces the pivot row, without a swap. Each step computes a factor of the determinant. The
    result is as exact as LAPACK's. The matrices have at most 32 rows.
    """
    x = operand(op)
    (n,) = extents(replace(x, shape=(x.shape or ("n",))[-1:]), "onnx::Det in float64")
    if n > _MAX_DET_ROWS:
        raise UnsupportedError(
            f"onnx::Det in float64 takes matrices up to {_MAX_DET_ROWS} x "
            f"{_MAX_DET_ROWS}, not {n} x {n}"
        )
    remaining_matrices = b.op("Reshape", x, ints(b, -1, n, n)) if n else x
    determinant = constant_like(b, 1.0, x)
    for k in range(n, 0, -1):
        pivot_factor, remaining_matrices = _eliminate_column(b, remaining_matrices, k)
        determinant = b.op("Mul", determinant, pivot_factor)
    stack_shape = b.op("Shape", x, end=-2)
    return b.op("Expand" if not n else "Reshape", determinant, stack_shape)


def _eliminate_column(b: Builder, rows: Value, k: int) -> tuple[Value, Value]:
    """Build one step of Gaussian elimination with pivoting, for a batch of `k` by `k` matrices.

    Return the pivots, negated where rows are exchanged, and the remaining matrices of size `k - 1`.
    """
    zero = constant_like(b, 0.0, rows)
    first_column = b.op("Squeeze", _slice_axis(b, rows, 2, 0, 1), ints(b, 2))
    pivot_position = b.op("ArgMax", b.op("Abs", first_column), axis=1, keepdims=1)
    pivot_row = b.op("GatherND", rows, pivot_position, batch_dims=1)
    pivot = _slice_axis(b, pivot_row, 1, 0, 1)
    pivot_sign = b.op(
        "Where",
        b.op("Equal", pivot_position, ints(b, 0)),
        constant_like(b, 1.0, rows),
        constant_like(b, -1.0, rows),
    )
    signed_pivot = b.op("Squeeze", b.op("Mul", pivot, pivot_sign), ints(b, 1))
    if k == 1:
        return signed_pivot, rows
    row_factors = b.op("Where", b.op("Equal", pivot, zero), zero, b.op("Div", first_column, pivot))
    subtrahend = b.op(
        "Mul", b.op("Unsqueeze", row_factors, ints(b, 2)), b.op("Unsqueeze", pivot_row, ints(b, 1))
    )
    reduced_rows = b.op("Sub", rows, subtrahend)
    is_pivot_row = b.op(
        "Unsqueeze", b.op("Equal", b.constant(np.arange(k)), pivot_position), ints(b, 2)
    )
    reordered_rows = b.op(
        "Where", is_pivot_row, _slice_axis(b, reduced_rows, 1, 0, 1), reduced_rows
    )
    return signed_pivot, _slice_axis(b, _slice_axis(b, reordered_rows, 1, 1, k), 2, 1, k)


def _slice_axis(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    return b.op("Slice", x, ints(b, start), ints(b, stop), ints(b, axis))
