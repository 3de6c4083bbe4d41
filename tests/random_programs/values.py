"""Random arrays of every dtype in random programs, with special numbers."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from mdf_loop.ir.types import numpy_dtype

Extents = tuple[int | str, ...]
"""A shape; a string is a symbolic extent, known only at run time."""

FLOATS = ("float64", "float32")
SIGNED = ("int64", "int32", "int16", "int8")
UNSIGNED = ("uint64", "uint32", "uint16", "uint8")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS

_HARD_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.0, 0.1, 1e-3),
    *(np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e-45, 1.1e-38),
    *(1.7e308, -1.7e308, 3.4e38, -3.4e38, 65504.0, 65536.0, 16777217.0, 9007199254740993.0),
    *(127.5, 128.0, -128.5, 255.0, 256.0, -1e-20, 2147483647.0, 2147483648.0, 1e19, -1e19),
)


def random_array(rng: random.Random, dtype: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return an array of ordinary numbers, small integers, or special numbers."""
    size = int(np.prod(shape))
    uniform_number = rng.random()
    numbers: list[float] | list[int]
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(size)], bool).reshape(shape)
    if dtype in INTEGERS:
        return _integers(rng, dtype, size, uniform_number).reshape(shape)
    if uniform_number < 0.5:
        scale = rng.choice((0.1, 1.0, 1.0, 4.0, 30.0))
        numbers = [rng.gauss(0, scale) for _ in range(size)]
    elif uniform_number < 0.65:
        numbers = [rng.randint(-4, 5) for _ in range(size)]
    else:
        numbers = [
            rng.choice(_HARD_FLOATS) if rng.random() < 0.5 else rng.gauss(0, 1) for _ in range(size)
        ]
    with np.errstate(all="ignore"):
        return np.array(numbers, np.float64).astype(numpy_dtype(dtype)).reshape(shape)


def _integers(rng: random.Random, dtype: str, size: int, form: float) -> NDArray[np.generic]:
    limits = np.iinfo(dtype)
    low = max(int(limits.min), -4)
    if form < 0.65:
        return np.array([rng.randint(low, 7) for _ in range(size)], dtype)
    hard = (limits.min, limits.max, limits.min + 1, limits.max - 1, limits.max // 2, 0, 1, 2, 3, 63)
    return np.array([int(rng.choice(hard)) for _ in range(size)], dtype)


def joined(left: Extents, right: Extents) -> Extents | None:
    """Return the shape to which two shapes broadcast, or None if it is not certain."""
    extents: list[int | str] = []
    for k in range(1, max(len(left), len(right)) + 1):
        one = left[-k] if k <= len(left) else 1
        other = right[-k] if k <= len(right) else 1
        if one != other and 1 not in (one, other):
            return None
        extents.insert(0, other if one == 1 else one)
    return tuple(extents)


def is_fixed(shape: Extents) -> bool:
    """Return True if every extent is a number."""
    return all(isinstance(extent, int) for extent in shape)
