"""Failures in ONNX Runtime become clear sentences with the place in the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.emit.scope import NodeRegistry
from mdf_loop.errors import OperandError, RunError
from mdf_loop.run.onnxruntime.runtime_errors import convert_load_error, convert_run_error

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def graph(value: str, inputs: dict[str, Any], function: tuple[str, Any] | None = None) -> Any:
    ports = {
        name: {"type": str(array.dtype), "shape": list(array.shape)}
        for name, array in inputs.items()
    }
    node: dict[str, Any] = {"input_ports": ports, "output_ports": {"y": {"value": value}}}
    if function is not None:
        node["functions"] = {"f": {"function": function[0], "args": function[1]}}
    return {"g": {"nodes": {"A": node}}}


def failure(value: str, inputs: dict[str, Any], function: tuple[str, Any] | None = None) -> Any:
    """Run a model that can be compiled and return the finding of its failure."""
    model = mdf_loop.compile(graph(value, inputs, function), device="cpu")
    with pytest.raises(RunError) as caught:
        model.run(inputs)
    (finding,) = caught.value.findings
    assert finding.where.startswith("$.graphs[0].nodes['A']")
    for word in ("onnxruntime", "ONNXRuntimeError", "Status", "::", ".cc:", ".h:"):
        assert word not in finding.what.replace("onnx::", ""), finding.what
    return finding


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("shape", [(), (2,)], ids=["number", "array"])
def test_division_by_zero(dtype: str, shape: tuple[int, ...]) -> None:
    inputs = {"x": np.ones(shape, dtype), "k": np.zeros(shape, dtype)}
    for value in ("x // k", "x % k"):
        assert failure(value, inputs).what == "a whole number was divided by zero"


X, K = np.arange(5.0), np.array(0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "bool"])
@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_maximum_of_an_empty_array_is_an_error(name: str, dtype: str) -> None:
    """Check that the maximum of an empty array is an error before or during the run, never an infinity."""
    nothing = np.ones(0, dtype)
    whole = mdf_loop.compile(graph(f"numpy.{name}(x)", {"x": nothing}), device="cpu")
    with pytest.raises(OperandError, match=r"numpy\.\w+ needs at least one element"):
        whole.run({"x": nothing})
    finding = failure(f"numpy.{name}(x[:k])", {"x": np.ones(3, dtype), "k": K})
    assert "needs at least one element" in finding.what


def test_axes_that_are_not_reduced_may_be_empty() -> None:
    x = np.ones((0, 3))
    for name in ("argmax", "max"):
        reduced = mdf_loop.compile(graph(f"numpy.{name}(x, axis=1)", {"x": x})).run({"x": x})["y"]
        assert reduced.shape == (0,)


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_argmax_of_an_empty_array_is_an_error(name: str) -> None:
    finding = failure("f", {"data": np.ones(0)}, (f"onnx::{name}", {"data": "data"}))
    assert finding.what == f"onnx::{name} needs at least one element"


@pytest.mark.parametrize(
    ("value", "inputs", "words"),
    [
        ("x[k]", {"x": X, "k": np.array(7)}, "position 7 does not exist: the axis has positions"),
        ("x[:k] + x", {"x": X, "k": np.array(2)}, "an axis has 2 elements in one and 5 in the"),
        ("x[:k] @ x", {"x": X, "k": np.array(2)}, "the shapes of two matrices do not fit"),
        (
            "numpy.stack((x[:k], x))",
            {"x": X, "k": np.array(2)},
            "arrays that are joined differ in axis 1: 2 and 5 elements",
        ),
        (
            "numpy.reshape(x[:k], (2, 3))",
            {"x": X, "k": np.array(2)},
            "an array of shape [2] cannot become one of shape [2, 3]",
        ),
    ],
)
def test_expressions(value: str, inputs: dict[str, Any], words: str) -> None:
    assert words in failure(value, inputs).what


@pytest.mark.parametrize(
    ("op_type", "inputs", "words"),
    [
        ("GatherND", {"data": X, "indices": np.array([[9]])}, "position 9 does not exist"),
        ("GatherElements", {"data": X, "indices": np.array([9])}, "a position does not exist"),
        (
            "ScatterND",
            {"data": X, "indices": np.array([[9]]), "updates": np.ones(1)},
            "position 9 does not exist",
        ),
        ("Squeeze", {"data": X, "axes": np.array([3])}, "axis 3 does not exist"),
        ("CumSum", {"x": X, "axis": np.array(9)}, "axis 9 does not exist"),
        ("Expand", {"input": X, "shape": np.array([2])}, "onnx::Expand cannot be computed of what"),
        ("Pad", {"data": X, "pads": np.array([-20, 0])}, "onnx::Pad cannot be computed of what"),
        ("TopK", {"X": X, "K": np.array([9])}, "onnx::TopK cannot be computed of what"),
    ],
)
def test_operators(op_type: str, inputs: dict[str, Any], words: str) -> None:
    finding = failure("f", inputs, (f"onnx::{op_type}", {name: name for name in inputs}))
    assert words in finding.what
    if "cannot be computed" in words:
        assert finding.hint.startswith("ONNX Runtime says: ")
        assert "::" not in finding.hint


def test_text_that_cannot_be_cast_to_a_number() -> None:
    texts = np.array(["7", "seven"], dtype=object)
    node = {
        "input_ports": {"x": {"type": "string", "shape": [2]}},
        "functions": {"f": {"function": "onnx::Cast", "args": {"input": "x", "to": "float64"}}},
        "output_ports": {"y": {"value": "f"}},
    }
    model = mdf_loop.compile({"g": {"nodes": {"A": node}}}, device="cpu")
    with pytest.raises(RunError, match="a text is no number"):
        model.run({"x": texts})


def test_an_error_without_a_place_is_still_one_sentence() -> None:
    error = convert_run_error(RuntimeError("something odd\nwith details"), NodeRegistry())
    assert error.report == (
        "RunError: the model failed while running\n  hint: ONNX Runtime says: something odd"
    )


def test_uneven_rows_of_a_recorded_value_are_explained() -> None:
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Loop node. "
        "Name:'$.graphs[0].nodes['A'].functions['f'] Loop#3' Status Message: "
        "Inconsistent shape in loop output for output.  Expected:{1} Got:{2}"
    )
    (finding,) = convert_run_error(RuntimeError(text), NodeRegistry()).findings
    assert finding.where == "$.graphs[0].nodes['A'].functions['f']"
    assert finding.hint == "a recorded value must have one shape in all iterations"


def test_a_model_refused_by_the_runtime_names_the_node() -> None:
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Node ($.graphs[0].nodes['A'] MatMul#1) Op (MatMul) "
        "[ShapeInferenceError] Input tensors of wrong rank (0)."
    )
    (finding,) = convert_load_error(RuntimeError(text)).findings
    assert finding.what == "ONNX Runtime does not take the compiled model"
    assert finding.where == "$.graphs[0].nodes['A']"
    assert "Input tensors of wrong rank (0)." in finding.hint
