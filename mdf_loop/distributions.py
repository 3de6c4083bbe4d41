"""Distributions by numpy: what each function that draws makes of the numbers of its site.

    normal = FUNCTIONS["numpy.random.normal"]
    normal(SiteTurn("g.A.x#0", turn=4, seed=1), 0.0, 1.0, size=3)

This is the reference: compiled models give the same bits, in the interpreter, in ONNX Runtime and in
machine code. Each element takes one word, and none is drawn again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from onnx import helper

from mdf_loop import streams
from mdf_loop.errors import OperandError
from mdf_loop.variates import VARIATES, Variate

Size: TypeAlias = "int | Sequence[int] | None"


class SiteTurn(Struct, frozen=True):
    """The numbers that a call takes in one turn: of a site by its name, and a seed."""

    site: str
    turn: int = 0
    seed: int = 0

    @property
    def key(self) -> Any:
        """That of its stream."""
        return _key(self.seed, self.site)

    def part(self, name: str) -> SiteTurn:
        """Further numbers of the same call."""
        item, _, call = self.site.rpartition("#")
        return replace(self, site=f"{item}.{name}#{call}")

    def least(self, parameter: Any) -> float:
        """The least number of a parameter."""
        return float(np.min(parameter))

    def ensured(self, parameter: Any, fits: Any, sentence: str) -> Any:
        """The parameter; it is an error with that sentence where it does not fit."""
        if not np.all(fits):
            raise OperandError(sentence)
        return parameter

    def numbers(self, kind: str, shape: tuple[int, ...]) -> Any:
        """So many words, or uniform, normal or exponential numbers; a plain number of shape ()."""
        count = math.prod(shape)
        counters = np.arange(self.turn * count, (self.turn + 1) * count, dtype=np.uint64)
        made = streams.KINDS[kind](streams.squares(counters.reshape(shape), self.key))
        return np.asarray(made) if shape else made[()]


@functools.lru_cache(maxsize=1024)
def _key(seed: int, site: str) -> Any:
    return streams.keys(seed, streams.site(site))


def _shape(size: Size, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*map(np.shape, parameters))
    return (int(size),) if np.ndim(size) == 0 else tuple(map(int, size))  # type: ignore[arg-type]


def _normal(site: SiteTurn, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
    return loc + scale * site.numbers("Normal", _shape(size, loc, scale))


def _uniform(site: SiteTurn, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Any:
    return low + (high - low) * site.numbers("Uniform", _shape(size, low, high))


def _exponential(site: SiteTurn, scale: Any = 1.0, size: Size = None) -> Any:
    return scale * site.numbers("Exponential", _shape(size, scale))


def _sized(kind: str) -> Callable[..., Any]:
    def draw(site: SiteTurn, size: Size = None) -> Any:
        return site.numbers(kind, _shape(size))

    return draw


def _of_shape(kind: str) -> Callable[..., Any]:
    def draw(site: SiteTurn, *extents: int) -> Any:
        return site.numbers(kind, tuple(map(int, extents)))

    return draw


def _integers(site: SiteTurn, low: Any, high: Any = None, size: Size = None) -> Any:
    first, end = (0, low) if high is None else (low, high)
    words = np.asarray(site.numbers("RandomWord", _shape(size, first, end)))
    half, many = np.uint64(32), np.asarray(end - np.asarray(first)).astype(np.uint64)
    high_part = words >> half
    low_part = words - (high_part << half)
    index = (high_part * many + (low_part * many >> half)) >> half
    return (first + index.astype(np.int64))[()]


def _randint(site: SiteTurn, a: int, b: int) -> Any:
    return _integers(site, a, b + 1)


def _binomial(site: SiteTurn, n: int, p: Any, size: Size = None) -> Any:
    hits = np.asarray(site.numbers("Uniform", (n, *_shape(size, p))) < p)
    return hits.astype(np.int64).sum(axis=0)[()]


def _lognormal(site: SiteTurn, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None) -> Any:
    return streams.exp(_normal(site, mean, sigma, size))[()]


def _laplace(site: SiteTurn, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
    shape = _shape(size, loc, scale)
    size_of = site.numbers("Exponential", shape)
    below = site.part("sign").numbers("Uniform", shape) < 0.5
    return (loc + scale * np.where(below, -size_of, size_of))[()]


def _poisson(site: SiteTurn, lam: Any = 1.0, size: Size = None) -> Any:
    rate = np.asarray(lam, np.float64)
    u = np.minimum(site.numbers("Uniform", _shape(size, lam)), HIGHEST)
    part = streams.exp(-rate)
    total, count = part, (u >= part).astype(np.int64)
    for k in range(1, most_events(rate)):
        part = part * rate / k
        total = total + part
        count = count + (u >= total)
    return count[()]


HIGHEST = 1.0 - 1e-13
"""Of a Poisson distribution what is less likely than the rest is not drawn."""


def most_events(rate: Any) -> int:
    """How many events there can be at such rates, and one more."""
    largest = float(np.max(rate))
    part = total = float(streams.exp(-largest))
    count = 1
    while total <= HIGHEST:
        part = part * largest / count
        total, count = total + part, count + 1
    return count


def _of_formula(variate: Variate) -> Callable[..., Any]:
    def draw(site: SiteTurn, /, *given: Any, **named: Any) -> Any:
        parameters, size = variate.read(*given, **named)
        wide = [None if each is None else np.asarray(each, np.float64) for each in parameters]
        values = [each for each in wide if each is not None]
        shape = _shape(None, *values) if size is None or variate.rows else ()
        shape = shape if size is None else (*_shape(size), *shape)
        with np.errstate(all="ignore"):
            return np.asarray(variate.formula(site, shape, *wide))[()]

    return draw


def _multivariate_normal(site: SiteTurn, mean: Any, cov: Any, size: Size = None) -> Any:
    middle, root = np.asarray(mean, np.float64), np.linalg.cholesky(np.asarray(cov, np.float64))
    shape = () if size is None else _shape(size)
    z = np.asarray(site.numbers("Normal", (*shape, len(middle))))
    made = []
    for j in range(len(middle)):
        value = middle[j]
        for k in range(j + 1):
            value = value + root[j, k] * z[..., k]
        made.append(value)
    return np.stack(np.broadcast_arrays(*made), axis=-1)


def _choice(site: SiteTurn, a: Any, size: Size = None, replace: bool = True, p: Any = None) -> Any:
    count = int(a) if np.ndim(a) == 0 else len(a)
    if p is None:
        index = _integers(site, 0, count, _shape(size))
    else:
        u = site.numbers("Uniform", _shape(size))
        index = np.searchsorted(np.cumsum(p)[:-1], u, side="right")
    return index if np.ndim(a) == 0 else np.asarray(a)[index]


# --- ONNX's operators -----------------------------------------------------------------------------

_FLOAT = 1
"""ONNX's number of float32."""


def _onnx_normal(
    site: SiteTurn, shape: Any, mean: float = 0.0, scale: float = 1.0, dtype: int = _FLOAT
) -> Any:
    return _typed(mean + scale * site.numbers("Normal", _shape(shape)), dtype)


def _onnx_uniform(
    site: SiteTurn, shape: Any, low: float = 0.0, high: float = 1.0, dtype: int = _FLOAT
) -> Any:
    return _typed(low + (high - low) * site.numbers("Uniform", _shape(shape)), dtype)


def _like(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(site: SiteTurn, input: Any, dtype: int | None = None, **named: Any) -> Any:
        asked = helper.np_dtype_to_tensor_dtype(np.asarray(input).dtype) if dtype is None else dtype
        return draw(site, np.shape(input), dtype=asked, **named)

    return drawn


def _bernoulli(site: SiteTurn, input: Any, dtype: int | None = None) -> Any:
    hit = np.asarray(site.numbers("Uniform", np.shape(input)) < np.asarray(input, np.float64))
    return hit.astype(np.asarray(input).dtype) if dtype is None else _typed(hit, dtype)


def _typed(made: Any, dtype: int) -> Any:
    return np.asarray(made).astype(helper.tensor_dtype_to_np_dtype(int(dtype)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numpy.random.normal": _normal,
    "random.gauss": _normal,
    "random.normalvariate": _normal,
    "numpy.random.standard_normal": _sized("Normal"),
    "numpy.random.randn": _of_shape("Normal"),
    "numpy.random.uniform": _uniform,
    "random.uniform": _uniform,
    **{
        f"numpy.random.{name}": _sized("Uniform")
        for name in ("random_sample", "random", "ranf", "sample")
    },
    "numpy.random.rand": _of_shape("Uniform"),
    "random.random": _of_shape("Uniform"),
    "random": _of_shape("Uniform"),
    "numpy.random.randint": _integers,
    "numpy.random.integers": _integers,
    "random.randint": _randint,
    "numpy.random.binomial": _binomial,
    "numpy.random.choice": _choice,
    "numpy.random.exponential": _exponential,
    "numpy.random.standard_exponential": _sized("Exponential"),
    "numpy.random.lognormal": _lognormal,
    "numpy.random.laplace": _laplace,
    "numpy.random.poisson": _poisson,
    "numpy.random.multivariate_normal": _multivariate_normal,
    **{name: _of_formula(variate) for name, variate in VARIATES.items()},
    "onnx::RandomNormal": _onnx_normal,
    "onnx::RandomNormalLike": _like(_onnx_normal),
    "onnx::RandomUniform": _onnx_uniform,
    "onnx::RandomUniformLike": _like(_onnx_uniform),
    "onnx::Bernoulli": _bernoulli,
}
"""Functions that draw, by the names that expressions call them; each takes the site first."""
