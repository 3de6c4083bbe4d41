"""`check` accepts exactly what a run accepts with these inputs and options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopError
from mdf_loop.importing.opening import open_document
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.lower.builder import Options
from mdf_loop.reading import open_ports
from mdf_loop.verification.acceptance import accept
from tests.soak import times
from tests.strategies.loops import graph, loops
from tests.strategies.operators import operators

ROOT = Path(__file__).resolve().parents[2]


def refused_by_check(source: Any, inputs: Mapping[str, Any], options: Options) -> str:
    try:
        accept(open_document(source), inputs, options)
    except LoopError as error:
        return str(error)
    return ""


def refused_by_run(source: Any, inputs: Mapping[str, Any], options: Options) -> str:
    """Return the error of a model that is prepared for a run, without the run."""
    try:
        words = {"shapes": options.shapes, "max_iterations": options.max_iterations}
        compiled = mdf_loop.compile(source, device="cpu", precision=options.precision, **words)
        compiled.prepare(inputs)
    except LoopError as error:
        return str(error)
    return ""


def common_error(
    source: Any, options: Options | None = None, inputs: Mapping[str, Any] | None = None
) -> str:
    """Return the error of both; empty if both accept the model."""
    options = options or Options()
    try:
        inputs = open_inputs(source) if inputs is None else inputs
    except LoopError:
        inputs = {}
    message = refused_by_check(source, inputs, options)
    assert message == refused_by_run(source, inputs, options)
    return message


def open_inputs(source: Any) -> dict[str, Any]:
    """Return values of the required inputs: two rows along each open axis."""
    values = {}
    for port in open_ports(open_document(source)):
        is_open = port.port.default_value is None and -1 in (port.port.shape or ())
        if port.is_required or is_open:
            shape = [2 if extent == -1 else extent for extent in port.port.shape or ()]
            values[port.full_name] = np.zeros(shape, numpy_dtype(port.port.type or "float64"))
    return values


def models(folder: Path) -> list[Path]:
    suffixes = (".yaml", ".yml", ".json", ".onnx")
    return [path for path in sorted(folder.rglob("*")) if path.suffix in suffixes]


def test_shared_models(shared: Path) -> None:
    accepted = [not common_error(path) for path in models(shared / "models")]
    assert sum(accepted) > len(accepted) // 2


@pytest.mark.parametrize(
    "folder", ["examples", "mdf_loop/demo", "tests/drawing/models", "tests/psyneulink/data"]
)
def test_own_models(folder: str) -> None:
    errors = [common_error(path) for path in models(ROOT / folder)]
    assert "" in errors


# --- cases that only one of the two might refuse --------------------------------------------------


def node(function: str, output: str, **ports: Any) -> dict[str, Any]:
    """Return a node with a function of the operator on the ports; `output` is its output expression."""
    name, _, args = function.partition(" ")
    inputs = dict(zip(args.split(), ports, strict=True))
    return {
        "g": {
            "nodes": {
                "A": {
                    "input_ports": {k: {"default_value": v} for k, v in ports.items()},
                    "functions": {"f": {"function": f"onnx::{name}", "args": inputs}},
                    "output_ports": {"y": {"value": output}},
                }
            }
        }
    }


ROI = {
    "input_ports": {"x": {"default_value": [[[[1.0]]]]}},
    "functions": {
        "f": {
            "function": "onnx::MaxRoiPool",
            "args": {"X": "x", "rois": [[0.0] * 5], "pooled_shape": [1, 1]},
        }
    },
}


def test_unread_functions_need_no_kernel() -> None:
    models = {
        expression: {"g": {"nodes": {"A": {**ROI, "output_ports": {"y": {"value": expression}}}}}}
        for expression in ("2 * x", "f")
    }
    assert common_error(models["2 * x"]) == ""
    assert "no float64 kernel for onnx::MaxRoiPool" in common_error(models["f"])
    assert common_error(models["f"], Options(precision="float32")) == ""


@pytest.mark.parametrize("shapes", ["strict", "dynamic"])
def test_carried_values_that_change(shapes: str) -> None:
    grows = "{b: {metadata: {inputs: [i, go, x], outputs: [go, z]}, nodes: {n: {input_ports: {x: {}}, output_ports: {z: {value: 'numpy.concatenate([x, x])'}}}}}}"
    text = f"""
G:
    graphs:
        g:
            nodes:
                A:
                    functions: {{f: {{function: "onnx::Loop", args: {{M: 2, v_initial: [[1.0]], body: {grows}}}}}}}
                    output_ports: {{y: {{value: f}}}}
"""
    import yaml

    assert (common_error(yaml.safe_load(text), Options(shapes=shapes)) == "") is (
        shapes == "dynamic"
    )


def test_a_model_without_outputs() -> None:
    assert "there is nothing to compute" in common_error(
        {"g": {"nodes": {"A": {"input_ports": {"x": {"default_value": 1}}}}}}
    )


def test_an_open_input_with_a_default_is_that_default() -> None:
    model = node("Softmax input", "f", x=[1.0, 2.0])
    model["g"]["nodes"]["A"]["input_ports"]["x"] |= {"shape": [-1], "type": "float64"}
    assert common_error(model) == ""


def test_an_open_input_without_a_value_is_checked_by_its_type() -> None:
    model = node("Softmax input", "f", x=None)
    model["g"]["nodes"]["A"]["input_ports"]["x"] = {"shape": [-1], "type": "float64"}
    assert refused_by_check(model, {}, Options()) == ""
    assert "must be given" in refused_by_run(model, {}, Options())
    assert common_error(model, inputs={"x": [1.0, 2.0]}) == ""


# --- random ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.soak
@settings(max_examples=times(60, 5000), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(operators(), st.sampled_from(["float64", "float32"]))
def test_random_operators(model: dict[str, Any], precision: str) -> None:
    common_error(model, Options(precision=precision))


@pytest.mark.slow
@pytest.mark.soak
@settings(max_examples=times(8, 500), suppress_health_check=[HealthCheck.too_slow])
@given(loops())
def test_random_loops(loop: dict[str, object]) -> None:
    assert common_error(graph(loop)) == ""
