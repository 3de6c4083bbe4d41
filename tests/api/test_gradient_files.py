"""Files of `Differentiated.save` in plain ONNX Runtime equal `run`, also for other values and step counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

import mdf_loop
from mdf_loop import streams
from mdf_loop.errors import InputError
from tests.models.timed import NEURON, graph

FN = {"m": {"graphs": NEURON}}
WRT = ["fn.a", "fn.b", "fn.start", "I"]
DT = 0.1


def session_of(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # ONNX Runtime warns of inputs with default values
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_file(path: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    session = session_of(path)
    names = [output.name for output in session.get_outputs()]
    results = session.run(names, {name: np.asarray(value) for name, value in feeds.items()})
    return dict(zip(names, results, strict=True))


def assert_same(outputs: Mapping[str, Any], gradient: Any) -> None:
    assert list(outputs) == ["value", *(f"gradient of {name}" for name in gradient)]
    np.testing.assert_allclose(outputs["value"], gradient.value, rtol=1e-12)
    for name, array in gradient.items():
        np.testing.assert_allclose(outputs[f"gradient of {name}"], array, rtol=1e-10, atol=1e-14)


def save_gradient(
    tmp_path: Path, of: Any, steps: int | None = 30, **contents: Any
) -> tuple[Any, Path]:
    """Save a differentiated neuron and return the derivative with the path of the file."""
    model = mdf_loop.compile(FN, device="cpu")
    gradient = model.differentiate(of, WRT, steps=steps, dt=None if steps is None else DT)
    gradient.save(tmp_path / "gradient.onnx", **contents)
    return gradient, tmp_path / "gradient.onnx"


@pytest.mark.parametrize("word", ["sum", "mean", "last"])
@pytest.mark.parametrize("steps", [1, 2, 30, 77])
def test_other_steps(tmp_path: Path, word: str, steps: int) -> None:
    _, path = save_gradient(tmp_path, {"fn.v": word})
    objective = {"fn.v": word}
    expected = mdf_loop.compile(FN).gradient(objective, WRT, steps=steps, dt=DT)
    assert_same(run_file(path, {"I": 0.5, "steps": steps}), expected)


def test_other_values_and_another_dt(tmp_path: Path) -> None:
    _, path = save_gradient(tmp_path, {"fn.v": "mean", "fn.w": ["sum", "last"]})
    settings = {"fn.a": 0.6, "fn.start": 0.25}
    expected = mdf_loop.compile(FN).gradient(
        {"fn.v": "mean", "fn.w": ["sum", "last"]},
        WRT,
        set=settings,
        inputs={"I": 0.75},
        steps=30,
        dt=0.05,
    )
    assert_same(run_file(path, {**settings, "I": 0.75, "dt": 0.05}), expected)


def test_of_one_evaluation(tmp_path: Path) -> None:
    gradient, path = save_gradient(tmp_path, {"fn.v": "sum"}, steps=None)
    assert_same(run_file(path, {"I": 0.5}), gradient.run())


def test_data_are_an_input_of_the_file(tmp_path: Path) -> None:
    data, others = np.linspace(-1, 1, 30), np.linspace(2, 0, 12)
    gradient, path = save_gradient(tmp_path, {"fn.v": {"sse": data}})
    others_too = session_of(path).get_overridable_initializers()
    assert {entry.name for entry in others_too} == {
        *("fn.a", "fn.b", "fn.start", "steps", "dt", "data of fn.v")
    }
    assert_same(run_file(path, {"I": 0.5}), gradient.run())
    expected = mdf_loop.compile(FN).gradient({"fn.v": {"sse": others}}, WRT, steps=12, dt=DT)
    assert_same(run_file(path, {"I": 0.5, "steps": 12, "data of fn.v": others}), expected)


def test_an_input_over_time(tmp_path: Path) -> None:
    rows = np.sin(np.arange(30.0))
    saved_gradient, path = save_gradient(tmp_path, {"fn.v": "mean"}, inputs={"I": rows})
    gradient = saved_gradient.run(inputs={"I": rows})
    assert gradient["I"].shape == (30,)
    assert_same(run_file(path, {"I": rows}), gradient)


@pytest.mark.parametrize("wrt", [["fn.a"], WRT])
def test_rows_that_are_not_as_many_as_steps_fail(tmp_path: Path, wrt: list[str]) -> None:
    model = mdf_loop.compile(FN, device="cpu")
    gradient = model.differentiate({"fn.v": {"sse": np.zeros(30)}}, wrt, steps=30, dt=DT)
    path = tmp_path / "gradient.onnx"
    gradient.save(path, inputs={"I": np.zeros(30)})
    for rows, steps, data, named in (
        (50, 30, 30, "'I'"),
        (20, 30, 30, "'I'"),
        (1, 30, 30, "'I'"),
        (30, 20, 20, "'I'"),
        (50, 50, 30, "'data of fn.v'"),
    ):
        feeds = {"I": np.zeros(rows), "steps": steps, "data of fn.v": np.zeros(data)}
        with pytest.raises(InvalidArgument, match=f"{named} must have a row for each of the steps"):
            run_file(path, feeds)
    others = np.sin(np.arange(50.0))
    expected = model.gradient({"fn.v": {"sse": others}}, wrt, inputs={"I": others}, steps=50, dt=DT)
    outputs = run_file(path, {"I": others, "steps": 50, "data of fn.v": others})
    assert_same(outputs, expected)


@pytest.mark.parametrize("word", ["sse", "weighted"])
def test_a_number_as_data_is_one_for_all_steps(tmp_path: Path, word: str) -> None:
    _, path = save_gradient(tmp_path, {"fn.v": {word: 0.5}})
    (data,) = (e for e in session_of(path).get_overridable_initializers() if "data" in e.name)
    assert data.shape == []
    for steps, number in ((30, 0.5), (12, 0.5), (12, -1.0)):
        expected = mdf_loop.compile(FN).gradient({"fn.v": {word: number}}, WRT, steps=steps, dt=DT)
        outputs = run_file(path, {"I": 0.5, "steps": steps, "data of fn.v": number})
        assert_same(outputs, expected)


def test_set_parameters_are_stored_in_the_file(tmp_path: Path) -> None:
    settings = {"fn.a": 0.6, "fn.v": 0.25}
    gradient, path = save_gradient(tmp_path, {"fn.v": "mean"}, set=settings)
    assert_same(run_file(path, {"I": 0.5}), gradient.run(settings))


def test_random_keys_are_an_input_of_the_file(tmp_path: Path) -> None:
    cell = {
        "parameters": {
            "sd": {"value": 0.5},
            "x": {"default_initial_value": 0.0, "value": "0.9 * x + sd * numpy.random.normal()"},
        },
        "output_ports": {"x": {"value": "x"}},
    }
    model = mdf_loop.compile({"m": {"graphs": graph(cell=cell)}}, device="cpu")
    gradient = model.differentiate({"cell.x": "mean"}, ["cell.sd"], steps=20, seed=3)
    gradient.save(tmp_path / "g.onnx")
    assert_same(run_file(tmp_path / "g.onnx", {}), gradient.run())
    keys = streams.keys(8, streams.sites(gradient.program.sites))
    other = model.gradient({"cell.x": "mean"}, ["cell.sd"], steps=20, seed=8)
    assert_same(run_file(tmp_path / "g.onnx", {"random_keys": keys}), other)


def test_the_file_has_only_standard_operators(tmp_path: Path) -> None:
    _, path = save_gradient(tmp_path, {"fn.v": "mean"})
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain for entry in model.opset_import} == {""}


def test_derivatives_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    gradient = mdf_loop.compile(FN).differentiate({"fn.v": "mean"}, ["fn.a"], steps=3, trials=4)
    with pytest.raises(InputError, match="a file computes one run"):
        gradient.save(tmp_path / "g.onnx")
    with pytest.raises(InputError, match=r"does not end in \.onnx"):
        gradient.save(tmp_path / "g.txt")
    assert not list(tmp_path.iterdir())
