"""The order in which sums are added: the definition of `OrderedSum`, in numpy.

    n < 16       ((x0 + x1) + x2) + ...                     one after the other
    n >= 16      part k is x[k] + x[k + 8] + x[k + 16] + ...
                 ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7))

This holds along the last axes, and along axes that do not lie together (they are moved to the end).
Along other axes the rows are added one after the other. The order depends on the number of terms and
on nothing else: not on addresses, other rows, members or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.ir import Array

FEW = 16
"""Fewer terms than this are added one after the other."""

PARTS = 8
"""Number of parts in which more terms are added."""


def is_together(axes: Sequence[int]) -> bool:
    """Return True if sorted axes follow each other."""
    return axes[-1] - axes[0] + 1 == len(axes)


def is_in_parts(axes: Sequence[int], rank: int) -> bool:
    """Return True if many terms along sorted axes are added in parts."""
    return axes[-1] == rank - 1 or not is_together(axes)


def ordered_sum(x: Array, axes: Sequence[int], *, keepdims: bool) -> Array:
    """Return the sum along axes, each term added in its place."""
    gone = sorted({axis % x.ndim for axis in axes})
    if not gone:
        return x
    kept = [axis for axis in range(x.ndim) if axis not in gone]
    shape = [1 if axis in gone else n for axis, n in enumerate(x.shape) if keepdims or axis in kept]
    counts = [math.prod(x.shape[axis] for axis in axes) for axes in (gone, kept)]
    rows = x.transpose(*gone, *kept).reshape(counts)
    if len(rows) < FEW:
        total = _one_by_one(rows)
    elif is_in_parts(gone, x.ndim):
        total = _in_parts(rows)
    else:  # ONNX Runtime begins with 0.0, which only a sum of nothing but -0.0 shows
        total = _one_by_one(rows) + x.dtype.type(0 if counts[1] > 1 else -0.0)
    return np.asarray(total.reshape(shape))


def _one_by_one(rows: Array) -> Array:
    if not len(rows):
        return np.zeros(rows.shape[1:], rows.dtype)
    total = np.array(rows[0])
    for row in rows[1:]:
        total += row
    return total


def _in_parts(rows: Array) -> Array:
    parts = np.zeros((PARTS, *rows.shape[1:]), rows.dtype)
    for begin in range(0, len(rows), PARTS):
        more = rows[begin : begin + PARTS]
        parts[: len(more)] += more
    while len(parts) > 1:
        half = len(parts) // 2
        parts = parts[:half] + parts[half:]
    return np.asarray(parts[0])
