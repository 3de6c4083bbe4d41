"""Element types and shapes of an IR in our words.

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
"""A shape as an IR states it: None for an extent, or for the shape, that it leaves open."""

DTYPES = {
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
_PRECISIONS = {
    "FP64": "float64",
    "FP32": "float32",
    "FP16": "float16",
    "BOOL": "bool",
    **{word.upper(): dtype for word, dtype in DTYPES.items()},
}
OPEN_TYPES = (None, "dynamic", "undefined")
"""What `element_type` says where a body leaves it open."""

_OPEN = ("", "UNSPECIFIED", "DYNAMIC", "UNDEFINED")
LARGEST_EXTENT = 2**40


def dtype_of_type(word: str, where: str) -> str:
    """The dtype of an `element_type`.

    Raises:
        UnsupportedError: neither MDF nor ONNX Runtime has it.
    """
    if word not in DTYPES:
        raise UnsupportedError(
            f"the element type '{word}' cannot be read", where, f"read are: {', '.join(DTYPES)}"
        )
    return DTYPES[word]


def dtype_of_precision(word: str, where: str) -> str:
    """The dtype of a port's `precision`; empty if the file leaves it open."""
    if word.upper() in _OPEN:
        return ""
    if word.upper() not in _PRECISIONS:
        raise UnsupportedError(f"the precision '{word}' cannot be read", where)
    return _PRECISIONS[word.upper()]


def numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    """The numpy dtype of one of our words."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def whole(text: str | None, what: str, where: str) -> int:
    """A whole number that the file states.

    Raises:
        ModelError: there is none.
    """
    if text is None:
        raise ModelError(f"'{what}' is missing", where)
    if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text, re.ASCII):
        raise ModelError(f"'{what}' must be a whole number, not '{text[:40]}'", where)
    return int(text)


def wholes(text: str, what: str, where: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    return tuple(whole(part, what, where) for part in text.split(",")) if text.strip() else ()


def extents_of(text: str, where: str) -> Extents:
    """The shape that an attribute states: `2,?,1..5,-1`; `...` is one of unknown rank."""
    if text.strip() in ("...", "?..."):
        return None
    return tuple(_extent(part.strip(), where) for part in text.split(",")) if text.strip() else ()


def _extent(text: str, where: str) -> int | None:
    if text in ("?", "-1") or re.fullmatch(r"\d*\.\.\d*", text, re.ASCII):
        return None
    extent = whole(text, "shape", where)
    if not 0 <= extent <= LARGEST_EXTENT:
        raise ModelError(f"an axis cannot have the extent {extent}", where)
    return extent


def extents_of_port(dims: list[str], where: str) -> Extents:
    """The shape that the `<dim>` elements of a port state."""
    return tuple(_extent(dim.strip(), where) for dim in dims)


def byte_count(shape: tuple[int, ...], dtype: str) -> int:
    """How many bytes such an array has."""
    return prod(shape) * numpy_dtype(dtype).itemsize
