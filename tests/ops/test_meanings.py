"""The interpreter's implementations of operations have the bits of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from mdf_loop.ops.numpy_evaluation import evaluate

SPECIAL = [0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf, 1e-300]


@pytest.mark.parametrize("op_type", ["Relu", "Softsign"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(8,), (1,), (), (0,)], ids=str)
def test_the_interpreter_has_the_bits_of_onnx_runtime(op_type, dtype, shape) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, number, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if (op_type, dtype) == ("Softsign", "float64"):
        pytest.skip("ONNX Runtime has no such kernel")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for turns in range(len(SPECIAL)):
        array = np.resize(np.roll(SPECIAL, -turns), shape).astype(dtype)
        (expected,) = session.run(None, {"x": array})
        (evaluated,) = evaluate(op_type, [array], {}, 1)
        assert (evaluated.dtype, evaluated.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(evaluated, expected)
        signs = np.signbit(evaluated) == np.signbit(expected)
        assert (signs | np.isnan(expected)).all()
