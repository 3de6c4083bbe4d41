"""Public functions whose tracebacks end at the user's line.

An error of this package that leaves a public call describes a mistake in the model or in the call. Its
traceback shows the frames of the caller only. All other exceptions keep their frames, since those are bugs
of this package. With `MDF_LOOP_TRACEBACK=1` in the environment, errors of this package keep their frames,
too.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar

from mdf_loop.errors import LoopError

TRACEBACK_VARIABLE = "MDF_LOOP_TRACEBACK"
"""Environment variable that lets errors keep the frames of this package, if it is neither empty nor 0."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type[Any])

_PUBLIC_OPERATORS = ("__call__", "__getitem__")


def public_call(function: _Function) -> _Function:
    """Decorate a function so that tracebacks of this package's errors end at the user's line."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except LoopError as error:
            discard_frames(error)
            raise  # without an expression: this adds no frame to the traceback

    return mark_public(call)  # type: ignore[return-value]


def discard_frames(error: LoopError) -> None:
    """Remove the frames of this package from an error, unless the environment requests them."""
    if os.environ.get(TRACEBACK_VARIABLE, "0") in ("", "0"):
        error.__traceback__ = error.__cause__ = error.__context__ = None


def mark_public(function: _Function) -> _Function:
    """Mark a function that discards the frames of this package itself, and return it."""
    vars(function)["is_public_call"] = True
    return function


def public_calls(cls: _Class) -> _Class:
    """Decorate a class so that tracebacks from its public methods end at the user's line."""
    for name, member in tuple(vars(cls).items()):
        is_public = not name.startswith("_") or name in _PUBLIC_OPERATORS
        if inspect.isfunction(member) and is_public and "is_public_call" not in vars(member):
            setattr(cls, name, public_call(member))
    return cls
