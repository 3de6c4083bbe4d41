"""Symbol that marks nodes which draw random numbers."""

from __future__ import annotations

from typing import Any

import pytest

import mdf_loop

SIGN = "~ draws random numbers"

DRAWING: dict[str, dict[str, Any]] = {
    "a parameter": {"parameters": {"x": {"value": "2 * numpy.random.normal()"}}},
    "an initial value": {
        "parameters": {"x": {"value": "x + 1", "default_initial_value": "random.random()"}}
    },
    "a function": {"functions": {"x": {"function": "onnx::RandomNormal", "args": {"shape": [1]}}}},
    "an argument": {
        "functions": {
            "x": {
                "function": "linear",
                "args": {"variable0": "numpy.random.rand()", "slope": 1.0, "intercept": 0.0},
            }
        }
    },
    "a condition": {
        "parameters": {
            "x": {
                "value": 1.0,
                "conditions": [{"id": "c", "test": "numpy.random.rand() > 0.5", "value": "2.0"}],
            }
        }
    },
}


def dot(node: dict[str, Any]) -> str:
    model = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    return mdf_loop.draw(model, level=3).dot


@pytest.mark.parametrize("name", DRAWING)
def test_random_parameters_have_a_sign(name: str) -> None:
    assert SIGN in dot({**DRAWING[name], "output_ports": {"x": {"value": "x"}}})


def test_random_output_ports_have_a_sign() -> None:
    assert SIGN in dot({"output_ports": {"x": {"value": "numpy.random.rand()"}}})


def test_other_nodes_have_no_sign() -> None:
    constant_node = {
        "parameters": {"random": {"value": 1.0}},
        "output_ports": {"x": {"value": "random"}},
    }
    assert "draws random numbers" not in dot(constant_node)
