"""`Where` -> ONNX Where: signs of zeros in runs, files, machine code and batched loops."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from tests.models.loops import loop_model

NUMBERS = [0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf]
CASES = np.array(list(itertools.product([0.0, 1.0], NUMBERS, NUMBERS)))
EXPRESSIONS = {
    "both": "numpy.where(c, x, y)",
    "spread": "numpy.where(c, x, z)",
    "then zero": "numpy.where(c, -0.0, y)",
    "else zero": "numpy.where(c, x, 0.0)",
    "constant": "numpy.where(c, 1.0, y)",
}


def model(dtype: str) -> dict[str, Any]:
    shapes = {"c": ("bool", [len(CASES)]), "z": (dtype, [2, 1])}
    shapes |= dict.fromkeys("xy", (dtype, [len(CASES)]))
    ports = {name: {"type": kind, "shape": shape} for name, (kind, shape) in shapes.items()}
    values = {name: {"value": value} for name, value in EXPRESSIONS.items()}
    node = {"input_ports": ports, "output_ports": values}
    return {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}


def inputs(dtype: str) -> dict[str, np.ndarray]:
    c, x, y = CASES.T
    z = np.array([[-0.0], [0.0]], dtype)
    return {"c": c > 0, "x": x.astype(dtype), "y": y.astype(dtype), "z": z}


def expected(name: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    c, x, y, z = feeds.values()
    values = {
        "both": (x, y),
        "spread": (x, z),
        "then zero": (x.dtype.type(-0.0), y),
        "else zero": (x, x.dtype.type(0)),
        "constant": (x.dtype.type(1), y),
    }
    return np.where(c, *values[name])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_every_pair_of_operands_keeps_the_signs_of_zeros(dtype: str, tmp_path: Path) -> None:
    compiled, feeds = mdf_loop.compile(model(dtype), device="cpu"), inputs(dtype)
    compiled.save(tmp_path / "where.onnx")
    session = onnxruntime.InferenceSession(
        tmp_path / "where.onnx", providers=["CPUExecutionProvider"]
    )
    exported = dict(
        zip((o.name for o in session.get_outputs()), session.run(None, feeds), strict=True)
    )
    results = compiled.run(feeds)
    for name in EXPRESSIONS:
        expected_array = expected(name, feeds)
        for array in (results[name], exported[f"A.{name}"]):
            assert array.dtype == expected_array.dtype
            np.testing.assert_array_equal(array, expected_array)
            is_number = ~np.isnan(expected_array)
            np.testing.assert_array_equal(
                np.signbit(array[is_number]), np.signbit(expected_array[is_number])
            )


@pytest.mark.parametrize(
    "expression",
    [
        *("numpy.where(~c, 1.0, y)", "numpy.where(~c, -0.0, y)", "numpy.where(~c, x, 0.0)"),
        *("numpy.where(~c, x, y)", "numpy.where(~(~c), x, 1.0)"),
    ],
)
def test_a_negated_condition_keeps_the_signs_of_zeros(expression: str, tmp_path: Path) -> None:
    """Check conditions with a Not: ONNX Runtime exchanges the operands of a Where behind a Not."""
    source, feeds = model("float64"), inputs("float64")
    (node,) = source["m"]["graphs"]["g"]["nodes"].values()
    node["output_ports"] = {"r": {"value": expression}}
    compiled = mdf_loop.compile(source, device="cpu")
    compiled.save(tmp_path / "where.onnx")
    session = onnxruntime.InferenceSession(
        tmp_path / "where.onnx", providers=["CPUExecutionProvider"]
    )
    read = {entry.name: feeds[entry.name] for entry in session.get_inputs()}
    expected_array = eval(expression, {"numpy": np}, feeds)
    for array in (compiled.run(feeds)["r"], session.run(None, read)[0]):
        np.testing.assert_array_equal(array, expected_array)
        is_number = ~np.isnan(expected_array)
        np.testing.assert_array_equal(
            np.signbit(array[is_number]), np.signbit(expected_array[is_number])
        )


def test_one_node_where_the_second_operand_has_no_negative_zero(tmp_path: Path) -> None:
    node = {
        "input_ports": {
            "c": {"type": "bool", "shape": [2]},
            "y": {"type": "float64", "shape": [2]},
        },
        "output_ports": {"r": {"value": "numpy.where(c, 1.0, y)"}},
    }
    path = tmp_path / "one.onnx"
    mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}).save(path)
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Where"]


@pytest.mark.parametrize("native", ["off", "auto"])
def test_members_with_individual_conditions_keep_the_signs_of_zeros(native: str) -> None:
    """Check a batch whose member with x = -0.0 stops first; copysign shows the sign of x."""
    source = loop_model(
        {"M": "last", "v_initial": "(x0,)"},
        {"x_next": "x * 0.5", "y": "numpy.copysign(2.5, x)"},
        port_values={"x0": 1.0, "last": 1},
        carried="x",
        recorded="y",
    )
    compiled = mdf_loop.compile(source, native=native, device="cpu")
    results = compiled.run(sweep={"x0": [-0.0, -1.0, 0.0], "last": [1, 3, 2]})
    assert np.signbit(results["r0"]).tolist() == [True, True, False]
    assert [row.tolist() for row in results.rows("r1")] == [[-2.5], [-2.5] * 3, [2.5] * 2]
