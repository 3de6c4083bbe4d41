"""Decompositions of convolutions into one matrix product of the kernels and the windows of the input."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints, shape_between, size_between
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    extents,
    operand,
    optional_operand,
    rank,
)
from mdf_loop.ops.decompositions.windows import (
    known_length,
    pad_axes,
    window_slices,
    windows_of,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def conv(b: Builder, op: Op) -> Value:
    """Build a convolution as one matrix product of the kernels and the windows of the input.

    `y[n, m] = bias[m] + sum over c and window places of w[m, c, place] * x[n, c, place + ...]`

    All attributes of Conv and any number of spatial axes are supported.
    Source: ONNX operators, Conv-11.
    """
    x, kernels = operand(op, 0), operand(op, 1)
    map_count, channel_count, *kernel_extents = extents(kernels, "onnx::Conv in float64")
    group_count = attribute(op, "group")
    windows = windows_of(op, x, kernel_extents)
    kernel_size = math.prod(kernel_extents)
    grouped_kernels = b.op(
        "Reshape",
        kernels,
        ints(b, group_count, map_count // group_count, channel_count, kernel_size),
    )
    position_first_kernels = b.op("Transpose", grouped_kernels, perm=(0, 1, 3, 2))
    kernel_matrices = b.op(
        "Reshape",
        position_first_kernels,
        ints(b, group_count, map_count // group_count, kernel_size * channel_count),
    )
    padded_x = pad_axes(b, x, windows.leading_pads, windows.trailing_pads)
    window_element_slices = window_slices(
        b, padded_x, kernel_extents, windows.strides, windows.dilations
    )
    return _multiply_windows(b, op, kernel_matrices, window_element_slices, channel_count)


def _multiply_windows(
    b: Builder, op: Op, weights: Value, slices: list[Value], channels: int
) -> Value:
    """Build the matrix product of kernels and windows, plus the bias, shaped as the output.

    `weights[group, map, place * channel] @ slices` becomes `[n, map, spatial...]`.
    """
    group_count, maps_per_group = extents(weights, f"onnx::{op.op_type}")[:2]
    spatial_axis_count = rank(slices[0], f"onnx::{op.op_type}") - 2
    batch_size, spatial_shape = (
        shape_between(b, slices[0], *axis_range)
        for axis_range in ((0, 1), (2, 2 + spatial_axis_count))
    )
    window_count = size_between(b, slices[0], 2, 2 + spatial_axis_count)
    grouped_shape = b.op(
        "Concat", batch_size, ints(b, int(group_count), channels), window_count, axis=0
    )
    grouped_slices = [
        b.op("Reshape", element_slice, grouped_shape, allowzero=1) for element_slice in slices
    ]
    window_columns = (
        grouped_slices[0] if len(grouped_slices) == 1 else b.op("Concat", *grouped_slices, axis=2)
    )
    window_products = b.op("MatMul", weights, window_columns)
    output_shape = b.op(
        "Concat", batch_size, ints(b, int(group_count) * int(maps_per_group)), spatial_shape, axis=0
    )
    feature_maps = b.op("Reshape", window_products, output_shape, allowzero=1)
    bias = optional_operand(op, 2)
    if bias is None:
        return feature_maps
    return b.op("Add", feature_maps, b.op("Reshape", bias, ints(b, -1, *[1] * spatial_axis_count)))


def conv_transpose(b: Builder, op: Op) -> Value:
    """Build ConvTranspose as a convolution of the reversed kernels and of x with zeros inserted.

    The zeros are between the elements of x.

    Source: ONNX operators, ConvTranspose-11.
    """
    x, kernels = operand(op, 0), operand(op, 1)
    input_channel_count, maps_per_group, *kernel_extents = extents(
        kernels, "onnx::ConvTranspose in float64"
    )
    group_count = attribute(op, "group")
    channels_per_group, kernel_size = input_channel_count // group_count, math.prod(kernel_extents)
    strides, dilations, leading_pads, trailing_pads = _equivalent_geometry(op, x, kernel_extents)
    grouped_kernels = b.op(
        "Reshape", kernels, ints(b, group_count, channels_per_group, maps_per_group, kernel_size)
    )
    reversing_slice_operands = [ints(b, k) for k in (-1, -kernel_size - 1, 3, -1)]
    position_first_kernels = b.op(
        "Transpose", b.op("Slice", grouped_kernels, *reversing_slice_operands), perm=(0, 2, 3, 1)
    )
    kernel_matrices = b.op(
        "Reshape",
        position_first_kernels,
        ints(b, group_count, maps_per_group, kernel_size * channels_per_group),
    )
    padded_x = pad_axes(b, _insert_zeros(b, op, x, strides), leading_pads, trailing_pads)
    window_element_slices = window_slices(
        b, padded_x, kernel_extents, [1] * len(kernel_extents), dilations
    )
    return _multiply_windows(b, op, kernel_matrices, window_element_slices, channels_per_group)


def _insert_zeros(b: Builder, op: Op, x: Value, strides: tuple[int, ...]) -> Value:
    """Insert `stride - 1` zeros between adjacent elements of x along each spatial axis."""
    if all(stride == 1 for stride in strides):
        return x
    spatial_extents = [known_length(op, x, axis) for axis in range(len(strides))]
    channel_count = extents(operand(op, 1), "onnx::ConvTranspose in float64")[0]
    for axis, stride in enumerate(strides):
        spread_x = b.op("Unsqueeze", x, ints(b, 3 + axis))
        spread_x = pad_axes(b, spread_x, [0], [stride - 1], first=3 + axis)
        spatial_extents[axis] *= stride
        widened_x = b.op("Reshape", spread_x, ints(b, 0, channel_count, *spatial_extents))
        x = pad_axes(b, widened_x, [0], [1 - stride], first=2 + axis)
        spatial_extents[axis] -= stride - 1
    return x


def _equivalent_geometry(
    op: Op, x: Value, kernel: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int], list[int]]:
    """Return strides, dilations and padding of the convolution that equals a ConvTranspose.

    The padding is the number of zeros before and after x along each axis.

    The number of zeros is the extent of the dilated kernel minus 1 minus the pads of the output.
    """
    axis_count = len(kernel)
    strides = tuple(op.attributes.get("strides") or (1,) * axis_count)
    dilations = tuple(op.attributes.get("dilations") or (1,) * axis_count)
    output_padding = tuple(op.attributes.get("output_padding") or (0,) * axis_count)
    dilated_kernel = [
        (kernel_extent - 1) * dilation + 1
        for kernel_extent, dilation in zip(kernel, dilations, strict=True)
    ]
    pads = tuple(op.attributes.get("pads") or (0,) * 2 * axis_count)
    output_shape, auto_pad = op.attributes.get("output_shape"), attribute(op, "auto_pad")
    has_same_padding = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    leading_pads, trailing_pads = list(pads[:axis_count]), list(pads[axis_count:])
    if output_shape or has_same_padding:
        for axis in range(axis_count):
            total_padding = dilated_kernel[axis] + output_padding[axis] - strides[axis]
            if output_shape:
                total_padding += known_length(op, x, axis) * strides[axis] - output_shape[axis]
            else:
                total_padding = max(total_padding, 0)
            half_padding = max(total_padding, 0) // 2
            leading_pads[axis], trailing_pads[axis] = half_padding, total_padding - half_padding
            if auto_pad != "SAME_UPPER" and total_padding > 0:
                leading_pads[axis], trailing_pads[axis] = trailing_pads[axis], leading_pads[axis]
    zeros_before = [
        dilated_extent - 1 - pad
        for dilated_extent, pad in zip(dilated_kernel, leading_pads, strict=True)
    ]
    zeros_after = [
        dilated_extent - 1 - pad + output_pad
        for dilated_extent, pad, output_pad in zip(
            dilated_kernel, trailing_pads, output_padding, strict=True
        )
    ]
    return strides, dilations, zeros_before, zeros_after
