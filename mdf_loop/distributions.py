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

from mdf_loop import poisson, streams
from mdf_loop.errors import OperandError
from mdf_loop.integer_variates import choose_weighted, integers
from mdf_loop.variates import ONNX_FORMULAS, VARIATES, Variate, bernoulli, correlated_normals

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

    def count_events(self, u: Any, rate: Any) -> Any:
        """Return the Poisson numbers of uniform numbers `u`: by sums, or by normal quantiles."""
        is_small_rate = rate <= poisson.MAX_SUMMED_RATE
        event_count = _count_by_sums(
            np.minimum(u, poisson.MAX_UNIFORM), np.where(is_small_rate, rate, 0.0)
        )
        if not np.all(is_small_rate):
            large_rate = np.where(is_small_rate, poisson.MAX_SUMMED_RATE, rate)
            large_counts = poisson.poisson_quantile(streams.normal(u), large_rate).astype(np.int64)
            event_count = np.where(is_small_rate, event_count, large_counts)
        return event_count

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


def _count_by_sums(u: Any, rate: Any) -> Any:
    """Return the Poisson quantile of u: the number of cumulative probabilities up to u.

    The sum ends where it no longer grows in float64.
    """
    probability = streams.exp(-rate)
    no_events = np.zeros(np.shape(u), np.int64)
    state: tuple[Any, ...] = (probability, probability, u >= probability, no_events)
    event_number = 0.0
    while np.any(state[2]):
        event_number += 1.0
        state = poisson.sum_next_term(u, rate, event_number, state)
    return state[3]


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
    dtype = np.float64 if variate.arithmetic == "float64" else None
    keeps_scalars = variate.arithmetic == "expression"

    def convert(parameter: Any) -> Any:
        is_scalar = np.ndim(parameter) == 0
        return parameter if keeps_scalars and is_scalar else np.asarray(parameter, dtype)

    def draw(site: SiteTurn, /, *arguments: Any, **keywords: Any) -> Any:
        shape, *parameters = variate.read(arguments, keywords, convert, _draw_shape)
        with np.errstate(all="ignore"):
            return np.asarray(variate.formula(site, shape, *parameters))[()]

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
    return correlated_normals(site, shape, means, cholesky_factor)


def _choice(site: SiteTurn, a: Any, size: Size = None, replace: bool = True, p: Any = None) -> Any:
    choice_count = int(a) if np.ndim(a) == 0 else len(a)
    if p is None:
        choice_indices = integers(site, _draw_shape(size), np.asarray(choice_count))
    else:
        choice_indices = choose_weighted(site, _draw_shape(size), np.asarray(p), choice_count)
    return choice_indices if np.ndim(a) == 0 else np.asarray(a)[choice_indices]


# --- ONNX's operators -----------------------------------------------------------------------------

_FLOAT32_CODE = 1
"""Code of float32 in ONNX (TensorProto.FLOAT)."""


def _make_onnx_draw(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a draw function for an ONNX operator, whose attributes are parameters of a formula."""

    def draw(site: SiteTurn, shape: Any, dtype: int = _FLOAT32_CODE, **parameters: float) -> Any:
        return _cast_to_code(formula(site, _draw_shape(shape), **parameters), dtype)

    return draw


def _make_draw_like_input(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a draw function that uses the shape, and by default the dtype, of an input array."""

    def drawn(site: SiteTurn, input: Any, dtype: int | None = None, **named: Any) -> Any:
        dtype_code = (
            helper.np_dtype_to_tensor_dtype(np.asarray(input).dtype) if dtype is None else dtype
        )
        return draw(site, np.shape(input), dtype=dtype_code, **named)

    return drawn


def _bernoulli(site: SiteTurn, input: Any, dtype: int | None = None) -> Any:
    is_hit = np.asarray(bernoulli(site, np.shape(input), np.asarray(input, np.float64)))
    return is_hit.astype(np.asarray(input).dtype) if dtype is None else _cast_to_code(is_hit, dtype)


def _cast_to_code(numbers: Any, dtype: int) -> Any:
    """Cast numbers to the dtype with an ONNX type code."""
    return np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(int(dtype)))


_ONNX_DRAWS = {name: _make_onnx_draw(formula) for name, formula in ONNX_FORMULAS.items()}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _make_formula_draw(variate) for name, variate in VARIATES.items()},
    "numpy.random.choice": _choice,
    "numpy.random.multivariate_normal": _multivariate_normal,
    **{f"onnx::{name}": draw for name, draw in _ONNX_DRAWS.items()},
    **{f"onnx::{name}Like": _make_draw_like_input(draw) for name, draw in _ONNX_DRAWS.items()},
    "onnx::Bernoulli": _bernoulli,
}
"""Functions that draw random numbers, by their names in expressions. The first argument is the call site."""
