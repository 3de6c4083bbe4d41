"""The `type` of an input port -> a dtype.

A general word (`float`, `int`) states a kind: plain numbers and values given from outside get it,
typed values that arrive over an edge keep theirs, since MDF's importers write `float` on every
port. A word with a size (`float32`, `int64`) states a dtype, and every value gets it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Value

_GENERAL = {"float": "float64", "int": "int64", "integer": "int64"}
_EXACT = {
    **{
        name: name
        for name in (
            *("float64", "float32", "float16", "bool"),
            *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
        )
    },
    "double": "float64",
    "boolean": "bool",
}


def stated_dtype(port: Any, precision: str) -> tuple[str | None, bool]:
    """The dtype that a port states (None if it states none), and whether it states its size."""
    word = str(port.type or "").strip().lower()
    if word.startswith("tensor(") and word.endswith(")"):
        word = {"float": "float32"}.get(word[7:-1], word[7:-1])
    word = word.removeprefix("numpy.").removeprefix("np.").removeprefix("torch.")
    if word in _EXACT:
        return _EXACT[word], True
    if word in _GENERAL:
        dtype = _GENERAL[word]
        return (precision if dtype == "float64" else dtype), False
    return None, False


def given_dtype(port: Any, precision: str) -> str | None:
    """The dtype of a value given to the port from outside; None: that of the value."""
    return stated_dtype(port, precision)[0]


def edge_dtype(b: Builder, port: Any, value: Value) -> str:
    """The dtype that a value arriving over an edge gets."""
    dtype, exact = stated_dtype(port, b.options.precision)
    if dtype is None or value.dtype == "string":
        return value.dtype
    same_kind = np.dtype(dtype).kind == np.dtype(value.dtype).kind
    widens = b.is_weak(value) and value.dtype != "bool" and dtype != "bool"
    if exact or (widens and not same_kind and np.dtype(dtype).kind == "f"):
        return dtype
    return value.dtype
