"""The `type` of an input port -> a dtype.

A general word (`float`, `int`) states a kind: plain numbers and values given from outside get it,
typed values that arrive over an edge keep theirs, since MDF's importers write `float` on every
port. A word with a size (`float32`, `int64`) states a dtype, and every value gets it.
`sequence(float32)` and `optional(float32)` state what is no tensor (see `mdf_loop.onnx_types`).
`Tensor` and `None`, which MDF's importer of PyTorch writes, state nothing. Every other word is refused
when a document is opened.
"""

from __future__ import annotations

import difflib
from typing import Any

from mdf_loop.build import Builder
from mdf_loop.errors import OperandError
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
_NOTHING = ("", "tensor", "none")


def stated_dtype(port: Any, precision: str) -> tuple[str | None, bool]:
    """The dtype that a port states (None if it states none), and whether it states its size."""
    return _stated(_plain(port.type), precision)


def type_advice(written: Any) -> str:
    """What to write instead of a type that is none; empty for one that there is."""
    word = _plain(written)
    dtype, _ = _stated(word, "float64")
    if word in _NOTHING or (dtype is not None and is_word(dtype)):
        return ""
    if word.startswith(_WRAPPERS):
        return "e.g. sequence(float32), optional(float32) or optional(sequence(float32))"
    meant = difflib.get_close_matches(word, (*_EXACT, *_GENERAL), n=1)
    return (
        f"did you mean '{meant[0]}'?" if meant else "write float64, float32, int64, bool or string"
    )


_WRAPPERS = ("sequence(", "optional(")


def _plain(written: Any) -> str:
    return str(written or "").strip().lower().replace(" ", "")


def _stated(word: str, precision: str) -> tuple[str | None, bool]:
    if not word.startswith(_WRAPPERS):
        return _tensor_dtype(word, precision)
    wrappers, opened, rest = word.rpartition("(")
    member = rest.rstrip(")")
    dtype, _ = _tensor_dtype(member, precision)
    return f"{wrappers}{opened}{dtype}{rest[len(member) :]}", True


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
