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


def mapping(argument: Any, what: str, example: str) -> dict[str, Any]:
    """Check that an argument is a mapping, and return it as a dict with text keys.

    None becomes an empty dict.

    Args:
        argument: The argument of the user.
        what: Name of the argument in errors.
        example: Valid call that errors show as a hint.

    Raises:
        InputError: The argument is no mapping, or a key is no text.
    """
    if argument is None:
        return {}
    if type(argument) is not dict and not isinstance(argument, Mapping):
        raise _type_error(what, "no mapping of names to values", argument, example)
    if not _TEXT_TYPES.issuperset(map(type, argument)):
        for key in argument:
            if not isinstance(key, str):
                raise _type_error(what, "a mapping in which a name is no text", key, example)
    return dict(argument)


_TEXT_TYPES = frozenset((str,))


def inputs(argument: Any) -> dict[str, Any]:
    """Return the user's argument `inputs` as a dict from port ids to values, or {} for None."""
    return mapping(argument, "inputs", "inputs={'port': 1.5}")


def settings(argument: Any) -> dict[str, Any]:
    """Return the user's argument `set` as a dict from parameter names to values, or {} for None."""
    return mapping(argument, "set", "set={'node.parameter': 0.5}")


def names(argument: Any, what: str) -> tuple[str, ...]:
    """Return the names in an argument that is a list of texts or a single text, as a tuple.

    Raises:
        InputError: The argument is neither a text nor a list of texts.
    """
    if type(argument) is tuple and not argument:
        return ()
    name_list = (argument,) if isinstance(argument, str) else argument
    if not isinstance(name_list, Iterable) or not all(
        isinstance(name, str) for name in (*name_list,)
    ):
        raise _type_error(what, "no list of names", argument, f"{what}=['node.port']")
    return tuple(name_list)


def text(argument: Any, what: str, example: str) -> str:
    """Return an argument that must be a text, or raise InputError.

    Raises:
        InputError: The argument is no text.
    """
    if not isinstance(argument, str):
        raise _type_error(what, "no text", argument, example)
    return argument


def flag(argument: Any, what: str) -> bool:
    """Convert an argument that must be True or False to a bool, or raise InputError.

    Raises:
        InputError: The argument is neither True nor False.
    """
    if type(argument).__name__ not in ("bool", "bool_"):  # bools of Python and NumPy
        raise _type_error(what, "neither True nor False", argument, f"{what}=True")
    return bool(argument)


def word(argument: Any, what: str, allowed: Collection[str]) -> str:
    """Return an argument that must be one of the allowed words, or raise InputError.

    Raises:
        InputError: The argument is none of these words.
    """
    if not isinstance(argument, str) or argument not in allowed:
        raise InputError(
            f"{what} cannot be {_shorten(argument)}", hint=f"use {' or '.join(allowed)}"
        )
    return argument


def positive_integer(argument: Any, what: str) -> int:
    """Convert an argument that must be a whole number above 0 to an int, or raise InputError.

    Raises:
        InputError: The argument is no whole number above 0, or exceeds 64 bits.
    """
    if not is_whole(argument) or not 1 <= argument <= np.iinfo(np.int64).max:
        raise InputError(f"{what} must be a whole number above 0, not {argument!r}"[:200])
    return int(argument)


def is_whole(number: Any) -> bool:
    """Return True for a Python or NumPy integer, but not for a bool."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _type_error(what: str, why: str, argument: Any, example: str) -> InputError:
    """Return the error for an argument of a wrong type."""
    return InputError(f"{what} is {why}: {_shorten(argument)}", hint=f"e.g. {example}")


def _shorten(argument: Any) -> str:
    """Return an argument as text of at most 150 characters."""
    return repr(argument)[:150]
