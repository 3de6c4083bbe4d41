"""Conversion of operators of the domain `ai.onnx.ml` into operators of ONNX's own domain.

    ArrayFeatureExtractor(x, indices)   ->   Gather(x, indices), along the last axis
    Binarizer(x)                        ->   x > threshold, in the dtype of x
    LabelEncoder(x)                     ->   Gather(values, the index of x among the keys)

Source: ONNX operators, ai.onnx.ml: ArrayFeatureExtractor-1, Binarizer-1, LabelEncoder-4.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from mdf_loop.importing.opsets.rewrite import Conversion, Rewrite
from mdf_loop.ir import Array

TensorProto = onnx.TensorProto
DOMAIN = "ai.onnx.ml"


def _array_feature_extractor(r: Rewrite) -> None:
    """Convert ArrayFeatureExtractor, whose result for a vector has two axes."""
    rank = r.rank(r.input(0))
    indices = r.add("Reshape", [r.input(1), r.add_ints([-1])])
    if rank > 1:
        r.add("Gather", [r.input(0), indices], to=r.output(), axis=rank - 1)
        return
    gathered_elements = r.add("Gather", [r.input(0), indices], axis=0)
    r.add("Reshape", [gathered_elements, r.add_ints([1, -1])], to=r.output())


def _binarizer(r: Rewrite) -> None:
    dtype = r.dtype(r.input(0))
    numpy_dtype = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    threshold = r.add_constant(np.array(r.get("threshold", 0.0), numpy_dtype))
    r.add_cast(r.add("Greater", [r.input(0), threshold]), dtype, to=r.output())


def _label_encoder(r: Rewrite) -> None:
    """Convert LabelEncoder: gather the value of the first key that equals x, or the default value."""
    keys, values = _read_list(r, "keys"), _read_list(r, "values")
    if keys.size != values.size:
        r.refuse(f"{keys.size} keys have {values.size} values")
    label_column = r.add("Reshape", [r.input(0), r.add_ints([-1, 1])])
    is_equal = r.add_cast(
        r.add("Equal", [label_column, r.add_constant(keys.reshape(1, -1))]), TensorProto.INT64
    )
    one = onnx.helper.make_tensor("one", TensorProto.INT64, [1], [1])
    always_equal = r.add("ConstantOfShape", [r.add("Shape", [label_column])], value=one)
    equality_matrix = r.add("Concat", [is_equal, always_equal], axis=1)
    key_index = r.add("ArgMax", [equality_matrix], axis=1, keepdims=0)
    all_values = np.concatenate([values, [_default_label(r, values)]]).astype(values.dtype)
    labels = r.add("Gather", [r.add_constant(all_values), key_index], axis=0)
    r.add("Reshape", [labels, r.add("Shape", [r.input(0)])], to=r.output())


_DTYPES_BY_LIST_KIND = {"strings": object, "int64s": np.int64, "floats": np.float32}


def _read_list(r: Rewrite, attribute: str) -> Array:
    tensor = r.get(f"{attribute}_tensor")
    if tensor is not None:
        return np.asarray(numpy_helper.to_array(tensor)).reshape(-1)
    for list_kind, dtype in _DTYPES_BY_LIST_KIND.items():
        list_attribute = r.get(f"{attribute}_{list_kind}")
        if list_attribute:
            list_items = [
                list_item.decode() if isinstance(list_item, bytes) else list_item
                for list_item in list_attribute
            ]
            return np.array(list_items, dtype)
    r.refuse(f"it has no {attribute}")


def _default_label(r: Rewrite, values: Array) -> object:
    tensor = r.get("default_tensor")
    if tensor is not None:
        label: object = numpy_helper.to_array(tensor).reshape(-1)[0]
        return label
    if values.dtype.kind in "OU":
        return r.get("default_string", "_Unused")
    if values.dtype.kind == "f":
        return r.get("default_float", -0.0)
    return r.get("default_int64", -1)


ML_CONVERSIONS: dict[str, Conversion] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "LabelEncoder": _label_encoder,
}
"""Function that converts a node, by operator type."""
