"""ONNX's Scan: states, axes, directions and length 0."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.document.loading import suppress_output
from mdf_loop.errors import ArityError, LoopError, ModelError, RunError, SignatureError
from mdf_loop.run.interpret import interpret
from tests.models.loops import loop_model

CASES = Path(__file__).parents[3] / "shared" / "cases" / "onnx_backend"


def scan(args, body, *, states="", scanned="x_t", recorded="", **constants):
    return loop_model(
        {"initial_state_and_scan_inputs": ["0.0", "x"], "num_scan_inputs": 1, **args},
        body,
        port_values=constants,
        carried=states,
        recorded=recorded,
        metadata={"scanned": scanned.split()},
        function="onnx::Scan",
    )


SUM = {"s_next": "s + x_t", "y": "s + x_t"}


def test_a_running_sum(run_everywhere):
    model = scan({}, SUM, states="s", recorded="y", x=[1.0, 2.0, 3.0, 4.0, 5.0])
    results = run_everywhere(model)
    assert results["r0"] == 15.0
    assert results["r1"].tolist() == [1.0, 3.0, 6.0, 10.0, 15.0]
    assert results["n"] == 5


def test_length_zero(run_everywhere):
    model = scan({}, SUM, states="s", recorded="y", x=[1.0, 2.0])
    results = run_everywhere(model, {"x": np.zeros(0)})
    assert (results["r0"], results["r1"].shape, results["n"]) == (0.0, (0,), 0)


def test_several_states(run_everywhere):
    model = scan(
        {"initial_state_and_scan_inputs": "(a, b, x)"},
        {"s_next": "s + x_t", "p_next": "p * x_t", "y": "s + p"},
        states="s p",
        recorded="y",
        a=[0.0, 0.0],
        b=[1.0, 1.0],
        x=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    )
    results = run_everywhere(model)
    assert results["r0"].tolist() == [9.0, 12.0]
    assert results["r1"].tolist() == [15.0, 48.0]
    assert results["r2"].tolist() == [[1.0, 1.0], [2.0, 4.0], [7.0, 14.0]]


X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("axis_in", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("axis_out", [0, 1, 2, -1])
@pytest.mark.parametrize(("back_in", "back_out"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_axes_and_directions(run_everywhere, axis_in, axis_out, back_in, back_out):
    args = {
        "initial_state_and_scan_inputs": ["x"],
        "scan_input_axes": [axis_in],
        "scan_input_directions": [back_in],
        "scan_output_axes": [axis_out],
        "scan_output_directions": [back_out],
    }
    model = scan(args, {"y": "2 * x_t"}, recorded="y", x=X.tolist())
    rows = np.moveaxis(2 * X, axis_in, 0)
    rows = rows[::-1] if back_in != back_out else rows
    np.testing.assert_array_equal(run_everywhere(model)["r0"], np.moveaxis(rows, 0, axis_out))


def test_two_scanned_inputs_of_different_axes(run_everywhere):
    args = {
        "initial_state_and_scan_inputs": ["x", "z"],
        "num_scan_inputs": 2,
        "scan_input_axes": [0, 1],
    }
    constants = {"x": [[1.0, 2.0], [3.0, 4.0]], "z": [[10.0, 20.0], [30.0, 40.0]]}
    model = scan(args, {"y": "x_t + z_t"}, scanned="x_t z_t", recorded="y", **constants)
    assert run_everywhere(model)["r0"].tolist() == [[11.0, 32.0], [23.0, 44.0]]
    with pytest.raises(LoopError, match="'x_t' and 'z_t' have different lengths"):
        mdf_loop.compile(model).run({"z": np.zeros((2, 3))})


def test_lengths_that_differ_at_run_time():
    args = {"initial_state_and_scan_inputs": ["x", "z[:m]"], "num_scan_inputs": 2}
    model = scan(
        args, {"y": "x_t + z_t"}, scanned="x_t z_t", recorded="y", x=[1.0, 2.0], z=[3.0, 4.0], m=2
    )
    assert mdf_loop.compile(model).run()["r0"].tolist() == [4.0, 6.0]
    with pytest.raises(RunError, match="'x_t' and 'z_t' have different lengths"):
        mdf_loop.compile(model).run({"m": 1})


def test_captures_and_own_names(run_everywhere):
    model = scan({"gain": "2 * w"}, {"s_next": "s + gain * x_t"}, states="s", x=[1.0, 2.0], w=5.0)
    assert run_everywhere(model)["r0"] == 30.0


@pytest.mark.parametrize(
    ("args", "kind", "sentence"),
    [
        ({"num_scan_inputs": 3}, ArityError, "has 2 initial states and scan inputs, of which 3"),
        ({"num_scan_inputs": 0}, ArityError, "at least one|of which 0"),
        (
            {"num_scan_inputs": "x"},
            ModelError,
            "'num_scan_inputs' of 'loop' must be a whole number",
        ),
        (
            {"initial_state_and_scan_inputs": ["x"]},
            ArityError,
            "0 states and 1 scan inputs, but metadata",
        ),
        ({"scan_input_axes": [1]}, LoopError, "axis 1 does not exist"),
        (
            {"scan_input_axes": [0, 0]},
            ArityError,
            "scan_input_axes of the scan 'loop' has 2 entries for 1",
        ),
        ({"scan_input_directions": [2]}, ModelError, "are 0 .forward. or 1 .backward., not"),
        ({"scan_output_axes": [2]}, LoopError, "axis 2 does not exist"),
        ({"scan_output_directions": [0, 1]}, ArityError, "has 2 entries for 1 values"),
        ({"scan_input_axis": [0]}, ModelError, "no argument 'scan_input_axis'"),
    ],
    ids=str,
)
def test_invalid_scans_are_refused(args, kind, sentence):
    model = scan(args, SUM, states="s", recorded="y", x=[1.0, 2.0])
    with pytest.raises(kind, match=sentence):
        mdf_loop.compile(model).run()


def test_the_order_of_the_body_must_be_written():
    model = scan({}, SUM, states="s", recorded="y", x=[1.0, 2.0])
    args = model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]
    del args["body"]["b"]["metadata"]["inputs"]
    with pytest.raises(SignatureError, match="body of the scan 'loop' is not written"):
        mdf_loop.compile(model).run()


@pytest.mark.slow
@pytest.mark.skipif(not CASES.exists(), reason="the stored cases are not here")
@pytest.mark.parametrize(
    "path",
    [*CASES.glob("test_scan9_*.json"), *CASES.glob("test_linear_attention*.json")],
    ids=lambda path: path.stem,
)
def test_stored_scans_through_yaml(path):
    from modeci_mdf.mdf import Model

    case = json.loads(path.read_text())
    with suppress_output():
        content = mdf_loop.from_onnx(path.with_suffix(".onnx"))
        model = Model.from_dict(yaml.safe_load(content.to_yaml()))
    inputs = {name: _array(tensor) for name, tensor in case["inputs"].items() if tensor is not None}
    compiled = mdf_loop.compile(model, device="cpu")
    arrays, program, _ = compiled.prepare(inputs)
    for results in (compiled.run(inputs), interpret(program, arrays)):
        for array, expected in zip(results.values(), case["expected"].values(), strict=True):
            assert array.dtype == expected["dtype"]
            np.testing.assert_allclose(
                array, _array(expected), rtol=case["rtol"], atol=case["atol"]
            )


def _array(tensor):
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])
