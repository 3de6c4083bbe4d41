"""Models that draw random numbers, compared with modeci_mdf's engine with the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import distributions, streams
from mdf_loop.lower.functions import FUNCTIONS
from tests.noisy_models import EXPECTED, KNOWN, LOOP, SITE, WALK, model

MIXED = {
    "functions": {
        "f": {
            "function": "onnx::RandomNormal",
            "args": {"shape": [3], "mean": 1.0, "seed": -1},
        },
        "g": {
            "function": "onnx::RandomUniformLike",
            "args": {"input": "v", "low": 2.0, "high": 3.0},
        },
        "h": {
            "function": "linear",
            "args": {"variable0": "numpy.random.rand(2)", "slope": "w", "intercept": 0.5},
        },
        "n": {"value": "numpy.random.exponential(2.0) + numpy.random.exponential(2.0)"},
    },
    "parameters": {
        "v": {"value": [1.0, 2.0]},
        "w": {"value": "numpy.random.normal(v, 0.5)"},
        "shares": {"value": "numpy.random.gamma(v) + numpy.random.dirichlet([0.5, 7.0])"},
        "x": {
            "value": "x + numpy.random.randint(10)",
            "default_initial_value": "numpy.random.choice(5)",
        },
        "y": {
            "default_initial_value": 0.0,
            "time_derivative": "-y + numpy.random.exponential(2.0)",
        },
        "z": {
            "value": "numpy.random.binomial(1, 0.4)",
            "conditions": [
                {"id": "high", "test": "numpy.random.rand() > 0.5", "value": "numpy.random.rand()"}
            ],
        },
    },
    "output_ports": {
        **{name: {"value": name} for name in ("f", "g", "h", "n", "shares", "w", "x", "y", "z")},
        "own": {"value": "x + numpy.random.uniform(-1.0, 1.0)"},
    },
}

SCHEDULED: dict[str, Any] = model(
    {
        "parameters": {"x": {"value": "x + numpy.random.randn()", "default_initial_value": 0.0}},
        "output_ports": {"x": {"value": "x"}},
    }
)
SCHEDULED["m"]["graphs"]["g"]["nodes"]["B"] = {
    "parameters": {"y": {"value": "y + numpy.random.rand()", "default_initial_value": 0.0}},
    "output_ports": {"y": {"value": "y"}},
}


def scheduled(condition: dict[str, Any], termination: dict[str, Any] | None = None) -> Any:
    """Return a model of two nodes, of which B waits for a condition on A."""
    graph = {**SCHEDULED["m"]["graphs"]["g"]}
    graph["conditions"] = {"node_specific": {"A": {"type": "Always"}, "B": condition}}
    if termination is not None:
        graph["conditions"]["termination"] = {"environment_state_update": termination}
    return {"m": {"graphs": {"g": graph}}}


TWICE = scheduled({"type": "EveryNCalls", "kwargs": {"dependency": "A", "n": 2}})
MODELS = {
    "a walk": model(WALK),
    "all kinds": model(MIXED),
    "a loop": model(LOOP),
    "passes": TWICE,
    "until it is high": scheduled(
        {"type": "Always"},
        {
            "type": "Threshold",
            "kwargs": {"dependency": "B", "parameter": "y", "threshold": 3.0, "comparator": ">="},
        },
    ),
}


@pytest.mark.parametrize("steps", [None, 12])
@pytest.mark.parametrize("name", MODELS)
def test_the_engine_draws_the_same_numbers(name: str, steps: int | None) -> None:
    time_options = {} if steps is None else {"dt": 0.1}
    for seed in (0, 5):
        verification = mdf_loop.verify(MODELS[name], steps=steps, seed=seed, **time_options)
        assert verification.equal, str(verification)
        assert max(c.max_abs for c in verification.comparisons) < 1e-12


def test_the_seed_matters() -> None:
    compiled = mdf_loop.compile(MODELS["passes"])
    assert compiled.run(seed=0)["A.x"] != compiled.run(seed=1)["A.x"]


def test_numpy_functions_are_restored() -> None:
    mdf_loop.verify(MODELS["a walk"])
    assert not hasattr(np.random, "mdf_loop_draw")


# --- the reference --------------------------------------------------------------------------------


def test_every_function_that_draws_has_a_reference() -> None:
    drawing = {name for name in FUNCTIONS if "random" in name.split(".")}
    assert drawing == {name for name in distributions.FUNCTIONS if "::" not in name}


@pytest.mark.parametrize("expression", EXPECTED)
def test_the_reference_equals_the_compiled_expression(expression: str) -> None:
    name, _, rest = expression.partition("(")
    site = distributions.SiteTurn(SITE)

    def call(*arguments: Any, **named: Any) -> Any:
        return distributions.FUNCTIONS[name](site, *arguments, **named)

    numbers = eval(f"call({rest}", {"call": call, **KNOWN})
    np.testing.assert_array_equal(numbers, EXPECTED[expression])


# --- inside of the engine -------------------------------------------------------------------------


def test_loops_in_the_engine_draw_from_the_same_streams() -> None:
    compiled = mdf_loop.compile(model(LOOP))
    for seed in (0, 7):
        mdf_loop.seed(seed)
        results = compiled.run(steps=3, engine="modeci")
        np.testing.assert_array_equal(results["rows"], compiled.run(steps=3, seed=seed)["rows"])
    mdf_loop.seed(0)


@pytest.mark.parametrize(("name", "sites"), [("a walk", 2), ("a loop", 1)])
def test_keys_are_computed_once(name: str, sites: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, make = [], streams.keys

    def keys(*arguments: Any) -> Any:
        calls.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(streams, "keys", keys)
    seed = 10**9 + list(MODELS).index(name)  # a seed without cached keys
    compiled = mdf_loop.compile(MODELS[name])
    compiled.run(steps=6, seed=seed, engine="modeci")
    assert len([arguments for arguments in calls if arguments[0] == seed]) == sites
