"""Round trips of an ONNX model: import, write as YAML, run, export, import and run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

import mdf_loop
from mdf_loop.importing.onnx_file import check_onnx
from mdf_loop.importing.onnx_model import content_of_onnx
from mdf_loop.importing.writing import write_model

_BFLOAT16 = onnx.TensorProto.BFLOAT16


def parse_graph(graph: str, opset: int = 15, functions: str = "") -> onnx.ModelProto:
    """Return a model of a graph in ONNX's text form."""
    function_import = ', "own" : 1' if functions else ""
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}{function_import}]>\n{graph}\n{functions}'
    )


def runtime(
    model: onnx.ModelProto, inputs: Mapping[str, Any], *, optimised: bool = True
) -> list[Any]:
    """Return the outputs of ONNX Runtime, whose optimizer crashes on some nested branches."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = {entry.name for entry in session.get_inputs()}
    return list(session.run(None, {name: inputs[name] for name in names & inputs.keys()}))


def assert_same(actual: Any, expected: Any, rtol: float = 1e-5) -> None:
    """Check equal dtypes and shapes, equal integers, booleans and strings, and close floats."""
    if isinstance(expected, list):
        assert isinstance(actual, list)
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            assert_same(ours, theirs, rtol)
        return
    if expected is None:
        assert actual is None
        return
    actual, expected = np.asarray(actual), np.asarray(expected)
    texts = {actual.dtype.kind, expected.dtype.kind} <= {*"OUT"}
    assert texts or actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype.kind in "fV":
        pair = (np.asarray(a, np.float64) for a in (actual, expected))
        np.testing.assert_allclose(*pair, rtol=rtol, atol=rtol / 100)
    else:
        np.testing.assert_array_equal(actual, expected)


def compile_by_yaml(model: onnx.ModelProto, folder: Path, **options: Any) -> mdf_loop.CompiledModel:
    """Import the model, write it as a YAML file, and compile the file."""
    content = content_of_onnx(check_onnx(model), "model")
    path, *_ = write_model(content, folder / "model.yaml")
    return mdf_loop.compile(path, device="cpu", **options)


def check(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    expected: Sequence[Any] | None,
    folder: Path,
    **options: Any,
) -> None:
    """Check that all ways give the expected outputs, or those of ONNX Runtime for None."""
    reference = runtime(model, inputs, optimised=False) if expected is None else list(expected)
    compiled = compile_by_yaml(model, folder, **options)
    results = list(compiled.run(inputs).values())
    assert_same(results, reference)
    proto = compiled.to_onnx(inputs)
    ends = [value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)]
    if _BFLOAT16 not in ends:  # ONNX Runtime has no bfloat16 in Python
        assert_same(runtime(proto, inputs), results, 1e-6)
    repeated = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu", **options).to_onnx(inputs)
    assert repeated.SerializeToString(deterministic=True) == proto.SerializeToString(
        deterministic=True
    )
    del proto.metadata_props[:]
    stripped = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu", **options)
    assert_same(list(stripped.run(inputs).values()), results, 1e-6)
