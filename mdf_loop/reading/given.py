"""Values that come as numbers, given to a run or written as a default -> arrays.

Nothing is changed silently: a number that its port's type cannot hold is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import InputError, LoopError, ModelError
from mdf_loop.ir import Array, Value
from mdf_loop.reading.port_types import given_dtype


def given_array(port: Any, value: Any, precision: str, name: str, where: str) -> Array:
    """The array of a value given to a port."""
    array = _fitted(value, given_dtype(port, precision), f"the input '{name}'", where, InputError)
    return _in_precision(array, port, precision)


def default_array(port: Any, precision: str, where: str) -> Array:
    """What a port holds when nothing was given: its default_value, or zeros of its shape."""
    value = port.default_value
    if value is None:
        if any(extent < 0 for extent in port.shape or ()):
            raise InputError(
                f"the input '{port.id}' must be given: its shape {list(port.shape)} is open", where
            )
        value = np.zeros(tuple(port.shape or ()), np.int64)
    what = f"the default_value of port '{port.id}'"
    array = _fitted(value, given_dtype(port, precision), what, where, ModelError)
    if array.dtype.kind in "US":
        raise ModelError(f"{what} must be a number or a list of numbers, not {value!r}", where)
    return _in_precision(array, port, precision)


def default_value(b: Builder, port: Any, where: str) -> Value:
    """The default_value of a port inside the model: a plain number of the document is weak."""
    plain = isinstance(port.default_value, bool | int | float)
    unstated = given_dtype(port, b.options.precision) is None
    return b.constant(default_array(port, b.options.precision, where), weak=plain and unstated)


def _in_precision(array: Array, port: Any, precision: str) -> Array:
    """float64 that no port states follows the compilation's precision."""
    unstated = given_dtype(port, precision) is None
    return array.astype(precision) if unstated and array.dtype == np.float64 else array


def _fitted(value: Any, dtype: str | None, what: str, where: str, error: type[LoopError]) -> Array:
    """A value as an array of the stated dtype."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise error(f"{what} is ragged: its rows have different lengths", where) from None
    if array.dtype.kind == "O" and _is_whole(array):
        raise error(f"{what} does not fit into 64 bits: {_shown(value)}", where)
    if array.dtype.kind not in "biuf" and not (array.dtype.kind in "US" and dtype is None):
        raise error(f"{what} must be a number or a list of numbers, not {_shown(value)}", where)
    if dtype is None or array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        stated = array.astype(dtype)
    whole_numbers = np.dtype(dtype).kind in "iub"
    if whole_numbers and not np.array_equal(stated.astype(array.dtype), array):
        raise error(f"{what} must be {dtype}, but {_shown(array.tolist())} is not", where)
    return stated


def _is_whole(array: Array) -> bool:
    return array.size > 0 and all(isinstance(entry, int) for entry in array.flat)


def _shown(value: Any) -> str:
    text = repr(value) if value is not None else "nothing"
    return text if len(text) <= 60 else text[:57] + "..."
