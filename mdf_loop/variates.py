"""Distributions as formulas of uniform, normal and exponential numbers.

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
    """Call that draws random numbers."""

    def numbers(self, kind: str, shape: Shape) -> Any:
        """Return random numbers of a distribution in `streams.KINDS`. Repeated calls return equal numbers."""

    def part(self, name: str) -> Self:
        """Return an independent source of random numbers for a named part of this call."""

    def least(self, parameter: Any) -> float:
        """Return the smallest value of a parameter, or minus infinity if the value is unknown yet."""

    def ensured(self, parameter: Any, fits: Any, sentence: str) -> Any:
        """Return the parameter if `fits` is true for all elements, or raise an error with the message `sentence`."""


# --- gamma numbers --------------------------------------------------------------------------------

MIN_GAMMA_SHAPE, MAX_GAMMA_SHAPE = 1e-3, 1e9
"""Least and largest shape of a gamma distribution."""


def _gamma(site: CallSite, shape: Shape, a: Any, what: str, times: float = 1.0) -> tuple[Any, Any]:
    """Return gamma numbers `x * exp(-s)` as x and s, since numbers of small shapes may underflow.

    For a shape below 6, x is a number of shape a + 6. A factor `u**(1/a)` reduces the shape from a + 1 to
    a. Six such factors give `s`, a sum of exponential numbers.

    Args:
        site: Call site of the draw.
        shape: Shape of the array of numbers.
        a: Shape of the gamma distribution.
        what: Parameter that an error names.
        times: Ratio of this parameter to `a`.
    """
    fits = (a >= MIN_GAMMA_SHAPE) & (a <= MAX_GAMMA_SHAPE)
    low, high = (
        f"{times * end:g}".replace("e+0", "e") for end in (MIN_GAMMA_SHAPE, MAX_GAMMA_SHAPE)
    )
    a = site.ensured(a, fits, f"{what} must be from {low} to {high}")
    z = site.numbers("Normal", shape)
    if site.least(a) >= gamma.MIN_SHAPE:
        return gamma.gamma_quantile(z, a), 0.0
    steps = site.part("small").numbers("Exponential", (gamma.MIN_SHAPE, *shape))
    s: Any = 0.0
    for k in range(gamma.MIN_SHAPE):
        s = s + np.take(steps, k, axis=0) / (a + float(k))
    small = a < float(gamma.MIN_SHAPE)
    x = gamma.gamma_quantile(z, np.where(small, a + float(gamma.MIN_SHAPE), a))
    return x, np.where(small, s, 0.0)


def _standard_gamma(site: CallSite, size: Shape, shape: Any) -> Any:
    x, s = _gamma(site, size, shape, "the shape of a gamma distribution")
    return x * streams.exp(-s)


def _scaled_gamma(site: CallSite, size: Shape, shape: Any, scale: Any = 1.0) -> Any:
    scale = _check_scale(site, scale, "a gamma distribution")
    return scale * _standard_gamma(site, size, shape)


def _gammavariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    beta = parameter_rules.check_positive(site, beta, "the scale of a gamma distribution")
    return beta * _standard_gamma(site, size, alpha)


def _chisquare(site: CallSite, size: Shape, df: Any) -> Any:
    what = "the degrees of freedom of a chi-square distribution"
    x, s = _gamma(site, size, df * 0.5, what, 2.0)
    return 2.0 * (x * streams.exp(-s))


def _beta(site: CallSite, size: Shape, a: Any, b: Any) -> Any:
    """Return beta numbers `x / (x + y)` of gamma numbers x and y.

    Both numbers are divided by the larger one of their factors `exp(-s)`, which prevents underflow.
    """
    x, s = _gamma(site, size, a, "the first shape of a beta distribution")
    y, t = _gamma(site.part("other"), size, b, "the second shape of a beta distribution")
    difference = s - t
    smaller, is_first = streams.exp(-np.abs(difference)), difference > 0.0
    x, y = x * np.where(is_first, smaller, 1.0), y * np.where(is_first, 1.0, smaller)
    return x / (x + y)


def _betavariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    return _beta(site, size, alpha, beta)


def _f(site: CallSite, size: Shape, dfnum: Any, dfden: Any) -> Any:
    what = "the degrees of freedom of an F distribution"
    x, s = _gamma(site, size, dfnum * 0.5, what, 2.0)
    y, t = _gamma(site.part("other"), size, dfden * 0.5, what, 2.0)
    return dfden / dfnum * (x / y) * streams.exp(t - s)


def _standard_t(site: CallSite, size: Shape, df: Any) -> Any:
    what = "the degrees of freedom of a Student's t distribution"
    y, t = _gamma(site.part("spread"), size, df * 0.5, what, 2.0)
    return site.numbers("Normal", size) * np.sqrt(df * 0.5 / y) * streams.exp(t * 0.5)


MAX_DIRICHLET_COMPONENTS = 256
"""Largest number of components of a Dirichlet distribution, since they are added one by one."""


def _dirichlet(site: CallSite, size: Shape, alpha: Any) -> Any:
    """Return gamma numbers along the last axis, divided by their sum.

    The gamma numbers are first divided by their largest factor `exp(-s)`, which prevents underflow.
    """
    if len(alpha.shape) != 1 or not 1 <= size[-1] <= MAX_DIRICHLET_COMPONENTS:
        raise OperandError(
            f"a Dirichlet distribution has a list of 1 to {MAX_DIRICHLET_COMPONENTS} numbers"
        )
    parts = range(size[-1])
    x, s = _gamma(site, size, alpha, "alpha of a Dirichlet distribution")
    if site.least(alpha) < gamma.MIN_SHAPE:
        least = np.take(s, 0, axis=-1)
        for k in parts[1:]:
            other = np.take(s, k, axis=-1)
            least = np.where(other < least, other, least)
        x = x * streams.exp(np.expand_dims(least, -1) - s)
    total = np.take(x, 0, axis=-1)
    for k in parts[1:]:
        total = total + np.take(x, k, axis=-1)
    return x / np.expand_dims(total, -1)


# --- numbers by the inverse of their distribution -------------------------------------------------


_positive = parameter_rules.check_positive


def _check_scale(site: CallSite, scale: Any, distribution: str) -> Any:
    """Return the scale of a distribution, or raise an error for a negative scale."""
    return parameter_rules.check_not_negative(site, scale, f"the scale of {distribution}")


def _weibull(site: CallSite, size: Shape, a: Any) -> Any:
    a = _positive(site, a, "the shape of a Weibull distribution")
    return streams.exp(streams.log(site.numbers("Exponential", size)) / a)


def _weibullvariate(site: CallSite, size: Shape, alpha: Any, beta: Any) -> Any:
    return _check_scale(site, alpha, "a Weibull distribution") * _weibull(site, size, beta)


def _draw_exponential(site: CallSite, size: Shape, a: Any, distribution: str) -> Any:
    """Return exponential numbers of rate `a`, which are the logarithms of Pareto numbers."""
    a = _positive(site, a, f"the shape of a {distribution} distribution")
    return site.numbers("Exponential", size) / a


def _pareto(site: CallSite, size: Shape, a: Any) -> Any:
    return streams.expm1(_draw_exponential(site, size, a, "Pareto"))


def _paretovariate(site: CallSite, size: Shape, alpha: Any) -> Any:
    return streams.exp(_draw_exponential(site, size, alpha, "Pareto"))


def _power(site: CallSite, size: Shape, a: Any) -> Any:
    return streams.exp(-_draw_exponential(site, size, a, "power"))


def _expovariate(site: CallSite, size: Shape, lambd: Any = 1.0) -> Any:
    lambd = _positive(site, lambd, "the rate of an exponential distribution")
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
    """Return geometric numbers: exponential numbers of rate `-log(1 - p)`, rounded up.

    For a small p, the rate is a series in `p / (2 - p)`.
    """
    fits = (p >= MIN_SUCCESS_PROBABILITY) & (p <= 1.0)
    p = site.ensured(p, fits, "the chance of a geometric distribution must be from 1e-9 to 1")
    t = p / (2.0 - p)
    series = 2.0 * t * streams.polynomial(t * t, streams.ATANH_COEFFICIENTS)
    rate = np.where(p < 0.25, series, streams.exponential(1.0 - p))
    return np.ceil(site.numbers("Exponential", size) / rate).astype(np.int64)


def _triangular(site: CallSite, size: Shape, left: Any, mode: Any, right: Any) -> Any:
    """Return triangular numbers by the inverse distribution, a square root on each side of the mode."""
    fits = (left <= mode) & (mode <= right) & (left < right)
    left = site.ensured(
        left, fits, "the mode of a triangular distribution must be between its ends, which differ"
    )
    u, width = site.numbers("Uniform", size), right - left
    rising = left + np.sqrt(u * width * (mode - left))
    falling = right - np.sqrt((1.0 - u) * width * (right - mode))
    return np.where(u * width < mode - left, rising, falling)


def _triangular_of_python(
    site: CallSite, size: Shape, low: Any = 0.0, high: Any = 1.0, mode: Any = None
) -> Any:
    middle = (low + high) * 0.5 if mode is None else mode
    return _triangular(site, size, low, middle, high)


# --- numbers from two random numbers --------------------------------------------------------------


def _standard_cauchy(site: CallSite, size: Shape) -> Any:
    return site.numbers("Normal", size) / site.part("below").numbers("Normal", size)


def _wald(site: CallSite, size: Shape, mean: Any, scale: Any) -> Any:
    """Return Wald numbers: one of the two roots for a squared normal number.

    Source: Michael, Schucany and Haas, Generating random variates using transformations with multiple
    roots (1976).
    """
    mean = _positive(site, mean, "the mean of a Wald distribution")
    scale = _positive(site, scale, "the scale of a Wald distribution")
    z = site.numbers("Normal", size)
    y = mean * (z * z)
    large = mean + mean / (2.0 * scale) * (y + np.sqrt(y * (4.0 * scale + y)))
    small = mean * (mean / large)
    u = site.part("side").numbers("Uniform", size)
    return np.where(u * (mean + small) < mean, small, large)


# --- names in expressions -------------------------------------------------------------------------


class Variate(Struct, frozen=True):
    """Name and formula of a distribution.

    Attributes:
        formula: Function of the call site, the shape of the draw, and the parameters.
        sized: True if a call has an argument `size`.
        rows: True if each drawn element is a row with as many numbers as the parameter.
    """

    formula: Callable[..., Any]
    sized: bool = True
    rows: bool = False

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """Parameters of a call, followed by `size` if the call has this argument."""
        parameters = tuple(inspect.signature(self.formula).parameters.values())[2:]
        size = inspect.Parameter("size", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        return (*parameters, size) if self.sized else parameters

    def read(self, *arguments: Any, **named: Any) -> tuple[list[Any], Any]:
        """Return the values of the parameters in a call, and its `size`, or None."""
        bound = inspect.Signature(self.parameters).bind(*arguments, **named)
        bound.apply_defaults()
        values = list(bound.arguments.values())
        return values, values.pop() if self.sized else None


_NUMPY = {
    "standard_gamma": Variate(_standard_gamma),
    "gamma": Variate(_scaled_gamma),
    "chisquare": Variate(_chisquare),
    "beta": Variate(_beta),
    "f": Variate(_f),
    "standard_t": Variate(_standard_t),
    "dirichlet": Variate(_dirichlet, rows=True),
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
_PYTHON: dict[str, Callable[..., Any]] = {
    "gammavariate": _gammavariate,
    "betavariate": _betavariate,
    "weibullvariate": _weibullvariate,
    "paretovariate": _paretovariate,
    "expovariate": _expovariate,
    "lognormvariate": _lognormvariate,
    "triangular": _triangular_of_python,
}

VARIATES: Mapping[str, Variate] = {
    **{f"numpy.random.{name}": variate for name, variate in _NUMPY.items()},
    **{f"random.{name}": Variate(formula, sized=False) for name, formula in _PYTHON.items()},
}
"""Distributions, by their names in expressions."""
