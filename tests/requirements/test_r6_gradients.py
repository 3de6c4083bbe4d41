"""Truncated and stopped derivatives, as in other systems (R6.08).

Numbers are those that these systems gave when they were run.
"""

from __future__ import annotations

import pytest

import mdf_loop
from tests.models.powers import CUT, PLAIN


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize(
    ("truncate", "by_w", "by_one"),
    [(None, 80, 32), (1, 16, 0), (2, 32, 0), (5, 80, 32), (9, 80, 32)],
)
def test_r6_08_derivatives_of_the_last_iterations(native, truncate, by_w, by_one):
    """Truncate the gradient as Theano does: the last two of five iterations give 32, all give 80."""
    model = mdf_loop.compile(PLAIN, native=native)
    gradient = model.gradient({"n.s": "sum"}, ["n.w", "n.one"], truncate=truncate)
    assert (gradient.value, gradient["n.w"], gradient["n.one"]) == (32, by_w, by_one)


@pytest.mark.parametrize("native", ["auto", "off"])
def test_r6_08_stopped_gradients_in_a_loop(native):
    """Stop the gradient of a value in one iteration, as in TensorFlow."""
    model = mdf_loop.compile(CUT, native=native)
    assert model.gradient({"n.s": "sum"}, ["n.w"])["n.w"] == 80
    cut = model.gradient({"n.s": "sum"}, ["n.w"], stop=["cut.y"])
    assert (cut.value, cut["n.w"]) == (32, 48)
