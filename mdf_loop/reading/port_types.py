"""The `type` of an input port -> a dtype.

A general word (`float`, `int`) states a kind: plain numbers and values given from outside get it,
typed values that arrive over an edge keep theirs, since MDF's importers write `float` on every
port. A word with a size (`float32`, `int64`) states a dtype, and every value gets it.
`sequence(float32)` and `optional(float32)` state what is no tensor (see `mdf_loop.onnx_types`).
"""

from __future__ import annotations

from typing import Any

from mdf_loop.build import Builder
from mdf_loop.errors import ModelError, OperandError
from mdf_loop.ir import Value
from mdf_loop.onnx_types import is_tensor, is_word, kind_of

_GENERAL = {"float": "float64", "int": "int64", "integer": "int64"}
_EXACT = {
    **{
        name: name
        for name in (
            *("float64", "float32", "float16", "bfloat16", "bool", "string"),
            *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
        )
    },
    "double": "float64",
    "boolean": "bool",
}


def stated_dtype(port: Any, precision: str) -> tuple[str | None, bool]:
    """The dtype that a port states (None if it states none), and whether it states its size.

    Raises:
        ModelError: the type is that of a sequence or an optional value, but not a known one.
    """
    word = str(port.type or "").strip().lower().replace(" ", "")
    if not word.startswith(("sequence(", "optional(")):
        return _tensor_dtype(word, precision)
    wrappers, opened, rest = word.rpartition("(")
    member = rest.rstrip(")")
    dtype, _ = _tensor_dtype(member, precision)
    stated = f"{wrappers}{opened}{dtype}{rest[len(member) :]}"
    if not is_word(stated):
        raise ModelError(
            f"the type '{port.type}' of the port '{port.id}' is none that there is",
            hint="e.g. sequence(float32), optional(float32) or optional(sequence(float32))",
        )
    return stated, True


def _tensor_dtype(word: str, precision: str) -> tuple[str | None, bool]:
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
    """The dtype that a value arriving over an edge gets.

    Raises:
        OperandError: the port takes text, and the value is none.
    """
    dtype, exact = stated_dtype(port, b.options.precision)
    if dtype is None or value.dtype == "string":
        return value.dtype
    if dtype == "string":
        raise OperandError(f"the port '{port.id}' takes text, but '{value.name}' is {value.type}")
    if not (is_tensor(dtype) and is_tensor(value.dtype)):
        return dtype if exact else value.dtype
    same_kind = kind_of(dtype) == kind_of(value.dtype)
    widens = b.is_weak(value) and value.dtype != "bool" and dtype != "bool"
    if exact or (widens and not same_kind and kind_of(dtype) == "f"):
        return dtype
    return value.dtype
