"""Conversion of user-supplied values and of default values in the document to values of input ports.

The value of a port is an array, a list of arrays (a sequence), or None (an absent optional value). No number
is rounded silently: a number that the port's type cannot represent is refused.
"""

from __future__ import annotations

import math

import numpy as np

from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.checked_cast import cast_checked
from mdf_loop.document.parts import DocumentValue, InputPort
from mdf_loop.document.stated_types import stated_dtype
from mdf_loop.errors import InputError, LoopError, ModelError
from mdf_loop.ir import Array, Data, Value
from mdf_loop.ir.types import (
    dtype_name,
    inner_dtype,
    is_optional,
    is_sequence,
    is_tensor,
    kind_of,
)
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.sequences import lower_known_data

MAX_DEFAULT_ELEMENTS = 10**8
"""Maximum number of elements of an input that defaults to zeros."""


def convert_input(
    port: InputPort, value: DocumentValue, precision: str, name: str, where: str
) -> Data:
    """Convert a user-supplied value to the value of a port."""
    dtype = stated_dtype(port, precision)
    description = f"the input '{name}'"
    input_data = _convert_to_type(value, dtype, description, where, InputError)
    return (
        cast_checked(input_data, precision, description, where)
        if _follows_precision(input_data, dtype)
        else input_data
    )


def find_default(port: InputPort, precision: str, where: str) -> Data:
    """Return the default value of an input port as an array, sequence or None.

    The value is the port's default_value, else zeros (empty texts) of its shape, an empty sequence, or None.
    """
    return _convert_default(port, stated_dtype(port, precision), precision, where)


def _convert_default(port: InputPort, dtype: str | None, precision: str, where: str) -> Data:
    """Return the default value of a port in `dtype`, or as written in the document if `dtype` is None."""
    default_value = port.default_value
    description = f"the default_value of port '{port.id}'"
    if default_value is None:
        stated_shape = tuple(port.shape or ())
        if any(extent < 0 for extent in stated_shape):
            raise InputError(
                f"the input '{port.id}' must be given: its shape {list(stated_shape)} is open",
                where,
            )
        default_value = create_default(port, dtype, stated_shape, where)
    default_data = _convert_to_type(default_value, dtype, description, where, ModelError)
    if dtype is None and default_data.dtype.kind in "US":
        raise ModelError(
            f"{description} must be a number or a list of numbers, not {default_value!r}", where
        )
    return (
        cast_checked(default_data, precision, description, where, ModelError)
        if _follows_precision(default_data, dtype)
        else default_data
    )


def create_default(port: InputPort, dtype: str | None, shape: tuple[int, ...], where: str) -> Data:
    """Return the default value for a type and shape: zeros, empty texts, an empty sequence, or None.

    Raises:
        InputError: If the array would have more than `MAX_DEFAULT_ELEMENTS` elements.
    """
    if math.prod(shape) > MAX_DEFAULT_ELEMENTS:
        raise InputError(
            f"the input '{port.id}' must be given: its shape {list(port.shape or ())} is large",
            where,
        )
    if dtype is None or (is_tensor(dtype) and dtype != "string"):
        return np.zeros(shape, np.int64)
    if dtype == "string":
        return np.full(shape, "", object)
    return [] if is_sequence(dtype) else None


def lower_default(b: ModelBuilder, port: InputPort, where: str) -> Value:
    """Return the default_value of an input port as a program value.

    Numbers keep the dtype in which they are written, like values from an edge. A plain number is weak.
    """
    dtype = stated_dtype(port, b.options.precision)
    if dtype is not None and (dtype == "string" or not is_tensor(dtype)):
        return lower_known_data(b, dtype, find_default(port, b.options.precision, where))
    is_plain_number = isinstance(port.default_value, bool | int | float)
    return b.constant(
        _convert_default(port, None, b.options.precision, where), weak=is_plain_number
    )


def _follows_precision(data: Data, dtype: str | None) -> bool:
    """Return True if a float64 value of a port without a stated dtype adopts the compiled precision."""
    return dtype is None and bool(data.dtype == np.float64)


def _convert_to_type(
    value: DocumentValue, dtype: str | None, description: str, where: str, error: type[LoopError]
) -> Data:
    """Convert a value to the stated dtype of an input port."""
    if dtype is None or is_tensor(dtype):
        return _convert_to_array(value, dtype, description, where, error)
    if is_optional(dtype):
        return (
            None
            if value is None
            else _convert_to_type(value, inner_dtype(dtype), description, where, error)
        )
    if not isinstance(value, list | tuple):
        raise error(
            f"{description} must be a list of arrays, not {_abbreviate(value)}",
            where,
            f"it is {dtype}: give one array for each member, e.g. [[1.0], [1.0, 2.0]]",
        )
    member_dtype = inner_dtype(dtype)
    return [
        _convert_to_array(element, member_dtype, f"member {k} of {description}", where, error)
        for k, element in enumerate(value)
    ]


def _convert_to_array(
    value: DocumentValue, dtype: str | None, description: str, where: str, error: type[LoopError]
) -> Array:
    """Convert a value to an array of the stated dtype of an input port."""
    try:
        array = as_supported_array(value, description, where, error)
    except Ragged:
        raise error(
            f"{description} is ragged: its rows have different lengths",
            where,
            "of a port that takes a sequence say so: type: sequence(float32)",
        ) from None
    if dtype == "string":
        return _convert_to_texts(array, description, where, error)
    if array.dtype.kind == "O" and _has_only_integers(array):
        raise error(f"{description} does not fit into 64 bits: {_abbreviate(value)}", where)
    if not _is_numeric(array) and not (array.dtype.kind in "US" and dtype is None):
        raise error(
            f"{description} must be a number or a list of numbers, not {_abbreviate(value)}", where
        )
    if dtype is None or dtype_name(array) == dtype:
        return array
    converted_array = cast_checked(array, dtype, description, where, error)
    if kind_of(dtype) in "iub" and not np.array_equal(converted_array.astype(array.dtype), array):
        raise error(
            f"{description} must be {dtype}, but {_abbreviate(array.tolist())} is not", where
        )
    return converted_array


def _convert_to_texts(array: Array, description: str, where: str, error: type[LoopError]) -> Array:
    """Convert an array to an array of texts.

    Raise an error if an element is not a text.
    """
    texts = array.astype(object)
    if array.size and not all(isinstance(text, str) for text in texts.flat):
        raise error(
            f"{description} must be text or a list of texts, not {_abbreviate(array.tolist())}",
            where,
        )
    return texts


def _is_numeric(array: Array) -> bool:
    """Return True for an array of booleans or numbers."""
    return array.dtype.kind in "biuf" or dtype_name(array) == "bfloat16"


def _has_only_integers(array: Array) -> bool:
    """Return True for a non-empty object array of integers."""
    return array.size > 0 and all(isinstance(element, int) for element in array.flat)


def _abbreviate(value: DocumentValue) -> str:
    """Return a value as a short text for error messages."""
    value_text = repr(value) if value is not None else "nothing"
    return value_text if len(value_text) <= 60 else value_text[:57] + "..."
