"""How often something is tried: a few times in tests, many times by `make soak`."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def soaking() -> bool:
    """Return True if all cases of a test that is marked `soak` are tried."""
    return bool(os.environ.get("SOAK"))


def times(usual: int, soaked: int) -> int:
    """A number of tries for a test that is marked `soak`."""
    return soaked if soaking() else usual


def some(values: Iterable[T], one_in: int) -> list[T]:
    """One in so many of the values of a test that is marked `soak`, always the same; there all of them."""
    every = list(values)
    if soaking():
        return every
    indices = random.Random(0).sample(range(len(every)), math.ceil(len(every) / one_in))
    return [every[k] for k in sorted(indices)]
