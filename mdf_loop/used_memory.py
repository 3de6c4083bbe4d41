"""Reuse of the memory of arrays that were deleted.

    rows = array((1000, 100_000), numpy.dtype("float64"))

What the system gives anew it clears first, page by page: that may take longer than to compute what is
written there. So the memory of large arrays is kept when nobody has them any more, for the next ones of
about the same size. What is kept is given up when an array asks for memory of another size, and where
memory is short (`memory_limit`).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST = 1 << 17
"""Bytes from which on memory is kept: smaller arrays Python's own allocator has again at once."""

MOST = 1 << 28
"""The most bytes that are kept."""

_LINE = 64
"""Bytes of a line of the cache: where arrays begin."""

_KEPT: deque[npt.NDArray[np.uint8]] = deque()


class _PooledMemory:
    """Memory of one array and of all of its views."""

    def __init__(self, memory: npt.NDArray[np.uint8], size: int) -> None:
        self._memory = memory
        begin = -memory.ctypes.data % _LINE
        self.__array_interface__ = memory[begin : begin + size].__array_interface__

    def __del__(self, pool: deque[npt.NDArray[np.uint8]] = _KEPT) -> None:
        memory = self._memory
        if sum(each.nbytes for each in tuple(pool)) + memory.nbytes <= MOST:
            pool.append(memory)


def array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an uninitialized array like `numpy.empty`. A large one does not own its memory.

    Raises:
        MemoryError, ValueError: it is too large.
    """
    size = math.prod(shape) * dtype.itemsize
    if not LEAST <= size <= MOST or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = _taken(size + _LINE)
    if memory is None:
        give_up()
        memory = np.empty(size + _LINE, np.uint8)
    return np.asarray(_PooledMemory(memory, size)).view(dtype).reshape(shape)


def _taken(size: int) -> npt.NDArray[np.uint8] | None:
    """Return reusable memory of this size, or up to twice as large."""
    for _ in range(len(_KEPT)):
        try:
            memory = _KEPT.popleft()
        except IndexError:  # another thread was faster
            return None
        if size <= memory.nbytes <= 2 * size:
            return memory
        _KEPT.append(memory)
    return None


def give_up() -> bool:
    """Return reusable memory to the system, and report whether there was any."""
    something = bool(_KEPT)
    _KEPT.clear()
    return something
