"""Products of matrices in native loops: the bits depend on neither shapes nor spelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop


def over_time(n: int, **outputs: str) -> Any:
    """Return a compiled model with a matrix `M`, vectors `s` and `r` that change, and constants `W` and `q`."""
    rng = np.random.default_rng(n)
    node = {
        "input_ports": {"U": {"shape": [n, n]}},
        "parameters": {
            "W": {"value": rng.normal(size=(n, n)).tolist()},
            "q": {"value": 0.3},
            "s": {
                "default_initial_value": rng.normal(size=n).tolist(),
                "value": "0.9 * s + 0.1 * q",
            },
            "r": {"default_initial_value": rng.normal(size=n).tolist(), "value": "0.5 * r - s * q"},
            "M": {
                "default_initial_value": rng.normal(size=(n, n)).tolist(),
                "value": "M - 0.1 * q",
            },
        },
        "output_ports": {name: {"value": expression} for name, expression in outputs.items()},
    }
    model = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    return mdf_loop.compile(model, native="require", device="cpu")


@pytest.mark.parametrize("n", [3, 8, 9, 21])
def test_spellings_of_one_product_have_the_same_bits(n: int) -> None:
    expression_by_name = {
        "a": "M @ s",
        "b": "s @ numpy.transpose(M)",
        "c": f"(M @ numpy.outer(s, numpy.ones({n})))[:, 0]",
        "d": f"(M @ numpy.outer(s, numpy.ones({n})))[:, -1]",
    }
    results = over_time(n, **expression_by_name).run({"U": np.zeros((n, n))}, steps=5)
    for name in "bcd":
        np.testing.assert_array_equal(results["a"][1:], results[name][1:], name)


PRODUCTS = (
    *("numpy.dot(s, s)", "numpy.vdot(s, r)", "s @ r", "W @ s", "s @ W", "U @ s", "M @ s"),
    *("s @ M", "(W @ M)[:, 0]", "(M @ U)[0]", "numpy.inner(s, M)"),
)


@pytest.mark.slow
@pytest.mark.parametrize("n", [7, 20, 150])
def test_products_of_a_member_equal_those_of_a_single_run(n: int) -> None:
    compiled = over_time(n, **{f"o{k}": expression for k, expression in enumerate(PRODUCTS)})
    inputs = {"U": np.random.default_rng(0).normal(size=(n, n))}
    parameter_values = [0.1, 0.25, 0.5, 0.75, 1.0]
    member_results = compiled.run(inputs, sweep={"A.q": parameter_values}, steps=4)
    single_run = compiled.run(inputs, set={"A.q": parameter_values[3]}, steps=4)
    for name in single_run:
        np.testing.assert_array_equal(np.asarray(member_results[name])[3], single_run[name], name)


@pytest.mark.parametrize("native", ["off", "require"])
def test_dot_products_have_the_summation_order_of_sums(native: str) -> None:
    rng = np.random.default_rng(1)
    node = {
        "parameters": {
            "q": {"value": 0.5},
            "s": {"default_initial_value": rng.normal(size=50).tolist(), "value": "s * 0.9 + q"},
        },
        "functions": {"f": {"function": "onnx::MatMul", "args": {"A": "s", "B": "s"}}},
        "output_ports": {"dot": {"value": "numpy.dot(s, s)"}, "sum": {"value": "numpy.sum(s * s)"}},
    }
    node["output_ports"]["f"] = {"value": "f"}
    model = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    results = mdf_loop.compile(model, native=native, device="cpu").run(steps=5)
    np.testing.assert_array_equal(results["dot"], results["sum"])
    np.testing.assert_array_equal(results["f"][1:], results["sum"][:-1])
