"""NumPy implementation of random distributions, with reproducible random numbers.

    normal = FUNCTIONS["numpy.random.normal"]
    normal(SiteTurn("g.A.x#0", turn=4, seed=1), 0.0, 1.0, size=3)

These functions are the reference: compiled models compute the same bits in the interpreter, in ONNX
Runtime and in machine code. Each element uses one word of the random stream, without rejection.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from onnx import helper

from mdf_loop import parameter_rules, poisson, streams
from mdf_loop.errors import OperandError
from mdf_loop.variates import VARIATES, Variate

Size: TypeAlias = "int | Sequence[int] | None"


class SiteTurn(Struct, frozen=True):
    """Source of random numbers for one execution of a call that draws random numbers.

    Attributes:
        site: Name of the call site, such as `g.A.x#0`.
        turn: Number of earlier executions of the call.
        seed: Seed of the run.
    """

    site: str
    turn: int = 0
    seed: int = 0

    @property
    def key(self) -> Any:
        """Key of this call's stream of random numbers."""
        return _stream_key(self.seed, self.site)

    def part(self, name: str) -> SiteTurn:
        """Return an independent source of random numbers for the draw `name` of this call."""
        item_path, _, call_number = self.site.rpartition("#")
        return replace(self, site=f"{item_path}.{name}#{call_number}")

    def least(self, parameter: Any) -> float:
        """Return the smallest element of a distribution parameter."""
        return float(np.min(parameter))

    def ensured(self, parameter: Any, fits: Any, sentence: str) -> Any:
        """Return a distribution parameter, or raise an error if an element of `fits` is False.

        The message of the error is `sentence`.
        """
        if not np.all(fits):
            raise OperandError(sentence)
        return parameter

    def numbers(self, kind: str, shape: tuple[int, ...]) -> Any:
        """Return an array of random numbers of a distribution in `streams.DISTRIBUTIONS`.

        The shape () gives a scalar.
        """
        number_count = math.prod(shape)
        counters = np.arange(
            self.turn * number_count, (self.turn + 1) * number_count, dtype=np.uint64
        )
        random_numbers = streams.DISTRIBUTIONS[kind](
            streams.squares(counters.reshape(shape), self.key)
        )
        return np.asarray(random_numbers) if shape else random_numbers[()]


@functools.lru_cache(maxsize=1024)
def _stream_key(seed: int, site: str) -> Any:
    """Return the key of the random stream of a seed and a call site."""
    return streams.keys(seed, streams.site(site))


def _draw_shape(size: Size, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of an array of random numbers: `size`, or that of the broadcast parameters."""
    if size is None:
        return np.broadcast_shapes(*map(np.shape, parameters))
    return (int(size),) if np.ndim(size) == 0 else tuple(map(int, size))  # type: ignore[arg-type]


def _normal(site: SiteTurn, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
    scale = parameter_rules.check_not_negative(site, scale, "the scale of a normal distribution")
    return loc + scale * site.numbers("Normal", _draw_shape(size, loc, scale))


def _uniform(site: SiteTurn, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Any:
    width = parameter_rules.check_width(site, low, high)
    return low + width * site.numbers("Uniform", _draw_shape(size, low, high))


def _uniform_of_python(site: SiteTurn, a: Any, b: Any) -> Any:
    return a + (b - a) * site.numbers("Uniform", _draw_shape(None, a, b))


def _exponential(site: SiteTurn, scale: Any = 1.0, size: Size = None) -> Any:
    scale = parameter_rules.check_not_negative(
        site, scale, "the scale of an exponential distribution"
    )
    return scale * site.numbers("Exponential", _draw_shape(size, scale))


def _make_sized_draw(kind: str) -> Callable[..., Any]:
    """Return a function that draws from a standard distribution, with `size` as only parameter."""

    def draw(site: SiteTurn, size: Size = None) -> Any:
        return site.numbers(kind, _draw_shape(size))

    return draw


def _make_shaped_draw(kind: str) -> Callable[..., Any]:
    """Return a function that draws from a standard distribution, with extents as arguments."""

    def draw(site: SiteTurn, *extents: int) -> Any:
        return site.numbers(kind, tuple(map(int, extents)))

    return draw


def _integers(site: SiteTurn, low: Any, high: Any = None, size: Size = None) -> Any:
    range_start, range_end = (0, low) if high is None else (low, high)
    integer_count = np.asarray(range_end) - np.asarray(range_start)
    site.ensured(
        integer_count,
        (integer_count > 0) & (integer_count < 1 << 32),
        parameter_rules.INTEGER_RANGE_RULE,
    )
    random_words = np.asarray(site.numbers("RandomWord", _draw_shape(size, range_start, range_end)))
    half_bits, range_size = (
        np.uint64(32),
        np.asarray(range_end - np.asarray(range_start)).astype(np.uint64),
    )
    high_half = random_words >> half_bits
    low_half = random_words - (high_half << half_bits)
    offset = (high_half * range_size + (low_half * range_size >> half_bits)) >> half_bits
    return (range_start + offset.astype(np.int64))[()]


def _randint(site: SiteTurn, a: int, b: int) -> Any:
    return _integers(site, a, b + 1)


def _binomial(site: SiteTurn, n: int, p: Any, size: Size = None) -> Any:
    p = parameter_rules.check_range(site, p, 0.0, 1.0, parameter_rules.BINOMIAL_PROBABILITY)
    is_hit = np.asarray(site.numbers("Uniform", (n, *_draw_shape(size, p))) < p)
    return is_hit.astype(np.int64).sum(axis=0)[()]


def _lognormal(site: SiteTurn, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None) -> Any:
    sigma = parameter_rules.check_not_negative(site, sigma, "the scale of a lognormal distribution")
    return streams.exp(_normal(site, mean, sigma, size))[()]


def _laplace(site: SiteTurn, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
    scale = parameter_rules.check_not_negative(site, scale, "the scale of a Laplace distribution")
    shape = _draw_shape(size, loc, scale)
    magnitude = site.numbers("Exponential", shape)
    is_negative = site.part("sign").numbers("Uniform", shape) < 0.5
    return (loc + scale * np.where(is_negative, -magnitude, magnitude))[()]


def _poisson(site: SiteTurn, lam: Any = 1.0, size: Size = None) -> Any:
    rate = np.asarray(lam, np.float64)
    rate_name = "the rate of a Poisson distribution"
    rate = parameter_rules.check_range(site, rate, 0.0, poisson.LARGEST_RATE, rate_name)
    u = np.asarray(site.numbers("Uniform", _draw_shape(size, lam)))
    is_small_rate = rate <= poisson.MAX_SUMMED_RATE
    event_count = _count_by_sums(
        np.minimum(u, poisson.MAX_UNIFORM), np.where(is_small_rate, rate, 0.0)
    )
    if not np.all(is_small_rate):
        large_rate = np.where(is_small_rate, poisson.MAX_SUMMED_RATE, rate)
        large_counts = poisson.poisson_quantile(streams.normal(u), large_rate).astype(np.int64)
        event_count = np.where(is_small_rate, event_count, large_counts)
    return np.asarray(event_count)[()]


def _count_by_sums(u: Any, rate: Any) -> Any:
    """Return the Poisson quantile of u: the number of cumulative probabilities up to u.

    The sum ends where it no longer grows in float64.
    """
    term = cumulative_probability = streams.exp(-rate)
    is_pending, event_count, event_number = (
        u >= cumulative_probability,
        np.zeros(np.shape(u), np.int64),
        0,
    )
    while np.any(is_pending):
        event_count, event_number = event_count + is_pending, event_number + 1
        term = term * rate / event_number
        cumulative_probability, previous_probability = (
            cumulative_probability + term,
            cumulative_probability,
        )
        is_pending = (
            is_pending
            & (cumulative_probability > previous_probability)
            & (u >= cumulative_probability)
        )
    return event_count


def max_event_count(rate: Any) -> int:
    """Return a number above all Poisson numbers that can be drawn with the given rates.

    The rates are small, so that `_count_by_sums` computes the numbers.
    """
    largest_rate = float(np.max(rate, initial=0.0))
    term = cumulative_probability = float(streams.exp(-largest_rate))
    event_count = 1
    while cumulative_probability <= poisson.MAX_UNIFORM and event_count < poisson.MAX_TERMS:
        term = term * largest_rate / event_count
        cumulative_probability, event_count = cumulative_probability + term, event_count + 1
    return event_count


def _make_formula_draw(variate: Variate) -> Callable[..., Any]:
    """Return a function that draws random numbers of a distribution defined by a formula."""

    def draw(site: SiteTurn, /, *arguments: Any, **keyword_arguments: Any) -> Any:
        parameters, size = variate.read(*arguments, **keyword_arguments)
        float64_parameters = [
            None if parameter is None else np.asarray(parameter, np.float64)
            for parameter in parameters
        ]
        present_parameters = [
            parameter for parameter in float64_parameters if parameter is not None
        ]
        shape = _draw_shape(None, *present_parameters) if size is None or variate.draws_rows else ()
        shape = shape if size is None else (*_draw_shape(size), *shape)
        with np.errstate(all="ignore"):
            return np.asarray(variate.formula(site, shape, *float64_parameters))[()]

    return draw


def cholesky(square: Any) -> Any:
    """Return the lower Cholesky factor of covariance matrices.

    Raises:
        OperandError: A matrix is not symmetric, not positive definite, or not finite.
    """
    if np.isfinite(square).all() and np.allclose(square, square.T):
        with suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(square)
    raise OperandError(
        "the covariances are those of no numbers: their matrix is not symmetric, or not positive definite"
    )


def _multivariate_normal(site: SiteTurn, mean: Any, cov: Any, size: Size = None) -> Any:
    means, cholesky_factor = np.asarray(mean, np.float64), cholesky(np.asarray(cov, np.float64))
    shape = () if size is None else _draw_shape(size)
    z = np.asarray(site.numbers("Normal", (*shape, len(means))))
    components = []
    for j in range(len(means)):
        component = means[j]
        for k in range(j + 1):
            component = component + cholesky_factor[j, k] * z[..., k]
        components.append(component)
    return np.stack(np.broadcast_arrays(*components), axis=-1)


def _choice(site: SiteTurn, a: Any, size: Size = None, replace: bool = True, p: Any = None) -> Any:
    choice_count = int(a) if np.ndim(a) == 0 else len(a)
    if p is None:
        choice_indices = _integers(site, 0, choice_count, _draw_shape(size))
    else:
        p = np.asarray(p)
        sum_tolerance = parameter_rules.sum_tolerance(p.dtype if p.dtype.kind == "f" else float)
        p = parameter_rules.check_probabilities(site, p, np.sum(p), sum_tolerance)
        u = site.numbers("Uniform", _draw_shape(size))
        choice_indices = np.searchsorted(np.cumsum(p)[:-1], u, side="right")
    return choice_indices if np.ndim(a) == 0 else np.asarray(a)[choice_indices]


# --- ONNX's operators -----------------------------------------------------------------------------

_FLOAT32_CODE = 1
"""Code of float32 in ONNX (TensorProto.FLOAT)."""


def _onnx_normal(
    site: SiteTurn, shape: Any, mean: float = 0.0, scale: float = 1.0, dtype: int = _FLOAT32_CODE
) -> Any:
    scale = parameter_rules.check_not_negative(site, scale, "the scale of onnx::RandomNormal")
    return _cast_to_code(mean + scale * site.numbers("Normal", _draw_shape(shape)), dtype)


def _onnx_uniform(
    site: SiteTurn, shape: Any, low: float = 0.0, high: float = 1.0, dtype: int = _FLOAT32_CODE
) -> Any:
    width = parameter_rules.check_width(site, low, high)
    return _cast_to_code(low + width * site.numbers("Uniform", _draw_shape(shape)), dtype)


def _make_draw_like_input(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a draw function that uses the shape, and by default the dtype, of an input array."""

    def drawn(site: SiteTurn, input: Any, dtype: int | None = None, **named: Any) -> Any:
        dtype_code = (
            helper.np_dtype_to_tensor_dtype(np.asarray(input).dtype) if dtype is None else dtype
        )
        return draw(site, np.shape(input), dtype=dtype_code, **named)

    return drawn


def _bernoulli(site: SiteTurn, input: Any, dtype: int | None = None) -> Any:
    p = np.asarray(input, np.float64)
    p = parameter_rules.check_range(site, p, 0.0, 1.0, parameter_rules.BERNOULLI_PROBABILITY)
    is_hit = np.asarray(site.numbers("Uniform", np.shape(input)) < p)
    return is_hit.astype(np.asarray(input).dtype) if dtype is None else _cast_to_code(is_hit, dtype)


def _cast_to_code(numbers: Any, dtype: int) -> Any:
    """Cast numbers to the dtype with an ONNX type code."""
    return np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(int(dtype)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.random.normal": _normal,
    "random.gauss": _normal,
    "random.normalvariate": _normal,
    "numpy.random.standard_normal": _make_sized_draw("Normal"),
    "numpy.random.randn": _make_shaped_draw("Normal"),
    "numpy.random.uniform": _uniform,
    "random.uniform": _uniform_of_python,
    **{
        f"numpy.random.{name}": _make_sized_draw("Uniform")
        for name in ("random_sample", "random", "ranf", "sample")
    },
    "numpy.random.rand": _make_shaped_draw("Uniform"),
    "random.random": _make_shaped_draw("Uniform"),
    "random": _make_shaped_draw("Uniform"),
    "numpy.random.randint": _integers,
    "numpy.random.integers": _integers,
    "random.randint": _randint,
    "numpy.random.binomial": _binomial,
    "numpy.random.choice": _choice,
    "numpy.random.exponential": _exponential,
    "numpy.random.standard_exponential": _make_sized_draw("Exponential"),
    "numpy.random.lognormal": _lognormal,
    "numpy.random.laplace": _laplace,
    "numpy.random.poisson": _poisson,
    "numpy.random.multivariate_normal": _multivariate_normal,
    **{name: _make_formula_draw(variate) for name, variate in VARIATES.items()},
    "onnx::RandomNormal": _onnx_normal,
    "onnx::RandomNormalLike": _make_draw_like_input(_onnx_normal),
    "onnx::RandomUniform": _onnx_uniform,
    "onnx::RandomUniformLike": _make_draw_like_input(_onnx_uniform),
    "onnx::Bernoulli": _bernoulli,
}
"""Functions that draw random numbers, by their names in expressions. The first argument is the call site."""
