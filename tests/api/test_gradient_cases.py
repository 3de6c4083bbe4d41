"""Stored cases of `CompiledModel.gradient`: native and interpreted, whole and in chunks, and as files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.api.differentiated import Differentiated
from mdf_loop.errors import LoopError
from mdf_loop.run.gradient import in_chunks
from tests.passes.gradient.stored_cases import FOLDER, load, names

GRADIENTS = FOLDER.parent / "cases" / "gradients"
REFUSED = [p.stem for p in sorted(FOLDER.glob("*.json")) if json.loads(p.read_text()).get("error")]
OVER_TIME = [name for name in names() if load(name)["steps"] is not None]


def differentiate_case(case: Mapping[str, Any], native: str) -> Differentiated:
    """Return the derivative of a stored case."""
    output_terms: dict[str, list[Any]] = {}
    for entry in case["of"]:
        data = entry.get("target", entry.get("weights"))
        word = entry["reduce"]
        reduction = word if data is None else {word: data}
        output_terms.setdefault(entry["output"], []).append(reduction)
    model = mdf_loop.compile(FOLDER / case["model"], native=native, device="cpu")
    return model.differentiate(output_terms, case["wrt"], steps=case["steps"], dt=case["dt"])


def settings_and_inputs(case: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameter settings and the inputs of a case."""
    at = {name: np.asarray(value, float) for name, value in case["at"].items()}
    ports = set(case["wrt_inputs"])
    settings = {name: value for name, value in at.items() if name not in ports}
    inputs = {name: np.asarray(value) for name, value in case["inputs"].items()}
    return settings, inputs | {name: at[name] for name in ports}


def assert_expected(case: Mapping[str, Any], gradient: Mapping[str, Any]) -> None:
    """Check the derivatives of a case to the tolerance of the case."""
    expected = {name: np.asarray(value, float) for name, value in case["expected"].items()}
    largest = max(np.max(np.abs(array), initial=0) for array in expected.values())
    for name, array in expected.items():
        assert gradient[name].shape == array.shape
        scale = max(1e-3 * largest, np.max(np.abs(array), initial=0), 1e-12)
        np.testing.assert_allclose(
            gradient[name], array, rtol=0, atol=case["tolerance"] * scale, err_msg=name
        )


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize("name", names())
def test_the_stored_gradients(name: str, native: str) -> None:
    case = load(name)
    gradient = differentiate_case(case, native).run(*settings_and_inputs(case))
    assert_expected(case, gradient)
    assert gradient.value == pytest.approx(case["value"], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize("name", OVER_TIME)
def test_in_chunks(name: str, native: str, monkeypatch) -> None:
    """Check derivatives in the shortest possible chunks.

    Most cases have several chunks and a shorter last chunk.
    """
    monkeypatch.setattr(in_chunks, "CHUNK_STATE_BYTES", 1)
    monkeypatch.setattr(in_chunks, "MIN_CHUNK_STEPS", 7)
    case = load(name)
    chunk_lengths = []
    chunks = in_chunks.GradientOverTime._run_in_chunks
    monkeypatch.setattr(
        *(in_chunks.GradientOverTime, "_run_in_chunks"),
        lambda self, bound, most: (chunk_lengths.append(most), chunks(self, bound, most))[1],
    )
    gradient = differentiate_case(case, native).run(*settings_and_inputs(case))
    assert chunk_lengths
    assert chunk_lengths[0] < case["steps"]
    assert_expected(case, gradient)
    assert gradient.value == pytest.approx(case["value"], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_models_without_derivative_are_refused(name: str) -> None:
    case = load(name)
    with pytest.raises(LoopError) as error:
        differentiate_case({"at": {}, **case}, "auto").run()
    assert all(word in str(error.value) for word in case["error_names"])


# --- files --------------------------------------------------------------------------------------------


def run_file(path: Path, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Run a saved file in plain ONNX Runtime with the feeds that are inputs of the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arguments = {
        entry.name: np.asarray(feeds[entry.name])
        for entry in session.get_inputs()
        if entry.name in feeds
    }
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, arguments), strict=True))


def defaults(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default values of the model's inputs, since a saved file has no defaults."""
    bound = mdf_loop.compile(FOLDER / case["model"]).prepare({})[0]
    return {name: np.asarray(data) for name, data in bound.items()}


@pytest.mark.parametrize("name", names())
def test_a_saved_file_gives_the_same_in_plain_onnxruntime(name: str, tmp_path: Path) -> None:
    case = load(name)
    settings, inputs = settings_and_inputs(case)
    gradient = differentiate_case(case, "auto")
    gradient.save(tmp_path / "gradient.onnx", settings, inputs)
    outputs = run_file(tmp_path / "gradient.onnx", {**defaults(case), **settings, **inputs})
    assert_expected(case, {n: outputs[f"gradient of {n}"] for n in case["wrt"]})
    assert float(outputs["value"]) == pytest.approx(case["value"], rel=1e-9, abs=1e-12)


# --- ONNX files whose derivatives are known -----------------------------------------------------------


def onnx_cases() -> list[tuple[str, int]]:
    cases = []
    for path in sorted(GRADIENTS.glob("*.json")):
        case = json.loads(path.read_text())
        cases += [(path.stem, k) for k in range(len(case["runs"]))]
    return cases


def array(tensor: Mapping[str, Any]) -> np.ndarray:
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize(("name", "number"), onnx_cases())
def test_onnx_files(name: str, number: int, native: str) -> None:
    """Check gradients of the weighted sum of the outputs, with the stored cotangents as weights."""
    case = json.loads((GRADIENTS / f"{name}.json").read_text())
    run = case["runs"][number]
    inputs = {port: array(tensor) for port, tensor in run["inputs"].items()}
    expected = {port: array(tensor) for port, tensor in run["expected_grads"].items()}
    model = mdf_loop.compile(GRADIENTS / case["model"], native=native, device="cpu")
    outputs = list(model.run(inputs))
    output_terms = {
        output: {"weighted": array(seed)}
        for output, seed in zip(outputs, run["seeds"], strict=True)
        if seed is not None
    }
    gradient = model.gradient(output_terms, list(expected), inputs=inputs)
    for port, derivative in expected.items():
        assert gradient[port].dtype == derivative.dtype
        np.testing.assert_allclose(gradient[port], derivative, rtol=case["tol"], atol=1e-12)
