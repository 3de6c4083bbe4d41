"""Helpers that broadcast, reshape or sum tangents and cotangents to the shapes of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ir.substitute import substitute
from mdf_loop.ops.build_helpers import extents, ints, scalar, shape_between, sum_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def shape_of(b: Builder, x: Value) -> Value:
    """Build the shape of a value as an int64 array, which is a constant if the shape is known."""
    return shape_between(b, x, 0)


def extent(b: Builder, x: Value, axis: int) -> Value:
    """Build the extent of an axis as an int64 scalar, which is a constant if the extent is known."""
    known_extent = extents(x)[axis]
    if isinstance(known_extent, int):
        return scalar(b, known_extent, "int64")
    return b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0)


def zeros(b: Builder, x: Value) -> Value:
    """Build zeros with the shape and dtype of a value."""
    if is_fixed(x.shape):
        return b.constant(np.zeros(x.shape, x.dtype))
    return with_shape_of(b, b.op("Expand", scalar(b, 0, x.dtype), b.op("Shape", x)), x)


def with_shape_of(b: Builder, derivative: Value, like: Value) -> Value:
    """Declare the shape of `like` as the shape of the tangent or cotangent that was just built.

    The last operation of the builder must compute `derivative`, else `derivative` is returned.

    The named extents of `like` are more precise than the result of ONNX's shape inference.
    """
    last_operation = b.ops[-1] if b.ops else None
    has_same_shape = like.shape is None or derivative.shape == like.shape
    if (
        has_same_shape
        or not isinstance(last_operation, Op)
        or derivative not in last_operation.outputs
    ):
        return derivative
    typed_derivative = replace(derivative, shape=like.shape)
    b.ops[-1] = substitute(last_operation, {derivative: typed_derivative})
    return typed_derivative


def broadcast_like(b: Builder, derivative: Value, like: Value) -> Value:
    """Broadcast a tangent or cotangent to the shape of a value."""
    if derivative.shape is not None and derivative.shape == like.shape:
        return derivative
    return with_shape_of(b, b.op("Expand", derivative, shape_of(b, like)), like)


def reshape_like(b: Builder, derivative: Value, like: Value) -> Value:
    """Reshape a tangent or cotangent to the shape of a value."""
    if derivative.shape is not None and derivative.shape == like.shape:
        return derivative
    return with_shape_of(b, b.op("Reshape", derivative, shape_of(b, like), allowzero=1), like)


def sum_to_shape(b: Builder, derivative: Value, like: Value) -> Value:
    """Sum a cotangent over the axes along which the value `like` was broadcast."""
    derivative_shape, like_shape = extents(derivative), extents(like)
    if derivative_shape == like_shape:
        return derivative
    like_shape = (1,) * (len(derivative_shape) - len(like_shape)) + like_shape
    if all(
        like_extent == 1 or like_extent == derivative_extent
        for like_extent, derivative_extent in zip(like_shape, derivative_shape, strict=True)
    ):
        broadcast_axes = [
            k
            for k, (like_extent, derivative_extent) in enumerate(
                zip(like_shape, derivative_shape, strict=True)
            )
            if like_extent != derivative_extent
        ]
        broadcast_axes += [
            k for k in range(len(derivative_shape) - len(extents(like))) if k not in broadcast_axes
        ]
        axis_sum = sum_of(b, derivative, broadcast_axes, keepdims=True)
        return reshape_like(b, axis_sum, like)
    return _sum_to_runtime_shape(b, derivative, like)


def _sum_to_runtime_shape(b: Builder, derivative: Value, like: Value) -> Value:
    """Sum a cotangent over broadcast axes that are known only at run time."""
    leading_ones = ints(b, *(1,) * (len(extents(derivative)) - len(extents(like))))
    like_shape = b.op("Concat", leading_ones, b.op("Shape", like), axis=0)
    positive_shape = b.op("Max", like_shape, scalar(b, 1, "int64"))
    copy_counts = b.op("Div", b.op("Shape", derivative), positive_shape)
    return reshape_like(b, sum_copies(b, derivative, copy_counts, like_shape), like)


def sum_copies(b: Builder, derivative: Value, copies: Value, like_shape: Value) -> Value:
    """Sum the cotangent of a tiled array over the repetitions.

    `[c0 * n0, c1 * n1, ...]` is reshaped to `[c0, n0, c1, n1, ...]` and summed over the axes c.
    """
    extent_columns = [
        b.op("Unsqueeze", extent_vector, ints(b, 1)) for extent_vector in (copies, like_shape)
    ]
    interleaved_shape = b.op("Reshape", b.op("Concat", *extent_columns, axis=1), ints(b, -1))
    split_derivative = b.op("Reshape", derivative, interleaved_shape, allowzero=1)
    return sum_of(b, split_derivative, range(0, 2 * len(extents(derivative)), 2))
