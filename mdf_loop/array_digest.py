"""Digests that identify the elements of arrays without a second copy of large ones."""

from __future__ import annotations

import hashlib

import numpy as np

from mdf_loop.ir import Array

_MAX_UNHASHED_BYTES = 1 << 16
"""Size in bytes up to which the bytes of an array serve as its digest."""


def array_digest(array: Array) -> bytes:
    """Return the bytes of an array's elements, or a hash of these bytes for large arrays.

    Two arrays of one dtype and shape have equal digests if all their bits are equal. The digest of an
    array of objects is meaningless.
    """
    if array.nbytes <= _MAX_UNHASHED_BYTES:
        return array.tobytes()
    flat_bytes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.blake2b(flat_bytes.data).digest()
