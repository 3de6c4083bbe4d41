"""Number of repetitions of a test: few in the test suite, many in `make soak`."""

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


def times(few: int, many: int) -> int:
    """Return the number of repetitions of a test with the mark `soak`."""
    return many if soaking() else few


def some(values: Iterable[T], one_in: int) -> list[T]:
    """Return a fixed random sample of the values of a `soak` test, or all values in `make soak`."""
    every = list(values)
    if soaking():
        return every
    indices = random.Random(0).sample(range(len(every)), math.ceil(len(every) / one_in))
    return [every[k] for k in sorted(indices)]
