"""Decompositions of operators that select, mark or move elements."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast, ints
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    extents,
    operand,
    optional_operand,
    rank,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def split(b: Builder, op: Op) -> tuple[Value, ...]:
    """Build Split as one Slice for each output."""
    x, axis = operand(op), attribute(op, "axis")
    sizes_operand = optional_operand(op, 1)
    axis_extent = extents(x, "onnx::Split")[axis]
    part_sizes = [axis_extent // len(op.outputs)] * len(op.outputs)
    if sizes_operand is not None:
        constant_sizes = b.constant_of(sizes_operand)
        if constant_sizes is None:
            raise UnsupportedError("onnx::Split is composed only where its parts are known")
        part_sizes = constant_sizes.tolist()
    part_bounds = np.cumsum([0, *part_sizes]).tolist()
    return tuple(
        b.op("Slice", x, ints(b, part_start), ints(b, part_end), ints(b, axis))
        for part_start, part_end in pairwise(part_bounds)
    )


def nonzero(b: Builder, op: Op) -> Value:
    """Build NonZero of `Cast(x, bool)`, in which nan counts as nonzero."""
    return b.op("NonZero", cast(b, operand(op), "bool"))


def eye_like(b: Builder, op: Op) -> Value:
    """Build EyeLike in float32, and cast the result."""
    identity_matrix = b.op("EyeLike", cast(b, operand(op), "float32"), k=attribute(op, "k"))
    return cast(b, identity_matrix, op.outputs[0].dtype)


def one_hot(b: Builder, op: Op) -> Value:
    """Build operations that compute OneHot: `Where(range(depth) == i, on, off)` along a new axis.

    A negative index counts from the end.
    """
    off_and_on_values, result_dtype = operand(op, 2), op.outputs[0].dtype
    index, depth = cast(b, operand(op, 0), "int64"), cast(b, operand(op, 1), "int64")
    depth = b.op("Reshape", depth, ints(b))
    zero = b.constant(np.array(0))
    nonnegative_index = b.op("Where", b.op("Less", index, zero), b.op("Add", index, depth), index)
    depth_positions = b.op("Range", zero, depth, b.constant(np.array(1)))
    is_index = b.op("Equal", b.op("Unsqueeze", nonnegative_index, ints(b, -1)), depth_positions)
    off_value, on_value = (
        b.op("Gather", off_and_on_values, b.constant(np.array(k)), axis=0) for k in (0, 1)
    )
    encoding = cast(b, b.op("Where", is_index, on_value, off_value), result_dtype)
    axis = attribute(op, "axis")
    return encoding if axis == -1 else _move_last_axis(b, encoding, axis)


def _move_last_axis(b: Builder, x: Value, axis: int) -> Value:
    last_axis = rank(x, "onnx::OneHot") - 1
    axis_order = list(range(last_axis))
    axis_order.insert(axis if axis >= 0 else axis + last_axis + 1, last_axis)
    return b.op("Transpose", x, perm=tuple(axis_order))


def hardmax(b: Builder, op: Op) -> Value:
    """Build operations that compute Hardmax: 1 at the first maximum along `axis`, else 0.

    The formula is `arange(n) == ArgMaximum(x)`.

    An empty row has no maximum. So one element -inf is appended if the extent is unknown.
    """
    x, axis = operand(op), attribute(op, "axis")
    axis_count = rank(x, "onnx::Hardmax")
    axis %= axis_count
    axis_extent = (x.shape or ())[axis]
    if axis_extent == 0:
        return b.op("Identity", x)
    trailing_axis_count = axis_count - axis - 1
    if isinstance(axis_extent, int):
        axis_positions = b.constant(np.arange(axis_extent).reshape(-1, *[1] * trailing_axis_count))
        return cast(b, b.op("Equal", axis_positions, _build_arg_maximum(b, x, axis)), x.dtype)
    runtime_extent = b.op("Gather", b.op("Shape", x), b.constant(np.array(axis)), axis=0)
    axis_positions = b.op("Range", b.constant(np.array(0)), runtime_extent, b.constant(np.array(1)))
    axis_positions = b.op("Reshape", axis_positions, ints(b, -1, *[1] * trailing_axis_count))
    end_pads = ints(b, *(int(k == axis_count + axis) for k in range(2 * axis_count)))
    padded_x = b.op("Pad", x, end_pads, constant_like(b, -np.inf, x))
    return cast(b, b.op("Equal", axis_positions, _build_arg_maximum(b, padded_x, axis)), x.dtype)


def _build_arg_maximum(b: Builder, x: Value, axis: int) -> Value:
    return b.op("ArgMaximum", x, axis=axis, keepdims=1)


def depth_to_space(b: Builder, op: Op) -> Value:
    """Build DepthToSpace, which rearranges `[n, c*s*s, h, w]` to `[n, c, h*s, w*s]`.

    The operations are a reshape, a transpose and a reshape.
    """
    _, input_channel_count, height, width = extents(operand(op), "onnx::DepthToSpace")
    block_size = attribute(op, "blocksize")
    output_channel_count = input_channel_count // (block_size * block_size)
    is_column_first = attribute(op, "mode") == "CRD"
    split_shape = (
        (0, output_channel_count, block_size, block_size, height, width)
        if is_column_first
        else (0, block_size, block_size, output_channel_count, height, width)
    )
    axis_order = (0, 1, 4, 2, 5, 3) if is_column_first else (0, 3, 4, 1, 5, 2)
    return _regroup_axes(
        b,
        operand(op),
        split_shape,
        axis_order,
        (0, output_channel_count, height * block_size, width * block_size),
    )


def space_to_depth(b: Builder, op: Op) -> Value:
    """Build SpaceToDepth, which rearranges `[n, c, h*s, w*s]` to `[n, s*s*c, h, w]`.

    The operations are a reshape, a transpose and a reshape.
    """
    _, channels, height, width = extents(operand(op), "onnx::SpaceToDepth")
    block_size = attribute(op, "blocksize")
    block_rows, block_columns = height // block_size, width // block_size
    return _regroup_axes(
        b,
        operand(op),
        (0, channels, block_rows, block_size, block_columns, block_size),
        (0, 3, 5, 1, 2, 4),
        (0, channels * block_size * block_size, block_rows, block_columns),
    )


def _regroup_axes(
    b: Builder,
    x: Value,
    split_shape: tuple[int, ...],
    order: tuple[int, ...],
    joined_shape: tuple[int, ...],
) -> Value:
    split_x = b.op("Reshape", x, ints(b, *split_shape))
    return b.op("Reshape", b.op("Transpose", split_x, perm=order), ints(b, *joined_shape))


def max_unpool(b: Builder, op: Op) -> Value:
    """Build MaxUnpool: zeros, with each element of x at its index in the flattened result."""
    x, indices = operand(op, 0), operand(op, 1)
    if optional_operand(op, 2) is not None:
        raise UnsupportedError("onnx::MaxUnpool in float64 does not take output_shape")
    shape = extents(op.outputs[0], "onnx::MaxUnpool in float64")
    zeros = b.constant(np.zeros(math.prod(shape), x.dtype))
    flat_shape = ints(b, -1)
    flat_output = b.op(
        "ScatterElements",
        zeros,
        b.op("Reshape", indices, flat_shape),
        b.op("Reshape", x, flat_shape),
        axis=0,
    )
    return b.op("Reshape", flat_output, ints(b, *shape))
