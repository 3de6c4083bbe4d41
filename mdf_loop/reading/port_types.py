"""The `type` of an input port -> a dtype.

It says what a value from outside, or written as a default, becomes. What arrives over an edge is
left alone, as in modeci_mdf: its importers write `float` on every port, PsyNeuLink `int64`.
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
from mdf_loop.lower.terms import cast, fits
from mdf_loop.onnx_types import is_tensor, is_word, kind_of

_SIZED = (
    *("float64", "float32", "float16", "bfloat16", "bool", "string"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)
_DTYPES = {
    **{word: word for word in _SIZED},
    **{"int": "int64", "integer": "int64", "double": "float64", "boolean": "bool"},
}
_NOTHING = ("", "tensor", "none")


def stated_dtype(port: Any, precision: str) -> str | None:
    """The dtype that a port states; None if it states none."""
    return _stated(_plain(port.type), precision)


def type_advice(written: Any) -> str:
    """What to write instead of a type that is none; empty for one that there is."""
    word = _plain(written)
    dtype = _stated(word, "float64")
    if word in _NOTHING or (dtype is not None and is_word(dtype)):
        return ""
    if word.startswith(_WRAPPERS):
        return "e.g. sequence(float32), optional(float32) or optional(sequence(float32))"
    meant = difflib.get_close_matches(word, ("float", *_DTYPES), n=1)
    return (
        f"did you mean '{meant[0]}'?" if meant else "write float64, float32, int64, bool or string"
    )


_WRAPPERS = ("sequence(", "optional(")


def _plain(written: Any) -> str:
    return str(written or "").strip().lower().replace(" ", "")


def _stated(word: str, precision: str) -> str | None:
    if not word.startswith(_WRAPPERS):
        return _tensor_dtype(word, precision)
    wrappers, opened, rest = word.rpartition("(")
    member = rest.rstrip(")")
    return f"{wrappers}{opened}{_tensor_dtype(member, precision)}{rest[len(member) :]}"


def _tensor_dtype(word: str, precision: str) -> str | None:
    if word.startswith("tensor(") and word.endswith(")"):
        word = {"float": "float32"}.get(word[7:-1], word[7:-1])
    word = word.removeprefix("numpy.").removeprefix("np.").removeprefix("torch.")
    return precision if word == "float" else _DTYPES.get(word)


def as_held(b: Builder, port: Any, value: Value) -> Value:
    """What a port holds that a value comes to over an edge, or from the scope around a body.

    The value as it is, as in modeci_mdf: numbers keep their dtype and shape, whatever the port
    states. Only a port of optional values makes its value one that could be absent.

    Raises:
        OperandError: the port takes text, a sequence or an optional value, and the value is none.
    """
    dtype = stated_dtype(port, b.options.precision)
    if dtype == "string" and value.dtype != "string":
        raise OperandError(f"the port '{port.id}' takes text, but '{value.name}' is {value.type}")
    return value if dtype is None or is_tensor(dtype) else cast(b, value, dtype)


def as_counted(b: Builder, port: Any, iteration: Value) -> Value:
    """The iteration number, in the dtype that a port of the body states.

    A mere `float` is what MDF's importers write on every port.
    """
    dtype = stated_dtype(port, b.options.precision)
    general = dtype is None or _plain(port.type) == "float"
    return iteration if general else cast(b, iteration, dtype or iteration.dtype)


def as_begun(b: Builder, port: Any, value: Value) -> Value:
    """A plain number that a carried value starts from, in the dtype that the body's port states.

    Itself where that dtype could not hold it.
    """
    dtype = stated_dtype(port, b.options.precision)
    if dtype is None or not is_tensor(dtype) or not (b.is_weak(value) and fits(b, value, dtype)):
        return value
    holds = {"b": "b", "i": "iuf", "f": "f"}
    return cast(b, value, dtype) if kind_of(dtype) in holds[kind_of(value.dtype)] else value
