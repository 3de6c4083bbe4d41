"""Function family `draws`: distributions computed from the random numbers of a site."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop import streams
from mdf_loop.distributions import FUNCTIONS, SiteTurn
from mdf_loop.errors import LoopError
from tests.noisy_models import COUNT, EXPECTED, KNOWN, SIGNS, SITE, P, U, Z, whole


def draw(
    expression: str, precision: str = "float64", engine: str = "onnxruntime", **parameters: Any
) -> Any:
    """Return the result of an output that draws random numbers."""
    node = {
        "parameters": {name: {"value": value} for name, value in parameters.items()},
        "output_ports": {"y": {"value": expression}},
    }
    model = {"g": {"nodes": {"A": node}}}
    return mdf_loop.compile(model, precision=precision).run(engine=engine)["y"]


@pytest.mark.parametrize("expression", EXPECTED)
def test_draws_equal_their_formulas(expression: str) -> None:
    for engine in ("onnxruntime", "interpreter"):
        numbers = draw(expression, "float64", engine, **KNOWN)
        np.testing.assert_array_equal(numbers, np.asarray(EXPECTED[expression]), strict=True)


# --- in float32, and with parameters of other dtypes --------------------------------------------

F = np.float32
U32, Z32, E32 = (numbers.astype(F) for numbers in (U, Z, streams.exponential(U)))
TRIALS32 = streams.uniform(
    streams.squares(np.arange(3 * COUNT), streams.keys(0, streams.site(SITE)))
).astype(F)
MEANS, COVARIANCES = [0.1, 0.7], [[2.0, 0.3], [0.3, 1.1]]

EXPECTED_FLOAT32 = {
    f"numpy.random.normal(0.1, 0.7, {COUNT})": F(0.1) + F(0.7) * Z32,
    "random.gauss(0.1, 0.7)": F(0.1) + F(0.7) * Z32[0],
    f"numpy.random.standard_normal({COUNT})": Z32,
    f"numpy.random.randn({COUNT})": Z32,
    f"numpy.random.uniform(-0.1, 0.7, {COUNT})": F(-0.1) + (F(0.7) - F(-0.1)) * U32,
    "random.uniform(-0.1, 0.7)": F(-0.1) + (F(0.7) - F(-0.1)) * U32[0],
    f"numpy.random.rand({COUNT})": U32,
    "random.random()": U32[0],
    f"numpy.random.exponential(0.7, {COUNT})": F(0.7) * E32,
    f"numpy.random.standard_exponential({COUNT})": E32,
    f"numpy.random.lognormal(0.1, 0.7, {COUNT})": streams.exp(F(0.1) + F(0.7) * Z32).astype(F),
    f"numpy.random.laplace(0.1, 0.7, {COUNT})": F(0.1)
    + F(0.7) * np.where(SIGNS.astype(F) < 0.5, -E32, E32),
    f"numpy.random.randint(-3, 4, {COUNT})": whole(-3, 7),
    "random.randint(1, 6)": whole(1, 6)[0],
    f"numpy.random.binomial(3, 0.7, {COUNT})": (F(0.7) > TRIALS32).reshape(3, COUNT).sum(axis=0),
    f"numpy.random.choice(7, {COUNT})": whole(0, 7),
    f"numpy.random.choice(4, {COUNT}, p=weights)": np.searchsorted(
        np.cumsum(np.array(P, F))[:-1], U32, side="right"
    ),
    f"numpy.random.poisson(0.7, {COUNT})": FUNCTIONS["numpy.random.poisson"](
        SiteTurn(SITE), F(0.7), COUNT
    ),
    f"numpy.random.multivariate_normal({MEANS}, {COVARIANCES}, 3)": FUNCTIONS[
        "numpy.random.multivariate_normal"
    ](SiteTurn(SITE), np.array(MEANS, F), np.array(COVARIANCES, F), 3).astype(F),
}
"""Draws of a model in float32.

The numbers of the stream are rounded before they are scaled. Only `poisson`, `multivariate_normal`, and the
`exp` of `lognormal` are computed in float64.
"""


@pytest.mark.parametrize("expression", EXPECTED_FLOAT32)
def test_draws_in_float32_equal_their_formulas(expression: str) -> None:
    for engine in ("onnxruntime", "interpreter"):
        numbers = draw(expression, "float32", engine, weights=P)
        np.testing.assert_array_equal(
            numbers, np.asarray(EXPECTED_FLOAT32[expression]), strict=True
        )


PROMOTED: dict[tuple[str, str], Any] = {
    ("float64", f"numpy.random.normal(numpy.float32(0.1), 0.7, {COUNT})"): F(0.1) + 0.7 * Z,
    ("float64", f"numpy.random.exponential(numpy.float16(0.7), {COUNT})"): np.float16(0.7)
    * streams.exponential(U),
    ("float64", "random.uniform(numpy.float32(0.1), 0.7)"): F(0.1) + (F(0.7) - F(0.1)) * U[0],
    ("float32", f"numpy.random.normal(numpy.float16(0.1), 0.7, {COUNT})"): np.float16(0.1)
    + F(0.7) * Z32,
    ("float32", f"numpy.random.normal(v, 0.7, {COUNT})"): np.float64(F(0.1)) + F(0.7) * Z32,
    ("float32", f"numpy.random.uniform(0.05, v, {COUNT})"): np.float64(F(0.05))
    + (np.float64(F(0.1)) - np.float64(F(0.05))) * U32,
    ("float32", f"numpy.random.binomial(1, numpy.float16(0.7), {COUNT})"): np.where(
        np.float16(0.7) > U32, 1, 0
    ),
    ("float32", f"numpy.random.choice(2, {COUNT}, p=numpy.float16([0.25, 0.75]))"): np.where(
        U32 < 0.25, 0, 1
    ),
    ("float32", f"numpy.random.laplace(0.0, v, {COUNT})"): np.float64(F(0.1))
    * np.where(SIGNS.astype(F) < 0.5, -E32, E32),
    ("float32", f"numpy.random.lognormal(v, 0.7, {COUNT})"): streams.exp(
        np.float64(F(0.1)) + F(0.7) * Z32
    ),
}
"""Draws whose parameters have other dtypes than the model's floats, computed with NumPy's promotion."""


@pytest.mark.parametrize(("precision", "expression"), PROMOTED)
def test_parameters_of_other_dtypes_are_promoted(precision: str, expression: str) -> None:
    numbers = draw(expression, precision, v="numpy.float64(0.1)")
    np.testing.assert_array_equal(numbers, PROMOTED[precision, expression], strict=True)


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
