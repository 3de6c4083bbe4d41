"""Decompositions of convolutions into one matrix product of the kernels and the windows of the input."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints, shape_between, size_between
from mdf_loop.ops.decompositions.build_helpers import attribute, extents, operand, optional, rank
from mdf_loop.ops.decompositions.windows import (
    known_length,
    pad_axes,
    window_slices,
    windows_of,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def conv(b: Builder, op: Op) -> Value:
    """Build `y[n, m] = bias[m] + sum over c and window places of w[m, c, place] * x[n, c, place + ...]`.

    All attributes of Conv and any number of spatial axes are supported.
    Source: ONNX operators, Conv-11.
    """
    x, w = operand(op, 0), operand(op, 1)
    maps, channels, *kernel = extents(w, "onnx::Conv in float64")
    groups = attribute(op, "group")
    windows = windows_of(op, x, kernel)
    places = math.prod(kernel)
    split = b.op("Reshape", w, ints(b, groups, maps // groups, channels, places))
    rows = b.op("Transpose", split, perm=(0, 1, 3, 2))
    weights = b.op("Reshape", rows, ints(b, groups, maps // groups, places * channels))
    around = pad_axes(b, x, windows.before, windows.after)
    slices = window_slices(b, around, kernel, windows.strides, windows.dilations)
    return _product(b, op, weights, slices, channels)


def _product(b: Builder, op: Op, weights: Value, slices: list[Value], channels: int) -> Value:
    """Build `weights[group, map, place * channel] @ slices` as `[n, map, spatial...]`, plus the bias."""
    groups, maps = extents(weights, f"onnx::{op.op_type}")[:2]
    axes = rank(slices[0], f"onnx::{op.op_type}") - 2
    count, spatial = (shape_between(b, slices[0], *ends) for ends in ((0, 1), (2, 2 + axes)))
    places = size_between(b, slices[0], 2, 2 + axes)
    grouped = b.op("Concat", count, ints(b, int(groups), channels), places, axis=0)
    parts = [b.op("Reshape", part, grouped, allowzero=1) for part in slices]
    columns = parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=2)
    product = b.op("MatMul", weights, columns)
    shape = b.op("Concat", count, ints(b, int(groups) * int(maps)), spatial, axis=0)
    result = b.op("Reshape", product, shape, allowzero=1)
    bias = optional(op, 2)
    if bias is None:
        return result
    return b.op("Add", result, b.op("Reshape", bias, ints(b, -1, *[1] * axes)))


def conv_transpose(b: Builder, op: Op) -> Value:
    """Build ConvTranspose as a convolution of the reversed kernels and of x with zeros between its elements.

    Source: ONNX operators, ConvTranspose-11.
    """
    x, w = operand(op, 0), operand(op, 1)
    depth, maps, *kernel = extents(w, "onnx::ConvTranspose in float64")
    groups = attribute(op, "group")
    channels, places = depth // groups, math.prod(kernel)
    strides, dilations, before, after = _transposed_pads(op, x, kernel)
    split = b.op("Reshape", w, ints(b, groups, channels, maps, places))
    reverse = [ints(b, k) for k in (-1, -places - 1, 3, -1)]
    rows = b.op("Transpose", b.op("Slice", split, *reverse), perm=(0, 2, 3, 1))
    weights = b.op("Reshape", rows, ints(b, groups, maps, places * channels))
    around = pad_axes(b, _insert_zeros(b, op, x, strides), before, after)
    slices = window_slices(b, around, kernel, [1] * len(kernel), dilations)
    return _product(b, op, weights, slices, channels)


def _insert_zeros(b: Builder, op: Op, x: Value, strides: tuple[int, ...]) -> Value:
    """Insert `stride - 1` zeros between adjacent elements of x along each spatial axis."""
    if all(stride == 1 for stride in strides):
        return x
    lengths = [known_length(op, x, axis) for axis in range(len(strides))]
    channels = extents(operand(op, 1), "onnx::ConvTranspose in float64")[0]
    for axis, stride in enumerate(strides):
        apart = b.op("Unsqueeze", x, ints(b, 3 + axis))
        apart = pad_axes(b, apart, [0], [stride - 1], first=3 + axis)
        lengths[axis] *= stride
        joined = b.op("Reshape", apart, ints(b, 0, channels, *lengths))
        x = pad_axes(b, joined, [0], [1 - stride], first=2 + axis)
        lengths[axis] -= stride - 1
    return x


def _transposed_pads(
    op: Op, x: Value, kernel: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int], list[int]]:
    """Return (strides, dilations, zeros before, zeros after) of the equivalent convolution.

    The number of zeros is the extent of the dilated kernel minus 1 minus the pads of the output.
    """
    axes = len(kernel)
    strides = tuple(op.attributes.get("strides") or (1,) * axes)
    dilations = tuple(op.attributes.get("dilations") or (1,) * axes)
    extra = tuple(op.attributes.get("output_padding") or (0,) * axes)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(op.attributes.get("pads") or (0,) * 2 * axes)
    output_shape, auto = op.attributes.get("output_shape"), attribute(op, "auto_pad")
    same = auto in ("SAME_UPPER", "SAME_LOWER")
    before, after = list(pads[:axes]), list(pads[axes:])
    if output_shape or same:
        for axis in range(axes):
            natural = reach[axis] + extra[axis] - strides[axis]
            if output_shape:
                natural += known_length(op, x, axis) * strides[axis] - output_shape[axis]
            else:
                natural = max(natural, 0)
            half = max(natural, 0) // 2
            before[axis], after[axis] = half, natural - half
            if auto != "SAME_UPPER" and natural > 0:
                before[axis], after[axis] = after[axis], before[axis]
    front = [r - 1 - p for r, p in zip(reach, before, strict=True)]
    back = [r - 1 - p + e for r, p, e in zip(reach, after, extra, strict=True)]
    return strides, dilations, front, back
