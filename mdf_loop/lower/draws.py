"""Lowering of the random functions of `numpy.random.` and `random.`.

Each call is a site with its own stream (see `mdf_loop.streams`). Each element takes a fixed number of
random words from the stream, because no distribution uses rejection sampling.
"""

from __future__ import annotations

import numpy as np

from mdf_loop import distributions, parameter_rules, streams
from mdf_loop.errors import OperandError
from mdf_loop.ir import Array, Value, is_fixed
from mdf_loop.lower import operators as ops
from mdf_loop.lower.arguments import Axes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.site import DrawSite, SampleShape, draw_numbers
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.build_helpers import cast, ints, scalar
from mdf_loop.ops.symbolic import Symbolic


def check_not_negative(b: ModelBuilder, scale: Value, description: str) -> Value:
    """Check that the scale of a distribution is not negative, and return the scale."""
    checked_scale: Value = parameter_rules.check_not_negative(
        DrawSite(b), Symbolic(b, scale), description
    ).value
    return checked_scale


def check_probability(b: ModelBuilder, p: Value, description: str) -> Value:
    """Check that a probability is in [0, 1], and return the probability."""
    checked_probability: Value = parameter_rules.check_range(
        DrawSite(b), Symbolic(b, p), 0.0, 1.0, description
    ).value
    return checked_probability


def draw_floats(b: ModelBuilder, kind: str, shape: SampleShape) -> Value:
    """Draw random numbers at the current call site, and cast them to the compilation's precision."""
    return cast(b, draw_numbers(b, kind, shape), b.float_dtype)


def shape_of_sample(b: ModelBuilder, size: Axes, *parameters: Value) -> SampleShape:
    """Return the shape of a random sample: `size` if given, else the parameters' broadcast shape."""
    if size is not None:
        sample_extents = (size,) if isinstance(size, int) else size
        if min(sample_extents, default=0) < 0:
            raise OperandError(f"a size has no extent below 0: {list(sample_extents)}")
        return sample_extents
    for parameter in parameters:
        b.record_shape_query(parameter)
    parameter_shapes = [value.shape for value in parameters if is_fixed(value.shape)]
    if len(parameter_shapes) < len(parameters):
        raise OperandError(
            "how many numbers are drawn must be known when the model is compiled",
            hint="give the size, e.g. numpy.random.normal(mean, 1.0, 10)",
        )
    return np.broadcast_shapes(*parameter_shapes)


# --- uniform numbers ------------------------------------------------------------------------------


@register_as("numpy.random.uniform")
def uniform(
    b: ModelBuilder, low: Value | None = None, high: Value | None = None, size: Axes = None
) -> Value:
    """Return uniform random numbers `low + (high - low) * u` with u in (0, 1)."""
    low, high = _float_parameters(b, (low, 0.0), (high, 1.0))
    uniform_samples = draw_floats(b, "Uniform", shape_of_sample(b, size, low, high))
    checked_width = parameter_rules.check_width(
        DrawSite(b), Symbolic(b, low), Symbolic(b, high)
    ).value
    return ops.add(b, low, ops.multiply(b, checked_width, uniform_samples))


@register_as("random.uniform")
def uniform_of_python(b: ModelBuilder, a: Value, b_: Value) -> Value:
    """Return `random.uniform(a, b)`: `a + (b - a) * u` with u in (0, 1).

    As in Python, `a` may be larger than `b`.
    """
    low, high = _float_parameters(b, (a, 0.0), (b_, 1.0))
    uniform_samples = draw_floats(b, "Uniform", shape_of_sample(b, None, low, high))
    return ops.add(b, low, ops.multiply(b, ops.subtract(b, high, low), uniform_samples))


@register_as(*(f"numpy.random.{name}" for name in ("random_sample", "random", "ranf", "sample")))
def random_sample(b: ModelBuilder, size: Axes = None) -> Value:
    """Return uniform random numbers in (0, 1)."""
    return draw_floats(b, "Uniform", shape_of_sample(b, size))


@register_as("numpy.random.rand")
def rand(b: ModelBuilder, *d: int) -> Value:
    """Return uniform random numbers in (0, 1) in an array of shape `d`."""
    return draw_floats(b, "Uniform", shape_of_sample(b, d))


@register_as("random.random", "random")
def random_of_python(b: ModelBuilder) -> Value:
    """Return one uniform random number in (0, 1), as Python's `random.random`."""
    return draw_floats(b, "Uniform", ())


# --- normal numbers -------------------------------------------------------------------------------


@register_as("numpy.random.normal")
def normal(
    b: ModelBuilder, loc: Value | None = None, scale: Value | None = None, size: Axes = None
) -> Value:
    """Return normal random numbers with mean `loc` and standard deviation `scale`."""
    loc, scale = _float_parameters(b, (loc, 0.0), (scale, 1.0))
    scale = check_not_negative(b, scale, "the scale of a normal distribution")
    normal_samples = draw_floats(b, "Normal", shape_of_sample(b, size, loc, scale))
    return ops.add(b, loc, ops.multiply(b, scale, normal_samples))


@register_as("random.gauss", "random.normalvariate")
def gauss(b: ModelBuilder, mu: Value | None = None, sigma: Value | None = None) -> Value:
    """Return normal random numbers with mean `mu` and standard deviation `sigma`."""
    return normal(b, mu, sigma)


@register_as("numpy.random.standard_normal")
def standard_normal(b: ModelBuilder, size: Axes = None) -> Value:
    """Return normal random numbers of mean 0 and variance 1."""
    return draw_floats(b, "Normal", shape_of_sample(b, size))


@register_as("numpy.random.randn")
def randn(b: ModelBuilder, *d: int) -> Value:
    """Return normal random numbers of mean 0 and variance 1 in an array of shape `d`."""
    return draw_floats(b, "Normal", shape_of_sample(b, d))


# --- whole numbers --------------------------------------------------------------------------------

_TWO_TO_32 = 1 << 32


@register_as("numpy.random.randint", "numpy.random.integers")
def randint(b: ModelBuilder, low: Value, high: Value | None = None, size: Axes = None) -> Value:
    """Return random integers from `low` to `high - 1`, or from 0 to `low - 1` without `high`."""
    start, stop = (literal(b, 0), low) if high is None else (low, high)
    return _draw_integers(b, start, stop, shape_of_sample(b, size, start, stop))


@register_as("random.randint")
def randint_of_python(b: ModelBuilder, a: Value, b_: Value) -> Value:
    """Return a random integer from a to b, both included."""
    stop = ops.add(b, b_, literal(b, 1))
    return _draw_integers(b, a, stop, shape_of_sample(b, None, a, stop))


def _draw_integers(b: ModelBuilder, start: Value, stop: Value, shape: SampleShape) -> Value:
    """Return uniform random integers from `start` to `start + count - 1`.

    The product is exact, by 32-bit halves of the words.
    """
    start, stop = (cast(b, _check_integers(value), "int64") for value in (start, stop))
    integer_count = b.op("Sub", stop, start)
    is_in_range = b.op(
        "And",
        b.op("Less", scalar(b, 0, "int64"), integer_count),
        b.op("LessOrEqual", integer_count, scalar(b, _TWO_TO_32 - 1, "int64")),
    )
    integer_count = ops.check_value(
        b, integer_count, is_in_range, OperandError(parameter_rules.INTEGER_RANGE_RULE)
    )
    random_word, unsigned_count = (
        draw_numbers(b, "RandomWord", shape),
        cast(b, integer_count, "uint64"),
    )
    high_half = _high_word(b, random_word)
    low_half = b.op("Sub", random_word, b.op("Mul", high_half, scalar(b, _TWO_TO_32, "uint64")))
    high_product = b.op(
        "Add",
        b.op("Mul", high_half, unsigned_count),
        _high_word(b, b.op("Mul", low_half, unsigned_count)),
    )
    return b.op("Add", start, cast(b, _high_word(b, high_product), "int64"))


def _check_integers(value: Value) -> Value:
    if np.dtype(value.dtype).kind not in "iu":
        raise OperandError(f"whole numbers are drawn between whole numbers, not {value.type}")
    return value


def _high_word(b: ModelBuilder, word: Value) -> Value:
    return b.op("BitShift", word, scalar(b, 32, "uint64"), direction="RIGHT")


# --- choices --------------------------------------------------------------------------------------


@register_as("numpy.random.binomial")
def binomial(b: ModelBuilder, n: int, p: Value, size: Axes = None) -> Value:
    """Return binomial random numbers: the number of successes in n trials of probability p.

    Each number takes n random words.
    """
    if not 0 <= n <= MAX_BINOMIAL_TRIALS:
        raise OperandError(f"the attempts must be 0 to {MAX_BINOMIAL_TRIALS}, not {n}")
    p = check_probability(b, as_float(b, p), parameter_rules.BINOMIAL_PROBABILITY)
    uniform_samples = draw_floats(b, "Uniform", (n, *shape_of_sample(b, size, p)))
    success_flags = cast(b, b.op("Less", uniform_samples, p), "int64")
    return b.op("ReduceSum", success_flags, ints(b, 0), keepdims=0)


MAX_BINOMIAL_TRIALS = 1024
"""Maximum n of a binomial distribution, which takes n random words."""


@register_as("numpy.random.choice")
def choice(
    b: ModelBuilder, a: Value, size: Axes = None, replace: bool = True, p: Value | None = None
) -> Value:
    """Return random elements of `a`, or integers from 0 to `a - 1`, with probabilities `p`."""
    if not replace:
        raise OperandError("what was chosen can be chosen again: replace=False is not supported")
    element_count = _choice_count(b, a)
    if p is None:
        indices = _draw_integers(
            b, literal(b, 0), literal(b, element_count), shape_of_sample(b, size)
        )
    else:
        indices = _draw_weighted(b, as_float(b, p), element_count, shape_of_sample(b, size))
    return indices if a.shape == () else b.op("Gather", a, indices, axis=0)


def _choice_count(b: ModelBuilder, a: Value) -> int:
    """Return the number of elements from which `numpy.random.choice` chooses."""
    constant_elements = b.evaluated(a)
    if (
        a.shape == ()
        and constant_elements is not None
        and constant_elements.dtype.kind in "iu"
        and constant_elements > 0
    ):
        return int(constant_elements)
    if a.shape is None or len(a.shape) != 1 or not isinstance(a.shape[0], int) or a.shape[0] < 1:
        raise OperandError(
            f"one of how many is chosen must be known when the model is compiled, not {a.type}",
            hint="give a list of numbers, or how many there are",
        )
    return a.shape[0]


def _draw_weighted(
    b: ModelBuilder, probabilities: Value, element_count: int, shape: SampleShape
) -> Value:
    """Return random indices, drawn with the given probabilities.

    An index is the number of partial sums that are at most a sample.
    """
    if probabilities.shape != (element_count,):
        raise OperandError(
            f"there are {element_count} elements to choose from, but p is {probabilities.type}"
        )
    probability_sum = Symbolic(b, b.op("ReduceSum", probabilities, keepdims=0))
    tolerance = parameter_rules.sum_tolerance(probabilities.dtype)
    probabilities = parameter_rules.check_probabilities(
        DrawSite(b), Symbolic(b, probabilities), probability_sum, tolerance
    ).value
    return choose_index(b, probabilities, draw_floats(b, "Uniform", shape), element_count)


def choose_index(
    b: ModelBuilder, weights: Value, uniform_samples: Value, weight_count: int
) -> Value:
    """Return the index that a uniform number selects among `weights` along the last axis."""
    selected_index, cumulative_weight = (
        cast(b, b.op("Less", uniform_samples, uniform_samples), "int64"),
        None,
    )
    for k in range(weight_count - 1):
        weight = b.op(
            "Gather",
            weights,
            ints(b, k) if len(weights.shape or ()) > 1 else scalar(b, k, "int64"),
            axis=-1,
        )
        cumulative_weight = (
            weight if cumulative_weight is None else b.op("Add", cumulative_weight, weight)
        )
        selected_index = b.op(
            "Add",
            selected_index,
            cast(b, b.op("GreaterOrEqual", uniform_samples, cumulative_weight), "int64"),
        )
    return selected_index


# --- other distributions --------------------------------------------------------------------------


@register_as("numpy.random.exponential")
def exponential(b: ModelBuilder, scale: Value | None = None, size: Axes = None) -> Value:
    """Return exponential random numbers `-scale * log(u)` with u in (0, 1)."""
    (scale,) = _float_parameters(b, (scale, 1.0))
    scale = check_not_negative(b, scale, "the scale of an exponential distribution")
    sample_shape = shape_of_sample(b, size, scale)
    return ops.multiply(b, scale, draw_floats(b, "Exponential", sample_shape))


@register_as("numpy.random.standard_exponential")
def standard_exponential(b: ModelBuilder, size: Axes = None) -> Value:
    """Return exponential random numbers `-log(u)` with u in (0, 1)."""
    return draw_floats(b, "Exponential", shape_of_sample(b, size))


@register_as("numpy.random.lognormal")
def lognormal(
    b: ModelBuilder, mean: Value | None = None, sigma: Value | None = None, size: Axes = None
) -> Value:
    """Return lognormal random numbers `exp(x)` of normal numbers x."""
    mean, sigma = _float_parameters(b, (mean, 0.0), (sigma, 1.0))
    sigma = check_not_negative(b, sigma, "the scale of a lognormal distribution")
    return _stream_exp(b, normal(b, mean, sigma, size))


@register_as("numpy.random.laplace")
def laplace(
    b: ModelBuilder, loc: Value | None = None, scale: Value | None = None, size: Axes = None
) -> Value:
    """Return Laplace random numbers `loc + scale * x`, with x exponential with a random sign.

    Each number takes two random words.
    """
    loc, scale = _float_parameters(b, (loc, 0.0), (scale, 1.0))
    scale = check_not_negative(b, scale, "the scale of a Laplace distribution")
    sample_shape = shape_of_sample(b, size, loc, scale)
    with b.part("sign"):
        sign_samples = draw_floats(b, "Uniform", sample_shape)
    exponential_samples = draw_floats(b, "Exponential", sample_shape)
    is_below_half = b.op("Less", sign_samples, scalar(b, 0.5, sign_samples.dtype))
    signed_exponential = b.op(
        "Where", is_below_half, b.op("Neg", exponential_samples), exponential_samples
    )
    return ops.add(b, loc, ops.multiply(b, scale, signed_exponential))


@register_as("numpy.random.multivariate_normal")
def multivariate_normal(b: ModelBuilder, mean: Value, cov: Value, size: Axes = None) -> Value:
    """Return normal random vectors along the last axis.

    `mean` and `cov` must be known at compile time.
    """
    means, cholesky_factor = _means_and_cholesky(b, mean, cov)
    dimension = len(means)
    normal_samples = draw_numbers(
        b, "Normal", (*(() if size is None else shape_of_sample(b, size)), dimension)
    )
    independent_normals = [
        b.op("Gather", normal_samples, ints(b, k), axis=-1) for k in range(dimension)
    ]
    vector_components = []
    for j in range(dimension):
        component = scalar(b, float(means[j]), "float64")
        for k in range(j + 1):
            summand = b.op(
                "Mul", scalar(b, float(cholesky_factor[j, k]), "float64"), independent_normals[k]
            )
            component = b.op("Add", component, summand)
        vector_components.append(component)
    vectors = (
        vector_components[0] if dimension == 1 else b.op("Concat", *vector_components, axis=-1)
    )
    return cast(b, vectors, b.float_dtype)


def _means_and_cholesky(b: ModelBuilder, mean: Value, cov: Value) -> tuple[Array, Array]:
    """Return the means and the Cholesky factor of the covariances of a normal distribution."""
    means, covariances = b.evaluated(mean), b.evaluated(cov)
    if means is None or covariances is None:
        raise OperandError(
            "means and covariances must be known when the model is compiled",
            hint="write them as lists of numbers",
        )
    if means.ndim != 1 or covariances.shape != 2 * means.shape or not 1 <= len(means) <= 32:
        raise OperandError(
            f"there are covariances of 1 to 32 numbers, each with each: {mean.type}, {cov.type}"
        )
    return means.astype(np.float64), distributions.cholesky(covariances.astype(np.float64))


def _stream_exp(b: ModelBuilder, x: Value) -> Value:
    """Return `exp(x)` in the dtype of x, with the same bits on every machine."""
    return cast(b, streams.exp(Symbolic(b, cast(b, x, "float64"))).value, x.dtype)


def _float_parameters(b: ModelBuilder, *parameters: tuple[Value | None, float]) -> list[Value]:
    """Return the parameters of a distribution as floats, with a default in place of each None."""
    return [
        as_float(b, literal(b, default) if value is None else value)
        for value, default in parameters
    ]
