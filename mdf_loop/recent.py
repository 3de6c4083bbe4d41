"""Things that cost time to make, kept by what they were made for, but not too many of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from mdf_loop.locks import ForkSafeLock

_V = TypeVar("_V")


class Recent(Generic[_V]):
    """Values by key, of which the one goes that was not used for longest when there are too many.

    Several threads may use it at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[Hashable, _V] = {}
        self._lock = ForkSafeLock()
        self._last: tuple[Hashable, _V] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> tuple[_V, ...]:
        """All that are kept, the one that was used last at the end."""
        with self._lock:
            return tuple(self._values.values())

    def get(self, key: Hashable) -> _V | None:
        """The value, if it is kept."""
        last = self._last
        if last is not None and last[0] == key:  # most calls are like the one before
            return last[1]
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value  # the last one used is the last one
                self._last = (key, value)
            return value

    def put(self, key: Hashable, value: _V) -> None:
        """Keep a value."""
        with self._lock:
            self._values.pop(key, None)
            if len(self._values) >= self._limit:
                del self._values[next(iter(self._values))]
            self._values[key] = value
            self._last = (key, value)
