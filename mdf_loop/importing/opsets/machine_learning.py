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
ML_DOMAIN = "ai.onnx.ml"


def _array_feature_extractor(rewrite: Rewrite) -> None:
    """Convert ArrayFeatureExtractor to a Gather along the last axis.

    The result for a vector has two axes, the first of them with extent 1.
    """
    rank = rewrite.rank(rewrite.input(0))
    flat_indices = rewrite.add_node("Reshape", [rewrite.input(1), rewrite.add_integers([-1])])
    if rank > 1:
        rewrite.add_node(
            "Gather", [rewrite.input(0), flat_indices], to=rewrite.output(), axis=rank - 1
        )
        return
    gathered_elements = rewrite.add_node("Gather", [rewrite.input(0), flat_indices], axis=0)
    rewrite.add_node(
        "Reshape", [gathered_elements, rewrite.add_integers([1, -1])], to=rewrite.output()
    )


def _binarizer(rewrite: Rewrite) -> None:
    element_type = rewrite.dtype(rewrite.input(0))
    numpy_dtype = onnx.helper.tensor_dtype_to_np_dtype(element_type)
    threshold_constant = rewrite.add_constant(
        np.array(rewrite.attribute("threshold", 0.0), numpy_dtype)
    )
    rewrite.add_cast(
        rewrite.add_node("Greater", [rewrite.input(0), threshold_constant]),
        element_type,
        to=rewrite.output(),
    )


def _label_encoder(rewrite: Rewrite) -> None:
    """Convert LabelEncoder: gather the value of the first key that equals x, or the default value."""
    encoder_keys, encoder_values = _read_list(rewrite, "keys"), _read_list(rewrite, "values")
    if encoder_keys.size != encoder_values.size:
        rewrite.refuse(f"{encoder_keys.size} keys have {encoder_values.size} values")
    label_column = rewrite.add_node("Reshape", [rewrite.input(0), rewrite.add_integers([-1, 1])])
    equality_columns = rewrite.add_cast(
        rewrite.add_node(
            "Equal", [label_column, rewrite.add_constant(encoder_keys.reshape(1, -1))]
        ),
        TensorProto.INT64,
    )
    one_tensor = onnx.helper.make_tensor("one", TensorProto.INT64, [1], [1])
    last_column = rewrite.add_node(
        "ConstantOfShape", [rewrite.add_node("Shape", [label_column])], value=one_tensor
    )
    equality_matrix = rewrite.add_node("Concat", [equality_columns, last_column], axis=1)
    key_index = rewrite.add_node("ArgMax", [equality_matrix], axis=1, keepdims=0)
    values_and_default = np.concatenate(
        [encoder_values, [_default_label(rewrite, encoder_values)]]
    ).astype(encoder_values.dtype)
    labels = rewrite.add_node(
        "Gather", [rewrite.add_constant(values_and_default), key_index], axis=0
    )
    rewrite.add_node(
        "Reshape", [labels, rewrite.add_node("Shape", [rewrite.input(0)])], to=rewrite.output()
    )


_DTYPES_BY_LIST_KIND = {"strings": object, "int64s": np.int64, "floats": np.float32}


def _read_list(rewrite: Rewrite, attribute: str) -> Array:
    list_tensor = rewrite.attribute(f"{attribute}_tensor")
    if list_tensor is not None:
        return np.asarray(numpy_helper.to_array(list_tensor)).reshape(-1)
    for list_kind, dtype in _DTYPES_BY_LIST_KIND.items():
        list_attribute = rewrite.attribute(f"{attribute}_{list_kind}")
        if list_attribute:
            list_items = [
                list_item.decode() if isinstance(list_item, bytes) else list_item
                for list_item in list_attribute
            ]
            return np.array(list_items, dtype)
    rewrite.refuse(f"it has no {attribute}")


def _default_label(rewrite: Rewrite, values: Array) -> object:
    label_tensor = rewrite.attribute("default_tensor")
    if label_tensor is not None:
        label: object = numpy_helper.to_array(label_tensor).reshape(-1)[0]
        return label
    if values.dtype.kind in "OU":
        return rewrite.attribute("default_string", "_Unused")
    if values.dtype.kind == "f":
        return rewrite.attribute("default_float", -0.0)
    return rewrite.attribute("default_int64", -1)


ML_CONVERSIONS: dict[str, Conversion] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "LabelEncoder": _label_encoder,
}
"""Function that converts a node, by operator type."""
