"""Small ONNX models as text, and what ONNX Runtime gives for them at our opset."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from mdf_loop.importing.opsets import convert_to_package_opset


def model(version: int, signature: str, body: str, more: str = "") -> onnx.ModelProto:
    """A model of one graph: `model(6, "float[2] x => float[2] y", "y = Abs(x)")`."""
    given, wanted = signature.split("=>")
    head = f'<ir_version: 8, opset_import: ["" : {version}{more}]>'
    return parser.parse_model(f"{head} g ({given}) => ({wanted}) {{ {body} }}")


def results(made: onnx.ModelProto, *inputs: Any) -> list[Any]:
    """ONNX Runtime's results for a model as it is."""
    made.ir_version = min(made.ir_version, 10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in made.graph.input]
    feeds = {
        name: value if isinstance(value, list) or value is None else np.asarray(value)
        for name, value in zip(names, inputs, strict=True)
    }
    return list(session.run(None, feeds))


def at_17(version: int, signature: str, body: str, *inputs: Any) -> list[Any]:
    """Results of a model after its translation."""
    return results(convert_to_package_opset(model(version, signature, body)), *inputs)


def same(got: Any, wanted: Any, rtol: float = 1e-3, atol: float = 1e-5) -> bool:
    """Equal dtype and shape, and numbers as close as onnx's own tests ask for."""
    if isinstance(wanted, list | tuple):
        pairs = zip(got, wanted, strict=False)
        return len(got) == len(wanted) and all(same(g, w, rtol, atol) for g, w in pairs)
    if wanted is None or got is None:
        return got is wanted
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OUS":
        return bool((got.astype(object) == wanted.astype(object)).all())
    if got.dtype != wanted.dtype:
        return False
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        return np.allclose(got.astype(wide), wanted.astype(wide), rtol, atol, equal_nan=True)
