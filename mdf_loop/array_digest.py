"""Digests that identify the elements of arrays without a second copy of large ones."""

from __future__ import annotations

import hashlib

import numpy as np

from mdf_loop.ir import Array

_FEW = 1 << 16
"""Bytes up to which elements are their own key."""


def array_digest(array: Array) -> bytes:
    """Return the bytes of an array's elements, or a digest of them for large arrays.

    Of two arrays of one dtype and shape they are equal if all bits are. An array of objects has
    none that mean anything.
    """
    if array.nbytes <= _FEW:
        return array.tobytes()
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.blake2b(flat.data).digest()
