"""Random distributions as formulas of uniform, normal and exponential random numbers.

    VARIATES["numpy.random.weibull"].formula(site, shape, a)

A formula draws numbers of a shape from its call site, and computes with NumPy functions. If the site returns
arrays, the formula is the reference implementation (`distributions`). If the site returns symbolic values,
the formula appends operations to a program (`lower.draws`). Each number uses a fixed number of random
words, without rejection.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from mdf_loop import gamma, integer_variates, parameter_rules, streams
from mdf_loop.call_site import CallSite, Shape

_check_positive = parameter_rules.check_positive


def _check_scale(site: CallSite, scale: Any, distribution: str) -> Any:
    """Return the scale of a distribution, or raise an error if an element is negative."""
    return parameter_rules.check_not_negative(site, scale, f"the scale of {distribution}")


# --- numbers of a stream, shifted and scaled ------------------------------------------------------


def _make_standard_formula(kind: str) -> Callable[..., Any]:
    """Return the formula of a standard distribution, which has no parameters."""

    def formula(site: CallSite, size: Shape) -> Any:
        return site.numbers(kind, size)

    return formula


def _normal(site: CallSite, size: Shape, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "a normal distribution")
    return loc + scale * site.numbers("Normal", size)


def _gauss(site: CallSite, size: Shape, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
    return _normal(site, size, mu, sigma)


def _uniform(site: CallSite, size: Shape, low: Any = 0.0, high: Any = 1.0) -> Any:
    u = site.numbers("Uniform", size)
    return low + parameter_rules.check_width(site, low, high) * u


def _uniform_of_python(site: CallSite, size: Shape, a: Any, b: Any) -> Any:
    """Return uniform random numbers between `a` and `b`, of which either may be larger."""
    u = site.numbers("Uniform", size)
    return a + (b - a) * u


def _exponential(site: CallSite, size: Shape, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "an exponential distribution")
    return scale * site.numbers("Exponential", size)


def _lognormal(site: CallSite, size: Shape, mean: Any = 0.0, sigma: Any = 1.0) -> Any:
    """Return `exp(x)` of normal random numbers x, in the dtype of x."""
    sigma = _check_scale(site, sigma, "a lognormal distribution")
    x = _normal(site, size, mean, sigma)
    return streams.exp(x).astype(x.dtype)


def _laplace(site: CallSite, size: Shape, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Return Laplace random numbers: exponential numbers with a random sign."""
    scale = _check_scale(site, scale, "a Laplace distribution")
    sign_samples = site.part("sign").numbers("Uniform", size)
    magnitude = site.numbers("Exponential", size)
    return loc + scale * np.where(sign_samples < 0.5, -magnitude, magnitude)


# --- ONNX's operators -----------------------------------------------------------------------------


def _onnx_normal(site: CallSite, size: Shape, mean: Any = 0.0, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "onnx::RandomNormal")
    return mean + scale * site.numbers("Normal", size)


def bernoulli(site: CallSite, size: Shape, p: Any) -> Any:
    """Return random bools, with the probabilities `p` of true."""
    u = site.numbers("Uniform", size)
    return u < parameter_rules.check_range(site, p, 0.0, 1.0, "the probability of onnx::Bernoulli")


ONNX_FORMULAS: Mapping[str, Callable[..., Any]] = {
    "RandomNormal": _onnx_normal,
    "RandomUniform": _uniform,
}
"""Formulas of ONNX's operators, whose parameters are attributes of the operator."""


# --- normal vectors -------------------------------------------------------------------------------


def correlated_normals(site: CallSite, size: Shape, means: Any, cholesky_factor: Any) -> Any:
    """Return normal random vectors along the last axis, for the Cholesky factor of their covariances."""
    dimension = len(means)
    z = site.numbers("Normal", (*size, dimension))
    independent_normals = [np.take(z, [k], axis=-1) for k in range(dimension)]
    components = []
    for j in range(dimension):
        component = means[j]
        for k in range(j + 1):
            component = component + cholesky_factor[j, k, ...] * independent_normals[k]
        components.append(component)
    return np.concatenate(components, axis=-1)


# --- numbers by the inverse of their distribution -------------------------------------------------


def _weibull(site: CallSite, size: Shape, a: Any) -> Any:
    a = _check_positive(site, a, "the shape of a Weibull distribution")
    return streams.exp(streams.log(site.numbers("Exponential", size)) / a)


def _weibullvariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    return _check_scale(site, alpha, "a Weibull distribution") * _weibull(site, size, beta)


def _draw_exponential(site: CallSite, size: Shape, a: Any, distribution: str) -> Any:
    """Return exponential random numbers of rate `a` (the logarithms of Pareto numbers)."""
    a = _check_positive(site, a, f"the shape of a {distribution} distribution")
    return site.numbers("Exponential", size) / a


def _pareto(site: CallSite, size: Shape, a: Any) -> Any:
    return streams.expm1(_draw_exponential(site, size, a, "Pareto"))


def _paretovariate(site: CallSite, size: Shape, alpha: Any) -> Any:
    return streams.exp(_draw_exponential(site, size, alpha, "Pareto"))


def _power(site: CallSite, size: Shape, a: Any) -> Any:
    return streams.exp(-_draw_exponential(site, size, a, "power"))


def _expovariate(site: CallSite, size: Shape, lambd: Any = 1.0) -> Any:
    lambd = _check_positive(site, lambd, "the rate of an exponential distribution")
    return site.numbers("Exponential", size) / lambd


def _lognormvariate(site: CallSite, size: Shape, mu: Any, sigma: Any) -> Any:
    sigma = _check_scale(site, sigma, "a lognormal distribution")
    return streams.exp(mu + sigma * site.numbers("Normal", size))


def _rayleigh(site: CallSite, size: Shape, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "a Rayleigh distribution")
    return scale * np.sqrt(2.0 * site.numbers("Exponential", size))


def _gumbel(site: CallSite, size: Shape, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "a Gumbel distribution")
    return loc - scale * streams.log(site.numbers("Exponential", size))


def _logistic(site: CallSite, size: Shape, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "a logistic distribution")
    u = site.numbers("Uniform", size)
    return loc + scale * streams.log(u / (1.0 - u))


def _triangular(site: CallSite, size: Shape, left: Any, mode: Any, right: Any) -> Any:
    """Return triangular random numbers by the inverse of their distribution function."""
    is_mode_between = (left <= mode) & (mode <= right) & (left < right)
    left = site.ensured(
        left,
        is_mode_between,
        "the mode of a triangular distribution must be between its ends, which differ",
    )
    u, width = site.numbers("Uniform", size), right - left
    lower_numbers = left + np.sqrt(u * width * (mode - left))
    upper_numbers = right - np.sqrt((1.0 - u) * width * (right - mode))
    return np.where(u * width < mode - left, lower_numbers, upper_numbers)


def _triangular_of_python(
    site: CallSite, size: Shape, low: Any = 0.0, high: Any = 1.0, mode: Any = None
) -> Any:
    mode_or_center = (low + high) * 0.5 if mode is None else mode
    return _triangular(site, size, low, mode_or_center, high)


# --- numbers from two random numbers --------------------------------------------------------------


def _standard_cauchy(site: CallSite, size: Shape) -> Any:
    return site.numbers("Normal", size) / site.part("below").numbers("Normal", size)


def _wald(site: CallSite, size: Shape, mean: Any, scale: Any) -> Any:
    """Return Wald (inverse Gaussian) random numbers, from normal and uniform numbers.

    Source: Michael, Schucany and Haas, Generating random variates using transformations with multiple
    roots (1976).
    """
    mean = _check_positive(site, mean, "the mean of a Wald distribution")
    scale = _check_positive(site, scale, "the scale of a Wald distribution")
    z = site.numbers("Normal", size)
    scaled_square = mean * (z * z)
    larger_root = mean + mean / (2.0 * scale) * (
        scaled_square + np.sqrt(scaled_square * (4.0 * scale + scaled_square))
    )
    smaller_root = mean * (mean / larger_root)
    u = site.part("side").numbers("Uniform", size)
    return np.where(u * (mean + smaller_root) < mean, smaller_root, larger_root)


# --- names in expressions -------------------------------------------------------------------------

_SHAPE_PARAMETERS = {
    "size": (inspect.Parameter("size", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),),
    "extents": (inspect.Parameter("d", inspect.Parameter.VAR_POSITIONAL, annotation="int"),),
    "none": (),
}


class Variate(Struct, frozen=True):
    """Random distribution that models can call: its formula, and the form of its calls.

    Attributes:
        formula: Function of the call site, the shape of the draw, and the parameters. A parameter with the
            annotation `int` is known when the model is compiled.
        shape: Arguments that give the shape of the draw: `size`, one extent for each axis, or none.
        draws_rows: True if each drawn element is a row with as many numbers as the parameter.
        arithmetic: Arithmetic of the formula in a compiled model. `float64`: the parameters are cast to
            float64, and the result is rounded to the model's precision. `expression`: the numbers of the
            stream are rounded to that precision, and the formula computes with the operators of expressions,
            which promote as NumPy's. `integer`: the parameters are integers.
    """

    formula: Callable[..., Any]
    shape: Literal["size", "extents", "none"] = "size"
    draws_rows: bool = False
    arithmetic: Literal["float64", "expression", "integer"] = "float64"

    def read(
        self,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        convert: Callable[[Any], Any],
        shape_of: Callable[..., Shape],
    ) -> tuple[Any, ...]:
        """Return the shape of the draw and the parameters of the formula, for the arguments of a call.

        Args:
            arguments: Positional arguments of the call.
            keywords: Keyword arguments of the call.
            convert: Function that converts a parameter to an operand of the formula.
            shape_of: Function that returns the shape for a size, or for None and converted parameters.
        """
        signature = call_signature(self)
        bound_arguments = signature.bind(*arguments, **keywords)
        bound_arguments.apply_defaults()
        values = list(bound_arguments.arguments.values())
        size = None if self.shape == "none" else values.pop()
        operands, numeric_operands = [], []
        for parameter, value in zip(signature.parameters.values(), values, strict=False):
            operand = parameter.default if value is None else value
            if operand is not None and parameter.annotation != "int":
                operand = convert(operand)
                numeric_operands.append(operand)
            operands.append(operand)
        shape = shape_of(None, *numeric_operands) if size is None or self.draws_rows else ()
        return (shape if size is None else (*shape_of(size), *shape), *operands)


@functools.cache
def call_signature(variate: Variate) -> inspect.Signature:
    """Return the signature of a call of a distribution: its parameters, and those of its shape."""
    parameters = tuple(inspect.signature(variate.formula).parameters.values())[2:]
    return inspect.Signature((*parameters, *_SHAPE_PARAMETERS[variate.shape]))


def _rows(
    module: str, formulas: Mapping[str, Callable[..., Any]], **options: Any
) -> dict[str, Variate]:
    """Return the rows of formulas with equal options, by the names of the functions of a module."""
    return {f"{module}.{name}": Variate(formula, **options) for name, formula in formulas.items()}


_standard_uniform = _make_standard_formula("Uniform")
_standard_normal = _make_standard_formula("Normal")

VARIATES: Mapping[str, Variate] = {
    **_rows(
        "numpy.random",
        {
            **dict.fromkeys(("random_sample", "random", "ranf", "sample"), _standard_uniform),
            "standard_normal": _standard_normal,
            "standard_exponential": _make_standard_formula("Exponential"),
            "poisson": integer_variates.poisson_numbers,
            "weibull": _weibull,
            "pareto": _pareto,
            "power": _power,
            "rayleigh": _rayleigh,
            "gumbel": _gumbel,
            "logistic": _logistic,
            "geometric": integer_variates.geometric,
            "triangular": _triangular,
            "standard_cauchy": _standard_cauchy,
            "wald": _wald,
            **gamma.NUMPY_FORMULAS,
        },
    ),
    **_rows(
        "numpy.random",
        {
            "normal": _normal,
            "uniform": _uniform,
            "exponential": _exponential,
            "lognormal": _lognormal,
            "laplace": _laplace,
            "binomial": integer_variates.binomial,
        },
        arithmetic="expression",
    ),
    **_rows(
        "numpy.random",
        dict.fromkeys(("randint", "integers"), integer_variates.integers),
        arithmetic="integer",
    ),
    **_rows(
        "numpy.random", {"rand": _standard_uniform, "randn": _standard_normal}, shape="extents"
    ),
    "numpy.random.dirichlet": Variate(gamma.dirichlet, draws_rows=True),
    "random": Variate(_standard_uniform, shape="none"),
    **_rows(
        "random",
        {
            "random": _standard_uniform,
            "weibullvariate": _weibullvariate,
            "paretovariate": _paretovariate,
            "expovariate": _expovariate,
            "lognormvariate": _lognormvariate,
            "triangular": _triangular_of_python,
            **gamma.PYTHON_FORMULAS,
        },
        shape="none",
    ),
    **_rows(
        "random",
        {"gauss": _gauss, "normalvariate": _gauss, "uniform": _uniform_of_python},
        shape="none",
        arithmetic="expression",
    ),
    **_rows(
        "random",
        {"randint": integer_variates.randint_of_python},
        shape="none",
        arithmetic="integer",
    ),
}
"""Distributions, by their names in expressions."""
