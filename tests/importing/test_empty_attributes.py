"""Empty lists as attributes in files and in functions of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop

X = np.arange(6.0).reshape(2, 3)


def model(op_type: str, opset: int, shape: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    helper = onnx.helper
    node = helper.make_node(op_type, ["x"], ["y"])
    for name, value in attributes.items():
        kind = onnx.AttributeProto.INTS if value == [] else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    x = helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, shape)
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize(
    ("op_type", "opset", "x", "attributes"),
    [
        ("ReduceMax", 12, X, {"axes": []}),
        ("ReduceMax", 13, X, {"axes": [], "keepdims": 0}),
        ("ReduceMean", 13, X, {"axes": []}),
        ("ReduceL1", 13, X, {"axes": [], "keepdims": 0}),
        ("Transpose", 13, np.array(2.5), {"perm": []}),
    ],
)
def test_files(
    op_type: str, opset: int, x: np.ndarray, attributes: dict[str, Any], tmp_path: Path
) -> None:
    proto = model(op_type, opset, x.shape, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    compiled = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu")
    compiled.save(tmp_path / "again.onnx")
    exported = onnxruntime.InferenceSession(tmp_path / "again.onnx").run(None, {"x": x})[0]
    for y in (
        compiled.run({"x": x})["y"],
        compiled.run({"x": x}, engine="interpreter")["y"],
        exported,
    ):
        np.testing.assert_array_equal(y, expected)


def test_a_function_of_a_model() -> None:
    args = {"data": "x", "axes": [], "keepdims": 0}
    node = {
        "input_ports": {"x": {"type": "float64", "shape": [2, 3]}},
        "functions": {"f": {"function": "onnx::ReduceMax", "args": args}},
        "output_ports": {"y": {"value": "f"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}, device="cpu")
    assert compiled.run({"x": X})["y"] == 5.0
