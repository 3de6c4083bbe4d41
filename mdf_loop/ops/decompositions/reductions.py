"""Decompositions of sums and products along axes.

ONNX Runtime reduces integers in float64, which is wrong above 2**53. These decompositions are exact and wrap
around as in numpy. ONNX Runtime has kernels for floats; machine code uses the decompositions for floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast, ints, sum_of
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    extents,
    operand,
    optional,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_HALF = 1 << 32


def integer_sum(b: Builder, op: Op) -> Value:
    """Build an exact integer sum as `sum(high) * 2**32 + sum(low)` for `x = high * 2**32 + low`.

    Both sums are exact in float64 for up to 2 million numbers.
    """
    x = cast(b, operand(op), "int64")
    half = b.constant(np.array(_HALF))
    low = b.op("Mod", x, half)
    high = b.op("Div", b.op("Sub", x, low), half)

    def total(part: Value) -> Value:
        real = cast(b, part, "float64")
        return cast(b, b.op("ReduceSum", real, *op.inputs[1:], **op.attributes), "int64")

    result = b.op("Add", b.op("Mul", total(high), half), total(low))
    return cast(b, result, op.outputs[0].dtype)


def integer_l1(b: Builder, op: Op) -> Value:
    """Build `sum(|x|)` of integers."""
    return _sum_of(b, op, b.op("Abs", operand(op)))


def integer_square_sum(b: Builder, op: Op) -> Value:
    """Build `sum(x * x)` of integers."""
    return _sum_of(b, op, b.op("Mul", operand(op), operand(op)))


# --- reductions of floats ---------------------------------------------------------------------


def l2(b: Builder, op: Op) -> Value:
    """Build `sqrt(sum(x * x))`."""
    x = _float_operand(op)
    return b.op("Sqrt", _sum_of(b, op, b.op("Mul", x, x)))


def log_sum(b: Builder, op: Op) -> Value:
    """Build `log(sum(x))`."""
    return b.op("Log", _sum_of(b, op, _float_operand(op)))


def log_sum_exp(b: Builder, op: Op) -> Value:
    """Build `log(sum(exp(x - m))) + m` with `m = max(x)`, or `m = 0` if the maximum is infinite."""
    x = _float_operand(op)
    wide_offset, offset = (
        _finite(b, b.op("ReduceMax", x, *op.inputs[1:], **{**op.attributes, "keepdims": keepdims}))
        for keepdims in (1, attribute(op, "keepdims"))
    )
    total = _sum_of(b, op, b.op("Exp", b.op("Sub", x, wide_offset)))
    return b.op("Add", b.op("Log", total), offset)


def _finite(b: Builder, x: Value) -> Value:
    return b.op("Where", b.op("IsInf", x), constant_like(b, 0, x), x)


def softmax(b: Builder, op: Op) -> Value:
    """Build `e / sum(e)` of `e = exp(x - max(x))` along an axis."""
    powers, total = _shifted_exponentials(b, op)[1:]
    return b.op("Div", powers, total)


def log_softmax(b: Builder, op: Op) -> Value:
    """Build `x - max(x) - log(sum(exp(x - max(x))))` along an axis."""
    less, _, total = _shifted_exponentials(b, op)
    return b.op("Sub", less, b.op("Log", total))


def _shifted_exponentials(b: Builder, op: Op) -> tuple[Value, Value, Value]:
    """Build `x - max(x)`, `exp(x - max(x))` and the sum of these exponentials along an axis."""
    x, axis = _float_operand(op), attribute(op, "axis")
    less = b.op("Sub", x, b.op("ReduceMax", x, axes=(axis,), keepdims=1))
    powers = b.op("Exp", less)
    return less, powers, sum_of(b, powers, (axis,), keepdims=True)


def lp_normalization(b: Builder, op: Op) -> Value:
    """Build `x / norm` along an axis, or 0 if the norm is 0."""
    x, axis = _float_operand(op), attribute(op, "axis")
    terms = b.op("Abs", x) if attribute(op, "p") == 1 else b.op("Mul", x, x)
    total = sum_of(b, terms, (axis,), keepdims=True)
    norm = total if attribute(op, "p") == 1 else b.op("Sqrt", total)
    zero = constant_like(b, 0, x)
    return b.op("Where", b.op("Equal", norm, zero), zero, b.op("Div", x, norm))


def _float_operand(op: Op) -> Value:
    """Return the first operand, or raise UnsupportedError if it is not a float array."""
    x = operand(op)
    if np.dtype(x.dtype).kind != "f":
        raise UnsupportedError(f"{op.op_type} of whole numbers is not composed")
    return x


# --- sums and products ------------------------------------------------------------------------


def _sum_of(b: Builder, op: Op, terms: Value) -> Value:
    if optional(op, 1) is not None:
        return b.op("ReduceSum", terms, *op.inputs[1:], **op.attributes)
    return sum_of(b, terms, attribute(op, "axes") or None, keepdims=bool(attribute(op, "keepdims")))


def integer_product(b: Builder, op: Op) -> Value:
    """Build the product along axes of known extent by repeatedly multiplying both halves of an axis."""
    x, computed = operand(op), optional(op, 1)
    sizes = extents(x, "the product of whole numbers")
    listed = attribute(op, "axes")
    if computed is not None:
        known = b.constant_of(computed)
        if known is None:
            return _product_along(b, op, x, sizes, computed)
        listed = known.ravel().tolist()
    if not listed and op.attributes.get("noop_with_empty_axes"):
        return x
    axes = listed or range(len(sizes))
    axes = tuple(axis % len(sizes) for axis in axes)
    for axis in axes:
        x = _product(b, x, axis, sizes[axis])
    return x if attribute(op, "keepdims") else b.op("Squeeze", x, ints(b, *axes))


def _product_along(b: Builder, op: Op, x: Value, sizes: tuple[int, ...], computed: Value) -> Value:
    """Build an integer product along axes that are known only at run time.

    Along each reduced axis the product replaces all rows. One more row of ones holds the product of an empty
    axis. Then only the first row of a reduced axis is kept.
    """
    rank = len(sizes)
    wrapped = b.op("Mod", b.op("Add", computed, ints(b, rank)), ints(b, rank))
    is_listed = b.op("Equal", b.op("Unsqueeze", wrapped, ints(b, -1)), ints(b, *range(rank)))
    reduced = cast(
        b, b.op("ReduceSum", cast(b, is_listed, "int64"), ints(b, 0), keepdims=0), "bool"
    )
    if not op.attributes.get("noop_with_empty_axes"):
        is_empty = b.op("Equal", b.op("Size", computed), b.constant(np.array(0)))
        reduced = b.op("Or", reduced, is_empty)
    around = ints(b, *[0] * rank, *[1] * rank)
    rows = b.op("Pad", x, around, constant_like(b, 1, x))
    for axis, size in enumerate(sizes):
        is_reduced = b.op("Gather", reduced, ints(b, axis), axis=0)
        rows = b.op("Where", is_reduced, _product(b, rows, axis, size + 1), rows)
    ends = b.op("Where", reduced, ints(b, *[1] * rank), ints(b, *sizes))
    x = b.op("Slice", rows, ints(b, *[0] * rank), ends, ints(b, *range(rank)))
    if attribute(op, "keepdims"):
        return x
    result_shape = b.op("Compress", b.op("Shape", x), b.op("Not", reduced), axis=0)
    return b.op("Reshape", x, result_shape, allowzero=1)


def _product(b: Builder, x: Value, axis: int, size: int) -> Value:
    def rows(start: int, stop: int) -> Value:
        return b.op("Slice", x, ints(b, start), ints(b, stop), ints(b, axis))

    if size == 0:
        shape = [1 if k == axis else int(n) for k, n in enumerate(x.shape or ())]
        return b.constant(np.ones(shape, x.dtype))
    while size > 1:
        half = size // 2
        paired = b.op("Mul", rows(0, half), rows(half, 2 * half))
        x = b.op("Concat", paired, rows(2 * half, size), axis=axis) if size % 2 else paired
        size = half + size % 2
    return x
