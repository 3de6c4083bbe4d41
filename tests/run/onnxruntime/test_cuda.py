"""Runs on a GPU: the numbers of the CPU, equal bits of random numbers, and the same reports at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import StopReason
from tests.models.loops import loop_model
from tests.noisy_models import EXPECTED, LOOP, WALK, P, model
from tests.soak import times
from tests.strategies.loops import graph, loops
from tests.strategies.noisy_models import noisy_models
from tests.strategies.run_cases import MODELS, SHARED, inputs_of, shared_models

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="no CUDA here"
    ),
]

SOME = settings(max_examples=times(10, 400), suppress_health_check=list(HealthCheck), deadline=None)


def run_on_both_devices(source: Any, *, exact: bool = False, **options: Any) -> mdf_loop.Results:
    """Run a model on CUDA, check that the results equal those of the CPU, and return the results."""
    expected = mdf_loop.compile(source, device="cpu", native="off").run(**options)
    results = mdf_loop.compile(source, device="cuda").run(**options)
    assert results.device == "cuda"
    assert list(results) == list(expected)
    for name, array in expected.items():
        assert results[name].dtype == array.dtype
        if exact or array.dtype.kind != "f":
            np.testing.assert_array_equal(results[name], array, err_msg=name)
        else:
            np.testing.assert_allclose(results[name], array, rtol=1e-12, atol=1e-14, err_msg=name)
    return results


SINE = loop_model(
    {"M": 50, "v_initial": "(x0,)"},
    {"x_next": "numpy.sin(x) + 0.5 * x", "row": "x * i"},
    port_values={"x0": [0.1, 0.2, 0.3]},
    carried="x",
    recorded="row",
)


def test_a_loop_gives_the_numbers_of_the_cpu() -> None:
    run_on_both_devices(SINE)


@pytest.mark.parametrize("name", MODELS)
def test_models_over_time(name: str) -> None:
    source, options = MODELS[name]
    run_on_both_devices(source, steps=60, **options)


@pytest.mark.parametrize("name", shared_models())
def test_shared_models(name: str) -> None:
    run_on_both_devices(SHARED / name, inputs=inputs_of(name))


@pytest.mark.parametrize("expression", EXPECTED)
def test_random_numbers_have_the_same_bits(expression: str) -> None:
    known = {"means": [0, 1, 2, 3, 4], "list": [5.0, 6.0, 7.0, 8.0], "weights": P}
    node = {
        "parameters": {name: {"value": value} for name, value in known.items()},
        "output_ports": {"y": {"value": expression}, "x": {"value": "2.0 * list"}},
    }
    run_on_both_devices(model(node), exact=True)


@pytest.mark.parametrize(
    "options", [{"steps": 40}, {"steps": 12, "trials": 5}, {"steps": 9, "seed": 8}]
)
def test_a_walk_has_the_same_bits(options: dict[str, Any]) -> None:
    run_on_both_devices(model(WALK), exact=True, **options)


def test_a_loop_that_draws_has_the_same_bits() -> None:
    run_on_both_devices(model(LOOP), exact=True, trials=4)


def or_all_on_the_cpu(source: Any, **options: Any) -> None:
    """Compare CUDA with the CPU, unless ONNX Runtime places all operations of a small model on the CPU."""
    try:
        run_on_both_devices(source, **options)
    except LoopError as error:
        assert "all operations on the CPU" in str(error)  # noqa: PT017 - most models are no error


@SOME
@given(loops())
def test_random_loops(loop: dict[str, Any]) -> None:
    or_all_on_the_cpu(graph(loop))


@SOME
@given(noisy_models(), st.sampled_from([0, 2**64 - 1]))
def test_random_noisy_models_have_the_same_bits(source: dict[str, Any], seed: int) -> None:
    or_all_on_the_cpu(source, exact=True, steps=12, seed=seed, trials=3)


def test_a_run_goes_on_on_another_device() -> None:
    source, _ = MODELS["a network of 90 units"]
    options = {"dt": 0.05, "inputs": {"A.x": [0.5] * 90}, "record": ["A.r"]}
    unbroken_run = mdf_loop.compile(source, device="cpu").run(steps=30, **options)
    first_part = mdf_loop.compile(source, device="cuda").run(steps=10, **options)
    second_part = mdf_loop.compile(source, device="cuda").run(
        steps=20, state=first_part.state, **options
    )
    assert (first_part.device, second_part.device) == ("cuda", "cuda")
    np.testing.assert_allclose(
        np.concatenate([first_part["A.r"], second_part["A.r"]]),
        unbroken_run["A.r"],
        rtol=1e-12,
        atol=1e-14,
    )


def test_the_race_ends_and_says_both_times() -> None:
    compiled = mdf_loop.compile(SINE, native="off")
    assert compiled.device == "auto"
    assert compiled.run().device == compiled.device in ("cpu", "cuda")
    assert "for the first piece of work" in compiled.device_reason
    assert "cpu: " in compiled.device_reason
    assert "cuda: " in compiled.device_reason


def test_a_time_limit_ends_a_run() -> None:
    source, _ = MODELS["a network of 90 units"]
    inputs = {"A.x": [0.5] * 90}
    compiled = mdf_loop.compile(source, device="cuda")
    results = compiled.run(steps=10**8, dt=0.05, inputs=inputs, every=10**6, time_limit=1.0)
    assert results.device == "cuda"
    assert results.stopped_by is StopReason.TIME_LIMIT


def ports(expression: str, **inputs: Any) -> tuple[mdf_loop.CompiledModel, dict[str, Any]]:
    """Compile a node with one expression for CUDA and return the model with its inputs."""
    node = {
        "input_ports": {name: {} for name in inputs},
        "output_ports": {"y": {"value": expression}},
    }
    return mdf_loop.compile(model(node), device="cuda"), inputs


@pytest.mark.parametrize(
    ("expression", "parameters", "wrong", "sentence"),
    [
        ("7 // n + x", {"n": 2, "x": 0.5}, {"n": 0}, "divided by zero"),
        ("7 % n + x", {"n": [2, 3], "x": 0.5}, {"n": [1, 0]}, "divided by zero"),
        ("2 ** n + x", {"n": 5, "x": 0.5}, {"n": -1}, "negative whole powers"),
        ("x[n] + 1", {"n": -2, "x": [0.5, 1.5]}, {"n": 2}, "a position does not exist"),
        ("x[:, n]", {"n": 2, "x": [[1.0, 2.0, 3.0]]}, {"n": -4}, "a position does not exist"),
    ],
)
def test_failures_on_the_cpu_are_failures_on_cuda(
    expression: str, parameters: dict[str, Any], wrong: dict[str, Any], sentence: str
) -> None:
    compiled, inputs = ports(expression, **parameters)
    expected = mdf_loop.compile(compiled.document, device="cpu").run(inputs)
    np.testing.assert_array_equal(compiled.run(inputs)["y"], expected["y"])
    with pytest.raises(RunError, match=sentence):
        compiled.run({**inputs, **wrong})


LOOPS: dict[str, dict[str, Any]] = {
    "two values change places": loop_model(
        {"M": 7, "v_initial": "(a, b)"},
        {"x_next": "y", "y_next": "x", "row": "x - y"},
        port_values={"a": [1.0, 2.0], "b": [3.0, 5.0]},
        carried="x y",
        recorded="row",
    ),
    "a value stays": loop_model(
        {"M": 5, "v_initial": "(a, b)"},
        {"x_next": "x + y", "y_next": "y"},
        port_values={"a": [1.0, 2.0], "b": [3.0, 5.0]},
        carried="x y",
    ),
    "a condition ends it": loop_model(
        {"cond": True, "v_initial": "(a,)"},
        {"x_next": "x * 1.5", "row": "i * x"},
        port_values={"a": 1.0},
        carried="x",
        recorded="row",
        go="x < 20",
    ),
    "its condition is an input": loop_model(
        {"cond": "go_on", "M": "most", "v_initial": "(a,)"},
        {"x_next": "x * 1.5"},
        port_values={"a": 1.0, "go_on": True, "most": 30},
        carried="x",
        go="x < 20",
    ),
    "it never runs": loop_model(
        {"M": 0, "v_initial": "(a,)"},
        {"x_next": "x * 1.5", "row": "x"},
        port_values={"a": [1.0, 2.0]},
        carried="x",
        recorded="row",
    ),
    "its trip count is carried": loop_model(
        {"M": "most", "v_initial": "(most,)"},
        {"x_next": "x * 2"},
        port_values={"most": 6},
        carried="x",
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    run_on_both_devices(LOOPS[name])
    raced = mdf_loop.compile(LOOPS[name], native="off").run()
    expected = mdf_loop.compile(LOOPS[name], device="cpu").run()
    for output in expected:
        np.testing.assert_allclose(raced[output], expected[output], rtol=1e-12)


def test_an_input_that_is_an_output_is_given_back() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        g (double[2] x, double[2] z) => (double[2] x, double[2] y) { y = Add(x, z) }"""
    compiled = mdf_loop.compile(mdf_loop.from_onnx(onnx.parser.parse_model(text)), device="cuda")
    results = compiled.run({"x": [1.0, 2.0], "z": [5.0, 6.0]})
    assert results["x"].tolist() == [1.0, 2.0]
    assert results["y"].tolist() == [6.0, 8.0]


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_products_are_computed_in_their_precision(precision: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(40, 60)), rng.normal(size=(60, 30))
    node = {"input_ports": {"a": {}, "b": {}}, "output_ports": {"y": {"value": "a @ b"}}}
    compiled = mdf_loop.compile(model(node), device="cuda", precision=precision)
    product = compiled.run({"a": a, "b": b})["y"]
    least = 2e-5 if precision == "float32" else 1e-12
    np.testing.assert_allclose(product, a @ b, rtol=least, atol=least)
