"""Conversion of user-supplied array-likes to supported NumPy arrays.

    array_of(array of >f8, "the input 'x'")      the same numbers in the byte order of this machine
    array_of(masked array, "the input 'x'")      an error: a model knows no missing elements
    array_of(array of longdouble, ...)           an error: nothing here computes with it
    array_of(a Quantity in mV, ...)              an error: its unit was not converted before

What else is no number is left to who asks: some places take texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.errors import InputError, LoopError
from mdf_loop.ir import Array
from mdf_loop.number_check import contains_only_numbers
from mdf_loop.quantities import MAX_AXES, Unit, convert

_WIDEST = {"f": 8, "c": 16}
"""Bytes of the widest floats, and complex numbers, that ONNX has."""


class Ragged(Exception):  # noqa: N818 - no error yet: who asks knows what to say
    """List whose rows have different lengths, so that no array can represent it."""


def as_supported_array(
    value: Any, what: str, where: str = "", error: type[LoopError] = InputError
) -> Array:
    """Return a value as a supported array.

    Args:
        value: an array, or what numpy makes one of.
        what: what it is called in an error, such as `the input 'x'`.
        where: its place in the model.
        error: the kind of error.

    Raises:
        Ragged: it is a list that no array can be made of.
        LoopError: it has a unit, is masked, wider than 64 bits, or cannot be made an array; of the
            kind `error`.
    """
    value = convert(value, Unit(where=where), what, error)
    if _is_masked(value):
        raise error(
            f"{what} is masked: some of its elements may be missing",
            where,
            "fill them first, e.g. array.filled(0.0)",
        )
    try:
        array = np.asarray(value)
    except ValueError:
        raise Ragged from None
    except (TypeError, RuntimeError) as problem:
        raise error(f"{what} cannot be made an array: {problem}", where) from None
    return in_native_byte_order(array, what, where, error)


def in_native_byte_order(
    array: Array, what: str, where: str = "", error: type[LoopError] = InputError
) -> Array:
    """Return an array in the byte order of this machine.

    Raises:
        LoopError: its numbers are wider than 64 bits; of the kind `error`.
    """
    if is_too_wide(array):
        raise error(
            f"{what} is {array.dtype}: no model computes with numbers so wide",
            where,
            "give float64, e.g. array.astype(float)",
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_too_wide(array: Array) -> bool:
    """Return True if the numbers are wider than those that models compute with."""
    size = array.dtype.itemsize
    return size > _WIDEST.get(array.dtype.kind, size)


def _is_special(value: Any) -> bool:
    """Return True for an array of a special kind. Others need no `np.ma`, whose import is slow."""
    return type(value) is not np.ndarray and isinstance(value, np.ndarray)


def _is_masked(value: Any, depth: int = 0) -> bool:
    """Return True for a masked array, or a list that contains one."""
    if not isinstance(value, list | tuple) or depth == MAX_AXES or contains_only_numbers(value):
        return _is_special(value) and isinstance(value, np.ma.MaskedArray)
    return any(_is_masked(part, depth + 1) for part in value)
