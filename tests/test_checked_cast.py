"""Checked casts: numbers too large for float32 or for a 64-bit integer are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import (
    ExpressionError,
    InputError,
    LoopError,
    ModelError,
    OperandError,
    RunError,
)


def graph(value: Any, port: dict[str, Any] | None = None, **parameters: Any) -> dict[str, Any]:
    node = {
        "input_ports": {"x": port or {}},
        "parameters": parameters,
        "output_ports": {"y": {"value": value}},
    }
    return {"g": {"nodes": {"A": node}}}


def run(model: dict[str, Any], x: Any, precision: str = "float64", **options: Any) -> Any:
    return mdf_loop.compile(model, device="cpu", precision=precision).run({"x": x}, **options)["y"]


# --- float32 ------------------------------------------------------------------------------------

HUGE = 1e300


@pytest.mark.parametrize(
    ("kind", "model", "x"),
    [
        (InputError, graph("x"), HUGE),
        (InputError, graph("x", {"shape": [2]}), [1.0, -HUGE]),
        (InputError, graph("x", {"type": "float"}), HUGE),
        (ModelError, graph("x", {"default_value": HUGE}), None),
        (ExpressionError, graph("x * 1e300"), 1.0),
        (ExpressionError, graph("x * gain", gain={"value": HUGE}), 1.0),
        (ExpressionError, graph("x * gain", gain={"value": [1.0, HUGE]}), 1.0),
    ],
)
def test_finite_values_that_overflow_float32_are_refused(
    kind: type[LoopError], model: Any, x: Any
) -> None:
    compiled_run = {} if x is None else {"x": x}
    with pytest.raises(kind, match=r"too large for float32: -?1e\+300 would be infinite") as caught:
        mdf_loop.compile(model, device="cpu", precision="float32").run(compiled_run)
    assert caught.value.findings[0].where.startswith("$.graphs[0].nodes['A']")
    assert np.isfinite(mdf_loop.compile(model, device="cpu").run(compiled_run)["y"]).all()


def test_the_type_of_a_port_overrides_the_precision() -> None:
    with pytest.raises(InputError, match="the input 'x' is too large for float16: 70000"):
        run(graph("x", {"type": "float16"}), 70_000.0)
    assert run(graph("x", {"type": "float64"}), HUGE, "float32") == HUGE


def test_set_and_swept_values_that_overflow_are_refused() -> None:
    model = graph("x * gain", gain={"value": 2.0})
    for options in ({"set": {"A.gain": HUGE}}, {"sweep": {"A.gain": [1.0, HUGE]}}):
        with pytest.raises(InputError, match=r"'A\.gain' is too large for float32"):
            run(model, 1.0, "float32", **options)
    with pytest.raises(InputError, match="'x' is too large for float32"):
        mdf_loop.compile(model, precision="float32").run(sweep={"x": [1.0, HUGE]})


def test_a_literal_that_overflows_float32_is_refused() -> None:
    with pytest.raises(OperandError, match="the number is too large for float32"):
        run(graph("x * 1e300", {"type": "float32"}), 1.0)


def test_rounded_infinite_and_nan_values_are_accepted() -> None:
    for x, expected in ((0.1, np.float32(0.1)), (1e-300, 0.0), (math.inf, math.inf)):
        assert run(graph("x"), x, "float32") == expected
    assert np.isnan(run(graph("x"), math.nan, "float32"))
    assert run(graph("x * 1e30 * 1e30"), 1.0, "float32") == np.inf  # computed, as in numpy


# --- integers -----------------------------------------------------------------------------------

NOT_REPRESENTABLE = (math.nan, math.inf, -math.inf, 1e300, 2.0**63)


@pytest.mark.parametrize("name", ["int", "round", "math.floor", "math.ceil", "math.trunc"])
def test_rounding_of_numbers_beyond_int64_is_refused_at_run_time(name: str) -> None:
    model = mdf_loop.compile(graph(f"{name}(x)"), device="cpu")
    for x in NOT_REPRESENTABLE:
        with pytest.raises(RunError, match=f"{name} makes no whole number of nan, infinity or"):
            model.run({"x": x})
    for x in (2.5, -2.5, -(2.0**63), 2.0**62):
        assert model.run({"x": x})["y"] == eval(f"{name}(x)", {"math": math, "x": x})


@pytest.mark.parametrize("word", ["math.nan", "math.inf", "1e300"])
def test_rounding_of_constants_beyond_int64_is_refused_at_compile_time(word: str) -> None:
    with pytest.raises(ExpressionError):
        mdf_loop.read(graph(f"int({word})"))


def test_unselected_branches_do_not_fail() -> None:
    for value in ("int(x) if x < 1e9 else -1", "-1 if x > 1e9 else int(x)"):
        assert run(graph(value), 1e300) == -1
        assert run(graph(value), 7.5) == 7
    model = graph("numpy.max(x[:k]) if k > 0 else 0.0", {"shape": [3]}, k={"value": 0})
    assert run(model, [1.0, 2.0, 3.0]) == 0
    assert run(model, [1.0, 2.0, 3.0], set={"A.k": 2}) == 2
