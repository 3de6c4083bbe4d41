"""Arrays at memory addresses with a given alignment."""

from __future__ import annotations

import numpy as np

LINE = 64
"""Alignment in bytes from which offsets are counted."""


def shifted(array: np.ndarray, by: int) -> np.ndarray:
    """Return a copy of an array that begins `by` elements after an address that is a multiple of 64."""
    size = array.itemsize
    room = np.empty(array.size + 2 * LINE // size, array.dtype)
    begin = (-room.ctypes.data // size) % (LINE // size) + by
    copy = room[begin : begin + array.size].reshape(array.shape)
    copy[...] = array
    return copy
