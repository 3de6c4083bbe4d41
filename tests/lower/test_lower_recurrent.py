"""Recurrent operators with the batch axis first: equal results as with the sequence axis first."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mdf_loop

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
SEQUENCE, BATCH, SIZE, HIDDEN = 4, 3, 2, 5


def model(op_type: str, layout: int) -> onnx.ModelProto:
    """Return a model with outputs Y and Y_h of two directions, with initial states."""
    random = np.random.default_rng(1)
    rows = GATES[op_type] * HIDDEN
    arrays = {
        "W": random.normal(size=(2, rows, SIZE)),
        "R": random.normal(size=(2, rows, HIDDEN)),
        "B": random.normal(size=(2, 2 * rows)),
    }
    names = ["X", "W", "R", "B", "", "H", *(["C"] if op_type == "LSTM" else [])]
    node = helper.make_node(
        op_type, names, ["Y", "Y_h"],
        layout=layout, hidden_size=HIDDEN, direction="bidirectional",
    )  # fmt: skip
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in names
        if name in "XHC" and name
    ]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in node.output]
    weights = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
def test_batch_first_equals_sequence_first(op_type: str) -> None:
    random = np.random.default_rng(2)
    inputs = {
        "X": random.normal(size=(SEQUENCE, BATCH, SIZE)).astype(np.float32),
        "H": random.normal(size=(2, BATCH, HIDDEN)).astype(np.float32),
        "C": random.normal(size=(2, BATCH, HIDDEN)).astype(np.float32),
    }
    if op_type != "LSTM":
        del inputs["C"]
    session = onnxruntime.InferenceSession(model(op_type, 0).SerializeToString())
    rows, final = session.run(None, inputs)
    compiled = mdf_loop.compile(mdf_loop.from_onnx(model(op_type, 1)), device="cpu")
    results = compiled.run({name: array.swapaxes(0, 1) for name, array in inputs.items()})
    np.testing.assert_allclose(results["Y"], rows.transpose(2, 0, 1, 3), rtol=1e-6)
    np.testing.assert_allclose(results["Y_h"], final.swapaxes(0, 1), rtol=1e-6)
