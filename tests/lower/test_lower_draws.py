"""Function families `draws` and `poisson`: distributions computed from the random numbers of a site."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.noisy_models import COUNT, EXPECTED, P, Z


def draw(expression: str, precision: str = "float64", **parameters: Any) -> Any:
    """Return the result of an output that draws random numbers."""
    node = {
        "parameters": {name: {"value": value} for name, value in parameters.items()},
        "output_ports": {"y": {"value": expression}},
    }
    model = {"g": {"nodes": {"A": node}}}
    return mdf_loop.compile(model, precision=precision).run()["y"]


@pytest.mark.parametrize("expression", EXPECTED)
def test_draws_equal_their_formulas(expression: str) -> None:
    known = {"means": [0, 1, 2, 3, 4], "list": [5.0, 6.0, 7.0, 8.0], "weights": P}
    numbers = draw(expression, **known)
    np.testing.assert_array_equal(numbers, EXPECTED[expression])
    assert numbers.dtype == np.asarray(EXPECTED[expression]).dtype


def test_in_float32_they_are_rounded() -> None:
    numbers = draw(f"numpy.random.standard_normal({COUNT})", "float32")
    np.testing.assert_array_equal(numbers, Z.astype(np.float32))
    assert draw(f"numpy.random.rand({COUNT})", "float32").dtype == np.float32


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("numpy.random.seed(1)", "the seed is given to the run"),
        ("random.seed(1)", "the seed is given to the run"),
        ("numpy.random.default_rng(1)", "makes a generator"),
        ("numpy.random.normal(0.0, 1.0, x)", "must be known when the model is compiled"),
        ("numpy.random.rand(-1)", "a size has no extent below 0"),
        ("numpy.random.randint(0)", "1 to 2**32 - 1 different ones"),
        ("numpy.random.randint(0.5)", "between whole numbers"),
        ("numpy.random.binomial(3000, 0.5)", "the attempts must be 0 to 1024"),
        ("numpy.random.multivariate_normal([1, x], [[1, 0], [0, 1]])", "must be known"),
        ("numpy.random.multivariate_normal([1, 2], [[1, 2], [2, 1]])", "not positive definite"),
        ("numpy.random.multivariate_normal([1, 2], [1, 2])", "covariances of 1 to 32 numbers"),
        ("numpy.random.vonmises(0.0, 2.0)", "no composition of exact operations"),
        ("random.vonmisesvariate(0.0, 2.0)", "no composition of exact operations"),
        ("numpy.random.choice(0)", "how many is chosen must be known"),
        ("numpy.random.choice(3, 2, False)", "replace=False is not supported"),
        ("numpy.random.choice(3, p=[0.5, 0.5])", "there are 3 elements"),
        ("numpy.random.normall(0)", "did you mean 'numpy.random.normal'?"),
    ],
)
def test_invalid_parameters_are_refused(expression: str, message: str) -> None:
    node = {
        "input_ports": {"x": {"default_value": 3}},
        "output_ports": {"y": {"value": expression}},
    }
    with pytest.raises(LoopError) as caught:
        mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
    assert message in str(caught.value)
