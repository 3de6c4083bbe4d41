"""Errors that state the new names of renamed public attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def renamed_attributes(names: Mapping[str, str]) -> Callable[[Any, str], NoReturn]:
    """Return a `__getattr__` that raises an error with the new name of a renamed attribute.

    Args:
        names: New name of each former attribute.
    """

    def raise_error(self: Any, name: str) -> NoReturn:
        owner = type(self).__name__
        if name in names:
            raise AttributeError(f"'{owner}.{name}' is now '{owner}.{names[name]}'")
        raise AttributeError(f"'{owner}' object has no attribute '{name}'", name=name, obj=self)

    return raise_error
