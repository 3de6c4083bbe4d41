"""Conversion and comparison of values from modeci_mdf's engine and from Python callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop import array_conversion
from mdf_loop.array_digest import array_digest
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.quantities import NO_UNIT, convert

_INT64 = np.iinfo(np.int64)


def is_python_number(value: Any) -> bool:
    """Return True for a Python number, which adopts the dtype of the other operand."""
    return isinstance(value, int | float) and not isinstance(value, np.generic)


def is_python_int(value: Any) -> bool:
    """Return True if a value is a Python integer but not a bool."""
    return is_python_number(value) and isinstance(value, int) and not isinstance(value, bool)


def to_array(value: Any, name: str) -> Array:
    """Return a value as an array that ONNX Runtime accepts.

    An integer beyond 64 bits becomes a float, because the engine converts 1e30 to an integer.

    Raises:
        InputError: The value is ragged, or does not consist of numbers.
    """
    if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
        value = float(value)
    try:
        converted_array = array_conversion.as_supported_array(value, f"'{name}'")
    except array_conversion.Ragged:
        raise InputError(f"'{name}' is ragged: its rows have different lengths") from None
    if converted_array.dtype.kind not in "biuf":
        type_name = (
            type(value).__name__ if converted_array.dtype == object else converted_array.dtype
        )
        raise InputError(f"'{name}' must be a number or an array of numbers, not {type_name}")
    return converted_array


def remove_unit(value: Any, name: str) -> Any:
    """Return a value with dimensionless Quantities replaced by plain numbers.

    Raises:
        InputError: A Quantity in the value has a dimension.
    """
    return convert(value, NO_UNIT, f"'{name}'")


def select_part(value: Any, positions: tuple[int, ...]) -> Any:
    """Return the element of nested tuples at the positions p, q, ..., which is `value[p][q]...`."""
    for position in positions:
        value = value[position]
    return value


def type_of(value: Any) -> Any:
    """Return the type of a value as a hashable key: dtype and shape, or the types of a tuple's elements.

    Values of equal types can share a program.
    """
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype, value.shape)
    if isinstance(value, tuple):
        return tuple(type_of(tuple_part) for tuple_part in value)
    if isinstance(value, int):
        return (isinstance(value, bool), _INT64.min <= value <= _INT64.max)
    if value is None or is_python_number(value):
        return type(value)
    try:
        converted_array = np.asarray(value)
    except ValueError:
        return type(value)
    return (converted_array.dtype, converted_array.shape)


def hashable_key(body: Any) -> Any:
    """Return a hashable key that identifies the content of a loop body.

    Equal documents have equal keys.
    """
    if hasattr(body, "SerializeToString"):
        return body.SerializeToString(deterministic=True)
    if isinstance(body, Mapping):
        return ("dict", *((str(key), hashable_key(element)) for key, element in body.items()))
    if isinstance(body, list | tuple):
        return ("list", *(hashable_key(list_element) for list_element in body))
    if isinstance(body, np.ndarray) and body.dtype == object:
        return hashable_key(body.tolist())
    if isinstance(body, np.ndarray):
        return (str(body.dtype), body.shape, array_digest(body))
    if hasattr(body, "__attrs_attrs__"):
        field_names = (attribute.name for attribute in body.__attrs_attrs__)
        return (
            type(body).__name__,
            *(hashable_key(getattr(body, field_name)) for field_name in field_names),
        )
    return (type(body).__name__, repr(body))
