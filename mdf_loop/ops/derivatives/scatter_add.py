"""Scatter-add, the transpose of Gather: addition of rows at indices along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Array, Value, is_fixed
from mdf_loop.ops.build_helpers import extents, ints, rank, scalar
from mdf_loop.ops.derivatives.shapes import shape_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def scatter_add_rows(b: Builder, rows: Value, indices: Value, count: Value, axis: int) -> Value:
    """Add rows at their indices along an axis to an array of zeros.

        y = Gather(x, indices, axis)   ->   gx[..., indices[k], ...] += rows[..., k, ...]

    `indices` has one axis, and `count` is the extent of the axis in x. Constant distinct indices need no scatter.
    """
    known_indices, known_extent = b.constant_of(indices), b.constant_of(count)
    if known_indices is not None and known_extent is not None:
        known_indices = np.where(known_indices < 0, known_indices + known_extent, known_indices)
        if np.unique(known_indices).size == known_indices.size:
            return _place_distinct_rows(b, rows, known_indices, int(known_extent), axis)
    target_shape = _build_shape_with_extent(b, rows, count, axis)
    zeros = b.op("Expand", scalar(b, 0, rows.dtype), target_shape)
    trailing_axis_count = rank(rows) - axis - 1
    index_column = b.op("Reshape", indices, ints(b, -1, *(1,) * trailing_axis_count))
    element_indices = b.op("Expand", index_column, shape_of(b, rows))
    return b.op("ScatterElements", zeros, element_indices, rows, axis=axis, reduction="add")


def _place_distinct_rows(b: Builder, rows: Value, indices: Array, extent: int, axis: int) -> Value:
    """Place rows at constant distinct indices of an array of zeros, by padding or by a Gather."""
    first_index = int(indices[0]) if indices.size else 0
    if np.array_equal(indices, np.arange(first_index, first_index + indices.size)):
        return pad_with_zeros(b, rows, axis, first_index, extent - first_index - indices.size)
    source_indices = np.full(extent, indices.size)
    source_indices[indices] = np.arange(indices.size)
    padded_rows = rows if indices.size == extent else pad_with_zeros(b, rows, axis, 0, 1)
    return b.op("Gather", padded_rows, b.constant(source_indices), axis=axis)


def pad_with_zeros(b: Builder, x: Value, axis: int, before: int, after: int) -> Value:
    """Pad an array with zeros before and after its elements along an axis."""
    if not (before or after):
        return x
    pads = np.zeros((2, rank(x)), np.int64)
    pads[:, axis] = before, after
    return b.op("Pad", x, ints(b, *pads.ravel().tolist()))


def _build_shape_with_extent(b: Builder, x: Value, count: Value, axis: int) -> Value:
    """Build the shape of a value, with the extent of one axis replaced by `count`."""
    constant_extent = b.constant_of(count)
    if constant_extent is not None and is_fixed(x.shape):
        fixed_shape = [*extents(x)]
        fixed_shape[axis] = int(constant_extent)
        return b.constant(np.array(fixed_shape, np.int64))
    x_shape = shape_of(b, x)
    extent_lists = (
        slice_list(b, x_shape, 0, axis),
        b.op("Reshape", count, ints(b, 1)),
        slice_list(b, x_shape, axis + 1),
    )
    return b.op("Concat", *extent_lists, axis=0)


def slice_list(b: Builder, numbers: Value, start: int, end: int = np.iinfo(np.int64).max) -> Value:
    """Build the slice `numbers[start:end]` of a one-dimensional array."""
    return b.op("Slice", numbers, ints(b, start), ints(b, end), ints(b, 0))
