"""Recurrent operators with lengths have the numbers of ONNX Runtime's float32 kernels in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mdf_loop

TIMES, BATCH, SIZE, HIDDEN = 5, 4, 3, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OUTPUTS = ("y", "last", "cell")
LENGTHS = np.array([5, 3, 1, 2], np.int32)
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((op_type, direction, {}) for op_type in GATES for direction in DIRECTIONS),
    ("GRU", "bidirectional", {"linear_before_reset": 1}),
    ("LSTM", "reverse", {"input_forget": 1}),
    ("LSTM", "bidirectional", {"clip": 0.5}),
    (
        "LSTM",
        "forward",
        {"activations": ["HardSigmoid", "Softsign", "Relu"], "activation_alpha": [0.3]},
    ),
    (
        "RNN",
        "bidirectional",
        {"activations": ["Affine", "LeakyRelu"], "activation_alpha": [0.5, 0.2]},
    ),
]


def model(op_type: str, direction: str, about: dict[str, Any], dtype: str = "float32") -> Any:
    """Return a layer with biases, lengths and initial states; an LSTM has peepholes too."""
    random = np.random.default_rng(3)
    count, rows = DIRECTIONS[direction], GATES[op_type] * HIDDEN
    shapes = {"w": (rows, SIZE), "r": (rows, HIDDEN), "b": (2 * rows,), "h": (BATCH, HIDDEN)}
    names = ["x", "w", "r", "b", "lengths", "h"]
    if op_type == "LSTM":
        shapes |= {"c": (BATCH, HIDDEN), "p": (3 * HIDDEN,)}
        names += ["c", "p"]
    arrays = {name: random.normal(size=(count, *shape)) for name, shape in shapes.items()}
    weights = [numpy_helper.from_array(a.astype(dtype), name) for name, a in arrays.items()]
    outputs = OUTPUTS[: 3 if op_type == "LSTM" else 2]
    node = helper.make_node(
        op_type, names, outputs, hidden_size=HIDDEN, direction=direction, **about
    )
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [
        helper.make_tensor_value_info("x", element, [TIMES, BATCH, SIZE]),
        helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, [BATCH]),
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs(dtype: str = "float32") -> dict[str, Any]:
    x = np.random.default_rng(4).normal(size=(TIMES, BATCH, SIZE)).astype(dtype)
    return {"x": x, "lengths": LENGTHS}


@pytest.mark.parametrize(("op_type", "direction", "about"), CASES)
def test_each_engine_agrees_with_the_runtime(
    op_type: str, direction: str, about: dict[str, Any]
) -> None:
    proto = model(op_type, direction, about)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs())
    compiled = mdf_loop.compile(mdf_loop.from_onnx(proto), device="cpu")
    for engine in ("onnxruntime", "interpreter"):
        results = compiled.run(inputs(), engine=engine)
        for name, array in zip(OUTPUTS, expected, strict=False):
            np.testing.assert_allclose(results[name], array, rtol=1e-4, atol=1e-6, err_msg=engine)


@pytest.mark.parametrize("op_type", GATES)
def test_float64_decomposes_to_the_same_numbers(op_type: str) -> None:
    compiled = mdf_loop.compile(
        mdf_loop.from_onnx(model(op_type, "bidirectional", {}, "float64")), device="cpu"
    )
    ours, theirs = (
        compiled.run(inputs("float64"), engine=e) for e in ("onnxruntime", "interpreter")
    )
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype == np.float64
        np.testing.assert_allclose(array, theirs[name], rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
def test_verify_reports_no_difference(op_type: str) -> None:
    verification = mdf_loop.verify(
        mdf_loop.from_onnx(model(op_type, "bidirectional", {})), inputs(), device="cpu"
    )
    assert verification.equal, str(verification)
