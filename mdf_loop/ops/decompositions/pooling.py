"""Decompositions of pooling operators, which reduce each window to one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints, mean_of, sum_of
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    operand,
    spatial_axes,
)
from mdf_loop.ops.decompositions.windows import (
    Windows,
    known_length,
    pad_axes,
    window_slices,
    windows_of,
)

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def average_pool(b: Builder, op: Op) -> Value:
    """Build the mean of the elements in each window of average pooling.

    Pads count only with `count_include_pad`. The elements that `ceil_mode` adds at the end never count.
    """
    x = operand(op)
    windows = windows_of(op, x, attribute(op, "kernel_shape"))
    end_pads = (
        _ceil_mode_pads(op, x, windows) if attribute(op, "ceil_mode") else windows.trailing_pads
    )
    window_sums = _sum_windows(b, x, windows, windows.leading_pads, end_pads)
    if end_pads == windows.trailing_pads and (
        attribute(op, "count_include_pad")
        or not any((*windows.leading_pads, *windows.trailing_pads))
    ):
        return b.op("Div", window_sums, constant_like(b, int(np.prod(windows.kernel)), x))
    return b.op("Div", window_sums, _count_elements(b, op, x, windows, end_pads))


def _count_elements(
    b: Builder, op: Op, x: Value, windows: Windows, end_pads: tuple[int, ...]
) -> Value:
    """Build the divisor of each window's sum: the number of elements, with or without pads."""
    axis_count = len(windows.kernel)
    ones_shape = b.op(
        "Concat", ints(b, 1, 1), b.op("Shape", x, start=2, end=2 + axis_count), axis=0
    )
    ones = b.op("Expand", constant_like(b, 1, x), ones_shape)
    if not attribute(op, "count_include_pad"):
        return _sum_windows(b, ones, windows, windows.leading_pads, end_pads)
    all_axis_pads = [0, 0, *windows.leading_pads, 0, 0, *windows.trailing_pads]
    ones = b.op("Pad", ones, ints(b, *all_axis_pads), constant_like(b, 1, x))
    ceil_mode_pads = tuple(
        end_pad - explicit_pad
        for end_pad, explicit_pad in zip(end_pads, windows.trailing_pads, strict=True)
    )
    return _sum_windows(b, ones, windows, (0,) * axis_count, ceil_mode_pads)


def _ceil_mode_pads(op: Op, x: Value, windows: Windows) -> tuple[int, ...]:
    """Return the pads at the end of each spatial axis that `ceil_mode` needs for the last window."""
    end_pads = []
    for axis, (dilated_extent, stride) in enumerate(
        zip(windows.dilated_kernel, windows.strides, strict=True)
    ):
        first_pad, last_pad = windows.leading_pads[axis], windows.trailing_pads[axis]
        axis_extent = known_length(op, x, axis)
        last_window_index = -(-(axis_extent + first_pad + last_pad - dilated_extent) // stride)
        if (
            last_window_index * stride >= axis_extent + first_pad
        ):  # A window must begin inside of the axis.
            last_window_index -= 1
        end_pads.append(
            max(last_window_index * stride + dilated_extent - axis_extent - first_pad, 0)
        )
    return tuple(end_pads)


def max_pool(b: Builder, op: Op) -> Value:
    """Build the largest element of each window of floats, with pads of -inf."""
    x = operand(op)
    windows = windows_of(op, x, attribute(op, "kernel_shape"))
    end_pads = (
        _ceil_mode_pads(op, x, windows) if attribute(op, "ceil_mode") else windows.trailing_pads
    )
    padded_x = pad_axes(b, x, windows.leading_pads, end_pads, fill_value=-np.inf)
    return b.op(
        "Max", *window_slices(b, padded_x, windows.kernel, windows.strides, windows.dilations)
    )


def _sum_windows(
    b: Builder, x: Value, windows: Windows, before: tuple[int, ...], after: tuple[int, ...]
) -> Value:
    padded_x = pad_axes(b, x, before, after)
    window_elements = window_slices(b, padded_x, windows.kernel, windows.strides, windows.dilations)
    return window_elements[0] if len(window_elements) == 1 else b.op("Sum", *window_elements)


# --- p-norms ----------------------------------------------------------------------------------


def _build_abs_power(b: Builder, x: Value, p: int) -> Value:
    if p == 2:
        return b.op("Mul", x, x)
    magnitude = b.op("Abs", x)
    return magnitude if p == 1 else b.op("Pow", magnitude, constant_like(b, p, x))


def _build_root(b: Builder, x: Value, p: int) -> Value:
    if p == 2:
        return b.op("Sqrt", x)
    return x if p == 1 else b.op("Pow", x, constant_like(b, 1 / p, x))


def lp_pool(b: Builder, op: Op) -> Value:
    """Build operations that compute `(sum of |x| ** p) ** (1 / p)` of each window."""
    return _build_root(b, lp_power_sum(b, op), attribute(op, "p"))


def lp_power_sum(b: Builder, op: Op) -> Value:
    """Build the sum of |x| ** p over each window."""
    x, exponent = operand(op), attribute(op, "p")
    windows = windows_of(op, x, attribute(op, "kernel_shape"))
    end_pads = (
        _ceil_mode_pads(op, x, windows) if attribute(op, "ceil_mode") else windows.trailing_pads
    )
    return _sum_windows(
        b, _build_abs_power(b, x, exponent), windows, windows.leading_pads, end_pads
    )


def global_average_pool(b: Builder, op: Op) -> Value:
    """Build the mean of each channel over all spatial axes."""
    return mean_of(b, operand(op), spatial_axes(op), keepdims=True)


def global_max_pool(b: Builder, op: Op) -> Value:
    """Build the largest element of each channel over all spatial axes."""
    return b.op("ReduceMax", operand(op), axes=spatial_axes(op), keepdims=1)


def global_lp_pool(b: Builder, op: Op) -> Value:
    """Build operations that compute `(sum of |x| ** p) ** (1 / p)` of each channel."""
    return _build_root(b, global_lp_power_sum(b, op), attribute(op, "p"))


def global_lp_power_sum(b: Builder, op: Op) -> Value:
    """Build the sum of |x| ** p over all spatial axes of each channel."""
    absolute_powers = _build_abs_power(b, operand(op), attribute(op, "p"))
    return sum_of(b, absolute_powers, spatial_axes(op), keepdims=True)
