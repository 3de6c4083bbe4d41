"""Pool that reuses the memory of deleted arrays for new arrays.

    rows = pooled_array((1000, 100_000), numpy.dtype("float64"))

The operating system clears new memory page by page, which may take longer than the computation of the
array's content. So the memory of deleted large arrays is kept in a pool for later arrays of about the same
size. The pool is freed if an array of another size is requested, or if memory is short (`memory_limit`).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

MIN_POOLED_BYTES = 1 << 17
"""Least size in bytes of pooled memory. Python's allocator already reuses the memory of smaller arrays."""

MAX_POOL_BYTES = 1 << 28
"""Largest total size of the pool in bytes."""

_CACHE_LINE_BYTES = 64
"""Size of a cache line in bytes, to which arrays are aligned."""

_POOL: deque[npt.NDArray[np.uint8]] = deque()
"""Pool of reusable memory."""


class _PooledMemory:
    """Memory of an array, which returns to the pool when the array and its views are deleted."""

    def __init__(self, memory: npt.NDArray[np.uint8], size: int) -> None:
        self._memory = memory
        aligned_begin = -memory.ctypes.data % _CACHE_LINE_BYTES
        self.__array_interface__ = memory[aligned_begin : aligned_begin + size].__array_interface__

    def __del__(self, pool: deque[npt.NDArray[np.uint8]] = _POOL) -> None:
        memory = self._memory
        if (
            sum(pooled_memory.nbytes for pooled_memory in tuple(pool)) + memory.nbytes
            <= MAX_POOL_BYTES
        ):
            pool.append(memory)


def pooled_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an uninitialized array like `numpy.empty`, with memory from a pool if possible.

    Raises:
        MemoryError, ValueError: The array is too large.
    """
    byte_count = math.prod(shape) * dtype.itemsize
    if not MIN_POOLED_BYTES <= byte_count <= MAX_POOL_BYTES or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = _take_from_pool(byte_count + _CACHE_LINE_BYTES)
    if memory is None:
        free_pool()
        memory = np.empty(byte_count + _CACHE_LINE_BYTES, np.uint8)
    return np.asarray(_PooledMemory(memory, byte_count)).view(dtype).reshape(shape)


def _take_from_pool(size: int) -> npt.NDArray[np.uint8] | None:
    """Return pooled memory of at least `size` bytes and at most twice as many, or None."""
    for _ in range(len(_POOL)):
        try:
            memory = _POOL.popleft()
        except IndexError:  # another thread has emptied the pool
            return None
        if size <= memory.nbytes <= 2 * size:
            return memory
        _POOL.append(memory)
    return None


def free_pool() -> bool:
    """Free the pooled memory of deleted arrays, and return True if there was any."""
    has_pooled_memory = bool(_POOL)
    _POOL.clear()
    return has_pooled_memory
