"""The functions an expression may call: Python's builtins, `math.` and `numpy.`.

A family is a file; it adds its functions with `@names("numpy.exp", "math.exp")`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import ExpressionError, LoopError, UnknownFunctionError
from mdf_loop.lower.operators import Term


class Function(Protocol):
    """A function of an expression: the builder, then the arguments as written."""

    def __call__(self, b: Builder, /, *args: Term, **kwargs: Term) -> Term:
        """The result of the call."""
        ...


_FUNCTIONS: dict[str, Function] = {}

constants: dict[str, float] = {
    f"{module}.{name}": value
    for module in ("math", "numpy")
    for name, value in {"pi": math.pi, "e": math.e, "inf": np.inf, "nan": np.nan}.items()
} | {"math.tau": math.tau}
"""Named numbers."""

_F = TypeVar("_F", bound=Callable[..., Term])


def names(*spellings: str) -> Callable[[_F], _F]:
    """Register a function under these names; a name taken twice is a programming error."""

    def register(call: _F) -> _F:
        for spelling in spellings:
            if spelling in _FUNCTIONS:
                raise ValueError(f"the function '{spelling}' is defined twice")
            _FUNCTIONS[spelling] = call
        return call

    return register


def function(name: str) -> Function:
    """The function of that name, or an error with a suggestion."""
    if name not in _FUNCTIONS:
        if name == "random" or ".random" in name:
            raise ExpressionError(
                f"'{name}' draws random numbers, which a compiled expression cannot do",
                hint="give the noise as an input, or run the model with modeci_mdf's own engine",
            )
        close = difflib.get_close_matches(name, _FUNCTIONS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else ""
        qualified = [f for f in (f"numpy.{name}", f"math.{name}") if f in _FUNCTIONS]
        raise UnknownFunctionError(
            f"unknown function '{name}'", hint=f"write '{qualified[0]}'" if qualified else hint
        )
    return _FUNCTIONS[name]


def function_names() -> tuple[str, ...]:
    """Every function an expression may call."""
    return tuple(sorted(_FUNCTIONS))


__all__ = ["Function", "LoopError", "constants", "function", "function_names", "names"]
