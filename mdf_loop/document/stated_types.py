"""Dtypes that models state in the `type` of input ports.

`sequence(float32)` and `optional(float32)` are types of values that are no tensors (see
`mdf_loop.ir.types`). `Tensor` and `None`, which MDF's importer of PyTorch writes, specify no dtype. All other
texts cause an error when a document is opened.
"""

from __future__ import annotations

import difflib

from mdf_loop.document.parts import InputPort
from mdf_loop.ir.types import is_dtype

_SIZED_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "string"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)
_DTYPES_BY_TYPE_NAME = {
    **{type_name: type_name for type_name in _SIZED_DTYPES},
    **{"int": "int64", "integer": "int64", "double": "float64", "boolean": "bool"},
}
_TYPES_WITHOUT_DTYPE = ("", "tensor", "none")


def stated_dtype(port: InputPort, precision: str) -> str | None:
    """Return the dtype in the type of a port, or None if the type specifies no dtype."""
    return _parse_value_dtype(_normalize_type(port.type), precision)


def type_advice(stated_type: object) -> str:
    """Return a hint for an invalid port type, or an empty text for a valid type."""
    normalized_type = _normalize_type(stated_type)
    dtype = _parse_value_dtype(normalized_type, "float64")
    if normalized_type in _TYPES_WITHOUT_DTYPE or (dtype is not None and is_dtype(dtype)):
        return ""
    if normalized_type.startswith(_WRAPPER_PREFIXES):
        return "e.g. sequence(float32), optional(float32) or optional(sequence(float32))"
    similar_names = difflib.get_close_matches(
        normalized_type, ("float", *_DTYPES_BY_TYPE_NAME), n=1
    )
    return (
        f"did you mean '{similar_names[0]}'?"
        if similar_names
        else "write float64, float32, int64, bool or string"
    )


_WRAPPER_PREFIXES = ("sequence(", "optional(")


def states_any_float(port: InputPort) -> bool:
    """Return True if the type of a port is `float`, which MDF's importers write at every port."""
    return _normalize_type(port.type) == "float"


def _normalize_type(stated_type: object) -> str:
    return str(stated_type or "").strip().lower().replace(" ", "")


def _parse_value_dtype(type_name: str, precision: str) -> str | None:
    if not type_name.startswith(_WRAPPER_PREFIXES):
        return _parse_tensor_dtype(type_name, precision)
    wrapper_prefix, parenthesis, member_with_parentheses = type_name.rpartition("(")
    member_type = member_with_parentheses.rstrip(")")
    closing_parentheses = member_with_parentheses[len(member_type) :]
    return f"{wrapper_prefix}{parenthesis}{_parse_tensor_dtype(member_type, precision)}{closing_parentheses}"


def _parse_tensor_dtype(type_name: str, precision: str) -> str | None:
    if type_name.startswith("tensor(") and type_name.endswith(")"):
        type_name = {"float": "float32"}.get(type_name[7:-1], type_name[7:-1])
    type_name = type_name.removeprefix("numpy.").removeprefix("np.").removeprefix("torch.")
    return precision if type_name == "float" else _DTYPES_BY_TYPE_NAME.get(type_name)
