"""Rows of arrays that are written out as lists: nothing is to be found in them but numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NUMBERS = frozenset({bool, int, float, complex})


def only_numbers(values: Iterable[Any]) -> bool:
    """Whether a list holds plain numbers alone, so that nobody need look at each of them."""
    return _NUMBERS.issuperset(map(type, values))
