"""Rows whose shape is known only in their step: how many axes they have, and how long each row is.

    path     [1.0], [1.0, 3.0, 6.0], [1.0]        rows of one step each
    ->
    path            [[1.0, nan, nan], [1.0, 3.0, 6.0], [1.0, nan, nan]]
    path.length     [1, 3, 1]

Integers are padded with 0, truth values with False. Rows of several axes have a length for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array, Shape, is_fixed

OpenRows: TypeAlias = "Mapping[str, int | None]"
"""Outputs whose rows may have other shapes in other steps, and how many axes their rows have."""


class RowShapes(Struct, frozen=True):
    """Shapes of rows that are known before the run, in the first step and in later ones.

    Attributes:
        open: outputs whose rows may have other shapes in other steps.
        spread: outputs whose first row is spread to the shape of all others.
    """

    open: OpenRows
    spread: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, first: Mapping[str, Shape], later: Mapping[str, Shape]) -> RowShapes:
        """Return the shapes of the rows of outputs in two programs."""
        rank: dict[str, int | None] = {}
        spread: dict[str, tuple[int, ...]] = {}
        for name, shape in later.items():
            at_first = first[name]
            whole = _spread(at_first, shape)
            if whole is None:
                ends = (at_first, shape)
                rank[name] = None if None in ends else max(len(end or ()) for end in ends)
            elif whole != at_first:
                spread[name] = whole
        return cls(rank, spread)


def _spread(first: Shape, later: Shape) -> tuple[int, ...] | None:
    """Return the common shape of all rows, or None if the programs do not determine one."""
    if not (is_fixed(first) and is_fixed(later)):
        return None
    try:
        whole = np.broadcast_shapes(first, later)
    except ValueError:
        return None
    return whole if whole == later else None


def with_axes(rows: Array, rank: int, front: int) -> Array:
    """Return the rows with a number of axes, after the `front` axes that all outputs have."""
    missing = (1,) * (rank - (rows.ndim - front))
    return rows.reshape(*rows.shape[:front], *missing, *rows.shape[front:])


def lengths_of(rows: Array, flags: Array | None, front: int) -> Array:
    """Return the length of each row, along each axis if a row has several.

    A row of a node that has not run, of which the flags tell, has no length.
    """
    own = rows.shape[front:] or (1,)
    extents = np.array(own[0] if len(own) == 1 else own, np.int64)
    every = np.broadcast_to(extents, (*rows.shape[:front], *extents.shape))
    if flags is None:
        return every
    has_run = flags.reshape(*rows.shape[:front], *(1,) * extents.ndim)
    return every * has_run


def without_padding(rows: Array, lengths: Array, front: int = 1) -> list[Array]:
    """Return the rows of an array `[time, ...]` without padding.

    With `front=2` there are members of a sweep, `[time, members, ...]`: one array for all of them.
    """
    members = (slice(None),) * (front - 1)
    longest = lengths.max(axis=1) if members else lengths
    shapes = longest if longest.ndim > 1 else longest[:, None]
    own = shapes[:, : rows.ndim - front]
    return [row[(*members, *map(slice, shape))] for row, shape in zip(rows, own, strict=True)]


def is_padding(lengths: Array, shape: tuple[int, ...], front: int) -> Array:
    """Return True for each element of an array that lies behind the end of its row: bool[shape].

    Args:
        lengths: int64[...] for rows of at most one axis, int64[..., axes] for rows of several.
        shape: the shape of the array.
        front: the number of axes in front of those of a row.
    """
    own = shape[front:]
    ends = lengths if len(own) > 1 else lengths[..., None]
    mask = np.zeros(shape, bool)
    if not own:
        return mask | (lengths < 1)
    for axis, extent in enumerate(own):
        places = np.arange(extent).reshape(extent, *(1,) * (len(own) - axis - 1))
        mask |= places >= ends[..., axis].reshape(*shape[:front], *(1,) * len(own))
    return mask


def padding_as_nan(array: Array, lengths: Array | None, front: int) -> Array:
    """Return integers and truth values as float64 with nan for padding, if there is padding."""
    if lengths is None or array.dtype.kind not in "biu":
        return array
    mask = is_padding(np.asarray(lengths), array.shape, front)
    return np.where(mask, np.nan, array) if mask.any() else array
