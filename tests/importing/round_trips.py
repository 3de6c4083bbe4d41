"""An ONNX model through everything: imported, written as YAML, run; exported, imported, run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

import mdf_loop
from mdf_loop.importing.onnx_file import checked_onnx
from mdf_loop.importing.onnx_model import content_of_onnx
from mdf_loop.importing.writing import write_model

_BFLOAT16 = onnx.TensorProto.BFLOAT16


def model_of(graph: str, opset: int = 15, functions: str = "") -> onnx.ModelProto:
    """A model of a graph in ONNX's text form."""
    more = ', "own" : 1' if functions else ""
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}{more}]>\n{graph}\n{functions}'
    )


def runtime(
    model: onnx.ModelProto, inputs: Mapping[str, Any], *, optimised: bool = True
) -> list[Any]:
    """What plain ONNX Runtime gives; its optimiser crashes on some branches in branches."""
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


def assert_same(given: Any, expected: Any, rtol: float = 1e-5) -> None:
    """Equal dtypes and shapes, integers and truth values equal, the rest close."""
    if isinstance(expected, list):
        assert isinstance(given, list)
        assert len(given) == len(expected)
        for ours, theirs in zip(given, expected, strict=True):
            assert_same(ours, theirs, rtol)
        return
    if expected is None:
        assert given is None
        return
    given, expected = np.asarray(given), np.asarray(expected)
    texts = {given.dtype.kind, expected.dtype.kind} <= {*"OUT"}
    assert texts or given.dtype == expected.dtype
    assert given.shape == expected.shape
    if expected.dtype.kind in "fV":
        pair = (np.asarray(a, np.float64) for a in (given, expected))
        np.testing.assert_allclose(*pair, rtol=rtol, atol=rtol / 100)
    else:
        np.testing.assert_array_equal(given, expected)


def imported(model: onnx.ModelProto, folder: Path, **options: Any) -> mdf_loop.Compiled:
    """The model by way of a YAML file."""
    content = content_of_onnx(checked_onnx(model), "model")
    path, *_ = write_model(content, folder / "model.yaml")
    return mdf_loop.compile(path, device="cpu", **options)


def check(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    expected: Sequence[Any] | None,
    folder: Path,
    **options: Any,
) -> None:
    """All ways give what is expected: at first (None) what ONNX Runtime gives for the file."""
    wanted = runtime(model, inputs, optimised=False) if expected is None else list(expected)
    compiled = imported(model, folder, **options)
    results = list(compiled.run(inputs).values())
    assert_same(results, wanted)
    proto = compiled.to_onnx(inputs)
    ends = [value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)]
    if _BFLOAT16 not in ends:  # ONNX Runtime has no bfloat16 in Python
        assert_same(runtime(proto, inputs), results, 1e-6)
    again = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu", **options).to_onnx(inputs)
    assert again.SerializeToString(deterministic=True) == proto.SerializeToString(
        deterministic=True
    )
    del proto.metadata_props[:]
    stripped = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu", **options)
    assert_same(list(stripped.run(inputs).values()), results, 1e-6)
