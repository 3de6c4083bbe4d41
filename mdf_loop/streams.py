"""Counter-based streams of random numbers, with the same bits on every machine.

    word    = squares(counter, key)                 64 bits
    uniform = ((word >> 12) + 1/2) * 2**-52         in (0, 1), and never an end
    normal  = the inverse of the normal distribution at uniform, within 2.5e-9
    exponential = -log(uniform), within 2e-14

The formulas use only + - * / and square roots of float64, and sums, products and shifts of integers modulo
2**64. IEEE 754 and every runtime define these operations to the last bit. The generator has no state: each
number takes one word, and the n-th number of a stream depends only on the key and on n.

A *site* is a call that draws random numbers, named by its place in the model. A seed, a site and a trial
determine the key of a stream.

The formulas accept NumPy arrays and symbolic operands, which append the same operations to a program (see
`ops.symbolic`).

Sources: B. Widynski, "Squares: a fast counter-based RNG", arXiv:2004.06278 (2022), five rounds. The last
operation is a sum here instead of an exclusive or, which some runtimes do not have. Keys have the form that
the article requires. The normal distribution uses a minimax rational function fitted for this module.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

# --- words ----------------------------------------------------------------------------------------


def squares(counter: Any, key: Any) -> Any:
    """Return 64 random bits for each pair of counter and key, by the Squares generator."""
    x, key = _cast(counter, np.uint64), _cast(key, np.uint64)
    with np.errstate(over="ignore"):
        y = x * key
        z = y + key
        x = _swap_halves(y * y + y)
        x = _swap_halves(x * x + z)
        x = _swap_halves(x * x + y)
        mixed_words = x * x + z
        x = _swap_halves(mixed_words)
        return mixed_words + ((x * x + y) >> np.uint64(32))


def _swap_halves(x: Any) -> Any:
    """Exchange the upper and lower 32 bits of 64-bit words."""
    return (x >> np.uint64(32)) + x * np.uint64(2**32)


def _cast(x: Any, dtype: type[np.generic]) -> Any:
    """Cast numbers or symbolic operands to a dtype."""
    return x.astype(dtype, copy=False) if hasattr(x, "astype") else np.asarray(x, dtype)


# --- numbers --------------------------------------------------------------------------------------


def uniform(words: Any) -> Any:
    """Return uniform random numbers in (0, 1) from 64-bit words.

    Each is the midpoint of one of 2**52 equal parts of the unit interval.
    """
    return (_extract_upper_bits(words) + 0.5) * 2.0**-52


def _extract_upper_bits(words: Any) -> Any:
    """Return the upper 52 bits of 64-bit words as whole floats."""
    return (_cast(words, np.uint64) >> np.uint64(12)).astype(np.float64)


SCALE, SHIFT = 2.246599726441005, -1.2465997264410051
NUMERATOR = (
    *(713.6070476822756, 55.38662912761695, -596.8773464496784, 354.5125529358613),
    *(220.87139661550322, -204.54950193801835, 3.8446549128481124, 32.93161697441171),
    -7.547401390144251,
)
DENOMINATOR = (
    *(86.90988348897567, 69.51138709685905, -27.34307647328556, 28.84826170427399),
    *(53.42190361691079, 7.078208847236869, 3.0563852097905544, 5.78370246213455, 1.0),
)
"""Coefficients of the denominator of the rational function, from the constant one on (numerator: `NUMERATOR`).

The argument of both polynomials is `SCALE * s + SHIFT`."""

HALF_NUMERATOR = tuple(coefficient / 2 for coefficient in NUMERATOR)
"""Halved coefficients of the numerator, for the factor `2q` in place of q. Halving is exact in float64."""


def normal(uniforms: Any) -> Any:
    """Return standard normal numbers for uniform numbers, by the inverse of the distribution.

    With q = u - 1/2 and s = (1 - 4 q*q) ** (1/16), by four square roots, the normal number is q times a
    rational function of s. It is odd in q, monotone, and within 2.5e-9 for each uniform number. 2u and
    2 - 2u are exact, and their product is 1 - 4 q*q = (1 - 2|q|) (1 + 2|q|).
    """
    u = _cast(uniforms, np.float64)
    return _inverse(u + u)


def _normal(words: Any) -> Any:
    """Return `normal(uniform(words))` by fewer operations with the same bits."""
    return _inverse(_extract_upper_bits(words) * 2.0**-51 + 2.0**-52)


def _inverse(twice: Any) -> Any:
    """Return the standard normal quantile at u, computed from `twice` = 2u."""
    tail_product_root = (2.0 - twice) * twice
    for _ in range(4):
        tail_product_root = np.sqrt(tail_product_root)
    scaled_root = tail_product_root * SCALE + SHIFT
    return (twice - 1.0) * (
        polynomial(scaled_root, HALF_NUMERATOR) / polynomial(scaled_root, DENOMINATOR)
    )


def polynomial(x: Any, coefficients: Iterable[Any]) -> Any:
    """Evaluate a polynomial by Horner's rule, with the constant coefficient first."""
    *higher_coefficients, polynomial_sum = coefficients
    for coefficient in reversed(higher_coefficients):
        polynomial_sum = x * polynomial_sum + coefficient
    return polynomial_sum


SQUARE_ROOT_COUNT = 6
"""Number of square roots that reduce the argument of the logarithm."""

ATANH_COEFFICIENTS = tuple(1.0 / (2 * k + 1) for k in range(15))
"""Coefficients of the series atanh(t) = sum of SERIES[k] * t ** (2k + 1)."""


def exponential(uniforms: Any) -> Any:
    """Return exponential numbers -log(u) of mean 1 for uniform numbers u, within 2e-14.

    With s = u ** (1/64), by six square roots, and t = (1 - s) / (1 + s), -log(u) is 128 atanh(t). The series
    of atanh converges fast, since t is below 0.28.
    """
    uniform_root = _cast(uniforms, np.float64)
    for _ in range(SQUARE_ROOT_COUNT):
        uniform_root = np.sqrt(uniform_root)
    atanh_argument = (1.0 - uniform_root) / (uniform_root + 1.0)
    return polynomial(atanh_argument * atanh_argument, ATANH_COEFFICIENTS) * (
        atanh_argument * 2.0 ** (SQUARE_ROOT_COUNT + 1)
    )


DISTRIBUTIONS: dict[str, Callable[[Any], Any]] = {
    "RandomWord": lambda words: words,
    "Uniform": uniform,
    "Normal": _normal,
    "Exponential": lambda words: exponential(uniform(words)),
}
"""Function that converts a random word to a number, by the kind of the number."""


def log(x: Any) -> Any:
    """Return the logarithm of numbers from 2**-53 to 2**53 within 3e-14, with the same bits everywhere."""
    return -exponential(x)


MIN_EXP_ARGUMENT, MAX_EXP_ARGUMENT = -746.0, 710.0
"""Range to which arguments of `exp` are clipped: beyond it the results are 0 and infinity."""

HALVING_COUNT = 10
"""Number of halvings of the argument of the exponential function, and of squarings of the result."""

EXP_COEFFICIENTS = tuple(1.0 / math.factorial(k) for k in range(17))
"""Coefficients of the series of the exponential function, from the constant one on."""


def exp(x: Any) -> Any:
    """Return the exponential function of x with a relative error below 4e-13.

    The series is squared ten times. Unlike library functions, the result has the same bits on every machine,
    as random numbers require.
    """
    exponential = polynomial(_scale_argument(x), EXP_COEFFICIENTS)
    for _ in range(HALVING_COUNT):
        exponential = exponential * exponential
    return exponential


def expm1(x: Any) -> Any:
    """Return `exp(x) - 1` with a relative error below 4e-13, also for small x.

    The doubling of the argument maps `e` to `e * (e + 2)`, ten times.
    """
    scaled_x = _scale_argument(x)
    exp_minus_one = scaled_x * polynomial(scaled_x, EXP_COEFFICIENTS[1:])
    for _ in range(HALVING_COUNT):
        exp_minus_one = exp_minus_one * (exp_minus_one + 2.0)
    return exp_minus_one


def _scale_argument(x: Any) -> Any:
    """Return x / 1024 for the series of exp, after clipping x to the range of exp in float64."""
    x = _cast(x, np.float64)
    x = np.where(x < MIN_EXP_ARGUMENT, MIN_EXP_ARGUMENT, x)
    return np.where(x > MAX_EXP_ARGUMENT, MAX_EXP_ARGUMENT, x) * 2.0**-HALVING_COUNT


# --- keys -----------------------------------------------------------------------------------------

_DIGIT_BASE = 16
_SPLITMIX_STEP = np.uint64(0x9E3779B97F4A7C15)
_TRIAL_FACTOR = np.uint64(0xD1342543DE82EF95)


def site(name: str) -> int:
    """Return a hash of the name `graph.node.item#k` of the k-th random draw in an expression."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def sites(names: Iterable[str]) -> Words:
    """Return the hash of each random draw's name, which selects the stream of random numbers."""
    return np.array([site(name) for name in names], np.uint64)


def keys(seed: Any, site: Any, trials: Any = 0) -> Words:
    """Return the keys of random streams from broadcast seeds, call sites and trials.

    Each half of a key has eight different nonzero hexadecimal digits, and the key is odd.
    """
    seeds, sites, trial_numbers = (
        np.asarray(integers, np.uint64) for integers in (seed, site, trials)
    )
    with np.errstate(over="ignore"):
        stream_base = _mix(_mix(seeds) + sites)
        mixed_words = _mix(stream_base + trial_numbers * _TRIAL_FACTOR)
        flat_words = np.atleast_1d(mixed_words).ravel()
        high_digits = _draw_digits(_mix(flat_words + np.uint64(1)), odd=False)
        low_digits = _draw_digits(_mix(flat_words + np.uint64(2)), odd=True)
        key_numbers = (high_digits << np.uint64(32)) + low_digits
    return np.asarray(key_numbers.reshape(mixed_words.shape))


def _mix(x: Any) -> Words:
    """Return hashes of 64-bit words, in which each bit depends on all bits (splitmix64)."""
    x = np.asarray(x, np.uint64) + _SPLITMIX_STEP
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _draw_digits(random_words: Words, *, odd: bool) -> Words:
    """Convert each random word to a number with eight distinct hexadecimal digits 1 to 15.

    Two such numbers form the key of a random stream.

    A drawn digit is replaced by the first remaining digit, and the list of remaining digits begins one
    place later.

    Args:
        random_words: Random words that determine the digits.
        odd: True if the last digit must be odd.
    """
    remaining_digits = np.tile(np.arange(1, _DIGIT_BASE, dtype=np.uint8), len(random_words))
    first_digit_index = np.arange(len(random_words)) * (_DIGIT_BASE - 1)
    digits = np.zeros(len(random_words), np.uint64)
    for digit_place in range(8):
        if odd and digit_place == 7:
            digit_index, random_words = _pick_odd(
                remaining_digits, first_digit_index + digit_place, random_words
            )
        else:
            remaining_count = np.uint64(_DIGIT_BASE - 1 - digit_place)
            next_random_words = random_words // remaining_count
            digit_index = (
                first_digit_index
                + digit_place
                + (random_words - next_random_words * remaining_count).astype(np.int64)
            )
            random_words = next_random_words
        drawn_digit = remaining_digits[digit_index]
        remaining_digits[digit_index] = remaining_digits[first_digit_index + digit_place]
        digits = digits * np.uint64(_DIGIT_BASE) + drawn_digit
    return digits


def _pick_odd(
    remaining_digits: Any, first_digit_index: Any, random_words: Words
) -> tuple[Any, Words]:
    """Pick a random odd digit among the remaining digits of each key.

    Return its position and the rest of `random_words`.
    """
    is_odd = remaining_digits[first_digit_index[:, np.newaxis] + np.arange(8)] % 2 == 1
    random_words, odd_digit_rank = np.divmod(random_words, is_odd.sum(axis=1).astype(np.uint64))
    is_beyond_rank = np.cumsum(is_odd, axis=1) > odd_digit_rank[:, np.newaxis].astype(np.int64)
    return first_digit_index + np.argmax(is_beyond_rank, axis=1), random_words
