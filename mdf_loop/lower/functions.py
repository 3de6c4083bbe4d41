"""Registry of the functions that expressions may call, such as `numpy.` functions.

Each family is a file. It registers its functions with `@register_as("numpy.exp")`, and `lower/__init__.py`
imports it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from msgspec import Struct

from mdf_loop.errors import UnknownFunctionError, UnsupportedError
from mdf_loop.lower.arguments import Argument, Parameters
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import Term

_F = TypeVar("_F", bound=Callable[..., Term])


class LoweredFunction(Struct, frozen=True):
    """Function that expressions may call, with its lowering and its signature."""

    lower: Callable[..., Term]
    signature: Parameters

    def __call__(
        self, b: ModelBuilder, arguments: list[Argument], keywords: dict[str, Argument]
    ) -> Term:
        """Lower one call of the function, and return the result."""
        positional_arguments, keyword_arguments = self.signature.read(b, arguments, keywords)
        return self.lower(b, *positional_arguments, **keyword_arguments)


FUNCTIONS: dict[str, LoweredFunction] = {}
"""Registered functions by name."""

constants: dict[str, float] = {
    f"{module}.{name}": value
    for module in ("math", "numpy")
    for name, value in {"pi": math.pi, "e": math.e, "inf": np.inf, "nan": np.nan}.items()
} | {"math.tau": math.tau, "numpy.euler_gamma": np.euler_gamma}
"""Named constants such as `math.pi`."""

_SEED_HINT = "the seed is given to the run: seed=1, --seed 1"
_GENERATOR_REFUSAL = ("makes a generator", f"call e.g. numpy.random.normal itself; {_SEED_HINT}")
_NO_OPERATOR_REFUSAL = ("is no operation of ONNX, nor an exact composition of some", "")
_LIST_REFUSAL = ("gives a list of arrays", "write slices, e.g. x[:3]")
_MISSING_DISTRIBUTIONS = (
    "has no composition of exact operations that takes a fixed number of words",
    "the distributions that can be drawn are in docs/reference/noise.md",
)
UNSUPPORTED_FUNCTIONS = {
    **{f"{module}.seed": ("sets a seed", _SEED_HINT) for module in ("numpy.random", "random")},
    **{
        f"numpy.random.{name}": _MISSING_DISTRIBUTIONS
        for name in (
            *("hypergeometric", "logseries", "multinomial", "multivariate_hypergeometric"),
            *("negative_binomial", "noncentral_chisquare", "noncentral_f", "vonmises", "zipf"),
        )
    },
    "random.vonmisesvariate": _MISSING_DISTRIBUTIONS,
    "random.binomialvariate": _MISSING_DISTRIBUTIONS,
    "numpy.random.default_rng": _GENERATOR_REFUSAL,
    "numpy.random.RandomState": _GENERATOR_REFUSAL,
    "numpy.empty": ("has no defined value", "write numpy.zeros"),
    "numpy.empty_like": ("has no defined value", "write numpy.zeros_like"),
    "numpy.split": _LIST_REFUSAL,
    "numpy.array_split": _LIST_REFUSAL,
    "numpy.nonzero": ("gives as many numbers as it finds", "write numpy.where(c, x, y)"),
    **{
        f"numpy.{name}": _NO_OPERATOR_REFUSAL
        for name in (
            *("bitwise_and", "bitwise_or", "convolve", "correlate", "cumprod", "gradient", "i0"),
            *("interp", "linalg.eig", "linalg.inv", "linalg.solve", "linalg.svd", "spacing"),
            *("nextafter", "percentile", "quantile", "unwrap", "fft.fft", "frexp", "ldexp"),
        )
    },
    **{
        f"math.{name}": _NO_OPERATOR_REFUSAL
        for name in ("frexp", "ldexp", "isqrt", "fma", "sumprod")
    },
}
"""Reason and hint for each function that cannot be compiled. Remove the entry of a new function."""


def register_as(*spellings: str) -> Callable[[_F], _F]:
    """Return a decorator that registers a function for expressions under one or more new names."""

    def register(call: _F) -> _F:
        for spelling in spellings:
            if spelling in FUNCTIONS:
                raise ValueError(f"the function '{spelling}' is defined twice")
            FUNCTIONS[spelling] = LoweredFunction(call, Parameters(spelling, call))
        return call

    return register


def function(name: str) -> LoweredFunction:
    """Return the registered function of a name, or raise an error with a suggestion."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in UNSUPPORTED_FUNCTIONS:
        reason, hint = UNSUPPORTED_FUNCTIONS[name]
        raise UnsupportedError(f"'{name}' {reason}, so it cannot be compiled", hint=hint)
    raise UnknownFunctionError(f"unknown function '{name}'", hint=_suggest_function(name))


def _suggest_function(name: str) -> str:
    """Return a hint for an unknown function: the missing module, or a similar name."""
    unprefixed_name = name.removeprefix("np.")
    for qualified_name in (unprefixed_name, f"numpy.{unprefixed_name}", f"math.{unprefixed_name}"):
        if qualified_name in FUNCTIONS or qualified_name in constants:
            return f"write '{qualified_name}'"
    similar_names = difflib.get_close_matches(name, FUNCTIONS, n=1)
    return f"did you mean '{similar_names[0]}'?" if similar_names else ""


def qualified_hint(name: str) -> str:
    """Return a hint such as `write 'numpy.pi'` for a name without its module, or ""."""
    hint = _suggest_function(name)
    return hint if hint.startswith("write") else ""


def function_names() -> tuple[str, ...]:
    """Return the names of all functions that an expression may call."""
    return tuple(sorted(FUNCTIONS))
