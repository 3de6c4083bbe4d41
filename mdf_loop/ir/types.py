"""Types of values: our words and ONNX's.

    float32                          tensor(float)
    sequence(float32)                seq(tensor(float))
    optional(float32)                optional(tensor(float))
    optional(sequence(float32))      optional(seq(tensor(float)))

A tensor also has a shape. A sequence, and an optional value, has none: its members may differ in
shape, and may not be there.
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

LARGEST_FILE = 2**31 - 1
"""How many bytes an ONNX file has at most: protobuf holds no more."""

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
_DTYPES = {int(code): name for name, code in _ELEMENT_TYPES.items()}
_ONNX_WORDS = {"float32": "float", "float64": "double"}
_WRAPPERS = {"sequence": "seq", "optional": "optional"}
_WORD = re.compile(r"sequence\((\w+)\)|optional\((\w+)\)|optional\(sequence\((\w+)\)\)")


# --- tensors ----------------------------------------------------------------------------------


def dtype_words() -> tuple[str, ...]:
    """The words for dtypes of tensors."""
    return tuple(_ELEMENT_TYPES)


def element_type(dtype: str) -> int:
    """ONNX's number for a dtype of tensors."""
    return int(_ELEMENT_TYPES[dtype])


def dtype_of(code: int) -> str:
    """The dtype of an ONNX element type number."""
    return _DTYPES[code]


def dtype_name(array: Array) -> str:
    """The dtype of an array in our words (any kind of text is `string`)."""
    return _name_of(array.dtype)


@functools.lru_cache(maxsize=256)
def _name_of(dtype: np.dtype[Any]) -> str:
    """Remembered: numpy puts the text together each time."""
    return "string" if dtype.kind in "USOT" else str(dtype)


def numpy_dtype(word: str) -> np.dtype[Any]:
    """The numpy dtype of a word; text is held as objects.

    Raises:
        OperandError: the word means no tensor.
    """
    if word == "string":
        return np.dtype(object)
    if not is_tensor(word):
        raise OperandError(f"{word} is no dtype of a tensor")
    return np.dtype(ml_dtypes.bfloat16 if word == "bfloat16" else word)


def kind_of(dtype: str) -> str:
    """`b`, `i`, `u`, `f`, `c` as numpy has them; `U` text, `s` a sequence, `o` an optional value."""
    if dtype == "string":
        return "U"
    if not is_tensor(dtype):
        return dtype[0]
    return "f" if dtype == "bfloat16" else np.dtype(dtype).kind


def common(dtypes: Iterable[str]) -> str:
    """The dtype that numpy computes in, where these meet.

    Raises:
        OperandError: there is none.
    """
    words = tuple(dict.fromkeys(dtypes))
    if all(kind_of(word) in "biufc" for word in words):
        with contextlib.suppress(TypeError):
            return str(np.result_type(*map(numpy_dtype, words)))
    raise OperandError(f"there is no common dtype of {' and '.join(words)}", hint="use onnx::Cast")


# --- sequences and optional values ------------------------------------------------------------


def is_tensor(dtype: str) -> bool:
    """Whether a value of this dtype is a tensor."""
    return "(" not in dtype


def is_sequence(dtype: str) -> bool:
    """Whether a value of this dtype is a sequence."""
    return dtype.startswith("sequence(")


def is_optional(dtype: str) -> bool:
    """Whether a value of this dtype may be absent."""
    return dtype.startswith("optional(")


def sequence_of(dtype: str) -> str:
    """The dtype of a sequence of such tensors."""
    return f"sequence({dtype})"


def optional_of(dtype: str) -> str:
    """The dtype of such a value that may be absent."""
    return f"optional({dtype})"


def inside(dtype: str) -> str:
    """What a sequence holds, or what an optional value is when it is there."""
    return dtype.partition("(")[2][:-1]


def is_word(text: str) -> bool:
    """Whether a text is the dtype of some value; ONNX has no sequences of bfloat16."""
    members = set(_ELEMENT_TYPES) - {"bfloat16"}
    found = _WORD.fullmatch(text)
    return text in _ELEMENT_TYPES or bool(found and (found[1] or found[2] or found[3]) in members)


class TypeWord(str):
    """A type as an attribute of an operation (`Optional` has one)."""

    __slots__ = ()


# --- ONNX's words and protos ------------------------------------------------------------------


def onnx_word(dtype: str) -> str:
    """The type as ONNX's schemas write it: `seq(tensor(float))`."""
    if is_tensor(dtype):
        return f"tensor({_ONNX_WORDS.get(dtype, dtype)})"
    return f"{_WRAPPERS[dtype.partition('(')[0]]}({onnx_word(inside(dtype))})"


def type_proto(dtype: str, shape: Shape = None) -> onnx.TypeProto:
    """The type as an ONNX file has it."""
    if is_sequence(dtype):
        return helper.make_sequence_type_proto(type_proto(inside(dtype)))
    if is_optional(dtype):
        return helper.make_optional_type_proto(type_proto(inside(dtype)))
    return helper.make_tensor_type_proto(element_type(dtype), shape)


def type_of(proto: onnx.TypeProto) -> tuple[str, Shape]:
    """The dtype and shape that an ONNX file states; an unknown extent is `?` with its axis.

    Raises:
        OperandError: it states no dtype, or a kind of value that we do not have.
    """
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return sequence_of(type_of(proto.sequence_type.elem_type)[0]), None
    if kind == "optional_type":
        return optional_of(type_of(proto.optional_type.elem_type)[0]), None
    tensor = proto.tensor_type
    if kind != "tensor_type" or tensor.elem_type not in _DTYPES:
        raise OperandError("its dtype cannot be told")
    if not tensor.HasField("shape"):
        return dtype_of(tensor.elem_type), None
    dims: list[int | str] = []
    for position, dim in enumerate(tensor.shape.dim):
        known = dim.HasField("dim_value") and dim.dim_value >= 0
        dims.append(dim.dim_value if known else (dim.dim_param or f"?{position}"))
    return dtype_of(tensor.elem_type), tuple(dims)


# --- values -----------------------------------------------------------------------------------


def content_type(dtype: str, value: Data) -> str:
    """The dtype of what is really there: without `optional(...)` around it."""
    return inside(dtype) if is_optional(dtype) and value is not None else dtype


_KINDS = {"tensor": "a tensor", "seq": "a sequence", "optional": "an optional value"}
_HINTS = {
    "tensor": "make one with onnx::SequenceConstruct or onnx::Optional",
    "seq": "take a member with onnx::SequenceAt, or join all with onnx::ConcatFromSequence",
    "optional": "take what it holds with onnx::OptionalGetElement",
}


def wrong_kind(value: Value, place: str = "", kinds: Collection[str] = ("tensor",)) -> OperandError:
    """What is said of a sequence or an optional value where a tensor is needed, or the reverse."""
    kind = onnx_word(value.dtype).partition("(")[0]
    wanted = " or ".join(words for word, words in _KINDS.items() if word in kinds)
    is_one = f"'{value.name}' is {_KINDS[kind]}, {value.type}"
    sentence = (
        f"{place} must be {wanted}, but {is_one}" if place else f"{is_one}: {wanted} is needed"
    )
    return OperandError(sentence, hint=_HINTS[kind])
