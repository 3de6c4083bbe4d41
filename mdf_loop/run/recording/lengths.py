"""Lengths and padding of recorded rows, whose shape only the run determines.

    path     [1.0], [1.0, 3.0, 6.0], [1.0]        rows of one step each
    ->
    path            [[1.0, nan, nan], [1.0, 3.0, 6.0], [1.0, nan, nan]]
    path.length     [1, 3, 1]

Integers are padded with 0, booleans with False. Rows of several axes have a length for each axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array, Shape, is_fixed

VaryingRanks: TypeAlias = "Mapping[str, int | None]"
"""Outputs whose row shape may vary between steps, with the number of axes of a row."""


class RowShapes(Struct, frozen=True):
    """Row shapes of outputs, as far as they are known before a run.

    Attributes:
        varying_ranks: Outputs whose row shape may vary between steps.
        broadcast_shapes: Outputs whose first row is broadcast to the shape of all later rows.
    """

    varying_ranks: VaryingRanks
    broadcast_shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, first: Mapping[str, Shape], later: Mapping[str, Shape]) -> RowShapes:
        """Combine the row shapes of outputs in the first step with those in later steps."""
        varying_ranks: dict[str, int | None] = {}
        broadcast_shapes: dict[str, tuple[int, ...]] = {}
        for name, later_shape in later.items():
            first_step_shape = first[name]
            common_shape = _common_row_shape(first_step_shape, later_shape)
            if common_shape is None:
                shapes = (first_step_shape, later_shape)
                varying_ranks[name] = (
                    None if None in shapes else max(len(row_shape or ()) for row_shape in shapes)
                )
            elif common_shape != first_step_shape:
                broadcast_shapes[name] = common_shape
        return cls(varying_ranks, broadcast_shapes)


def _common_row_shape(first: Shape, later: Shape) -> tuple[int, ...] | None:
    """Return the fixed shape of later rows if the first row broadcasts to this shape, or None."""
    if not (is_fixed(first) and is_fixed(later)):
        return None
    try:
        row_shape = np.broadcast_shapes(first, later)
    except ValueError:
        return None
    return row_shape if row_shape == later else None


def insert_axes(rows: Array, rank: int, leading_ndim: int) -> Array:
    """Insert axes of length 1 after the leading axes, so that rows have `rank` axes."""
    missing_axes = (1,) * (rank - (rows.ndim - leading_ndim))
    return rows.reshape(*rows.shape[:leading_ndim], *missing_axes, *rows.shape[leading_ndim:])


def row_lengths(rows: Array, flags: Array | None, leading_ndim: int) -> Array:
    """Return the length of each row, or the shape of each row if rows have several axes.

    Rows of a node that has not run, according to `flags`, have length 0.
    """
    row_shape = rows.shape[leading_ndim:] or (1,)
    row_extents = np.array(row_shape[0] if len(row_shape) == 1 else row_shape, np.int64)
    repeated_extents = np.broadcast_to(
        row_extents, (*rows.shape[:leading_ndim], *row_extents.shape)
    )
    if flags is None:
        return repeated_extents
    has_run = flags.reshape(*rows.shape[:leading_ndim], *(1,) * row_extents.ndim)
    return repeated_extents * has_run


def remove_padding(rows: Array, lengths: Array, leading_ndim: int = 1) -> list[Array]:
    """Return the rows of an array `[time, ...]` as a list, without padding.

    With `leading_ndim=2`, rows `[time, members, ...]` keep the length of the longest member.
    """
    members_index = (slice(None),) * (leading_ndim - 1)
    max_lengths = lengths.max(axis=1) if members_index else lengths
    max_shapes = max_lengths if max_lengths.ndim > 1 else max_lengths[:, None]
    row_extents = max_shapes[:, : rows.ndim - leading_ndim]
    return [
        row[(*members_index, *map(slice, shape))]
        for row, shape in zip(rows, row_extents, strict=True)
    ]


def padding_mask(lengths: Array, shape: tuple[int, ...], leading_ndim: int) -> Array:
    """Return a boolean mask that is True for padding elements, beyond the end of their row.

    Args:
        lengths: int64[...] for rows of at most one axis, int64[..., axes] for rows of several.
        shape: Shape of the array.
        leading_ndim: Number of leading axes before the axes of a row.
    """
    row_shape = shape[leading_ndim:]
    row_ends = lengths if len(row_shape) > 1 else lengths[..., None]
    mask = np.zeros(shape, bool)
    if not row_shape:
        return mask | (lengths < 1)
    for axis, extent in enumerate(row_shape):
        element_positions = np.arange(extent).reshape(extent, *(1,) * (len(row_shape) - axis - 1))
        mask |= element_positions >= row_ends[..., axis].reshape(
            *shape[:leading_ndim], *(1,) * len(row_shape)
        )
    return mask


def replace_padding_by_nan(array: Array, lengths: Array | None, leading_ndim: int) -> Array:
    """Convert integers and booleans with padding to float64 with nan as padding."""
    if lengths is None or array.dtype.kind not in "biu":
        return array
    mask = padding_mask(np.asarray(lengths), array.shape, leading_ndim)
    return np.where(mask, np.nan, array) if mask.any() else array
