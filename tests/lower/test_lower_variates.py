"""Function family `draws`: distributions with one formula for NumPy and for programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import special, stats

import mdf_loop
from mdf_loop import streams
from mdf_loop.distributions import FUNCTIONS, SiteTurn
from mdf_loop.errors import LoopError
from mdf_loop.lower.functions import function_names
from mdf_loop.native import loop_decisions
from mdf_loop.run import time_session
from mdf_loop.variates import VARIATES
from tests.noisy_models import COUNT, EXPECTED, KNOWN, SITE, U, Z
from tests.soak import some

STEPS = 7
VALUES: dict[str, Any] = {"a": [0.1, 2.0, 9.0], "p": 0.25, **KNOWN}


def model(expression: str) -> dict[str, Any]:
    node = {
        "parameters": {name: {"value": value} for name, value in VALUES.items()},
        "output_ports": {"y": {"value": expression}},
    }
    return {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}


def draw(expression: str, **options: Any) -> Any:
    return mdf_loop.compile(model(expression), **options).run()["y"]


# --- one formula, the same bits -----------------------------------------------------------------

CALLS = (
    "numpy.random.standard_gamma(0.1)",
    "numpy.random.standard_gamma(a)",
    "numpy.random.gamma(2.5, 2.0, 4)",
    "numpy.random.gamma(1e4)",
    "numpy.random.gamma(shape=a, scale=2.0, size=(2, 3))",
    "numpy.random.chisquare(3)",
    "numpy.random.beta(0.01, 0.02, 4)",
    "numpy.random.beta(7.0, 9.0)",
    "numpy.random.beta(a, b=p)",
    "numpy.random.f(3, 200)",
    "numpy.random.standard_t(2.5)",
    "numpy.random.dirichlet(a)",
    "numpy.random.dirichlet([7, 8], 3)",
    "numpy.random.dirichlet([0.5], (2, 2))",
    "numpy.random.weibull(0.5)",
    "numpy.random.pareto(3.0)",
    "numpy.random.power(a)",
    "numpy.random.rayleigh()",
    "numpy.random.gumbel(scale=p)",
    "numpy.random.logistic(1.0, 2.0)",
    "numpy.random.geometric(p, 5)",
    "numpy.random.triangular(-3, p, 2.0)",
    "numpy.random.standard_cauchy()",
    "numpy.random.standard_cauchy((2, 2))",
    "numpy.random.wald(3.0, a)",
    "random.gammavariate(0.5, 2.0)",
    "random.betavariate(0.5, 2.0)",
    "random.weibullvariate(0.5, 2.0)",
    "random.paretovariate(0.5)",
    "random.expovariate(0.5)",
    "random.expovariate()",
    "random.lognormvariate(0.5, 1.0)",
    "random.triangular()",
    "random.triangular(1, 3, 1.5)",
)


def reference(expression: str, turn: int = 0, precision: str = "float64") -> Any:
    """Return the numbers of the reference, for parameters that are rounded to a precision."""
    name, _, rest = expression.partition("(")

    def rounded(argument: Any) -> Any:
        is_float = np.asarray(argument).dtype.kind == "f"
        return np.asarray(argument, precision) if is_float else argument

    def call(*arguments: Any, **named: Any) -> Any:
        rounded_named = {keyword: rounded(argument) for keyword, argument in named.items()}
        return FUNCTIONS[name](SiteTurn(SITE, turn), *map(rounded, arguments), **rounded_named)

    return eval(f"call({rest}", {"call": call, **VALUES, "a": np.array(VALUES["a"])})


def test_all_distributions_are_tested() -> None:
    tested = {call.partition("(")[0] for call in (*CALLS, *EXPECTED)}
    assert tested == {name for name in FUNCTIONS if "::" not in name}


@pytest.mark.parametrize("name", sorted(VARIATES))
def test_each_distribution_is_a_function_and_documented(name: str) -> None:
    assert name in FUNCTIONS
    assert name in function_names()
    page = (Path(mdf_loop.__file__).parents[1] / "docs/reference/noise.md").read_text()
    section = page.split("\n## Distributions\n")[1].split("\n## ")[0]
    assert re.search(rf"`{name.split('.')[-1]}[`(]", section)


def assert_same_bits(expression: str, *engines: str, native: str) -> None:
    """Check that these engines give the numbers of the reference."""
    expected = [reference(expression, turn) for turn in range(STEPS)]
    with (
        patch.object(loop_decisions, "MIN_NATIVE_MICROSECONDS", 0.0),
        patch.object(time_session, "MIN_NATIVE_MICROSECONDS", 0.0),
    ):
        compiled = mdf_loop.compile(model(expression), native=native)
        for engine in engines:
            numbers = compiled.run(steps=STEPS, engine=engine)["y"]
            np.testing.assert_array_equal(numbers, expected, strict=True)


@pytest.mark.parametrize("expression", CALLS)
def test_the_reference_and_all_engines_have_the_same_bits(expression: str) -> None:
    assert_same_bits(expression, "onnxruntime", "interpreter", native="off")


@pytest.mark.native
@pytest.mark.soak
@pytest.mark.parametrize("expression", some((*CALLS, *EXPECTED), 2))
def test_native_loops_have_the_same_bits(expression: str) -> None:
    assert_same_bits(expression, "onnxruntime", native="require")


@pytest.mark.soak
@pytest.mark.parametrize("expression", some(CALLS, 2))
def test_draws_in_float32_are_rounded(expression: str) -> None:
    exact = reference(expression, precision="float32")
    expected = exact if "geometric" in expression else exact.astype(np.float32)
    np.testing.assert_array_equal(draw(expression, precision="float32"), expected, strict=True)


# --- known answers ------------------------------------------------------------------------------


def uniforms(part: str, *shape: int) -> Any:
    """Return the uniform numbers of a part of the call."""
    site = SITE.replace("#", f".{part}#")
    counters = np.arange(np.prod(shape)).reshape(shape)
    return streams.uniform(streams.squares(counters, streams.keys(0, streams.site(site))))


def gammas(a: float, u: Any, small: Any) -> Any:
    """Return gamma numbers by the inverse of a larger shape's distribution and powers of uniform numbers."""
    powers = (small[k] ** (1.0 / (a + k)) for k in range(6))
    return stats.gamma(a + 6).ppf(u) * np.prod(list(powers), axis=0)


N = COUNT
P = special.ndtr(Z)
ANSWERS: dict[str, Any] = {
    f"numpy.random.gamma(40.0, 2.0, {N})": stats.gamma(40.0, scale=2.0).ppf(P),
    f"numpy.random.standard_gamma(6, {N})": stats.gamma(6).ppf(P),
    f"numpy.random.standard_gamma(0.3, {N})": gammas(0.3, P, uniforms("small", 6, N)),
    f"numpy.random.chisquare(5, {N})": 2 * gammas(2.5, P, uniforms("small", 6, N)),
    f"numpy.random.beta(40.0, 7.0, {N})": 1
    / (
        1
        + stats.gamma(7.0).ppf(special.ndtr(streams.normal(uniforms("other", N))))
        / stats.gamma(40.0).ppf(P)
    ),
    f"numpy.random.weibull(0.7, {N})": stats.weibull_min(0.7).isf(U),
    f"numpy.random.pareto(3.0, {N})": stats.lomax(3.0).isf(U),
    f"numpy.random.power(3.0, {N})": stats.powerlaw(3.0).ppf(U),
    f"numpy.random.rayleigh(3.0, {N})": stats.rayleigh(scale=3.0).isf(U),
    f"numpy.random.gumbel(1.0, 2.0, {N})": stats.gumbel_r(1.0, 2.0).isf(1 - U),
    f"numpy.random.logistic(1.0, 2.0, {N})": stats.logistic(1.0, 2.0).ppf(U),
    f"numpy.random.geometric(0.05, {N})": stats.geom(0.05).isf(U),
    f"numpy.random.geometric(0.5, {N})": stats.geom(0.5).isf(U),
    f"numpy.random.geometric(1.0, {N})": np.ones(N),
    f"numpy.random.triangular(-1.0, 0.0, 3.0, {N})": stats.triang(0.25, -1.0, 4.0).ppf(U),
    f"numpy.random.standard_cauchy({N})": Z / streams.normal(uniforms("below", N)),
    "random.expovariate(4.0)": -np.log(U[0]) / 4.0,
}


@pytest.mark.parametrize("expression", ANSWERS)
def test_draws_equal_their_formulas(expression: str) -> None:
    np.testing.assert_allclose(draw(expression), ANSWERS[expression], rtol=1e-11, atol=1e-13)


def test_underflow_gives_0_and_shares_still_sum_to_one() -> None:
    assert 0.0 in draw("numpy.random.gamma(0.001, 1.0, 20)")
    shares = draw("numpy.random.dirichlet([0.001, 0.001], 20)")
    np.testing.assert_array_equal(shares.sum(axis=1), 1.0)
    assert np.isin(draw("numpy.random.beta(0.001, 0.001, 20)"), [0.0, 1.0]).any()


# --- refused ------------------------------------------------------------------------------------

REFUSED = {
    "numpy.random.gamma(x)": "the shape of a gamma distribution must be from 0.001 to 1e9",
    "numpy.random.gamma([1.0, 1e-4])": "the shape of a gamma distribution must be from 0.001 to 1e9",
    "numpy.random.beta(1.0, x)": "the second shape of a beta distribution must be from 0.001 to 1e9",
    "numpy.random.weibull(x)": "the shape of a Weibull distribution must be above 0",
    "random.paretovariate(x)": "the shape of a Pareto distribution must be above 0",
    "numpy.random.geometric(2.0 + x)": "must be from 1e-9 to 1",
    "numpy.random.triangular(0.0, x, 1.0)": "the mode of a triangular distribution must be between",
    "numpy.random.wald(1.0, x)": "the scale of a Wald distribution must be above 0",
    "numpy.random.dirichlet(1.0)": "a Dirichlet distribution has a list of 1 to 256 numbers",
    "numpy.random.gamma()": "missing a required argument: 'shape'",
    "random.gammavariate(1.0, 2.0, 3)": "too many positional arguments",
    "numpy.random.gamma(1.0, 2.0, x)": "must be known when the model is compiled",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_invalid_parameters_are_refused(expression: str) -> None:
    node = {
        "input_ports": {"x": {"default_value": -0.5}},
        "output_ports": {"y": {"value": expression}},
    }
    with pytest.raises(LoopError) as caught:
        mdf_loop.compile({"g": {"nodes": {"A": node}}}).run()
    assert REFUSED[expression] in str(caught.value)


@pytest.mark.parametrize("name", ["gamma", "weibull"])
def test_the_reference_refuses_invalid_parameters(name: str) -> None:
    with pytest.raises(LoopError, match="must be"):
        FUNCTIONS[f"numpy.random.{name}"](SiteTurn(SITE), -1.0)
