"""Per-member early exit of loops with small arrays: the kernel holds each element in a lane of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError
from mdf_loop.native import machine
from tests.long_runs.helpers import same_results
from tests.models.loops import loop_model
from tests.placements import kernels_checked
from tests.soak import times

VECTOR = [3.0, -1.0, 2.0]
MATRIX = [[1.0, -2.0, 3.0], [0.0, 4.0, -1.0]]
CUBE = [[[1.0, 2.0], [-3.0, 4.0]], [[0.0, 1.0], [5.0, -2.0]]]
FIFTEEN_ELEMENTS = [float(k % 7 - 3) for k in range(15)]


def model(initial: Any, following: str, go: str = "k < last", **parameters: Any) -> dict[str, Any]:
    """Return a loop that updates `x` by the expression `following`, and counts `k` up to `last`."""
    source = loop_model(
        {"cond": True, "v_initial": f"({initial}, 0)"},
        {"x_next": following, "k_next": "k + 1"},
        port_values={"last": 4, "step": 1.0},
        carried="x k",
        go=go,
    )
    source["model"]["graphs"]["graph"]["nodes"]["A"]["parameters"] = {
        name: {"value": value} for name, value in parameters.items()
    }
    return source


SWEEP: dict[str, Any] = {"last": [0, 5, 2, 9, 1, 3, 3, 7, 4], "step": np.arange(9.0) - 3}


EXACT_BODIES = {
    "each number": (VECTOR, "x * step - 1"),
    "one beside all": (VECTOR, "x[0] * 2 - x"),
    "their sum": (VECTOR, "numpy.sum(x) - x"),
    "extremes": (VECTOR, "numpy.max(x) - numpy.min(x) + x - step"),
    "a product": (VECTOR, "numpy.minimum(numpy.prod(x), 9) - x"),
    "a mean of four": (CUBE, "x - numpy.mean(x, axis=(1, 2), keepdims=True)"),
    "backwards": (VECTOR, "x[::-1] + step"),
    "round": (VECTOR, "numpy.concatenate([x[1:], x[:1]]) - step"),
    "a choice": (VECTOR, "numpy.where(x > 0, x - step, step - x)"),
    "truths": (VECTOR, "x + (x > step)"),
    "an array of all": (VECTOR, "x + [1.0, 2.0, 4.0]"),
    "transposed": (MATRIX, "numpy.transpose(numpy.reshape(x, (3, 2)))"),
    "rows": (MATRIX, "x - numpy.sum(x, axis=1, keepdims=True)"),
    "columns": (MATRIX, "x + numpy.sum(x, axis=0)"),
    "a row": (MATRIX, "x - x[1]"),
    "the middle": (CUBE, "x + numpy.max(x, axis=1, keepdims=True)"),
    "the number of the iteration": (VECTOR, "x + i"),
    "an array of iterations": (VECTOR, "numpy.array([i, k, 2.0 * i]) - x"),
    "many": (FIFTEEN_ELEMENTS, "numpy.sum(x) - 2 * x"),
    "one alone": ([2.0], "x * step + 1"),
    "two axes of one": ([[2.0]], "x - step"),
    "nothing": (VECTOR, "x"),
}
"""Initial arrays and update expressions of small integers, so that sums are exact in any order."""


@pytest.mark.parametrize("name", EXACT_BODIES)
def test_results_equal_the_standard_loop_bit_by_bit(name: str) -> None:
    initial_array, next_expression = EXACT_BODIES[name]
    source = model(initial_array, next_expression)
    with kernels_checked(len(name) % 2 == 0):
        results = mdf_loop.compile(source, device="cpu", native="require").run(sweep=SWEEP)
    expected = mdf_loop.compile(source, device="cpu", native="off").run(sweep=SWEEP)
    assert set(results.native.values()) == {"native"}
    same_results(results, expected)
    assert results["r0"].shape == (9, *np.shape(initial_array))


EXPRESSION_TEMPLATES = (
    "numpy.concatenate([{v}, {v} - step])[:{n}]",
    "numpy.sum({v}, axis={k}, keepdims=True) - {v}",
    "numpy.max({v}, axis={k}, keepdims=True) + {v}",
    "{v} - numpy.min({v}) * step",
    "numpy.sum({v}) - {v}",
    "{v}[::-1] + i",
    "numpy.concatenate([{v}[1:], {v}[:1]])",
    "numpy.where({v} > step, {v} - 1, {v} + k)",
    "numpy.reshape(numpy.reshape({v}, ({size},))[::-1], {shape})",
    "numpy.reshape(numpy.transpose({v}), {shape})",
    "numpy.abs({v}) - numpy.expand_dims({v}, 0)[0]",
    "{v} * step - {v}[0]",
    "numpy.maximum({v}, other)",
)


def random_model(rng: np.random.Generator) -> dict[str, Any]:
    """Return a loop whose body applies two random expressions of `EXPRESSION_TEMPLATES` to small integers."""
    initial_array = [VECTOR, MATRIX, CUBE, FIFTEEN_ELEMENTS, [2.0]][rng.integers(5)]
    shape, expression_text = np.shape(initial_array), "x"
    for _ in range(2):
        axis = int(rng.integers(len(shape)))
        template = str(rng.choice(EXPRESSION_TEMPLATES[axis > 0 :]))
        expression = template.format(
            v=expression_text, k=axis, n=shape[0], size=np.size(initial_array), shape=shape
        )
        expression_text = f"numpy.clip({expression}, -40, 40)"
    return loop_model(
        {"cond": True, "v_initial": "(initial, 0)"},
        {"x_next": expression_text, "k_next": "k + 1"},
        port_values={"last": 4, "step": 1.0, "initial": initial_array, "other": initial_array},
        carried="x k",
        go="(numpy.sum(x) < last * 9) and (k < 30)" if rng.random() < 0.5 else "k < last",
    )


@pytest.mark.soak
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_random_bodies(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare random bodies with the standard loop; the signs of zeros may differ."""
    monkeypatch.setattr(machine, "vector_width", lambda: width)
    for seed in range(width, times(32, 2000), 8):
        source = random_model(np.random.default_rng(seed))
        run_options = {"sweep": {"last": SWEEP["last"], "step": SWEEP["step"]}}
        with kernels_checked(seed % 2 == 0):
            results = mdf_loop.compile(source, device="cpu", native="require").run(**run_options)
        standard_results = mdf_loop.compile(source, device="cpu", native="off").run(**run_options)
        for name in standard_results:
            np.testing.assert_array_equal(results[name], standard_results[name])


@pytest.mark.parametrize("word", ["sum", "prod", "mean", "max"])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 19, 32])
def test_a_member_has_the_same_bits_in_a_sweep_and_alone(word: str, size: int) -> None:
    rng = np.random.default_rng(size)
    initial_array = rng.normal(size=size).tolist()
    compiled = mdf_loop.compile(
        model(initial_array, f"x * 0.75 + step * numpy.{word}(x)"), device="cpu", native="require"
    )
    sweep = {"last": [7, 1, 30], "step": [0.0625, -0.5, 0.03]}
    joint_run = compiled.run(sweep=sweep)["r0"]
    for row, last_number, step in zip(joint_run, *sweep.values(), strict=True):
        single_run = compiled.run({"last": last_number, "step": step})["r0"]
        assert row.tobytes() == single_run.tobytes()


def test_each_element_has_noise_of_its_own() -> None:
    source = model(
        "zeros", "x + numpy.random.normal(size=3)", "numpy.max(x) < 2.0", zeros=[0.0] * 3
    )
    compiled = mdf_loop.compile(source, device="cpu", native="require")
    results = compiled.run(trials=50)
    same_results(results, mdf_loop.compile(source, device="cpu", native="off").run(trials=50))
    assert len(np.unique(results["n"])) > 3
    selected_results = compiled.run(trials=[41, 3])
    np.testing.assert_array_equal(selected_results["r0"], results["r0"][[41, 3]])


def test_swept_input_arrays() -> None:
    source = loop_model(
        {"cond": True, "v_initial": "x0"},
        {"x_next": "x + drift"},
        port_values={"x0": [0.0, 1.0], "drift": [0.5, 0.25], "last": 4.0},
        carried="x",
        go="numpy.sum(x) < last",
    )
    compiled = mdf_loop.compile(source, device="cpu", native="require")
    rows = np.array([[0.5, 0.25], [1.0, 2.0], [4.0, 0.125]])
    for sweep in ({"drift": rows}, {"x0": rows}, {"x0": rows, "drift": rows}, {"last": [1.0, 9.0]}):
        results = compiled.run(sweep=sweep)
        same_results(results, mdf_loop.compile(source, device="cpu", native="off").run(sweep=sweep))


@pytest.mark.parametrize(
    ("initial", "following", "why"),
    [
        ([1.0] * 33, "x + step", "have large arrays"),
        ([], "x + step", "has no elements"),
        ([[1.0, 2.0], [3.0, 4.0]], "x @ x", "it has onnx::MatMul of arrays"),
        (VECTOR, "x + x[k % 3]", "it has onnx::GatherND of what is computed"),
        (VECTOR, "x + numpy.cumsum(x)", "it has onnx::CumSum of arrays"),
    ],
)
def test_unsupported_bodies_are_standard(initial: Any, following: str, why: str) -> None:
    source = model(initial, following)
    with pytest.raises(UnsupportedError, match=why):
        mdf_loop.compile(source, device="cpu", native="require").run(sweep=SWEEP)
    results = mdf_loop.compile(source, device="cpu").run(sweep=SWEEP)
    assert results.loops["A.loop"].iterations.shape == (9,)
