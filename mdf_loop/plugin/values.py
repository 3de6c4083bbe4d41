"""Values of modeci_mdf's engine and of Python callers: as arrays, by type, by content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop import outside
from mdf_loop.bits import bits
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.quantities import NO_UNIT, convert

_INT64 = np.iinfo(np.int64)


def is_plain(value: Any) -> bool:
    """Whether it is one of Python's own numbers, which take the dtype of what they meet."""
    return isinstance(value, int | float) and not isinstance(value, np.generic)


def is_whole(value: Any) -> bool:
    """Whether it is one of Python's own whole numbers (True and False are none)."""
    return is_plain(value) and isinstance(value, int) and not isinstance(value, bool)


def array_of(value: Any, name: str) -> Array:
    """The value as an array that ONNX Runtime takes.

    A whole number beyond 64 bits becomes one with a point: the engine made it of 1e30.
    """
    if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
        value = float(value)
    try:
        array = outside.array_of(value, f"'{name}'")
    except outside.Ragged:
        raise InputError(f"'{name}' is ragged: its rows have different lengths") from None
    if array.dtype.kind not in "biuf":
        shown = type(value).__name__ if array.dtype == object else array.dtype
        raise InputError(f"'{name}' must be a number or an array of numbers, not {shown}")
    return array


def without_unit(value: Any, name: str) -> Any:
    """Return a value with plain numbers in place of dimensionless Quantities.

    Raises:
        InputError: a Quantity in it has a dimension.
    """
    return convert(value, NO_UNIT, f"'{name}'")


def part_of(value: Any, positions: tuple[int, ...]) -> Any:
    """`value[p][q]...`."""
    for position in positions:
        value = value[position]
    return value


def type_of(value: Any) -> Any:
    """What a program is compiled for: the same for all values that one program can take."""
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype, value.shape)
    if isinstance(value, tuple):
        return tuple(type_of(part) for part in value)
    if isinstance(value, int):
        return (isinstance(value, bool), _INT64.min <= value <= _INT64.max)
    if value is None or is_plain(value):
        return type(value)
    try:
        array = np.asarray(value)
    except ValueError:
        return type(value)
    return (array.dtype, array.shape)


def content_of(body: Any) -> Any:
    """What tells one body from another: equal for equal documents, hashable."""
    if hasattr(body, "SerializeToString"):
        return body.SerializeToString(deterministic=True)
    if isinstance(body, Mapping):
        return ("dict", *((str(k), content_of(v)) for k, v in body.items()))
    if isinstance(body, list | tuple):
        return ("list", *(content_of(part) for part in body))
    if isinstance(body, np.ndarray) and body.dtype == object:
        return content_of(body.tolist())
    if isinstance(body, np.ndarray):
        return (str(body.dtype), body.shape, bits(body))
    if hasattr(body, "__attrs_attrs__"):
        fields = (attribute.name for attribute in body.__attrs_attrs__)
        return (type(body).__name__, *(content_of(getattr(body, name)) for name in fields))
    return (type(body).__name__, repr(body))
