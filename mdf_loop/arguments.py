"""Checks of the types of arguments of Python functions.

mapping([1], "set", "set={'node.parameter': 0.5}")
InputError: set is no mapping of names to values: [1]
hint: e.g. set={'node.parameter': 0.5}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import InputError


def mapping(given: Any, what: str, example: str) -> dict[str, Any]:
    """Return a mapping by name. None is an empty mapping.

    Raises:
        InputError: it is no mapping, or a name in it is no text.
    """
    if given is None:
        return {}
    if type(given) is not dict and not isinstance(given, Mapping):
        raise _wrong(what, "no mapping of names to values", given, example)
    if not _TEXT.issuperset(map(type, given)):
        for name in given:
            if not isinstance(name, str):
                raise _wrong(what, "a mapping in which a name is no text", name, example)
    return dict(given)


_TEXT = frozenset((str,))


def inputs(given: Any) -> dict[str, Any]:
    """Return the inputs of a model by port id. None is an empty mapping."""
    return mapping(given, "inputs", "inputs={'port': 1.5}")


def settings(given: Any) -> dict[str, Any]:
    """Return the values of parameters that are set. None is an empty mapping."""
    return mapping(given, "set", "set={'node.parameter': 0.5}")


def names(given: Any, what: str) -> tuple[str, ...]:
    """Return names from a list, or from one text.

    Raises:
        InputError: they are neither.
    """
    if type(given) is tuple and not given:
        return ()
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, Iterable) or not all(isinstance(name, str) for name in (*found,)):
        raise _wrong(what, "no list of names", given, f"{what}=['node.port']")
    return tuple(found)


def text(given: Any, what: str, example: str) -> str:
    """Return a text, or raise an error for any other type.

    Raises:
        InputError: it is none.
    """
    if not isinstance(given, str):
        raise _wrong(what, "no text", given, example)
    return given


def flag(given: Any, what: str) -> bool:
    """Return True or False, or raise an error for any other type.

    Raises:
        InputError: it is neither.
    """
    if type(given).__name__ not in ("bool", "bool_"):  # numpy's, too
        raise _wrong(what, "neither True nor False", given, f"{what}=True")
    return bool(given)


def word(given: Any, what: str, allowed: Collection[str]) -> str:
    """Return one of several allowed words.

    Raises:
        InputError: it is none of them.
    """
    if not isinstance(given, str) or given not in allowed:
        raise InputError(f"{what} cannot be {_shown(given)}", hint=f"use {' or '.join(allowed)}")
    return given


def whole(given: Any, what: str) -> int:
    """Return a whole number above 0.

    Raises:
        InputError: it is none, or larger than any array can be.
    """
    if not is_whole(given) or not 1 <= given <= np.iinfo(np.int64).max:
        raise InputError(f"{what} must be a whole number above 0, not {given!r}"[:200])
    return int(given)


def is_whole(number: Any) -> bool:
    """Return True for integers of Python and NumPy."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _wrong(what: str, why: str, given: Any, example: str) -> InputError:
    return InputError(f"{what} is {why}: {_shown(given)}", hint=f"e.g. {example}")


def _shown(given: Any) -> str:
    return repr(given)[:150]
