"""A seed gives random noisy loops with per-trial exits the same bits in any form and batch.

The loops use arithmetic only, where equal bits are promised.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.native import loop_decisions
from mdf_loop.run import members_stepper
from tests.models.loops import loop_model
from tests.soak import times

SETTINGS = settings(
    max_examples=times(4, 400), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
TRIALS = 60

NUMBERS = st.sampled_from([-0.5, 0.1, 0.3, 0.9])
DRAWS = st.sampled_from(
    [
        "numpy.random.normal(0.1, 0.4)",
        "numpy.random.uniform(-0.5, 0.7)",
        "numpy.random.exponential(0.3)",
        "numpy.random.randint(-1, 2)",
        "numpy.random.normal() * numpy.random.random()",
    ]
)


@st.composite
def passages(draw: st.DrawFn) -> dict[str, Any]:
    """Draw two numbers that change until one or both are far away; some loops record them."""
    a, b, c, d = (draw(NUMBERS) for _ in range(4))
    body = {
        "x_next": f"{a} * x + {b} * y + {draw(DRAWS)}",
        "y_next": draw(st.sampled_from([f"{c} * y + {draw(DRAWS)}", f"y + {d} * x", "y + 1.0"])),
    }
    go = draw(
        st.sampled_from(
            [
                "abs(x) < 1.2",
                "abs(x) + abs(y) < 2.5",
                "(x < 1.0) & (y < 6.0)",
                "abs(x) < 1.5 - 0.02 * i",
                "x < 0.8 + numpy.random.random()",
            ]
        )
    )
    recorded = draw(st.sampled_from(["", "x_next"]))
    bound = draw(st.sampled_from([{"M": 1}, {"M": 40}]))
    start = draw(st.sampled_from(["True", "x0 < 0.4"]))
    return loop_model(
        {"cond": start, "v_initial": "(x0, 0.0)", **bound},
        body,
        port_values={"x0": draw(st.sampled_from([0.0, 0.5]))},
        carried="x y",
        recorded=recorded,
        go=go,
    )


def assert_equal_outputs(one: Any, other: Any, place: Any = ...) -> None:
    for name in one:
        mine, theirs = one[name], np.asarray(other[name])[place]
        if mine.ndim > 1:  # Rows end with the longest member of the run.
            theirs = theirs[:, : mine.shape[1]]
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.slow
@pytest.mark.soak
@SETTINGS
@given(passages(), st.sampled_from([0, 1, 2**64 - 1]), st.sampled_from([64, 500, 1 << 16]))
def test_random_passages_have_the_same_bits_in_any_form_and_batch(
    model: dict[str, Any], seed: int, elements: int
) -> None:
    standard = mdf_loop.compile(model, native="off", device="cpu")
    options = {"seed": seed}
    many = standard.run(trials=TRIALS, **options)
    by_meaning = standard.run(trials=TRIALS, engine="interpreter", **options)
    assert_equal_outputs(by_meaning, many)
    assert by_meaning.loops == many.loops
    with patch.object(loop_decisions, "MIN_NATIVE_MICROSECONDS", 0.0):
        assert_equal_outputs(
            mdf_loop.compile(model, device="cpu").run(trials=TRIALS, **options), many
        )
    with patch.object(members_stepper, "CHUNK_MEMBER_ITERATIONS", elements):
        assert_equal_outputs(standard.run(trials=TRIALS, **options), many)
        assert_equal_outputs(standard.run(trials=7, **options), many, slice(7))
        assert_equal_outputs(standard.run(trials=range(30, 51), **options), many, slice(30, 51))
    alone = standard.run(**options)
    for name in ("r0", "r1", "n"):
        np.testing.assert_array_equal(alone[name], many[name][0])
