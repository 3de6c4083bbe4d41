"""Numpy implementation of `OrderedSum`, a sum with a fixed order of additions.

    n < 16       ((x0 + x1) + x2) + ...                     one after the other
    n >= 16      part k is x[k] + x[k + 8] + x[k + 16] + ...
                 ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7))

This order holds along the last axes and along axes that are not adjacent, which are moved to the end. Along
other axes the rows are added one after the other. The order depends only on the number of terms, not on
addresses, other rows, members or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdf_loop.ir import Array

MIN_TERMS_IN_PARTS = 16
"""Minimum number of terms of a sum in parts."""

PARTIAL_SUM_COUNT = 8
"""Number of partial sums of a sum in parts."""


def are_adjacent(axes: Sequence[int]) -> bool:
    """Return True if sorted axis numbers are consecutive, without other axes between them."""
    return axes[-1] - axes[0] + 1 == len(axes)


def is_summed_in_parts(axes: Sequence[int], rank: int) -> bool:
    """Return True if a fixed-order sum along axes is defined as a sum of eight partial sums.

    The axes are sorted.
    """
    return axes[-1] == rank - 1 or not are_adjacent(axes)


def ordered_sum(x: Array, axes: Sequence[int], *, keepdims: bool) -> Array:
    """Return the sum of an array along axes, with the terms added in a fixed order."""
    reduced_axes = sorted({axis % x.ndim for axis in axes})
    if not reduced_axes:
        return x
    other_axes = [axis for axis in range(x.ndim) if axis not in reduced_axes]
    kept_shape = [
        1 if axis in reduced_axes else extent
        for axis, extent in enumerate(x.shape)
        if keepdims or axis in other_axes
    ]
    reduced_and_other_sizes = [
        math.prod(x.shape[axis] for axis in axes) for axes in (reduced_axes, other_axes)
    ]
    term_rows = x.transpose(*reduced_axes, *other_axes).reshape(reduced_and_other_sizes)
    if len(term_rows) < MIN_TERMS_IN_PARTS:
        row_sum = _sum_sequentially(term_rows)
    elif is_summed_in_parts(reduced_axes, x.ndim):
        row_sum = _sum_in_parts(term_rows)
    else:  # ONNX Runtime starts from 0.0, which changes only a sum of -0.0.
        row_sum = _sum_sequentially(term_rows) + x.dtype.type(
            0 if reduced_and_other_sizes[1] > 1 else -0.0
        )
    return np.asarray(row_sum.reshape(kept_shape))


def _sum_sequentially(rows: Array) -> Array:
    if not len(rows):
        return np.zeros(rows.shape[1:], rows.dtype)
    running_sum = np.array(rows[0])
    for row in rows[1:]:
        running_sum += row
    return running_sum


def _sum_in_parts(rows: Array) -> Array:
    partial_sums = np.zeros((PARTIAL_SUM_COUNT, *rows.shape[1:]), rows.dtype)
    for begin in range(0, len(rows), PARTIAL_SUM_COUNT):
        row_block = rows[begin : begin + PARTIAL_SUM_COUNT]
        partial_sums[: len(row_block)] += row_block
    while len(partial_sums) > 1:
        half_size = len(partial_sums) // 2
        partial_sums = partial_sums[:half_size] + partial_sums[half_size:]
    return np.asarray(partial_sums[0])
