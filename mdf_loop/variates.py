"""Random distributions as formulas of uniform, normal and exponential random numbers.

    VARIATES["numpy.random.weibull"].formula(site, shape, a)

A formula draws numbers of a shape from its call site, and computes with NumPy functions. If the site returns
arrays, the formula is the reference implementation (`distributions`). If the site returns symbolic values,
the formula appends operations to a program (`lower.variates`). Each number uses a fixed number of random
words, without rejection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np
from msgspec import Struct

from mdf_loop import gamma, parameter_rules, streams
from mdf_loop.errors import OperandError

Shape = tuple[int, ...]


class CallSite(Protocol):
    """Protocol of a call that draws random numbers, in NumPy or in a compiled program."""

    def numbers(self, kind: str, shape: Shape) -> Any:
        """Return random numbers of a distribution in `streams.DISTRIBUTIONS`.

        Repeated calls return equal numbers.
        """

    def part(self, name: str) -> Self:
        """Return an independent source of random numbers for the draw `name` of this call."""

    def least(self, parameter: Any) -> float:
        """Return the smallest element of a distribution parameter, or minus infinity if unknown."""

    def ensured(self, parameter: Any, fits: Any, sentence: str) -> Any:
        """Return a distribution parameter, after a check that `fits` is true for all elements."""


# --- gamma numbers --------------------------------------------------------------------------------

MIN_GAMMA_SHAPE, MAX_GAMMA_SHAPE = 1e-3, 1e9
"""Least and largest shape of a gamma distribution."""


def _gamma(site: CallSite, shape: Shape, a: Any, what: str, times: float = 1.0) -> tuple[Any, Any]:
    """Return gamma random numbers `x * exp(-exponent)` as the pair x and exponent.

    The numbers themselves may underflow for small shapes.

    For a shape below 6, x is a number of shape a + 6. A factor `u**(1/a)` reduces the shape from a + 1 to
    a. Six such factors give the exponent, a sum of exponential numbers.

    Args:
        site: Call site of the draw.
        shape: Shape of the array of numbers.
        a: Shape of the gamma distribution.
        what: Parameter that an error names.
        times: Ratio of this parameter to `a`.
    """
    is_in_range = (a >= MIN_GAMMA_SHAPE) & (a <= MAX_GAMMA_SHAPE)
    low_text, high_text = (
        f"{times * limit:g}".replace("e+0", "e") for limit in (MIN_GAMMA_SHAPE, MAX_GAMMA_SHAPE)
    )
    a = site.ensured(a, is_in_range, f"{what} must be from {low_text} to {high_text}")
    z = site.numbers("Normal", shape)
    if site.least(a) >= gamma.MIN_SHAPE:
        return gamma.gamma_quantile(z, a), 0.0
    exponentials = site.part("small").numbers("Exponential", (gamma.MIN_SHAPE, *shape))
    exponent: Any = 0.0
    for k in range(gamma.MIN_SHAPE):
        exponent = exponent + np.take(exponentials, k, axis=0) / (a + float(k))
    is_small_shape = a < float(gamma.MIN_SHAPE)
    x = gamma.gamma_quantile(z, np.where(is_small_shape, a + float(gamma.MIN_SHAPE), a))
    return x, np.where(is_small_shape, exponent, 0.0)


def _standard_gamma(site: CallSite, size: Shape, shape: Any) -> Any:
    x, exponent = _gamma(site, size, shape, "the shape of a gamma distribution")
    return x * streams.exp(-exponent)


def _scaled_gamma(site: CallSite, size: Shape, shape: Any, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "a gamma distribution")
    return scale * _standard_gamma(site, size, shape)


def _gammavariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    beta = parameter_rules.check_positive(site, beta, "the scale of a gamma distribution")
    return beta * _standard_gamma(site, size, alpha)


def _chisquare(site: CallSite, size: Shape, df: Any) -> Any:
    parameter_name = "the degrees of freedom of a chi-square distribution"
    x, exponent = _gamma(site, size, df * 0.5, parameter_name, 2.0)
    return 2.0 * (x * streams.exp(-exponent))


def _beta(site: CallSite, size: Shape, a: Any, b: Any) -> Any:
    """Return beta random numbers `x / (x + y)` of gamma random numbers x and y.

    Both numbers are divided by the larger one of their factors `exp(-s)`, which prevents underflow.
    """
    x, x_exponent = _gamma(site, size, a, "the first shape of a beta distribution")
    y, y_exponent = _gamma(site.part("other"), size, b, "the second shape of a beta distribution")
    exponent_difference = x_exponent - y_exponent
    smaller_factor, is_x_smaller = (
        streams.exp(-np.abs(exponent_difference)),
        exponent_difference > 0.0,
    )
    x, y = (
        x * np.where(is_x_smaller, smaller_factor, 1.0),
        y * np.where(is_x_smaller, 1.0, smaller_factor),
    )
    return x / (x + y)


def _betavariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    return _beta(site, size, alpha, beta)


def _f(site: CallSite, size: Shape, dfnum: Any, dfden: Any) -> Any:
    parameter_name = "the degrees of freedom of an F distribution"
    x, x_exponent = _gamma(site, size, dfnum * 0.5, parameter_name, 2.0)
    y, y_exponent = _gamma(site.part("other"), size, dfden * 0.5, parameter_name, 2.0)
    return dfden / dfnum * (x / y) * streams.exp(y_exponent - x_exponent)


def _standard_t(site: CallSite, size: Shape, df: Any) -> Any:
    parameter_name = "the degrees of freedom of a Student's t distribution"
    y, exponent = _gamma(site.part("spread"), size, df * 0.5, parameter_name, 2.0)
    return site.numbers("Normal", size) * np.sqrt(df * 0.5 / y) * streams.exp(exponent * 0.5)


MAX_DIRICHLET_COMPONENTS = 256
"""Largest number of components of a Dirichlet distribution, since they are added one by one."""


def _dirichlet(site: CallSite, size: Shape, alpha: Any) -> Any:
    """Return Dirichlet random vectors: gamma numbers along the last axis, divided by their sum.

    The gamma numbers are first divided by their largest factor `exp(-s)`, which prevents underflow.
    """
    if len(alpha.shape) != 1 or not 1 <= size[-1] <= MAX_DIRICHLET_COMPONENTS:
        raise OperandError(
            f"a Dirichlet distribution has a list of 1 to {MAX_DIRICHLET_COMPONENTS} numbers"
        )
    component_indices = range(size[-1])
    x, exponents = _gamma(site, size, alpha, "alpha of a Dirichlet distribution")
    if site.least(alpha) < gamma.MIN_SHAPE:
        smallest_exponent = np.take(exponents, 0, axis=-1)
        for k in component_indices[1:]:
            component_exponent = np.take(exponents, k, axis=-1)
            smallest_exponent = np.where(
                component_exponent < smallest_exponent, component_exponent, smallest_exponent
            )
        x = x * streams.exp(np.expand_dims(smallest_exponent, -1) - exponents)
    component_sum = np.take(x, 0, axis=-1)
    for k in component_indices[1:]:
        component_sum = component_sum + np.take(x, k, axis=-1)
    return x / np.expand_dims(component_sum, -1)


# --- numbers by the inverse of their distribution -------------------------------------------------


_check_positive = parameter_rules.check_positive


def _check_scale(site: CallSite, scale: Any, distribution: str) -> Any:
    """Return the scale of a distribution, or raise an error if an element is negative."""
    return parameter_rules.check_not_negative(site, scale, f"the scale of {distribution}")


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


MIN_SUCCESS_PROBABILITY = 1e-9
"""Least probability of success of a geometric distribution."""


def _geometric(site: CallSite, size: Shape, p: Any) -> Any:
    """Return geometric random numbers: exponential ones of rate `-log(1 - p)`, rounded up.

    For a small p, the rate is a series in `p / (2 - p)`.
    """
    is_in_range = (p >= MIN_SUCCESS_PROBABILITY) & (p <= 1.0)
    p = site.ensured(
        p, is_in_range, "the chance of a geometric distribution must be from 1e-9 to 1"
    )
    atanh_argument = p / (2.0 - p)
    series_rate = (
        2.0
        * atanh_argument
        * streams.polynomial(atanh_argument * atanh_argument, streams.ATANH_COEFFICIENTS)
    )
    rate = np.where(p < 0.25, series_rate, streams.exponential(1.0 - p))
    return np.ceil(site.numbers("Exponential", size) / rate).astype(np.int64)


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


class Variate(Struct, frozen=True):
    """Random distribution that models can call: its name, parameters and formula.

    Attributes:
        formula: Function of the call site, the shape of the draw, and the parameters.
        has_size: True if a call has an argument `size`.
        draws_rows: True if each drawn element is a row with as many numbers as the parameter.
    """

    formula: Callable[..., Any]
    has_size: bool = True
    draws_rows: bool = False

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """Parameters that a model passes to the distribution, then `size` if `has_size` is True."""
        parameters = tuple(inspect.signature(self.formula).parameters.values())[2:]
        size_parameter = inspect.Parameter(
            "size", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None
        )
        return (*parameters, size_parameter) if self.has_size else parameters

    def read(self, *arguments: Any, **keyword_arguments: Any) -> tuple[list[Any], Any]:
        """Return the parameter values in a call of the distribution, and its `size` or None."""
        bound_arguments = inspect.Signature(self.parameters).bind(*arguments, **keyword_arguments)
        bound_arguments.apply_defaults()
        argument_values = list(bound_arguments.arguments.values())
        return argument_values, argument_values.pop() if self.has_size else None


_NUMPY_VARIATES = {
    "standard_gamma": Variate(_standard_gamma),
    "gamma": Variate(_scaled_gamma),
    "chisquare": Variate(_chisquare),
    "beta": Variate(_beta),
    "f": Variate(_f),
    "standard_t": Variate(_standard_t),
    "dirichlet": Variate(_dirichlet, draws_rows=True),
    "weibull": Variate(_weibull),
    "pareto": Variate(_pareto),
    "power": Variate(_power),
    "rayleigh": Variate(_rayleigh),
    "gumbel": Variate(_gumbel),
    "logistic": Variate(_logistic),
    "geometric": Variate(_geometric),
    "triangular": Variate(_triangular),
    "standard_cauchy": Variate(_standard_cauchy),
    "wald": Variate(_wald),
}
_PYTHON_FORMULAS: dict[str, Callable[..., Any]] = {
    "gammavariate": _gammavariate,
    "betavariate": _betavariate,
    "weibullvariate": _weibullvariate,
    "paretovariate": _paretovariate,
    "expovariate": _expovariate,
    "lognormvariate": _lognormvariate,
    "triangular": _triangular_of_python,
}

VARIATES: Mapping[str, Variate] = {
    **{f"numpy.random.{name}": variate for name, variate in _NUMPY_VARIATES.items()},
    **{
        f"random.{name}": Variate(formula, has_size=False)
        for name, formula in _PYTHON_FORMULAS.items()
    },
}
"""Distributions, by their names in expressions."""
