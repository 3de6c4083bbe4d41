"""Operators of ONNX's domain `ai.onnx.ml` that its own operators can say.

    ArrayFeatureExtractor(x, places)   ->   Gather(x, places), along the last axis
    Binarizer(x)                       ->   x > threshold, in the dtype of x
    LabelEncoder(x)                    ->   Gather(values, the place of x among the keys)

Source: ONNX operators, ai.onnx.ml: ArrayFeatureExtractor-1, Binarizer-1, LabelEncoder-4.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from mdf_loop.importing.opsets.rewrite import Rewrite, Step
from mdf_loop.ir import Array

T = onnx.TensorProto
DOMAIN = "ai.onnx.ml"


def _array_feature_extractor(r: Rewrite) -> None:
    """A row of its own has two axes."""
    rank = r.rank(r.input(0))
    places = r.make("Reshape", [r.input(1), r.ints([-1])])
    if rank > 1:
        r.make("Gather", [r.input(0), places], to=r.output(), axis=rank - 1)
        return
    found = r.make("Gather", [r.input(0), places], axis=0)
    r.make("Reshape", [found, r.ints([1, -1])], to=r.output())


def _binarizer(r: Rewrite) -> None:
    dtype = r.dtype(r.input(0))
    numpy_dtype = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    threshold = r.constant(np.array(r.get("threshold", 0.0), numpy_dtype))
    r.cast(r.make("Greater", [r.input(0), threshold]), dtype, to=r.output())


def _label_encoder(r: Rewrite) -> None:
    """The first key that equals; behind all of them stands one that equals everything."""
    keys, values = _listed(r, "keys"), _listed(r, "values")
    if keys.size != values.size:
        r.refuse(f"{keys.size} keys have {values.size} values")
    column = r.make("Reshape", [r.input(0), r.ints([-1, 1])])
    equal = r.cast(r.make("Equal", [column, r.constant(keys.reshape(1, -1))]), T.INT64)
    one = onnx.helper.make_tensor("one", T.INT64, [1], [1])
    always = r.make("ConstantOfShape", [r.make("Shape", [column])], value=one)
    candidates = r.make("Concat", [equal, always], axis=1)
    place = r.make("ArgMax", [candidates], axis=1, keepdims=0)
    known = np.concatenate([values, [_default(r, values)]]).astype(values.dtype)
    found = r.make("Gather", [r.constant(known), place], axis=0)
    r.make("Reshape", [found, r.make("Shape", [r.input(0)])], to=r.output())


_KINDS = {"strings": object, "int64s": np.int64, "floats": np.float32}


def _listed(r: Rewrite, word: str) -> Array:
    tensor = r.get(f"{word}_tensor")
    if tensor is not None:
        return np.asarray(numpy_helper.to_array(tensor)).reshape(-1)
    for kind, dtype in _KINDS.items():
        members = r.get(f"{word}_{kind}")
        if members:
            plain = [m.decode() if isinstance(m, bytes) else m for m in members]
            return np.array(plain, dtype)
    r.refuse(f"it has no {word}")


def _default(r: Rewrite, values: Array) -> object:
    tensor = r.get("default_tensor")
    if tensor is not None:
        found: object = numpy_helper.to_array(tensor).reshape(-1)[0]
        return found
    if values.dtype.kind in "OU":
        return r.get("default_string", "_Unused")
    if values.dtype.kind == "f":
        return r.get("default_float", -0.0)
    return r.get("default_int64", -1)


STEPS: dict[str, Step] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "LabelEncoder": _label_encoder,
}
"""Operator -> what makes the nodes that stand for it."""
