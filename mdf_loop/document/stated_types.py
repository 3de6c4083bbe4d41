"""Dtypes in the `type` of an input port.

`sequence(float32)` and `optional(float32)` are types of values that are no tensors (see
`mdf_loop.ir.types`). `Tensor` and `None`, which MDF's importer of PyTorch writes, specify no dtype. All other
texts cause an error when a document is opened.
"""

from __future__ import annotations

import difflib
from typing import Any

from mdf_loop.ir.types import is_dtype

_SIZED_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "string"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)
_DTYPES = {
    **{word: word for word in _SIZED_DTYPES},
    **{"int": "int64", "integer": "int64", "double": "float64", "boolean": "bool"},
}
_TYPES_WITHOUT_DTYPE = ("", "tensor", "none")


def stated_dtype(port: Any, precision: str) -> str | None:
    """Return the dtype in the type of a port, or None if the type specifies no dtype."""
    return _value_dtype(_normalized(port.type), precision)


def type_advice(written: Any) -> str:
    """Return a hint for an invalid port type, or an empty text for a valid type."""
    word = _normalized(written)
    dtype = _value_dtype(word, "float64")
    if word in _TYPES_WITHOUT_DTYPE or (dtype is not None and is_dtype(dtype)):
        return ""
    if word.startswith(_WRAPPER_PREFIXES):
        return "e.g. sequence(float32), optional(float32) or optional(sequence(float32))"
    close = difflib.get_close_matches(word, ("float", *_DTYPES), n=1)
    return (
        f"did you mean '{close[0]}'?" if close else "write float64, float32, int64, bool or string"
    )


_WRAPPER_PREFIXES = ("sequence(", "optional(")


def states_any_float(port: Any) -> bool:
    """Return True if the type of a port is `float`, which MDF's importers write at every port."""
    return _normalized(port.type) == "float"


def _normalized(written: Any) -> str:
    return str(written or "").strip().lower().replace(" ", "")


def _value_dtype(word: str, precision: str) -> str | None:
    if not word.startswith(_WRAPPER_PREFIXES):
        return _tensor_dtype(word, precision)
    wrappers, parenthesis, rest = word.rpartition("(")
    member = rest.rstrip(")")
    return f"{wrappers}{parenthesis}{_tensor_dtype(member, precision)}{rest[len(member) :]}"


def _tensor_dtype(word: str, precision: str) -> str | None:
    if word.startswith("tensor(") and word.endswith(")"):
        word = {"float": "float32"}.get(word[7:-1], word[7:-1])
    word = word.removeprefix("numpy.").removeprefix("np.").removeprefix("torch.")
    return precision if word == "float" else _DTYPES.get(word)
