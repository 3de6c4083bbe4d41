"""Property that is computed once for each object, without a lock.

Up to Python 3.11, `functools.cached_property` holds a lock while the property of any object of the class
is computed. A fork at that moment would leave the lock locked in the child process forever.
"""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

_V = TypeVar("_V")


class cached_property(functools.cached_property[_V]):  # noqa: N801 - a decorator, as Python's own
    """Property like `functools.cached_property` without a lock.

    Two threads may both compute the value.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _V: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | _V:
        if instance is None:
            return self
        assert self.attrname is not None
        property_value: _V = self.func(instance)
        vars(instance)[self.attrname] = property_value
        return property_value
