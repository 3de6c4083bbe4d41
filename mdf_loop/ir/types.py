"""Dtypes of program values, and their conversion to ONNX and numpy types.

    float32                          tensor(float)
    sequence(float32)                seq(tensor(float))
    optional(float32)                optional(tensor(float))
    optional(sequence(float32))      optional(seq(tensor(float)))

Only a tensor has a shape. The members of a sequence may differ in shape, and an optional value may
be absent.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Collection, Iterable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array, Data, Shape, Value

MAX_FILE_BYTES = 2**31 - 1
"""Maximum size of an ONNX file in bytes, which is protobuf's limit."""

_ELEMENT_TYPES = {
    "float64": onnx.TensorProto.DOUBLE,
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "int64": onnx.TensorProto.INT64,
    "int32": onnx.TensorProto.INT32,
    "int16": onnx.TensorProto.INT16,
    "int8": onnx.TensorProto.INT8,
    "uint64": onnx.TensorProto.UINT64,
    "uint32": onnx.TensorProto.UINT32,
    "uint16": onnx.TensorProto.UINT16,
    "uint8": onnx.TensorProto.UINT8,
    "bool": onnx.TensorProto.BOOL,
    "string": onnx.TensorProto.STRING,
    "complex64": onnx.TensorProto.COMPLEX64,
    "complex128": onnx.TensorProto.COMPLEX128,
}
_DTYPE_BY_CODE = {int(code): name for name, code in _ELEMENT_TYPES.items()}
_ONNX_TYPE_NAMES = {"float32": "float", "float64": "double"}
_ONNX_COMPOSITE_NAMES = {"sequence": "seq", "optional": "optional"}
_COMPOSITE_DTYPE_PATTERN = re.compile(
    r"sequence\((\w+)\)|optional\((\w+)\)|optional\(sequence\((\w+)\)\)"
)


# --- tensors ----------------------------------------------------------------------------------


def tensor_dtypes() -> tuple[str, ...]:
    """Return the names of all tensor dtypes."""
    return tuple(_ELEMENT_TYPES)


def element_type(dtype: str) -> int:
    """Return the ONNX element type number of a tensor dtype."""
    return int(_ELEMENT_TYPES[dtype])


def dtype_of(code: int) -> str:
    """Return the dtype of an ONNX element type number."""
    return _DTYPE_BY_CODE[code]


def dtype_name(array: Array) -> str:
    """Return the dtype name of an array (`string` for any kind of text)."""
    return _cached_dtype_name(array.dtype)


@functools.lru_cache(maxsize=256)
def _cached_dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the cached name of a numpy dtype."""
    return "string" if dtype.kind in "USOT" else str(dtype)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype for a dtype name, which is `object` for text.

    Raises:
        OperandError: The name is not a tensor dtype.
    """
    if name == "string":
        return np.dtype(object)
    if not is_tensor(name):
        raise OperandError(f"{name} is no dtype of a tensor")
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def kind_of(dtype: str) -> str:
    """Return the kind letter of a dtype: numpy's letter, `s` for a sequence, or `o` for an optional value."""
    if dtype == "string":
        return "U"
    if not is_tensor(dtype):
        return dtype[0]
    return "f" if dtype == "bfloat16" else np.dtype(dtype).kind


def promoted_dtype(dtypes: Iterable[str]) -> str:
    """Return the dtype to which numpy promotes several dtypes.

    Raises:
        OperandError: The dtypes have no common dtype.
    """
    distinct_dtypes = tuple(dict.fromkeys(dtypes))
    if all(kind_of(dtype) in "biufc" for dtype in distinct_dtypes):
        with contextlib.suppress(TypeError):
            return str(np.result_type(*map(numpy_dtype, distinct_dtypes)))
    raise OperandError(
        f"there is no common dtype of {' and '.join(distinct_dtypes)}", hint="use onnx::Cast"
    )


# --- sequences and optional values ------------------------------------------------------------


def is_tensor(dtype: str) -> bool:
    """Return True if a value of this dtype is a tensor."""
    return "(" not in dtype


def is_sequence(dtype: str) -> bool:
    """Return True if a value of this dtype is a sequence."""
    return dtype.startswith("sequence(")


def is_optional(dtype: str) -> bool:
    """Return True if a value of this dtype may be absent."""
    return dtype.startswith("optional(")


def sequence_of(dtype: str) -> str:
    """Return the dtype of a sequence of tensors of this dtype."""
    return f"sequence({dtype})"


def optional_of(dtype: str) -> str:
    """Return the dtype of an optional value of this dtype."""
    return f"optional({dtype})"


def inner_dtype(dtype: str) -> str:
    """Return the dtype of the elements of a sequence, or of the element of an optional."""
    return dtype.partition("(")[2][:-1]


def is_dtype(text: str) -> bool:
    """Return True if a text is the name of a dtype that a program value can have.

    ONNX has no sequences of bfloat16.
    """
    element_types = set(_ELEMENT_TYPES) - {"bfloat16"}
    dtype_match = _COMPOSITE_DTYPE_PATTERN.fullmatch(text)
    return text in _ELEMENT_TYPES or bool(
        dtype_match and (dtype_match[1] or dtype_match[2] or dtype_match[3]) in element_types
    )


class TypeAttribute(str):
    """Dtype as the value of an operation's attribute, such as `type` of ONNX's `Optional`."""

    __slots__ = ()


# --- ONNX's type names and protos -------------------------------------------------------------


def onnx_type_text(dtype: str) -> str:
    """Return a dtype in the notation of ONNX's schemas, e.g. `seq(tensor(float))`."""
    if is_tensor(dtype):
        return f"tensor({_ONNX_TYPE_NAMES.get(dtype, dtype)})"
    return f"{_ONNX_COMPOSITE_NAMES[dtype.partition('(')[0]]}({onnx_type_text(inner_dtype(dtype))})"


def type_proto(dtype: str, shape: Shape = None) -> onnx.TypeProto:
    """Return the ONNX TypeProto of a dtype and shape."""
    if is_sequence(dtype):
        return helper.make_sequence_type_proto(type_proto(inner_dtype(dtype)))
    if is_optional(dtype):
        return helper.make_optional_type_proto(type_proto(inner_dtype(dtype)))
    return helper.make_tensor_type_proto(element_type(dtype), shape)


def type_of(proto: onnx.TypeProto) -> tuple[str, Shape]:
    """Return the dtype and shape of an ONNX TypeProto, with `?k` for an unknown extent of axis k.

    Raises:
        OperandError: The proto has no dtype, or an unsupported kind of value.
    """
    type_kind = proto.WhichOneof("value")
    if type_kind == "sequence_type":
        return sequence_of(type_of(proto.sequence_type.elem_type)[0]), None
    if type_kind == "optional_type":
        return optional_of(type_of(proto.optional_type.elem_type)[0]), None
    tensor_type = proto.tensor_type
    if type_kind != "tensor_type" or tensor_type.elem_type not in _DTYPE_BY_CODE:
        raise OperandError("its dtype cannot be told")
    if not tensor_type.HasField("shape"):
        return dtype_of(tensor_type.elem_type), None
    dims: list[int | str] = []
    for position, dim in enumerate(tensor_type.shape.dim):
        has_known_extent = dim.HasField("dim_value") and dim.dim_value >= 0
        dims.append(dim.dim_value if has_known_extent else (dim.dim_param or f"?{position}"))
    return dtype_of(tensor_type.elem_type), tuple(dims)


# --- values -----------------------------------------------------------------------------------


def content_type(dtype: str, value: Data) -> str:
    """Return the dtype of a value, or of the element inside a non-empty optional."""
    return inner_dtype(dtype) if is_optional(dtype) and value is not None else dtype


_KIND_DESCRIPTIONS = {"tensor": "a tensor", "seq": "a sequence", "optional": "an optional value"}
_WRONG_KIND_HINTS = {
    "tensor": "make one with onnx::SequenceConstruct or onnx::Optional",
    "seq": "take a member with onnx::SequenceAt, or join all with onnx::ConcatFromSequence",
    "optional": "take what it holds with onnx::OptionalGetElement",
}


def wrong_kind_error(
    value: Value, place: str = "", kinds: Collection[str] = ("tensor",)
) -> OperandError:
    """Return the error for a value whose kind (tensor, sequence or optional) is not in `kinds`."""
    value_kind = onnx_type_text(value.dtype).partition("(")[0]
    expected_kinds = " or ".join(
        description for kind_name, description in _KIND_DESCRIPTIONS.items() if kind_name in kinds
    )
    kind_text = f"'{value.name}' is {_KIND_DESCRIPTIONS[value_kind]}, {value.type}"
    message = (
        f"{place} must be {expected_kinds}, but {kind_text}"
        if place
        else f"{kind_text}: {expected_kinds} is needed"
    )
    return OperandError(message, hint=_WRONG_KIND_HINTS[value_kind])
