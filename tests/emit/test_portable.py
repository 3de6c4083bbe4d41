"""Saved files: standard ONNX that the checker takes and that others run."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.demo import DEMOS


@pytest.mark.parametrize("demo", DEMOS, ids=lambda d: d.name)
def test_a_saved_file_is_standard_and_gives_equal_numbers(tmp_path, demo) -> None:
    compiled = mdf_loop.compile(demo.path, device="cpu")
    results = compiled.run(demo.inputs)
    compiled.save(tmp_path / "m.onnx", demo.inputs)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feeds = {name: np.asarray(value, np.float64) for name, value in demo.inputs.items()}
    made = session.run(None, feeds)
    names = [output.name for output in session.get_outputs()]
    assert names == list(results)
    for name, array in zip(names, made, strict=True):
        np.testing.assert_array_equal(array, results[name])


def test_no_body_of_a_saved_file_returns_an_input_as_it_is(tmp_path) -> None:
    demo = DEMOS[1]
    model = mdf_loop.compile(demo.path).save(tmp_path / "m.onnx", demo.inputs)
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    body = loop.attribute[0].g
    assert {o.name for o in body.output}.isdisjoint({i.name for i in body.input})
    with pytest.raises(mdf_loop.LoopError, match=r"does not end in \.onnx"):
        mdf_loop.compile(demo.path).save(tmp_path / "m.txt")
    with pytest.raises(mdf_loop.LoopError, match="there is no folder"):
        mdf_loop.compile(demo.path).save(tmp_path / "none" / "m.onnx")
