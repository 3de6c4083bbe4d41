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
    optional_operand,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_TWO_TO_32 = 1 << 32


def integer_sum(b: Builder, op: Op) -> Value:
    """Build an exact integer sum as `sum(high) * 2**32 + sum(low)` for `x = high * 2**32 + low`.

    Both sums are exact in float64 for up to 2 million numbers.
    """
    x = cast(b, operand(op), "int64")
    half_range = b.constant(np.array(_TWO_TO_32))
    low_half = b.op("Mod", x, half_range)
    high_half = b.op("Div", b.op("Sub", x, low_half), half_range)

    def total(part: Value) -> Value:
        float_part = cast(b, part, "float64")
        return cast(b, b.op("ReduceSum", float_part, *op.inputs[1:], **op.attributes), "int64")

    integer_total = b.op("Add", b.op("Mul", total(high_half), half_range), total(low_half))
    return cast(b, integer_total, op.outputs[0].dtype)


def integer_l1(b: Builder, op: Op) -> Value:
    """Build operations that compute `sum(|x|)` of integers."""
    return _build_sum(b, op, b.op("Abs", operand(op)))


def integer_square_sum(b: Builder, op: Op) -> Value:
    """Build operations that compute `sum(x * x)` of integers."""
    return _build_sum(b, op, b.op("Mul", operand(op), operand(op)))


# --- reductions of floats ---------------------------------------------------------------------


def l2(b: Builder, op: Op) -> Value:
    """Build operations that compute `sqrt(sum(x * x))`."""
    x = _float_operand(op)
    return b.op("Sqrt", _build_sum(b, op, b.op("Mul", x, x)))


def log_sum(b: Builder, op: Op) -> Value:
    """Build operations that compute `log(sum(x))`."""
    return b.op("Log", _build_sum(b, op, _float_operand(op)))


def log_sum_exp(b: Builder, op: Op) -> Value:
    """Build operations that compute `log(sum(exp(x)))` along axes without overflow.

    The formula is `log(sum(exp(x - m))) + m` with `m = max(x)`, or `m = 0` if the maximum is infinite.
    """
    x = _float_operand(op)
    max_x_keepdims, max_x = (
        _replace_infinities(
            b, b.op("ReduceMax", x, *op.inputs[1:], **{**op.attributes, "keepdims": keepdims})
        )
        for keepdims in (1, attribute(op, "keepdims"))
    )
    exponential_sum = _build_sum(b, op, b.op("Exp", b.op("Sub", x, max_x_keepdims)))
    return b.op("Add", b.op("Log", exponential_sum), max_x)


def _replace_infinities(b: Builder, x: Value) -> Value:
    return b.op("Where", b.op("IsInf", x), constant_like(b, 0, x), x)


def softmax(b: Builder, op: Op) -> Value:
    """Build operations that compute the softmax `e / sum(e)` with `e = exp(x - max(x))` along an axis."""
    exponentials, exponential_sum = _build_shifted_exponentials(b, op)[1:]
    return b.op("Div", exponentials, exponential_sum)


def log_softmax(b: Builder, op: Op) -> Value:
    """Build operations that compute `x - max(x) - log(sum(exp(x - max(x))))` along an axis."""
    shifted_x, _, exponential_sum = _build_shifted_exponentials(b, op)
    return b.op("Sub", shifted_x, b.op("Log", exponential_sum))


def _build_shifted_exponentials(b: Builder, op: Op) -> tuple[Value, Value, Value]:
    """Build `x - max(x)`, its exponentials, and the sum of the exponentials along an axis."""
    x, axis = _float_operand(op), attribute(op, "axis")
    shifted_x = b.op("Sub", x, b.op("ReduceMax", x, axes=(axis,), keepdims=1))
    exponentials = b.op("Exp", shifted_x)
    return shifted_x, exponentials, sum_of(b, exponentials, (axis,), keepdims=True)


def lp_normalization(b: Builder, op: Op) -> Value:
    """Build operations that compute `x / norm` along an axis, or 0 if the norm is 0."""
    x, axis = _float_operand(op), attribute(op, "axis")
    norm_terms = b.op("Abs", x) if attribute(op, "p") == 1 else b.op("Mul", x, x)
    term_sum = sum_of(b, norm_terms, (axis,), keepdims=True)
    norm = term_sum if attribute(op, "p") == 1 else b.op("Sqrt", term_sum)
    zero = constant_like(b, 0, x)
    return b.op("Where", b.op("Equal", norm, zero), zero, b.op("Div", x, norm))


def _float_operand(op: Op) -> Value:
    """Return the first operand, or raise UnsupportedError if it is not a float array."""
    x = operand(op)
    if np.dtype(x.dtype).kind != "f":
        raise UnsupportedError(f"{op.op_type} of whole numbers is not composed")
    return x


# --- sums and products ------------------------------------------------------------------------


def _build_sum(b: Builder, op: Op, terms: Value) -> Value:
    if optional_operand(op, 1) is not None:
        return b.op("ReduceSum", terms, *op.inputs[1:], **op.attributes)
    return sum_of(b, terms, attribute(op, "axes") or None, keepdims=bool(attribute(op, "keepdims")))


def integer_product(b: Builder, op: Op) -> Value:
    """Build an integer product along axes by repeatedly multiplying the two halves of an axis.

    The extents of the axes are known.
    """
    x, axes_operand = operand(op), optional_operand(op, 1)
    shape = extents(x, "the product of whole numbers")
    constant_axes = attribute(op, "axes")
    if axes_operand is not None:
        constant_operand = b.constant_of(axes_operand)
        if constant_operand is None:
            return _multiply_along_runtime_axes(b, op, x, shape, axes_operand)
        constant_axes = constant_operand.ravel().tolist()
    if not constant_axes and op.attributes.get("noop_with_empty_axes"):
        return x
    axes = constant_axes or range(len(shape))
    axes = tuple(axis % len(shape) for axis in axes)
    for axis in axes:
        x = _multiply_along_axis(b, x, axis, shape[axis])
    return x if attribute(op, "keepdims") else b.op("Squeeze", x, ints(b, *axes))


def _multiply_along_runtime_axes(
    b: Builder, op: Op, x: Value, shape: tuple[int, ...], axes_operand: Value
) -> Value:
    """Build an integer product along axes that are known only at run time.

    Along each reduced axis the product replaces all rows. One more row of ones holds the product of an empty
    axis. Then only the first row of a reduced axis is kept.
    """
    rank = len(shape)
    nonnegative_axes = b.op("Mod", b.op("Add", axes_operand, ints(b, rank)), ints(b, rank))
    is_listed_axis = b.op(
        "Equal", b.op("Unsqueeze", nonnegative_axes, ints(b, -1)), ints(b, *range(rank))
    )
    reduced_mask = cast(
        b, b.op("ReduceSum", cast(b, is_listed_axis, "int64"), ints(b, 0), keepdims=0), "bool"
    )
    if not op.attributes.get("noop_with_empty_axes"):
        is_empty = b.op("Equal", b.op("Size", axes_operand), b.constant(np.array(0)))
        reduced_mask = b.op("Or", reduced_mask, is_empty)
    end_pads = ints(b, *[0] * rank, *[1] * rank)
    padded_products = b.op("Pad", x, end_pads, constant_like(b, 1, x))
    for axis, axis_size in enumerate(shape):
        is_reduced = b.op("Gather", reduced_mask, ints(b, axis), axis=0)
        padded_products = b.op(
            "Where",
            is_reduced,
            _multiply_along_axis(b, padded_products, axis, axis_size + 1),
            padded_products,
        )
    slice_ends = b.op("Where", reduced_mask, ints(b, *[1] * rank), ints(b, *shape))
    x = b.op("Slice", padded_products, ints(b, *[0] * rank), slice_ends, ints(b, *range(rank)))
    if attribute(op, "keepdims"):
        return x
    result_shape = b.op("Compress", b.op("Shape", x), b.op("Not", reduced_mask), axis=0)
    return b.op("Reshape", x, result_shape, allowzero=1)


def _multiply_along_axis(b: Builder, x: Value, axis: int, remaining_size: int) -> Value:
    def rows(start: int, stop: int) -> Value:
        return b.op("Slice", x, ints(b, start), ints(b, stop), ints(b, axis))

    if remaining_size == 0:
        shape = [1 if k == axis else int(extent) for k, extent in enumerate(x.shape or ())]
        return b.constant(np.ones(shape, x.dtype))
    while remaining_size > 1:
        half_size = remaining_size // 2
        half_products = b.op("Mul", rows(0, half_size), rows(half_size, 2 * half_size))
        x = (
            b.op("Concat", half_products, rows(2 * half_size, remaining_size), axis=axis)
            if remaining_size % 2
            else half_products
        )
        remaining_size = half_size + remaining_size % 2
    return x
