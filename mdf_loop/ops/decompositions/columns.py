"""Decomposition of Col2Im into the sum of the windows of an image."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.decompositions.windows import Windows, pad_axes

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def columns_to_image(b: Builder, op: Op) -> Value:
    """Build Col2Im as the sum of one image for each position in the sliding window.

    Each image contains the element at this position of all windows, without elements outside of the image.

    Source: ONNX operators, Col2Im-18.
    """
    image_extents, windows = _read_geometry(b, op)
    window_counts = [
        (image_extent + first_pad + last_pad - dilated_extent) // stride + 1
        for image_extent, first_pad, last_pad, dilated_extent, stride in zip(
            image_extents,
            windows.leading_pads,
            windows.trailing_pads,
            windows.dilated_kernel,
            windows.strides,
            strict=True,
        )
    ]
    kernel_positions = list(itertools.product(*map(range, windows.kernel)))
    columns_shape = ints(b, 0, -1, len(kernel_positions), *window_counts)
    columns_by_position = b.op("Reshape", operand(op), columns_shape)
    kernel_position_images = []
    for position_index, kernel_position in enumerate(kernel_positions):
        window_elements = b.op("Gather", columns_by_position, ints(b, position_index), axis=2)
        window_elements = b.op("Squeeze", window_elements, ints(b, 2))
        kernel_position_images.append(
            _place_in_image(
                b, window_elements, window_counts, kernel_position, image_extents, windows
            )
        )
    sum_op_type = "Or" if kernel_position_images[0].dtype == "bool" else "Add"
    return functools.reduce(
        lambda total, position_image: b.op(sum_op_type, total, position_image),
        kernel_position_images,
    )


def _read_geometry(b: Builder, op: Op) -> tuple[tuple[int, ...], Windows]:
    image_extents, kernel_extents = (b.constant_of(operand(op, k)) for k in (1, 2))
    if image_extents is None or kernel_extents is None:
        raise UnsupportedError(
            f"onnx::Col2Im in {operand(op).dtype} needs image and window extents that are known"
        )
    axis_count = kernel_extents.size
    pads = tuple(op.attributes.get("pads") or (0,) * 2 * axis_count)
    strides, dilations = (
        tuple(op.attributes.get(name) or (1,) * axis_count) for name in ("strides", "dilations")
    )
    windows = Windows(
        tuple(kernel_extents.tolist()), strides, dilations, pads[:axis_count], pads[axis_count:]
    )
    return tuple(image_extents.tolist()), windows


def _place_in_image(
    b: Builder,
    window_elements: Value,
    window_counts: list[int],
    position: tuple[int, ...],
    image: tuple[int, ...],
    windows: Windows,
) -> Value:
    """Build an image of zeros with one element of each window at its position in the image."""
    strided_extents = list(window_counts)
    for axis, stride in enumerate(windows.strides):
        if stride > 1:
            strided_elements = b.op("Unsqueeze", window_elements, ints(b, 3 + axis))
            strided_elements = pad_axes(b, strided_elements, [0], [stride - 1], first=3 + axis)
            strided_extents[axis] *= stride
            window_elements = b.op("Reshape", strided_elements, ints(b, 0, 0, *strided_extents))
    leading_pads = [
        position_index * dilation - first_pad
        for position_index, dilation, first_pad in zip(
            position, windows.dilations, windows.leading_pads, strict=True
        )
    ]
    trailing_pads = [
        image_extent - leading_pad - strided_extent
        for image_extent, leading_pad, strided_extent in zip(
            image, leading_pads, strided_extents, strict=True
        )
    ]
    return pad_axes(b, window_elements, leading_pads, trailing_pads)
