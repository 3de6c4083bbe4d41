"""Dtype names: conversion to ONNX's names and protos and back, kinds, and errors for wrong kinds."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from mdf_loop.document.stated_types import stated_dtype, type_advice
from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.ir import types as onnx_types

DTYPES = [
    ("float32", "tensor(float)", "f"),
    ("float64", "tensor(double)", "f"),
    ("bfloat16", "tensor(bfloat16)", "f"),
    ("int8", "tensor(int8)", "i"),
    ("uint16", "tensor(uint16)", "u"),
    ("bool", "tensor(bool)", "b"),
    ("string", "tensor(string)", "U"),
    ("sequence(float32)", "seq(tensor(float))", "s"),
    ("optional(string)", "optional(tensor(string))", "o"),
    ("optional(sequence(int64))", "optional(seq(tensor(int64)))", "o"),
]


@pytest.mark.parametrize(("dtype", "onnx_text", "kind"), DTYPES)
def test_dtypes_and_onnx_type_texts(dtype, onnx_text, kind):
    assert onnx_types.is_dtype(dtype)
    assert onnx_types.onnx_type_text(dtype) == onnx_text
    assert onnx_types.kind_of(dtype) == kind
    assert onnx_types.type_of(onnx_types.type_proto(dtype)) == (dtype, None)
    assert onnx_types.is_tensor(dtype) == onnx_text.startswith("tensor")
    assert onnx_types.is_sequence(dtype) == onnx_text.startswith("seq")
    assert onnx_types.is_optional(dtype) == onnx_text.startswith("optional")


@pytest.mark.parametrize("shape", [(), (2, 3), ("n", 3)])
def test_shapes_of_tensors(shape):
    assert onnx_types.type_of(onnx_types.type_proto("int64", shape)) == ("int64", shape)


def test_an_unnamed_extent_is_named_after_its_axis():
    proto = onnx_types.type_proto("int64", (1, 2))
    proto.tensor_type.shape.dim[1].Clear()
    assert onnx_types.type_of(proto) == ("int64", (1, "?1"))


def test_unsupported_types_are_refused():
    for proto in (onnx.TypeProto(), onnx.helper.make_map_type_proto(7, onnx.TypeProto())):
        with pytest.raises(OperandError, match="its dtype cannot be told"):
            onnx_types.type_of(proto)


@pytest.mark.parametrize("word", onnx_types.tensor_dtypes())
def test_arrays_have_the_named_dtype(word):
    assert onnx_types.dtype_name(np.zeros(1, onnx_types.numpy_dtype(word))) == word


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (["bfloat16", "float32"], "float32"),
        (["float16", "float32"], "float32"),
        (["int8", "uint8"], "int16"),
        (["bfloat16", "int64"], None),
        (["bfloat16", "float16"], None),
        (["string", "int64"], None),
        (["float32", "sequence(float32)"], None),
    ],
)
def test_common_dtypes(dtypes, expected):
    if expected is not None:
        assert onnx_types.promoted_dtype(dtypes) == expected
    else:
        with pytest.raises(OperandError):
            onnx_types.promoted_dtype(dtypes)


INVALID_DTYPES = [
    *(
        "sequence()",
        "sequence(",
        "sequence(float32",
        "sequence(float32))",
        "optional(optional(bool))",
    ),
    *("sequence(optional(bool))", "sequence(sequence(bool))", "optional(bfloat16)", "sequence(x)"),
    *("optional(sequence(float32)", "optional(sequence(float32)))", "sequence(float32)[2]"),
]


@pytest.mark.parametrize("word", INVALID_DTYPES)
def test_invalid_dtypes_are_refused(word):
    assert not onnx_types.is_dtype(word)
    assert type_advice(word)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("sequence(float)", "sequence(float32)"),
        ("Optional( Sequence(double) )", "optional(sequence(float64))"),
        ("sequence(tensor)", None),
        ("optional(int)", "optional(int64)"),
    ],
)
def test_types_of_ports(word, expected):
    port = SimpleNamespace(id="p", type=word)
    assert bool(type_advice(word)) == (expected is None)
    assert expected is None or stated_dtype(port, "float32") == expected


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("flot64", "did you mean 'float64'?"),
        ("complex", "write float64, float32, int64, bool or string"),
        (5, "write float64"),
        ("Tensor", ""),
        ("None", ""),
        (None, ""),
        ("tensor(float)", ""),
        ("numpy.float32", ""),
    ],
)
def test_advice_for_invalid_types(word, advice):
    assert advice in type_advice(word)
    assert bool(advice) == bool(type_advice(word))


def test_wrong_kinds_are_named():
    value = Value("s", "sequence(float32)", None)
    assert onnx_types.wrong_kind_error(value).findings[0].what == (
        "'s' is a sequence, sequence(float32): a tensor is needed"
    )
    message = (
        onnx_types.wrong_kind_error(value, "'A' of onnx::Add", ("tensor", "optional"))
        .findings[0]
        .what
    )
    assert message == (
        "'A' of onnx::Add must be a tensor or an optional value, "
        "but 's' is a sequence, sequence(float32)"
    )
