"""Geometry of the sliding windows of convolutions and pools, and slices of the elements of all windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import attribute, constant_like, rank

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_MAX_INT64 = np.iinfo(np.int64).max


class Windows(Struct, frozen=True):
    """Geometry of the sliding windows of a convolution or pool: kernel, strides, dilations, pads.

    Every field has one number for each spatial axis.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    leading_pads: tuple[int, ...]
    trailing_pads: tuple[int, ...]

    @property
    def dilated_kernel(self) -> tuple[int, ...]:
        """Extents that one sliding window covers, including dilation."""
        return tuple(
            (kernel_extent - 1) * dilation + 1
            for kernel_extent, dilation in zip(self.kernel, self.dilations, strict=True)
        )


def windows_of(op: Op, x: Value, kernel: Sequence[int]) -> Windows:
    """Return the sliding windows of a convolution or pool, with `auto_pad` resolved to pads."""
    axis_count = len(kernel)
    strides = tuple(op.attributes.get("strides") or (1,) * axis_count)
    dilations = tuple(op.attributes.get("dilations") or (1,) * axis_count)
    pads = tuple(op.attributes.get("pads") or (0,) * 2 * axis_count)
    windows = Windows(tuple(kernel), strides, dilations, pads[:axis_count], pads[axis_count:])
    if attribute(op, "auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        return _resolve_auto_pad(op, x, windows)
    return windows


def _resolve_auto_pad(op: Op, x: Value, windows: Windows) -> Windows:
    """Return sliding windows with the pads that `auto_pad` describes.

    There are `ceil(length / stride)` windows along each axis.
    """
    leading_pads, trailing_pads = [], []
    for axis, (dilated_extent, stride) in enumerate(
        zip(windows.dilated_kernel, windows.strides, strict=True)
    ):
        total_padding = dilated_extent - 1
        if stride > 1:
            axis_length = known_length(op, x, axis)
            total_padding = max(
                (-(-axis_length // stride) - 1) * stride + dilated_extent - axis_length, 0
            )
        shorter_pad, longer_pad = total_padding // 2, total_padding - total_padding // 2
        is_same_upper = attribute(op, "auto_pad") == "SAME_UPPER"
        leading_pads.append(shorter_pad if is_same_upper else longer_pad)
        trailing_pads.append(longer_pad if is_same_upper else shorter_pad)
    return Windows(
        windows.kernel,
        windows.strides,
        windows.dilations,
        tuple(leading_pads),
        tuple(trailing_pads),
    )


def known_length(op: Op, x: Value, axis: int) -> int:
    """Return the extent of a spatial axis, or raise UnsupportedError if it is unknown."""
    axis_length = x.shape[2 + axis] if x.shape is not None else "?"
    if isinstance(axis_length, str):
        raise UnsupportedError(
            f"onnx::{op.op_type} in {x.dtype} needs known spatial extents here, but got {x.type}",
            hint="give the input a fixed shape, or explicit 'pads' and no 'ceil_mode'",
        )
    return axis_length


def pad_axes(
    b: Builder,
    x: Value,
    before: Sequence[int],
    after: Sequence[int],
    *,
    first: int = 2,
    fill_value: float = 0,
) -> Value:
    """Pad all axes from `first` on with `fill_value`, or crop them for negative pads."""
    if not any((*before, *after)):
        return x
    trailing_axis_count = rank(x, "padding") - first - len(before)
    leading_axis_zeros, trailing_axis_zeros = [0] * first, [0] * trailing_axis_count
    pads = (
        *leading_axis_zeros,
        *before,
        *trailing_axis_zeros,
        *leading_axis_zeros,
        *after,
        *trailing_axis_zeros,
    )
    return b.op("Pad", x, ints(b, *pads), constant_like(b, fill_value, x))


def window_slices(
    b: Builder,
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    first: int = 2,
) -> list[Value]:
    """Build one slice of x for each position in a sliding window.

    A slice contains the elements of all windows at the position.

    Position p along an axis of length L is `x[p*d : L - (k-1-p)*d : stride]`.
    """
    axes = ints(b, *range(first, first + len(kernel)))
    element_slices = []
    for kernel_position in itertools.product(*map(range, kernel)):
        slice_starts = [
            position_index * dilation
            for position_index, dilation in zip(kernel_position, dilations, strict=True)
        ]
        remaining_lengths = [
            (kernel_extent - 1) * dilation - start
            for kernel_extent, dilation, start in zip(kernel, dilations, slice_starts, strict=True)
        ]
        slice_stops = [
            -remaining_length if remaining_length else _MAX_INT64
            for remaining_length in remaining_lengths
        ]
        if any(slice_starts) or any(remaining_lengths) or any(stride > 1 for stride in strides):
            element_slices.append(
                b.op(
                    "Slice",
                    x,
                    ints(b, *slice_starts),
                    ints(b, *slice_stops),
                    axes,
                    ints(b, *strides),
                )
            )
        else:
            element_slices.append(x)
    return element_slices
