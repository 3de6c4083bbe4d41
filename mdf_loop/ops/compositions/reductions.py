"""Sums and products of whole numbers, which ONNX Runtime computes in float64.

Above 2**53 its results are wrong; these are exact and wrap as numpy's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.words import attribute, extents, operand
from mdf_loop.ops.words import cast, ints

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_HALF = 1 << 32


def whole_sum(b: Builder, op: Op) -> Value:
    """`sum(high) * 2**32 + sum(low)` for `x = high * 2**32 + low`.

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


def whole_l1(b: Builder, op: Op) -> Value:
    """`sum(|x|)`."""
    return _sum_of(b, op, b.op("Abs", operand(op)))


def whole_square_sum(b: Builder, op: Op) -> Value:
    """`sum(x * x)`."""
    return _sum_of(b, op, b.op("Mul", operand(op), operand(op)))


def _sum_of(b: Builder, op: Op, terms: Value) -> Value:
    axes = attribute(op, "axes")
    given = (ints(b, *axes),) if axes else ()
    return b.op("ReduceSum", terms, *given, keepdims=attribute(op, "keepdims"))


def whole_product(b: Builder, op: Op) -> Value:
    """The product along axes of known extent: halves are multiplied until one row is left."""
    x = operand(op)
    sizes = extents(x, "the product of whole numbers")
    axes = attribute(op, "axes") or range(len(sizes))
    axes = tuple(axis % len(sizes) for axis in axes)
    for axis in axes:
        x = _product(b, x, axis, sizes[axis])
    return x if attribute(op, "keepdims") else b.op("Squeeze", x, ints(b, *axes))


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
