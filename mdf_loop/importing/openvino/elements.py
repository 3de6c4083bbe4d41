"""Conversion of element types and shapes of an OpenVINO IR file to dtypes and shapes.

Source: OpenVINO IR versions 10 and 11; attributes `element_type`, `precision`, `shape`, `<dim>`.
"""

from __future__ import annotations

import re
from math import prod
from typing import TypeAlias

import ml_dtypes
import numpy as np

from mdf_loop.errors import ModelError, UnsupportedError

Extents: TypeAlias = "tuple[int | None, ...] | None"
"""Shape in an OpenVINO IR file, with None for unknown extents, or None for an unknown shape."""

DTYPE_BY_ELEMENT_TYPE = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "boolean": "bool",
}
_DTYPE_BY_PRECISION = {
    "FP64": "float64",
    "FP32": "float32",
    "FP16": "float16",
    "BOOL": "bool",
    **{element_type.upper(): dtype for element_type, dtype in DTYPE_BY_ELEMENT_TYPE.items()},
}
UNKNOWN_ELEMENT_TYPES = (None, "dynamic", "undefined")
"""Values of `element_type` in a body for a type that is not specified."""

_UNKNOWN_PRECISIONS = ("", "UNSPECIFIED", "DYNAMIC", "UNDEFINED")
MAX_EXTENT = 2**40


def dtype_of_type(word: str, where: str) -> str:
    """Return the dtype of an OpenVINO `element_type`.

    Raises:
        UnsupportedError: MDF and ONNX Runtime lack the element type.
    """
    if word not in DTYPE_BY_ELEMENT_TYPE:
        raise UnsupportedError(
            f"the element type '{word}' cannot be read",
            where,
            f"read are: {', '.join(DTYPE_BY_ELEMENT_TYPE)}",
        )
    return DTYPE_BY_ELEMENT_TYPE[word]


def dtype_of_precision(word: str, where: str) -> str:
    """Return the dtype of a port's `precision`, or "" if the file does not specify the type."""
    if word.upper() in _UNKNOWN_PRECISIONS:
        return ""
    if word.upper() not in _DTYPE_BY_PRECISION:
        raise UnsupportedError(f"the precision '{word}' cannot be read", where)
    return _DTYPE_BY_PRECISION[word.upper()]


def numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    """Return the NumPy dtype of a dtype name, including `bfloat16`.

    bfloat16 is provided by `ml_dtypes`.
    """
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def read_integer(text: str | None, what: str, where: str) -> int:
    """Parse an integer from a text of the file.

    Raises:
        ModelError: The integer is missing or malformed.
    """
    if text is None:
        raise ModelError(f"'{what}' is missing", where)
    if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text, re.ASCII):
        raise ModelError(f"'{what}' must be a whole number, not '{text[:40]}'", where)
    return int(text)


def read_integers(numbers_text: str, what: str, where: str) -> tuple[int, ...]:
    """Parse integers that are separated by commas."""
    return (
        tuple(read_integer(number_text, what, where) for number_text in numbers_text.split(","))
        if numbers_text.strip()
        else ()
    )


def parse_shape(text: str, where: str) -> Extents:
    """Return the shape in an attribute such as `2,?,1..5,-1`, or None for an unknown rank."""
    if text.strip() in ("...", "?..."):
        return None
    return (
        tuple(_parse_extent(extent_text.strip(), where) for extent_text in text.split(","))
        if text.strip()
        else ()
    )


def _parse_extent(text: str, where: str) -> int | None:
    if text in ("?", "-1") or re.fullmatch(r"\d*\.\.\d*", text, re.ASCII):
        return None
    extent = read_integer(text, "shape", where)
    if not 0 <= extent <= MAX_EXTENT:
        raise ModelError(f"an axis cannot have the extent {extent}", where)
    return extent


def parse_port_shape(dims: list[str], where: str) -> Extents:
    """Return the shape in the `<dim>` elements of a port."""
    return tuple(_parse_extent(extent_text.strip(), where) for extent_text in dims)


def byte_count(shape: tuple[int, ...], dtype: str) -> int:
    """Return the number of bytes of an array with this shape and dtype."""
    return prod(shape) * numpy_dtype(dtype).itemsize
