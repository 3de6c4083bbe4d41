"""Fast check whether a list contains only numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NUMBER_TYPES = frozenset({bool, int, float, complex})


def contains_only_numbers(values: Iterable[Any]) -> bool:
    """Return True if all elements are Python numbers (bool, int, float or complex)."""
    return _NUMBER_TYPES.issuperset(map(type, values))
