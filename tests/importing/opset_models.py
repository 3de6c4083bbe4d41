"""Builders of small ONNX models from text, and their outputs in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from mdf_loop.importing.opsets import convert_to_package_opset


def model(version: int, signature: str, body: str, other_imports: str = "") -> onnx.ModelProto:
    """Return a model with one graph: `model(6, "float[2] x => float[2] y", "y = Abs(x)")`."""
    inputs, outputs = signature.split("=>")
    head = f'<ir_version: 8, opset_import: ["" : {version}{other_imports}]>'
    return parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {body} }}")


def results(proto: onnx.ModelProto, *inputs: Any) -> list[Any]:
    """Return the outputs of ONNX Runtime for an unchanged model."""
    proto.ir_version = min(proto.ir_version, 10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in proto.graph.input]
    feeds = {
        name: value if isinstance(value, list) or value is None else np.asarray(value)
        for name, value in zip(names, inputs, strict=True)
    }
    return list(session.run(None, feeds))


def run_converted(version: int, signature: str, body: str, *inputs: Any) -> list[Any]:
    """Return the outputs of a model after its conversion to the package's opset."""
    return results(convert_to_package_opset(model(version, signature, body)), *inputs)


def is_close(got: Any, expected: Any, rtol: float = 1e-3, atol: float = 1e-5) -> bool:
    """Return True for equal dtypes and shapes, and numbers within the tolerance."""
    if isinstance(expected, list | tuple):
        pairs = zip(got, expected, strict=False)
        return len(got) == len(expected) and all(is_close(g, w, rtol, atol) for g, w in pairs)
    if expected is None or got is None:
        return got is expected
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return False
    if expected.dtype.kind in "OUS":
        return bool((got.astype(object) == expected.astype(object)).all())
    if got.dtype != expected.dtype:
        return False
    wide_dtype = np.complex128 if got.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        return np.allclose(
            got.astype(wide_dtype), expected.astype(wide_dtype), rtol, atol, equal_nan=True
        )
