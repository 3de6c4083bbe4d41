"""Conversion of user-supplied array-likes to supported NumPy arrays.

    as_supported_array(array of >f8, "the input 'x'")    the numbers in the byte order of this machine
    as_supported_array(masked array, "the input 'x'")    an error: models have no missing elements
    as_supported_array(array of longdouble, ...)         an error: no operation supports longdouble
    as_supported_array(a Quantity in mV, ...)            an error: the unit was not converted before

Arrays of texts and of other objects are returned. The caller must refuse them where necessary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.errors import InputError, LoopError
from mdf_loop.ir import Array
from mdf_loop.number_check import contains_only_numbers
from mdf_loop.quantities import MAX_AXES, Unit, convert

_MAX_ITEM_BYTES = {"f": 8, "c": 16}
"""Largest size in bytes of a float and of a complex number in ONNX, by NumPy's kind."""


class Ragged(Exception):  # noqa: N818 - the caller raises the error for the user
    """Exception for a nested list that is no array, as its rows have different lengths."""


def as_supported_array(
    value: Any, what: str, where: str = "", error: type[LoopError] = InputError
) -> Array:
    """Convert an array-like to a NumPy array that models support.

    Args:
        value: Array, or any object that NumPy converts to an array.
        what: Name of the value in errors, such as `the input 'x'`.
        where: Place of the value in the model.
        error: Class of the errors that are raised.

    Raises:
        Ragged: The value is a list whose rows have different lengths.
        LoopError: The value has a unit, is masked, has numbers wider than 64 bits, or cannot be converted
            to an array. The error has the class `error`.
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
    """Return an array in native byte order, or raise an error if its numbers are too wide.

    The numbers are too wide if they have more than 64 bits.

    Raises:
        LoopError: The numbers are wider than 64 bits. The error has the class `error`.
    """
    if is_too_wide(array):
        raise error(
            f"{what} is {array.dtype}: no model computes with numbers so wide",
            where,
            "give float64, e.g. array.astype(float)",
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_too_wide(array: Array) -> bool:
    """Return True if the numbers of an array have more bits than models support."""
    element_size = array.dtype.itemsize
    return element_size > _MAX_ITEM_BYTES.get(array.dtype.kind, element_size)


def _is_ndarray_subclass(value: Any) -> bool:
    """Return True for an instance of a subclass of ndarray, such as a masked array."""
    return type(value) is not np.ndarray and isinstance(value, np.ndarray)


def _is_masked(value: Any, depth: int = 0) -> bool:
    """Return True for a masked array, or for a list that contains a masked array."""
    if not isinstance(value, list | tuple) or depth == MAX_AXES or contains_only_numbers(value):
        return _is_ndarray_subclass(value) and isinstance(value, np.ma.MaskedArray)
    return any(_is_masked(element, depth + 1) for element in value)
