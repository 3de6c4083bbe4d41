"""Arithmetic of numbers and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.compositions.words import attribute, extents, number, operand, optional, scaled
from mdf_loop.ops.words import cast, ints

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def mean(b: Builder, op: Op) -> Value:
    """`(x0 + x1 + ...) / n`."""
    x = operand(op)
    total = b.op("Sum", *op.inputs)
    return b.op("Div", total, number(b, len(op.inputs), x))


def cast_like(b: Builder, op: Op) -> Value:
    """The first operand in the dtype of the second one."""
    return cast(b, operand(op), operand(op, 1).dtype)


def mod(b: Builder, op: Op) -> Value:
    """The rest of `x / y` where ONNX Runtime has no kernel or a wrong one."""
    if kind_of(operand(op).dtype) == "f":
        return _float_mod(b, op)
    x, y = operand(op, 0), operand(op, 1)
    if kind_of(x.dtype) == "u":
        return b.op("Mod", x, y)
    return b.op("Sub", x, b.op("Mul", b.op("Div", x, y), y))  # fmod, of 64 bits


def _float_mod(b: Builder, op: Op) -> Value:
    """`x - floor(x / y) * y`, exactly, with the sign of y also where it is 0, as numpy.mod has it.

        r = fmod(x, y) * Sign(y)                # counted in y's direction
        (r + Where(r < 0, Abs(y), 0)) * Sign(y)

    ONNX leaves Mod of floats without fmod open; ONNX Runtime refuses it when it runs.
    """
    x, y = operand(op, 0), operand(op, 1)
    zero, side = number(b, 0, x), b.op("Sign", y)
    rest = b.op("Mul", b.op("Mod", x, y, fmod=1), side)
    more = b.op("Where", b.op("Less", rest, zero), b.op("Abs", y), zero)
    return b.op("Mul", b.op("Add", rest, more), side)


# --- whole powers -----------------------------------------------------------------------------

_BITS = 6
"""An exponent of more bits than this overflows for every base but -1, 0 and 1."""


def power(b: Builder, op: Op) -> Value:
    """`x ** n` where ONNX Runtime has no kernel or a wrong one."""
    x, n = operand(op, 0), operand(op, 1)
    if "f" in (kind_of(x.dtype), kind_of(n.dtype)):  # e.g. float32 ** uint32
        wide = b.op("Pow", cast(b, x, "float64"), cast(b, n, "float64"))
        return cast(b, wide, x.dtype)
    return _whole_power(b, op)


def _whole_power(b: Builder, op: Op) -> Value:
    """`x ** n` of whole numbers, by repeated squaring.

    ONNX Runtime's own kernel goes through float64 (3 ** 39 is wrong by 11) and saturates; this
    one is exact and wraps. As there, a negative power is 0, except of 1 and -1.
    """
    x, n = operand(op, 0), cast(b, operand(op, 1), operand(op, 0).dtype)
    exponent = b.constant_of(operand(op, 1))
    if exponent is not None and exponent.ndim == 0 and 1 <= exponent < 2**_BITS:
        return _fixed_power(b, x, int(exponent))
    zero, one, two = (number(b, k, x) for k in (0, 1, 2))
    size = b.op("Abs", n)
    last = number(b, 2**_BITS - 2, x)
    size = b.op("Where", b.op("Greater", size, last), _same_parity(b, size, last), size)
    result, square = one, x
    for _ in range(_BITS):
        bit = b.op("Mod", size, two)
        factor = b.op("Add", one, b.op("Mul", bit, b.op("Sub", square, one)))
        result = b.op("Mul", result, factor)
        square, size = b.op("Mul", square, square), b.op("Div", size, two)
    vanishes = b.op("And", b.op("Less", n, zero), b.op("Not", b.op("Equal", b.op("Abs", x), one)))
    return b.op("Where", vanishes, zero, result)


def _same_parity(b: Builder, n: Value, even: Value) -> Value:
    return b.op("Add", even, b.op("Mod", n, number(b, 2, n)))


def _fixed_power(b: Builder, x: Value, n: int) -> Value:
    """`x**5 = x * (x*x)*(x*x)`."""
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
    """`alpha * A' @ B' + beta * C`, A' and B' transposed if `transA`, `transB`."""
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
    return scaled(b, value, factor)


_LARGEST_DET = 32


def det(b: Builder, op: Op) -> Value:
    """Gaussian elimination with partial pivoting, unrolled, for stacks of matrices at once.

    The pivot's row goes to the first row's place instead of changing places with it; each step
    gives a factor of the determinant. As exact as LAPACK's. n is at most 32.
    """
    x = operand(op)
    (n,) = extents(replace(x, shape=(x.shape or ("n",))[-1:]), "onnx::Det in float64")
    if n > _LARGEST_DET:
        raise UnsupportedError(
            f"onnx::Det in float64 takes matrices up to {_LARGEST_DET} x "
            f"{_LARGEST_DET}, not {n} x {n}"
        )
    left = b.op("Reshape", x, ints(b, -1, n, n)) if n else x
    result = number(b, 1.0, x)
    for k in range(n, 0, -1):
        factor, left = _eliminate(b, left, k)
        result = b.op("Mul", result, factor)
    stack = b.op("Shape", x, end=-2)
    return b.op("Expand" if not n else "Reshape", result, stack)


def _eliminate(b: Builder, rows: Value, k: int) -> tuple[Value, Value]:
    """The pivot with its sign, and the rows and columns that are left."""
    zero = number(b, 0.0, rows)
    column = b.op("Squeeze", _part(b, rows, 2, 0, 1), ints(b, 2))
    place = b.op("ArgMax", b.op("Abs", column), axis=1, keepdims=1)
    pivot_row = b.op("GatherND", rows, place, batch_dims=1)
    pivot = _part(b, pivot_row, 1, 0, 1)
    sign = b.op(
        "Where", b.op("Equal", place, ints(b, 0)), number(b, 1.0, rows), number(b, -1.0, rows)
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
