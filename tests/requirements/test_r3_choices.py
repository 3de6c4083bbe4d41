"""Multi-way branches (R3.09, R3.10): NNC's case_of, alone and inside loops, with its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models.control import body, case, give, model, repeat

WHICH = "(x >= 0) * 1 + (x >= 1) * 1 + (x >= 2) * 1"
PIECES = [give(r="0 * x"), give("x"), give(r="0.5 * x + 0.5"), give(r="0 * x + 1.5")]
"""A piecewise linear function: 0 for x < 0, x for x < 1, x/2 + 1/2 for x < 2, else 1.5."""


@pytest.fixture
def run(run_everywhere):
    def one(source: Any, **inputs: Any) -> Any:
        return run_everywhere(source, inputs)["m.z"]

    return one


@pytest.mark.parametrize(("x", "expected"), [(-1.0, 0.0), (0.76, 0.76), (1.226, 1.113), (2.1, 1.5)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_r3_09_a_piecewise_function(run, x: float, expected: float, dtype: str) -> None:
    m = model({"z": "pick"}, which=WHICH, pick=case("which", PIECES))
    for operand in (np.array(x, dtype), np.array([x], dtype)):
        z = run(m, x=operand)
        assert (z.shape, z.dtype) == (operand.shape, dtype)
        np.testing.assert_allclose(z.item(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "expected"),
    [(-2.2, np.exp(-2.2)), (1.1, np.log(1.1)), (0.9, 0.9), (2.2, 1 / 2.2), (1001.0, 1101.1)],
)
def test_r3_09_four_branches_and_a_default(run, x: float, expected: float) -> None:
    """Compute exp(x) for x < 0, x for x < 1, log(x) for x < 2, 1.1 x for x > 1000, else 1/x."""
    which = f"{WHICH} + (x <= 1000) * 10 * (x >= 2)"
    branches = [give(r="numpy.exp(x)"), give("x"), give(r="numpy.log(x)"), give(r="1.1 * x")]
    m = model({"z": "pick"}, which=which, pick=case("which", branches, give(r="1 / x")))
    np.testing.assert_allclose(run(m, x=x), expected, rtol=1e-12)


def test_r3_09_a_default_branch_returns_its_input(run) -> None:
    m = model({"z": "pick"}, pick=case("k", [give(r="x + 1")], "x"))
    assert [float(run(m, k=k, x=5.0)) for k in (-1, 0, 1)] == [5, 6, 5]


@pytest.mark.parametrize(("x", "expected"), [(1.226, 0.3042375), (0.8, 0.24)])
def test_r3_10_a_piecewise_function_in_a_loop(run, x: float, expected: float) -> None:
    """Run four iterations of x = piecewise(x), then 0.3 x."""
    step = body("count go x", {"go": "go", "y": "pick"}, which=WHICH, pick=case("which", PIECES))
    m = model({"z": "0.3 * loop"}, loop=repeat(step, ["x"], M=4))
    np.testing.assert_allclose(run(m, x=x), expected, rtol=1e-12)


def test_r3_10_a_piecewise_function_in_a_while_loop_with_other_operations(run) -> None:
    """Run four iterations of x = 0.8 b; b = piecewise(x), then 0.3 b."""
    step = body(
        "n go count b",
        {"more": "count + 1 < 4", "next": "count + 1", "y": "pick"},
        x="0.8 * b",
        which=WHICH,
        pick=case("which", PIECES),
    )
    m = model({"z": "0.3 * loop[1]"}, loop=repeat(step, [0, "b"], cond=True))
    np.testing.assert_allclose(run(m, b=2.5), 0.2112, rtol=1e-12)


def test_r3_10_a_loop_in_a_branch_in_a_loop(run) -> None:
    """Double x k times in odd iterations and add 1 in even iterations."""
    inner = repeat(body("j go x", {"go": "go", "y": "2 * x"}), ["x"], M="k")
    odd = give(r="inner")
    odd = type(odd)(odd.outputs, {"inner": inner})
    step = body("i go x", {"go": "go", "y": "pick"}, pick=case("i % 2", [give(r="x + 1"), odd]))
    m = model({"z": "loop"}, loop=repeat(step, ["x"], M=4))
    assert run(m, x=1.0, k=3) == ((1 + 1) * 8 + 1) * 8
