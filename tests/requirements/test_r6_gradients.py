"""Derivatives that are truncated, or stopped, as other systems have them (R6.08).

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
    """Theano: the last two of five give 32, all 80."""
    model = mdf_loop.compile(PLAIN, native=native)
    gradient = model.gradient({"n.s": "sum"}, ["n.w", "n.one"], truncate=truncate)
    assert (gradient.value, gradient["n.w"], gradient["n.one"]) == (32, by_w, by_one)


@pytest.mark.parametrize("native", ["auto", "off"])
def test_r6_08_derivatives_that_are_cut_in_a_loop(native):
    """TensorFlow: a value that is a constant in one iteration."""
    model = mdf_loop.compile(CUT, native=native)
    assert model.gradient({"n.s": "sum"}, ["n.w"])["n.w"] == 80
    cut = model.gradient({"n.s": "sum"}, ["n.w"], stop=["cut.y"])
    assert (cut.value, cut["n.w"]) == (32, 48)
