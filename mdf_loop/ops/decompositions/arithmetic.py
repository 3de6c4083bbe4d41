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
    optional,
    scale,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def mean(b: Builder, op: Op) -> Value:
    """Build `(x0 + x1 + ...) / n`."""
    x = operand(op)
    total = b.op("Sum", *op.inputs)
    return b.op("Div", total, constant_like(b, len(op.inputs), x))


def cast_like(b: Builder, op: Op) -> Value:
    """Cast the first operand to the dtype of the second one."""
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
    """Build the exact remainder `x - floor(x / y) * y` with the sign of y, even if it is 0, as in numpy.mod.

        r = fmod(x, y) * Sign(y)                # in the direction of y
        (r + Where(r < 0, Abs(y), 0)) * Sign(y)

    ONNX does not define Mod of floats without fmod, and ONNX Runtime refuses it at run time.
    """
    x, y = operand(op, 0), operand(op, 1)
    zero, side = constant_like(b, 0, x), b.op("Sign", y)
    rest = b.op("Mul", b.op("Mod", x, y, fmod=1), side)
    more = b.op("Where", b.op("Less", rest, zero), b.op("Abs", y), zero)
    return b.op("Mul", b.op("Add", rest, more), side)


# --- integer powers ---------------------------------------------------------------------------

NEGATIVE_POWER = "whole numbers cannot be raised to negative whole powers"

_SQUARED_BITS = 6
"""Number of low bits of an exponent that repeated squaring handles; a series handles the higher bits."""

_SERIES_TERMS = 7
"""Number of terms of `(1 + 256 a) ** q` that may differ from 0 modulo 2**64."""


def power(b: Builder, op: Op) -> Value:
    """Build `x ** n` for dtypes whose Pow kernel in ONNX Runtime is missing or wrong."""
    x, n = operand(op, 0), operand(op, 1)
    if "f" in (kind_of(x.dtype), kind_of(n.dtype)):  # An example is float32 ** uint32.
        wide = b.op("Pow", cast(b, x, "float64"), cast(b, n, "float64"))
        return cast(b, wide, x.dtype)
    exponent, base = b.constant_of(n), cast(b, x, "int64")
    if exponent is not None and exponent.ndim == 0 and exponent >= 1:
        return cast(b, _fixed_power(b, base, int(exponent)), x.dtype)
    if kind_of(n.dtype) == "i" and (exponent is None or np.any(exponent < 0)):
        ok = all_true(b, b.op("GreaterOrEqual", n, constant_like(b, 0, n)))
        n = b.guard(n, ok, NEGATIVE_POWER)
    return cast(b, _computed_power(b, base, n), x.dtype)


def _computed_power(b: Builder, x: Value, n: Value) -> Value:
    """Build `x ** n` of an int64 modulo 2**64, for an exponent that is not negative.

    ONNX Runtime's own kernel computes in float64 (3 ** 39 is wrong by 11) and saturates. Squaring handles the
    lowest six bits of the exponent. The blocks of 64 above them are handled at once: n = 64 q + r,
    x ** n = x ** r * (x ** 64) ** q.
    """
    one, two, block = (constant_like(b, k, x) for k in (1, 2, 2**_SQUARED_BITS))
    wide = cast(b, n, "int64")
    if n.dtype == "uint64":  # uint64 exceeds the range of int64.
        shifted = b.op(
            "BitShift", n, b.constant(np.array(_SQUARED_BITS, np.uint64)), direction="RIGHT"
        )
        blocks = cast(b, shifted, "int64")
    else:
        blocks = b.op("Div", wide, block)
    rest = b.op("Sub", wide, b.op("Mul", blocks, block))
    result, square = one, x
    for _ in range(_SQUARED_BITS):
        is_odd = b.op("Equal", b.op("Mod", rest, two), one)
        factor = b.op("Where", is_odd, square, one)
        result = factor if result is one else b.op("Mul", result, factor)
        square, rest = b.op("Mul", square, square), b.op("Div", rest, two)
    known = b.constant_of(blocks)
    if known is not None and not known.any():
        return result
    return b.op("Mul", result, _power_of_64th(b, square, blocks))


def _power_of_64th(b: Builder, power64: Value, q: Value) -> Value:
    """Build `(x ** 64) ** q` modulo 2**64.

    An even x gives 0 unless q is 0. For an odd x, x ** 64 = 1 + 256 a. The terms from the eighth on of the
    binomial series are multiples of 2**64:

        (1 + 256 a) ** q = 1 + q (256 a / 1) (1 + (q - 1) (256 a / 2) (1 + (q - 2) (256 a / 3) (...)))

    256 a / k is exact in the 2-adic integers: the power of two is divided out, and the odd part has an
    inverse modulo 2**64.
    """
    zero, one, two = (constant_like(b, k, q) for k in (0, 1, 2))
    a = b.op("Div", b.op("Sub", power64, one), constant_like(b, 256, q))
    series = one
    for k in range(_SERIES_TERMS, 0, -1):
        twos = k & -k
        part = 256 // twos * pow(k // twos, -1, 2**64) % 2**64
        factor = b.constant(np.array(part, np.uint64).view(np.int64))
        less = b.op("Sub", q, constant_like(b, k - 1, q)) if k > 1 else q
        term = b.op("Mul", less, b.op("Mul", a, factor))
        series = b.op("Add", one, b.op("Mul", term, series) if series is not one else term)
    is_odd = b.op("Equal", b.op("Mod", power64, two), one)
    of_even = b.op("Where", b.op("Equal", q, zero), one, zero)
    return b.op("Where", is_odd, series, of_even)


def _fixed_power(b: Builder, x: Value, n: int) -> Value:
    """Build a power with a constant exponent by squaring: `x**5 = x * (x*x)*(x*x)`."""
    result: Value | None = None
    while n:
        if n & 1:
            result = x if result is None else b.op("Mul", result, x)
        n >>= 1
        x = b.op("Mul", x, x) if n else x
    assert result is not None
    return result


# --- matrices ---------------------------------------------------------------------------------


def gemm(b: Builder, op: Op) -> Value:
    """Build `alpha * A' @ B' + beta * C`, with A' and B' transposed if `transA` and `transB`."""
    left, right = (
        b.op("Transpose", operand(op, k), perm=(1, 0)) if attribute(op, name) else operand(op, k)
        for k, name in enumerate(("transA", "transB"))
    )
    result = b.op("MatMul", left, _times(b, op, "alpha", right))
    term = optional(op, 2)
    return result if term is None else b.op("Add", result, _times(b, op, "beta", term))


def _times(b: Builder, op: Op, name: str, value: Value) -> Value:
    factor = attribute(op, name)
    if np.dtype(value.dtype).kind in "iu" and factor != int(factor):
        raise UnsupportedError(f"onnx::Gemm of whole numbers cannot have {name}={factor}")
    return scale(b, value, factor)


_MAX_DET_ROWS = 32


def det(b: Builder, op: Op) -> Value:
    """Build the determinant by Gaussian elimination with partial pivoting, unrolled, for stacks of matrices.

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
    left = b.op("Reshape", x, ints(b, -1, n, n)) if n else x
    result = constant_like(b, 1.0, x)
    for k in range(n, 0, -1):
        factor, left = _eliminate(b, left, k)
        result = b.op("Mul", result, factor)
    stack = b.op("Shape", x, end=-2)
    return b.op("Expand" if not n else "Reshape", result, stack)


def _eliminate(b: Builder, rows: Value, k: int) -> tuple[Value, Value]:
    """Build one elimination step: the signed pivot, and the remaining matrices of `k - 1` rows and columns."""
    zero = constant_like(b, 0.0, rows)
    column = b.op("Squeeze", _part(b, rows, 2, 0, 1), ints(b, 2))
    place = b.op("ArgMax", b.op("Abs", column), axis=1, keepdims=1)
    pivot_row = b.op("GatherND", rows, place, batch_dims=1)
    pivot = _part(b, pivot_row, 1, 0, 1)
    sign = b.op(
        "Where",
        b.op("Equal", place, ints(b, 0)),
        constant_like(b, 1.0, rows),
        constant_like(b, -1.0, rows),
    )
    factor = b.op("Squeeze", b.op("Mul", pivot, sign), ints(b, 1))
    if k == 1:
        return factor, rows
    ratio = b.op("Where", b.op("Equal", pivot, zero), zero, b.op("Div", column, pivot))
    outer = b.op(
        "Mul", b.op("Unsqueeze", ratio, ints(b, 2)), b.op("Unsqueeze", pivot_row, ints(b, 1))
    )
    reduced = b.op("Sub", rows, outer)
    here = b.op("Unsqueeze", b.op("Equal", b.constant(np.arange(k)), place), ints(b, 2))
    moved = b.op("Where", here, _part(b, reduced, 1, 0, 1), reduced)
    return factor, _part(b, _part(b, moved, 1, 1, k), 2, 1, k)


def _part(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    return b.op("Slice", x, ints(b, start), ints(b, stop), ints(b, axis))
