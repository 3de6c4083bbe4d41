"""What tells the elements of an array from all others, without a second copy of a large one."""

from __future__ import annotations

import hashlib

import numpy as np

from mdf_loop.ir import Array

_FEW = 1 << 16
"""Bytes up to which elements are their own key."""


def bits(array: Array) -> bytes:
    """The bytes of an array's elements, or a digest of them where they are many.

    Of two arrays of one dtype and shape they are equal if all bits are. An array of objects has
    none that mean anything.
    """
    if array.nbytes <= _FEW:
        return array.tobytes()
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.blake2b(flat.data).digest()
