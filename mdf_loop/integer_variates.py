"""Formulas of the distributions of whole numbers, and of random choices (see `variates`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop import parameter_rules, poisson, streams
from mdf_loop.call_site import CallSite, Shape
from mdf_loop.errors import OperandError

MAX_INTEGER_COUNT = (1 << 32) - 1
"""Largest number of different random integers, so that the product of a half word fits into 64 bits."""

_INTEGER_RANGE_RULE = "whole numbers are drawn of 1 to 2**32 - 1 different ones"


def integers(site: CallSite, size: Shape, low: Any, high: Any = None) -> Any:
    """Return uniform random integers from `low` to `high - 1`, or from 0 to `low - 1` without `high`.

    The product of a random word and the count of integers is exact, by 32-bit halves of the word.
    """
    start, stop = (0, low) if high is None else (low, high)
    count = stop - start
    is_in_range = np.less(0, count) & (count <= MAX_INTEGER_COUNT)
    count = site.ensured(count, is_in_range, _INTEGER_RANGE_RULE)
    word, half_bits = site.numbers("RandomWord", size), np.uint64(32)
    count = count.astype(np.uint64)
    high_half = word >> half_bits
    low_half = word - high_half * np.uint64(1 << 32)
    high_product = high_half * count + (low_half * count >> half_bits)
    return start + (high_product >> half_bits).astype(np.int64)


def randint_of_python(site: CallSite, size: Shape, a: Any, b: Any) -> Any:
    """Return random integers from `a` to `b`, both included."""
    return integers(site, size, a, b + 1)


MAX_BINOMIAL_TRIALS = 1024
"""Maximum n of a binomial distribution, which takes n random words."""


def binomial(site: CallSite, size: Shape, n: int, p: Any) -> Any:
    """Return binomial random numbers: the number of uniform numbers below p, out of n."""
    if not 0 <= n <= MAX_BINOMIAL_TRIALS:
        raise OperandError(f"the attempts must be 0 to {MAX_BINOMIAL_TRIALS}, not {n}")
    p = parameter_rules.check_range(site, p, 0.0, 1.0, "the probability of a binomial distribution")
    is_hit = site.numbers("Uniform", (n, *size)) < p
    return np.sum(is_hit.astype(np.int64), axis=0)


def poisson_numbers(site: CallSite, size: Shape, lam: Any = 1.0) -> Any:
    """Return Poisson random numbers, as computed by the call site."""
    rate_name = "the rate of a Poisson distribution"
    rate = parameter_rules.check_range(site, lam, 0.0, poisson.LARGEST_RATE, rate_name)
    return site.count_events(site.numbers("Uniform", size), rate)


MIN_SUCCESS_PROBABILITY = 1e-9
"""Least probability of success of a geometric distribution."""


def geometric(site: CallSite, size: Shape, p: Any) -> Any:
    """Return geometric random numbers: exponential ones of rate `-log(1 - p)`, rounded up.

    For a small p, the rate is a series in `p / (2 - p)`.
    """
    is_in_range = (p >= MIN_SUCCESS_PROBABILITY) & (p <= 1.0)
    p = site.ensured(
        p, is_in_range, "the chance of a geometric distribution must be from 1e-9 to 1"
    )
    atanh_argument = p / (2.0 - p)
    rate_from_series = (
        2.0
        * atanh_argument
        * streams.polynomial(atanh_argument * atanh_argument, streams.ATANH_COEFFICIENTS)
    )
    rate = np.where(p < 0.25, rate_from_series, streams.exponential(1.0 - p))
    return np.ceil(site.numbers("Exponential", size) / rate).astype(np.int64)


def choose_index(weights: Any, u: Any, weight_count: int) -> Any:
    """Return the index that a uniform number selects among `weights` along the last axis.

    The index is the number of partial sums of the weights that are at most u.
    """
    index = (u < u).astype(np.int64)  # zeros in the shape of u
    partial_sum = None
    for k in range(weight_count - 1):
        weight = np.take(weights, [k] if len(weights.shape) > 1 else k, axis=-1)
        partial_sum = weight if partial_sum is None else partial_sum + weight
        index = index + (u >= partial_sum).astype(np.int64)
    return index


def choose_weighted(site: CallSite, size: Shape, p: Any, count: int) -> Any:
    """Return random indices below `count`, drawn with the probabilities `p`."""
    p = parameter_rules.check_probabilities(site, p)
    return choose_index(p, site.numbers("Uniform", size), count)
