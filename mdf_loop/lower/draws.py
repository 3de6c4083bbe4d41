"""Random numbers: `numpy.random.` and `random.`, from streams that are the same wherever they are computed.

A call is a site: it has a stream of its own (see `mdf_loop.streams`), and takes so many words of it as
it has elements, whatever the distribution. Nothing is rejected, and nothing drawn again.
"""

from __future__ import annotations

import numpy as np

from mdf_loop import distributions, parameter_rules, streams
from mdf_loop.errors import OperandError
from mdf_loop.ir import Array, Value, is_fixed
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arguments import Axes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import names
from mdf_loop.lower.site import DrawSite, Size, drawn
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.ops.words import cast, ints, scalar


def not_negative(b: ModelBuilder, scale: Value, what: str) -> Value:
    """Return the scale of a distribution; a negative one is an error."""
    made: Value = parameter_rules.not_negative(DrawSite(b), Symbolic(b, scale), what).value
    return made


def probability(b: ModelBuilder, p: Value, what: str) -> Value:
    """Return a probability; one that is not from 0 to 1 is an error."""
    made: Value = parameter_rules.between(DrawSite(b), Symbolic(b, p), 0.0, 1.0, what).value
    return made


def drawn_floats(b: ModelBuilder, kind: str, shape: Size) -> Value:
    """The same in the compilation's precision."""
    return cast(b, drawn(b, kind, shape), b.float_dtype)


def size_of(size: Axes, *parameters: Value) -> Size:
    """The shape of a draw: as it is said, else that of its parameters."""
    if size is not None:
        extents = (size,) if isinstance(size, int) else size
        if min(extents, default=0) < 0:
            raise OperandError(f"a size has no extent below 0: {list(extents)}")
        return extents
    shapes = [value.shape for value in parameters if is_fixed(value.shape)]
    if len(shapes) < len(parameters):
        raise OperandError(
            "how many numbers are drawn must be known when the model is compiled",
            hint="give the size, e.g. numpy.random.normal(mean, 1.0, 10)",
        )
    return np.broadcast_shapes(*shapes)


# --- uniform numbers ------------------------------------------------------------------------------


@names("numpy.random.uniform")
def uniform(
    b: ModelBuilder, low: Value | None = None, high: Value | None = None, size: Axes = None
) -> Value:
    """`low + (high - low) * u`, of u in (0, 1)."""
    low, high = _numbers(b, (low, 0.0), (high, 1.0))
    u = drawn_floats(b, "Uniform", size_of(size, low, high))
    wide = parameter_rules.width(DrawSite(b), Symbolic(b, low), Symbolic(b, high)).value
    return ops.add(b, low, ops.multiply(b, wide, u))


@names("random.uniform")
def uniform_of_python(b: ModelBuilder, a: Value, b_: Value) -> Value:
    """Return `a + (b - a) * u`, of u in (0, 1); Python takes the ends in any order."""
    low, high = _numbers(b, (a, 0.0), (b_, 1.0))
    u = drawn_floats(b, "Uniform", size_of(None, low, high))
    return ops.add(b, low, ops.multiply(b, ops.subtract(b, high, low), u))


@names(*(f"numpy.random.{name}" for name in ("random_sample", "random", "ranf", "sample")))
def random_sample(b: ModelBuilder, size: Axes = None) -> Value:
    """Uniform numbers in (0, 1)."""
    return drawn_floats(b, "Uniform", size_of(size))


@names("numpy.random.rand")
def rand(b: ModelBuilder, *d: int) -> Value:
    """Uniform numbers in (0, 1), of a shape."""
    return drawn_floats(b, "Uniform", size_of(d))


@names("random.random", "random")
def random_of_python(b: ModelBuilder) -> Value:
    """One uniform number in (0, 1)."""
    return drawn_floats(b, "Uniform", ())


# --- normal numbers -------------------------------------------------------------------------------


@names("numpy.random.normal")
def normal(
    b: ModelBuilder, loc: Value | None = None, scale: Value | None = None, size: Axes = None
) -> Value:
    """`loc + scale * z`, of z with mean 0 and variance 1."""
    loc, scale = _numbers(b, (loc, 0.0), (scale, 1.0))
    scale = not_negative(b, scale, "the scale of a normal distribution")
    z = drawn_floats(b, "Normal", size_of(size, loc, scale))
    return ops.add(b, loc, ops.multiply(b, scale, z))


@names("random.gauss", "random.normalvariate")
def gauss(b: ModelBuilder, mu: Value | None = None, sigma: Value | None = None) -> Value:
    """`mu + sigma * z`, of z with mean 0 and variance 1."""
    return normal(b, mu, sigma)


@names("numpy.random.standard_normal")
def standard_normal(b: ModelBuilder, size: Axes = None) -> Value:
    """Normal numbers of mean 0 and variance 1."""
    return drawn_floats(b, "Normal", size_of(size))


@names("numpy.random.randn")
def randn(b: ModelBuilder, *d: int) -> Value:
    """Normal numbers of mean 0 and variance 1, of a shape."""
    return drawn_floats(b, "Normal", size_of(d))


# --- whole numbers --------------------------------------------------------------------------------

_HALF = 1 << 32


@names("numpy.random.randint", "numpy.random.integers")
def randint(b: ModelBuilder, low: Value, high: Value | None = None, size: Axes = None) -> Value:
    """Whole numbers from `low` to `high - 1`; without `high` from 0 to `low - 1`."""
    first, end = (literal(b, 0), low) if high is None else (low, high)
    return _whole(b, first, end, size_of(size, first, end))


@names("random.randint")
def randint_of_python(b: ModelBuilder, a: Value, b_: Value) -> Value:
    """A whole number from a to b, which is one of them."""
    end = ops.add(b, b_, literal(b, 1))
    return _whole(b, a, end, size_of(None, a, end))


def _whole(b: ModelBuilder, first: Value, end: Value, shape: Size) -> Value:
    """`first + floor(word * count / 2**64)`, exactly: by halves of words, of 32 bits each."""
    first, end = (cast(b, _as_whole(value), "int64") for value in (first, end))
    count = b.op("Sub", end, first)
    fits = b.op(
        "And",
        b.op("Less", scalar(b, 0, "int64"), count),
        b.op("LessOrEqual", count, scalar(b, _HALF - 1, "int64")),
    )
    count = ops.ensured(b, count, fits, OperandError(parameter_rules.WHOLE))
    word, many = drawn(b, "RandomWord", shape), cast(b, count, "uint64")
    high = _shifted(b, word)
    low = b.op("Sub", word, b.op("Mul", high, scalar(b, _HALF, "uint64")))
    part = b.op("Add", b.op("Mul", high, many), _shifted(b, b.op("Mul", low, many)))
    return b.op("Add", first, cast(b, _shifted(b, part), "int64"))


def _as_whole(value: Value) -> Value:
    if np.dtype(value.dtype).kind not in "iu":
        raise OperandError(f"whole numbers are drawn between whole numbers, not {value.type}")
    return value


def _shifted(b: ModelBuilder, word: Value) -> Value:
    return b.op("BitShift", word, scalar(b, 32, "uint64"), direction="RIGHT")


# --- choices --------------------------------------------------------------------------------------


@names("numpy.random.binomial")
def binomial(b: ModelBuilder, n: int, p: Value, size: Axes = None) -> Value:
    """How many of n attempts are successful, each with probability p; it takes n words."""
    if not 0 <= n <= MOST_ATTEMPTS:
        raise OperandError(f"the attempts must be 0 to {MOST_ATTEMPTS}, not {n}")
    p = probability(b, as_float(b, p), parameter_rules.CHANCE)
    u = drawn_floats(b, "Uniform", (n, *size_of(size, p)))
    hits = cast(b, b.op("Less", u, p), "int64")
    return b.op("ReduceSum", hits, ints(b, 0), keepdims=0)


MOST_ATTEMPTS = 1024
"""Of a binomial distribution: each attempt is drawn."""


@names("numpy.random.choice")
def choice(
    b: ModelBuilder, a: Value, size: Axes = None, replace: bool = True, p: Value | None = None
) -> Value:
    """Elements of a list, or numbers below `a`; with `p` each with its probability."""
    if not replace:
        raise OperandError("what was chosen can be chosen again: replace=False is not supported")
    count = _choices(b, a)
    if p is None:
        index = _whole(b, literal(b, 0), literal(b, count), size_of(size))
    else:
        index = _weighted(b, as_float(b, p), count, size_of(size))
    return index if a.shape == () else b.op("Gather", a, index, axis=0)


def _choices(b: ModelBuilder, a: Value) -> int:
    """Of how many elements one is chosen."""
    known = b.evaluated(a)
    if a.shape == () and known is not None and known.dtype.kind in "iu" and known > 0:
        return int(known)
    if a.shape is None or len(a.shape) != 1 or not isinstance(a.shape[0], int) or a.shape[0] < 1:
        raise OperandError(
            f"one of how many is chosen must be known when the model is compiled, not {a.type}",
            hint="give a list of numbers, or how many there are",
        )
    return a.shape[0]


def _weighted(b: ModelBuilder, p: Value, count: int, shape: Size) -> Value:
    """How many of the running sums of probabilities, without the last, are not above u."""
    if p.shape != (count,):
        raise OperandError(f"there are {count} elements to choose from, but p is {p.type}")
    total = Symbolic(b, b.op("ReduceSum", p, keepdims=0))
    near = parameter_rules.tolerance(p.dtype)
    p = parameter_rules.probabilities(DrawSite(b), Symbolic(b, p), total, near).value
    return index_of(b, p, drawn_floats(b, "Uniform", shape), count)


def index_of(b: ModelBuilder, p: Value, u: Value, count: int) -> Value:
    """Which of the elements along the last axis of `p` a uniform number chooses, by their weights."""
    index, total = cast(b, b.op("Less", u, u), "int64"), None
    for k in range(count - 1):
        part = b.op(
            "Gather", p, ints(b, k) if len(p.shape or ()) > 1 else scalar(b, k, "int64"), axis=-1
        )
        total = part if total is None else b.op("Add", total, part)
        index = b.op("Add", index, cast(b, b.op("GreaterOrEqual", u, total), "int64"))
    return index


# --- other distributions --------------------------------------------------------------------------


@names("numpy.random.exponential")
def exponential(b: ModelBuilder, scale: Value | None = None, size: Axes = None) -> Value:
    """`-scale * log(u)`, of u in (0, 1)."""
    (scale,) = _numbers(b, (scale, 1.0))
    scale = not_negative(b, scale, "the scale of an exponential distribution")
    shape = size_of(size, scale)
    return ops.multiply(b, scale, drawn_floats(b, "Exponential", shape))


@names("numpy.random.standard_exponential")
def standard_exponential(b: ModelBuilder, size: Axes = None) -> Value:
    """`-log(u)`, of u in (0, 1)."""
    return drawn_floats(b, "Exponential", size_of(size))


@names("numpy.random.lognormal")
def lognormal(
    b: ModelBuilder, mean: Value | None = None, sigma: Value | None = None, size: Axes = None
) -> Value:
    """`exp(x)`, of x normal with that mean and deviation."""
    mean, sigma = _numbers(b, (mean, 0.0), (sigma, 1.0))
    sigma = not_negative(b, sigma, "the scale of a lognormal distribution")
    return _exp(b, normal(b, mean, sigma, size))


@names("numpy.random.laplace")
def laplace(
    b: ModelBuilder, loc: Value | None = None, scale: Value | None = None, size: Axes = None
) -> Value:
    """`loc + scale * x`, of x exponential with either sign; it takes two words."""
    loc, scale = _numbers(b, (loc, 0.0), (scale, 1.0))
    scale = not_negative(b, scale, "the scale of a Laplace distribution")
    shape = size_of(size, loc, scale)
    with b.part("sign"):
        half = drawn_floats(b, "Uniform", shape)
    x = drawn_floats(b, "Exponential", shape)
    below = b.op("Less", half, scalar(b, 0.5, half.dtype))
    signed = b.op("Where", below, b.op("Neg", x), x)
    return ops.add(b, loc, ops.multiply(b, scale, signed))


@names("numpy.random.multivariate_normal")
def multivariate_normal(b: ModelBuilder, mean: Value, cov: Value, size: Axes = None) -> Value:
    """Normal numbers of these means and covariances, along the last axis; both must be known."""
    middle, root = _root(b, mean, cov)
    count = len(middle)
    z = drawn(b, "Normal", (*(() if size is None else size_of(size)), count))
    each = [b.op("Gather", z, ints(b, k), axis=-1) for k in range(count)]
    made = []
    for j in range(count):
        value = scalar(b, float(middle[j]), "float64")
        for k in range(j + 1):
            part = b.op("Mul", scalar(b, float(root[j, k]), "float64"), each[k])
            value = b.op("Add", value, part)
        made.append(value)
    joined = made[0] if count == 1 else b.op("Concat", *made, axis=-1)
    return cast(b, joined, b.float_dtype)


def _root(b: ModelBuilder, mean: Value, cov: Value) -> tuple[Array, Array]:
    """The means, and what the covariances are the square of."""
    middle, square = b.evaluated(mean), b.evaluated(cov)
    if middle is None or square is None:
        raise OperandError(
            "means and covariances must be known when the model is compiled",
            hint="write them as lists of numbers",
        )
    if middle.ndim != 1 or square.shape != 2 * middle.shape or not 1 <= len(middle) <= 32:
        raise OperandError(
            f"there are covariances of 1 to 32 numbers, each with each: {mean.type}, {cov.type}"
        )
    return middle.astype(np.float64), distributions.cholesky(square.astype(np.float64))


def _exp(b: ModelBuilder, x: Value) -> Value:
    """`streams.exp`, in the dtype of x."""
    return cast(b, streams.exp(Symbolic(b, cast(b, x, "float64"))).value, x.dtype)


def _numbers(b: ModelBuilder, *given: tuple[Value | None, float]) -> list[Value]:
    """Parameters as floats; each has a number that it is when not given."""
    return [as_float(b, literal(b, usual) if value is None else value) for value, usual in given]
