"""Invalid parameters of a distribution raise an error that names the parameter, in every engine and form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import scipy.stats

import mdf_loop
from mdf_loop import poisson, streams
from mdf_loop.distributions import FUNCTIONS, SiteTurn
from mdf_loop.errors import LoopError
from tests.noisy_models import model as of_node

NAN = float("nan")

INVALID: dict[str, tuple[tuple[float, ...], str]] = {
    "numpy.random.normal(0.0, x)": ((-1.0, -1e-300), "scale of a normal distribution"),
    "random.gauss(0.0, x)": ((-1.0,), "scale of a normal distribution"),
    "numpy.random.lognormal(0.0, x)": ((-1.0,), "scale of a lognormal distribution"),
    "random.lognormvariate(0.0, x)": ((-1.0,), "scale of a lognormal distribution"),
    "numpy.random.laplace(0.0, x)": ((-1.0,), "scale of a Laplace distribution"),
    "numpy.random.gumbel(0.0, x)": ((-1.0,), "scale of a Gumbel distribution"),
    "numpy.random.logistic(0.0, x)": ((-1.0,), "scale of a logistic distribution"),
    "numpy.random.rayleigh(x)": ((-1.0,), "scale of a Rayleigh distribution"),
    "numpy.random.exponential(x)": ((-1.0,), "scale of an exponential distribution"),
    "random.expovariate(x)": ((-1.0, 0.0), "rate of an exponential distribution"),
    "numpy.random.uniform(2.0, x)": ((1.0, NAN, np.inf), "ends of a uniform distribution"),
    "numpy.random.poisson(x)": ((-1.0, NAN, 1e19), "rate of a Poisson distribution"),
    "numpy.random.binomial(10, x)": ((1.1, -0.1, NAN), "probability of a binomial distribution"),
    "numpy.random.choice(2, p=numpy.stack([x, 1.0 - x]))": ((-0.1, NAN), "p of a choice"),
    "numpy.random.choice(2, p=numpy.stack([x, 0.5]))": ((0.6, 0.4999), "must sum to 1"),
    "numpy.random.gamma(x)": ((-1.0, NAN), "shape of a gamma distribution"),
    "numpy.random.gamma(2.0, x)": ((-1.0,), "scale of a gamma distribution"),
    "random.gammavariate(2.0, x)": ((0.0,), "scale of a gamma distribution"),
    "numpy.random.chisquare(x)": ((0.0, -1.0), "freedom of a chi-square distribution"),
    "numpy.random.beta(x, 1.0)": ((0.0, -1.0), "first shape of a beta distribution"),
    "numpy.random.beta(1.0, x)": ((0.0, -1.0), "second shape of a beta distribution"),
    "numpy.random.f(x, 1.0)": ((0.0, -1.0), "freedom of an F distribution"),
    "numpy.random.standard_t(x)": ((0.0, -1.0), "freedom of a Student's t distribution"),
    "numpy.random.dirichlet(numpy.stack([1.0, x]))": ((-1.0,), "alpha of a Dirichlet"),
    "numpy.random.weibull(x)": ((-1.0,), "shape of a Weibull distribution"),
    "random.weibullvariate(x, 1.0)": ((-1.0,), "scale of a Weibull distribution"),
    "numpy.random.pareto(x)": ((0.0, -1.0), "shape of a Pareto distribution"),
    "numpy.random.power(x)": ((0.0, -1.0), "shape of a power distribution"),
    "numpy.random.geometric(x)": ((0.0, 1.1, NAN), "chance of a geometric distribution"),
    "numpy.random.triangular(0.0, x, 1.0)": ((-0.1, 1.1), "mode of a triangular distribution"),
    "numpy.random.wald(x, 1.0)": ((0.0, -1.0), "mean of a Wald distribution"),
    "numpy.random.wald(1.0, x)": ((0.0, -1.0), "scale of a Wald distribution"),
}
"""Expressions of x, invalid values of x, and the sentence of the error."""

VALID: dict[str, tuple[float, ...]] = {
    "numpy.random.normal(0.0, x)": (0.0, -0.0, NAN, 3.0),
    "numpy.random.exponential(x)": (0.0, NAN),
    "numpy.random.uniform(2.0, x)": (2.0, 3.0),
    "random.uniform(2.0, x)": (1.0, 2.0),
    "numpy.random.poisson(x)": (0.0, 31.0, 33.0, 124.0, 709.0, 1e18),
    "numpy.random.binomial(10, x)": (0.0, 1.0),
    "numpy.random.choice(2, p=numpy.stack([x, 1.0 - x]))": (0.0, 1.0, 0.3),
    "numpy.random.choice(2, p=numpy.stack([x, 0.5]))": (0.5 + 1e-9,),
    "numpy.random.rayleigh(x)": (0.0,),
}
"""Valid values of x at the edge of the domain."""

CASES = [(e, x, sentence) for e, (values, sentence) in INVALID.items() for x in values]


def model(expression: str, x: float = 1.0) -> dict[str, Any]:
    """Return a model that draws for an input x."""
    ports = {"y": {"value": expression}}
    return of_node({"input_ports": {"x": {"default_value": x}}, "output_ports": ports})


@pytest.mark.parametrize(("expression", "x", "sentence"), CASES)
def test_an_invalid_constant_is_refused_at_compile_time(
    expression: str, x: float, sentence: str
) -> None:
    node = {"parameters": {"x": {"value": x}}, "output_ports": {"y": {"value": expression}}}
    with pytest.raises(LoopError, match=sentence) as caught:
        mdf_loop.compile(of_node(node)).run()
    assert "nodes['A'].output_ports['y']" in str(caught.value)


ENGINES = [("onnxruntime", *case) for case in CASES]
ENGINES += [(e, *case) for e in ("interpreter", "modeci") for case in CASES[::6]]


@pytest.mark.parametrize(("engine", "expression", "x", "sentence"), ENGINES)
def test_an_invalid_input_is_refused_by_each_engine(
    engine: str, expression: str, x: float, sentence: str
) -> None:
    with pytest.raises(LoopError, match=sentence) as caught:
        mdf_loop.compile(model(expression)).run({"x": x}, engine=engine)
    place = "drawn by 'g.A.y#0'" if engine == "modeci" else "nodes['A'].output_ports['y']"
    assert place in str(caught.value)


FORMS: dict[str, dict[str, Any]] = {
    "native over time": {"native": "require", "steps": 3},
    "standard over time": {"native": "off", "steps": 3},
    "sweep": {"sweep": True},
    "sweep over time": {"sweep": True, "steps": 3},
    "trials": {"trials": 3},
    "trials over time": {"trials": 3, "steps": 3},
    "float32": {"precision": "float32"},
}

COMPUTED = [
    ("numpy.random.normal(0.0, x)", 1.0, -1.0),
    ("numpy.random.uniform(2.0, x)", 3.0, 1.0),
    ("numpy.random.binomial(4, x)", 0.5, 1.1),
    ("numpy.random.choice(2, p=numpy.stack([x, 1.0 - x]))", 0.5, -0.1),
    ("numpy.random.gumbel(0.0, x)", 1.0, -1.0),
    ("numpy.random.poisson(x)", 1.0, -1.0),
]


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[pytest.mark.native] * ("native" in form.split())) for form in FORMS],
)
@pytest.mark.parametrize(("expression", "good", "bad"), COMPUTED)
def test_each_form_refuses_an_invalid_computed_value(
    form: str, expression: str, good: float, bad: float
) -> None:
    words = dict(FORMS[form])
    options = {name: words.pop(name) for name in ("native", "precision") if name in words}
    compiled = mdf_loop.compile(model(expression), **options)
    values = np.array([good, good, bad])
    if words.pop("sweep", False):
        words["sweep"] = {"x": values}
        inputs = {}
    else:
        inputs = {"x": values if "steps" in words else np.array(bad)}
    with pytest.raises(LoopError, match=r"distribution|of a choice") as caught:
        compiled.run(inputs, **words)
    assert "nodes['A'].output_ports['y']" in str(caught.value)


def test_an_exported_file_refuses_an_invalid_parameter() -> None:
    proto = mdf_loop.compile(model("numpy.random.normal(0.0, x)")).to_onnx()
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    session.run(None, {"x": np.array(1.0)})
    with pytest.raises(Exception, match="scale of a normal distribution"):
        session.run(None, {"x": np.array(-1.0)})


@pytest.mark.parametrize(("expression", "x"), [(e, x) for e, xs in VALID.items() for x in xs])
def test_parameters_at_the_edge_of_the_domain_are_valid(expression: str, x: float) -> None:
    compiled = mdf_loop.compile(model(expression))
    draws = compiled.run({"x": x}, nan="ignore")["y"]
    interpreted = compiled.run({"x": x}, engine="interpreter", nan="ignore")
    np.testing.assert_array_equal(draws, interpreted["y"])
    node = {"parameters": {"x": {"value": x}}, "output_ports": {"y": {"value": expression}}}
    np.testing.assert_array_equal(draws, mdf_loop.compile(of_node(node)).run(nan="ignore")["y"])


def test_an_invalid_parameter_of_an_unused_draw_is_no_error() -> None:
    expression = "numpy.random.normal(0.0, x) if x >= 0 else 7.0"
    compiled = mdf_loop.compile(model(expression))
    assert compiled.run({"x": -1.0})["y"] == 7.0


@pytest.mark.parametrize(
    ("function", "args", "sentence"),
    [
        ("onnx::RandomNormal", {"shape": [2], "scale": -1.0}, "scale of onnx::RandomNormal"),
        ("onnx::RandomUniform", {"shape": [2], "low": 2.0, "high": 1.0}, "low not above high"),
        ("onnx::Bernoulli", {"input": [0.5, 1.5]}, "probability of onnx::Bernoulli"),
        ("onnx::Multinomial", {"input": [[0.5, NAN]]}, "logits of onnx::Multinomial"),
        ("onnx::Dropout", {"data": [1.0], "ratio": 1.0, "training_mode": True}, "ratio of"),
        ("onnx::Dropout", {"data": [1.0], "ratio": -0.1, "training_mode": True}, "ratio of"),
    ],
)
def test_invalid_parameters_of_onnx_operators_are_refused(
    function: str, args: dict[str, Any], sentence: str
) -> None:
    node = {
        "functions": {"f": {"function": function, "args": args}},
        "output_ports": {"y": {"value": "f"}},
    }
    with pytest.raises(LoopError, match=sentence):
        mdf_loop.compile(of_node(node)).run()


def test_an_invalid_covariance_is_refused() -> None:
    for cov in ("[[1, 2], [0, 1]]", "[[1, 2], [2, 1]]"):
        with pytest.raises(LoopError, match="not symmetric, or not positive definite"):
            mdf_loop.compile(model(f"numpy.random.multivariate_normal([1, 2], {cov})")).run()


# --- Poisson numbers ------------------------------------------------------------------------------

RATES = np.array([0.0, 0.3, 31.9, 32.5, 124.0, 301.0, 708.0, 708.5, 1e4, 1e9, 1e17])


def expected(rate: Any, turn: int = 0) -> Any:
    """Return Poisson draws of the interpreter for a rate."""
    return FUNCTIONS["numpy.random.poisson"](SiteTurn("g.A.y#0", turn), rate)


@pytest.mark.slow
@pytest.mark.parametrize("native", ["off", "auto"])
def test_rates_of_any_size_are_drawn_alike(native: str) -> None:
    compiled = mdf_loop.compile(model("numpy.random.poisson(x)"), native=native)
    whole = expected(RATES)
    np.testing.assert_array_equal(compiled.run({"x": RATES})["y"], whole)
    np.testing.assert_array_equal(compiled.run(sweep={"x": RATES})["y"], [*map(expected, RATES)])
    rows = compiled.run({"x": RATES}, steps=len(RATES))["y"]
    np.testing.assert_array_equal(rows, [expected(x, k) for k, x in enumerate(RATES)])
    members = compiled.run(sweep={"x": RATES}, steps=2)["y"]
    np.testing.assert_array_equal(members, [[expected(x, k) for k in range(2)] for x in RATES])
    interpreted = compiled.run({"x": RATES}, engine="interpreter")["y"]
    np.testing.assert_array_equal(interpreted, whole)


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
def test_constant_rates_are_drawn_like_computed_rates(rate: float) -> None:
    known = mdf_loop.compile(
        of_node({"output_ports": {"y": {"value": f"numpy.random.poisson({rate}, 3)"}}})
    )
    computed = mdf_loop.compile(model("numpy.random.poisson(x, 3)"))
    np.testing.assert_array_equal(known.run()["y"], computed.run({"x": rate})["y"])


def test_stored_poisson_draws_are_reproduced() -> None:
    """Compare with draws that an earlier version stored."""
    stored = {5.0: [7, 7, 6, 10, 5, 9, 10], 100.0: [108, 109, 107, 122, 101, 118, 121]}
    for rate, numbers in stored.items():
        draws = FUNCTIONS["numpy.random.poisson"](SiteTurn("g.A.y#0"), rate, 7)
        assert draws.tolist() == numbers


@pytest.mark.parametrize("rate", [40.0, 300.5, 709.0, 1234.5, 1e6])
def test_the_distribution_equals_that_of_scipy(rate: float) -> None:
    u = np.concatenate([np.linspace(0.0005, 0.9995, 1000), 2.0 ** -np.arange(12, 40)])
    law = scipy.stats.poisson(rate)
    if rate <= poisson.MAX_SUMMED_RATE:
        from mdf_loop.distributions import _count_by_sums

        draws = _count_by_sums(u, np.asarray(rate))
    else:
        draws = poisson.poisson_quantile(streams.normal(u), np.asarray(rate))
    assert (law.cdf(draws) >= u - 1e-8).all()
    assert (law.cdf(draws - 1) <= u + 1e-8).all()
