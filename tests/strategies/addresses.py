"""Arrays that begin at chosen addresses."""

from __future__ import annotations

import numpy as np

LINE = 64
"""Bytes: from where to where addresses are counted."""


def shifted(array: np.ndarray, by: int) -> np.ndarray:
    """A copy of an array that begins `by` elements behind an address that is a multiple of 64."""
    size = array.itemsize
    room = np.empty(array.size + 2 * LINE // size, array.dtype)
    begin = (-room.ctypes.data // size) % (LINE // size) + by
    copy = room[begin : begin + array.size].reshape(array.shape)
    copy[...] = array
    return copy
