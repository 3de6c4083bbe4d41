"""Functions of ONNX Runtime that are less precise than others, tested alone on one node.

The forms of a program may differ by these errors: `KNOWN_ERRORS` of `tests/random_programs/amplification.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from mpmath import mp
from onnx import helper

EPS = float(np.finfo(np.float64).eps)


def runtime(op_type: str, *arrays: Any, **attributes: Any) -> np.ndarray:
    """Return the result of ONNX Runtime for one node."""
    arrays = tuple(np.asarray(array) for array in arrays)
    entries = [
        helper.make_tensor_value_info(
            f"x{k}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for k, array in enumerate(arrays)
    ]
    node = helper.make_node(op_type, [entry.name for entry in entries], ["y"], **attributes)
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "g", entries, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {e.name: a for e, a in zip(entries, arrays, strict=True)})[0]


TRUE = {
    "Sin": mp.sin,
    "Cos": mp.cos,
    "Tanh": mp.tanh,
    "Sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}


@pytest.mark.parametrize(
    ("op_type", "x", "least_ulps", "bound"),
    [
        ("Sin", 9.423754556128438, 1000, 4 * EPS),
        ("Cos", 1.5706798364510461, 1000, 4 * EPS),
        ("Sigmoid", -29.808027755997234, 1e12, EPS),
        ("Tanh", 9.232389425254585, 5, 8 * EPS),
    ],
)
def test_functions_of_float64(op_type: str, x: float, least_ulps: float, bound: float) -> None:
    """Check the error of `Sin`, `Cos` and `Sigmoid` in ulp of 1, and the error of `Tanh`, 8 ulp of the result."""
    with mp.workprec(200):
        true = float(TRUE[op_type](mp.mpf(x)))
    values = runtime(op_type, np.full(8, x))
    errors = np.abs(values - true)
    assert errors.max() > least_ulps * np.spacing(abs(true))
    assert errors.max() <= bound


def test_log_sum_exp_passes_over_nan_behind_infinity() -> None:
    assert np.isnan(runtime("ReduceLogSumExp", [np.nan, np.inf], np.array([0]))).all()
    assert runtime("ReduceLogSumExp", [np.inf, np.nan], np.array([0])) == [np.inf]


def test_the_logarithm_of_a_softmax_of_infinity() -> None:
    """Check that the unused float64 kernel returns -inf for `x - inf - log(nan)`."""
    row = runtime("LogSoftmax", np.array([np.inf, 1.0]), axis=0)
    assert np.isnan(row[0])
    assert row[1] == -np.inf


def test_hardmax_of_nan_has_no_one() -> None:
    """Check that the kernel returns no 1; this package returns the 1 at the first nan, as in a loop."""
    assert runtime("Hardmax", np.array([np.nan, 1], np.float32), axis=0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_a_zero_divisor_is_refused_for_an_empty_dividend(op_type: str) -> None:
    with pytest.raises(Exception, match="by zero"):
        runtime(op_type, np.zeros((0, 2), np.int64), np.array([0, 1]))


def test_a_clip_of_a_rectified_float64_cannot_be_loaded() -> None:
    """Check that ONNX Runtime's fusion of Relu and Clip supports only float32 and float16.

    `protect_clips` hides the Relu from the fusion.
    """
    for name, dtype in (("float", np.float32), ("double", np.float64)):
        model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
            f ({name}[n] x) => ({name}[n] y) {{
                low = Constant <value = {name} {{0.5}}> () r = Relu (x) y = Clip (r, low) }}""")
        if dtype is np.float64:
            with pytest.raises(Exception, match="Unexpected data type for Clip 'min'"):
                onnxruntime.InferenceSession(model.SerializeToString())
        else:
            session = onnxruntime.InferenceSession(model.SerializeToString())
            assert session.run(None, {"x": np.array([0.2, 7], dtype)})[0].tolist() == [0.5, 7.0]
