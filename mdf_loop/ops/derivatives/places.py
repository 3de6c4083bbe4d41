"""What elements get that were taken by their places: the transpose of gathering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Array, Value, is_fixed
from mdf_loop.ops.derivatives.shapes import shape_of
from mdf_loop.ops.words import extents, ints, rank, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def put_back(b: Builder, g: Value, places: Value, count: Value, axis: int) -> Value:
    """Rows along an axis where they were taken from, among zeros; those of one place are summed.

        y = Gather(x, places, axis)   ->   gx[..., places[k], ...] += g[..., k, ...]

    `places` has one axis, `count` is the extent of the axis in x. Places that are known and differ
    need no scattering.
    """
    at, n = b.constant_of(places), b.constant_of(count)
    if at is not None and n is not None:
        at = np.where(at < 0, at + n, at)
        if np.unique(at).size == at.size:
            return _apart(b, g, at, int(n), axis)
    shape = _with_extent(b, g, count, axis)
    nothing = b.op("Expand", scalar(b, 0, g.dtype), shape)
    last = rank(g) - axis - 1
    column = b.op("Reshape", places, ints(b, -1, *(1,) * last))
    everywhere = b.op("Expand", column, shape_of(b, g))
    return b.op("ScatterElements", nothing, everywhere, g, axis=axis, reduction="add")


def _apart(b: Builder, g: Value, at: Array, n: int, axis: int) -> Value:
    """Rows whose places differ: zeros around them, or each taken from where it is now."""
    first = int(at[0]) if at.size else 0
    if np.array_equal(at, np.arange(first, first + at.size)):
        return zeros_around(b, g, axis, first, n - first - at.size)
    now = np.full(n, at.size)
    now[at] = np.arange(at.size)
    whole = g if at.size == n else zeros_around(b, g, axis, 0, 1)
    return b.op("Gather", whole, b.constant(now), axis=axis)


def zeros_around(b: Builder, g: Value, axis: int, before: int, after: int) -> Value:
    """So many zeros before and after it along an axis."""
    if not (before or after):
        return g
    pads = np.zeros((2, rank(g)), np.int64)
    pads[:, axis] = before, after
    return b.op("Pad", g, ints(b, *pads.ravel().tolist()))


def _with_extent(b: Builder, g: Value, count: Value, axis: int) -> Value:
    """The shape of a value with another extent along an axis."""
    n = b.constant_of(count)
    if n is not None and is_fixed(g.shape):
        shape = [*extents(g)]
        shape[axis] = int(n)
        return b.constant(np.array(shape, np.int64))
    own = shape_of(b, g)
    parts = (part(b, own, 0, axis), b.op("Reshape", count, ints(b, 1)), part(b, own, axis + 1))
    return b.op("Concat", *parts, axis=0)


def part(b: Builder, numbers: Value, start: int, end: int = np.iinfo(np.int64).max) -> Value:
    """Some numbers of a list."""
    return b.op("Slice", numbers, ints(b, start), ints(b, end), ints(b, 0))
