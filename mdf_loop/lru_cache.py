"""Least-recently-used cache for objects that are expensive to create."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from mdf_loop.locks import ForkSafeLock

_V = TypeVar("_V")


class LRUCache(Generic[_V]):
    """Cache with a maximum size, which discards the value that was least recently used.

    Several threads may use the cache at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[Hashable, _V] = {}
        self._lock = ForkSafeLock()
        self._latest_entry: tuple[Hashable, _V] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> tuple[_V, ...]:
        """Return all cached values, the most recently used last."""
        with self._lock:
            return tuple(self._values.values())

    def get(self, key: Hashable) -> _V | None:
        """Return the cached value of a key, or None if the cache has no such key."""
        latest_entry = self._latest_entry
        # fast path: most calls repeat the last key
        if latest_entry is not None and latest_entry[0] == key:
            return latest_entry[1]
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value  # to the end: most recently used
                self._latest_entry = (key, value)
            return value

    def put(self, key: Hashable, value: _V) -> None:
        """Cache the value of a key, and discard the least recently used value of a full cache."""
        with self._lock:
            self._values.pop(key, None)
            if len(self._values) >= self._limit:
                del self._values[next(iter(self._values))]
            self._values[key] = value
            self._latest_entry = (key, value)
