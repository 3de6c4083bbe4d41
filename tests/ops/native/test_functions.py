"""Vectorized functions of native loops: accuracy, special arguments, and equal bits at every width."""

from __future__ import annotations

import itertools
import math
import platform

import numpy as np
import pytest

from mdf_loop.native import machine
from mdf_loop.ops.native import exponential, logarithm, trigonometric
from mdf_loop.ops.native.power import power
from tests.ops.native.over_arrays import MP, WIDTHS, bits, over_arrays, ulps
from tests.soak import times

INF, NAN = np.inf, np.nan
TINY, LEAST_NORMAL, HUGE = 5e-324, 2.0**-1022, np.finfo(float).max
LOG_TINY, LOG_LEAST, LOG_HUGE = map(MP.log, (TINY, LEAST_NORMAL, HUGE))
SIN_1, SIN_HUGE = map(MP.sin, (1, HUGE))

OWN = {
    "exp": (exponential.exp, MP.exp, 0.9),
    "expm1": (exponential.expm1, MP.expm1, 1.3),
    "tanh": (exponential.tanh, MP.tanh, 1.05),
    "sigmoid": (exponential.sigmoid, lambda x: 1 / (1 + MP.exp(-x)), 1.5),
    "log": (logarithm.log, MP.log, 0.9),
    "log1p": (logarithm.log1p, MP.log1p, 0.95),
    "sin": (trigonometric.sin, MP.sin, 0.85),
    "cos": (trigonometric.cos, MP.cos, 0.85),
}
"""The vectorized function, the exact function and the largest error in ulp."""

SIZES = (1e-323, 2e-308, 1e-20, 1e-8, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e5, 1e9, 1e22, 1e308)
"""Bounds of the magnitudes of arguments; each pair of neighbours is a region of both signs."""

NEAR = {
    "exp": [(-746, -707), (707, 710), (-0.5, 0.5)],
    "expm1": [(-0.5, 0.5), (-40, -30), (707, 710), (0.34, 0.42)],
    "tanh": [(-0.2, 0.2), (0.15, 0.25), (18, 21)],
    "sigmoid": [(-746, -707), (-5, 5), (-40, -30)],
    "log": [(0.5, 2.0), (0.69, 0.72), (1.38, 1.44), (0.999, 1.001)],
    "log1p": [(-1, -0.9), (-0.5, 0.5), (0.25, 0.45), (-0.31, -0.28)],
    "sin": [(-0.8, 0.8), (-10, 10), (2.0**24 - 5, 2.0**24 + 5)],
    "cos": [(-0.8, 0.8), (-10, 10), (2.0**24 - 5, 2.0**24 + 5)],
}
"""Regions in which the algorithm changes or the error is largest."""


def regions(name: str, count: int) -> list[np.ndarray]:
    """Return random arguments of a function, one array for each region."""
    rng = np.random.default_rng(11)
    near = [rng.uniform(low, high, count) for low, high in NEAR[name]]
    by_size = []
    for low, high in itertools.pairwise(SIZES):
        size = np.exp(rng.uniform(np.log(low), np.log(high), count))
        by_size.append(size if name == "log" else size * rng.choice([-1, 1], count))
    if name in ("sin", "cos"):
        integers = rng.integers(1, 2**40, count) * (np.pi / 2)
        near += [integers, np.rint(integers) * 2.0**200]
    if name == "log1p":
        by_size = [x[x > -1] for x in by_size]
    return near + by_size


SPECIAL = np.array(
    [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, TINY, -TINY, LEAST_NORMAL, -LEAST_NORMAL, HUGE, -HUGE]
)
AT_SPECIAL = {
    "exp": [1, 1, INF, 0, NAN, np.e, 1 / np.e, 1, 1, 1, 1, INF, 0],
    "expm1": [0, -0.0, INF, -1, NAN, np.expm1(1), np.expm1(-1), *SPECIAL[7:11], INF, -1],
    "tanh": [0, -0.0, 1, -1, NAN, np.tanh(1), np.tanh(-1), *SPECIAL[7:11], 1, -1],
    "sigmoid": [0.5, 0.5, 1, 0, NAN, 1 / (1 + np.exp(-1)), 1 / (1 + np.e), *[0.5] * 4, 1, 0],
    "log": [*[-INF] * 2, INF, NAN, NAN, 0, NAN, LOG_TINY, NAN, LOG_LEAST, NAN, LOG_HUGE, NAN],
    "log1p": [0, -0.0, INF, NAN, NAN, np.log(2), -INF, *SPECIAL[7:11], LOG_HUGE, NAN],
    "sin": [0, -0.0, NAN, NAN, NAN, SIN_1, -SIN_1, *SPECIAL[7:11], SIN_HUGE, -SIN_HUGE],
    "cos": [1, 1, NAN, NAN, NAN, *[np.cos(1)] * 2, 1, 1, 1, 1, *[MP.cos(HUGE)] * 2],
}
EXACT = (0.0, 0.5, 1.0, TINY, LEAST_NORMAL)
"""Magnitudes of function values that must be exact."""


@pytest.mark.parametrize("name", OWN)
def test_special_arguments(name):
    function, _, _ = OWN[name]
    expected = np.array([float(value) for value in AT_SPECIAL[name]])
    for width in WIDTHS:
        y = over_arrays(function, width)(SPECIAL)
        np.testing.assert_allclose(y, expected, rtol=3e-16, atol=0)
        exact = np.isin(np.abs(expected), EXACT)
        np.testing.assert_array_equal(bits(y[exact]), bits(expected[exact]))


@pytest.mark.parametrize("name", OWN)
def test_a_lane_has_the_same_bits_at_every_width(name):
    function, _, _ = OWN[name]
    x = np.concatenate([*regions(name, 10_000), SPECIAL])
    x = np.random.default_rng(2).permutation(x)
    alone = bits(over_arrays(function, 1)(x))
    for width in WIDTHS[1:]:
        np.testing.assert_array_equal(bits(over_arrays(function, width)(x)), alone)


@pytest.mark.parametrize("name", OWN)
def test_special_lanes_do_not_change_other_lanes(name):
    function, _, _ = OWN[name]
    usual = np.random.default_rng(5).uniform(0.1, 5, 1000)
    among = np.repeat(usual, 2)
    among[1::2] = np.resize(SPECIAL, 1000)
    calculated = over_arrays(function, 8)
    np.testing.assert_array_equal(bits(calculated(among)[::2]), bits(calculated(usual)))


@pytest.mark.parametrize("name", OWN)
def test_errors_are_within_the_bound(name):
    _check_error(name, 40)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", OWN)
def test_errors_are_within_the_bound_at_many_arguments(name):
    _check_error(name, times(800, 100_000))


def _check_error(name: str, count: int) -> None:
    """Check the error of a function at `count` arguments in each region."""
    function, reference, max_ulps = OWN[name]
    for x in regions(name, count):
        y = over_arrays(function, 8)(x)
        errors = ulps(reference, y, x)
        worst = int(np.argmax(errors))
        assert errors[worst] <= max_ulps, (
            f"{name}({x[worst]!r}) = {y[worst]!r}: {errors[worst]} ulp"
        )


# --- powers ---------------------------------------------------------------------------------------


def powers(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of bases and exponents: common numbers, all magnitudes, and all magnitudes of powers."""
    rng = np.random.default_rng(13)
    sizes = np.exp(rng.uniform(-740, 709, (2, count)))
    close = rng.uniform(0.5, 2.0, count)
    nearer = 1 + rng.uniform(-1e-6, 1e-6, count)
    results = rng.uniform(-744, 709, (3, count))
    integers = rng.integers(-20, 20, count).astype(float)
    return [
        (rng.uniform(0.1, 10, count), rng.uniform(-10, 10, count)),
        (sizes[0], results[0] / np.log(sizes[0])),
        (sizes[0], sizes[1] * rng.choice([-1, 1], count)),
        (close, results[1] / np.log(close)),
        (nearer, results[2] / np.log(nearer)),
        (rng.uniform(-10, 10, count), integers),
    ]


def special_powers() -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of special bases and exponents."""
    more = [0.5, 2, 3, 4, 2.0**53 - 1, 2.0**53, 2.0**53 + 2]
    some = np.concatenate([SPECIAL, more, np.negative(more)])
    return tuple(each.ravel() for each in np.meshgrid(some, some))


@np.errstate(all="ignore")
def test_special_powers():
    """Compare with the powers of the C library within rounding."""
    x, y = special_powers()
    expected = np.array([_power(*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)])
    for width in WIDTHS:
        native = over_arrays(power, width, 2)(x, y)
        np.testing.assert_allclose(native, expected, rtol=3e-16, atol=0)
        np.testing.assert_array_equal(np.signbit(native), np.signbit(expected))


def _power(x: float, y: float) -> float:
    """Return the power as in C, where Python would raise an exception."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and y % 2 == 1 else INF
    except ValueError:
        odd = y % 2 == 1
        return math.copysign(INF, x if odd else 1) if x == 0 else NAN


def test_powers_have_the_same_bits_at_every_width():
    x, y = (np.concatenate(each) for each in zip(*powers(30_000), special_powers(), strict=True))
    alone = bits(over_arrays(power, 1, 2)(x, y))
    for width in WIDTHS[1:]:
        np.testing.assert_array_equal(bits(over_arrays(power, width, 2)(x, y)), alone)


def test_errors_of_powers_are_within_the_bound():
    _check_error_of_powers(40)


@pytest.mark.slow
@pytest.mark.soak
def test_errors_of_powers_are_within_the_bound_at_many_arguments():
    _check_error_of_powers(times(800, 100_000))


def _check_error_of_powers(count: int) -> None:
    for x, y in powers(count):
        native = over_arrays(power, 8, 2)(x, y)
        errors = ulps(MP.power, native, x, y)
        worst = int(np.argmax(errors))
        message = f"{x[worst]!r} ** {y[worst]!r} = {native[worst]!r}: {errors[worst]} ulp"
        assert errors[worst] <= 1.05, message


def test_powers_that_are_integers_are_exact():
    x, y = (each.ravel() for each in np.meshgrid(np.arange(-30.0, 31), np.arange(11.0)))
    exact = np.array([float(int(a) ** int(b)) for a, b in zip(x, y, strict=True)])
    met = np.abs(exact) < 2.0**53
    np.testing.assert_array_equal(over_arrays(power, 8, 2)(x, y)[met], exact[met])


def test_a_square_has_the_bits_of_a_product():
    x = np.concatenate([*regions("sin", 1000), SPECIAL])
    with np.errstate(all="ignore"):
        expected = x * x
    native = over_arrays(power, 8, 2)(x, np.full_like(x, 2.0))
    np.testing.assert_array_equal(bits(native), bits(expected))


@pytest.mark.parametrize("n", [2.0, 3.0, 4.0, 2.5])
def test_an_exponent_that_is_a_constant_changes_no_bit(n):
    x = np.concatenate([*regions("sin", 1000), SPECIAL])
    fixed = over_arrays(lambda x: power(x, x.to_register(n)), 8)(x)
    np.testing.assert_array_equal(
        bits(fixed), bits(over_arrays(power, 8, 2)(x, np.full_like(x, n)))
    )


# --- processors -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these are x86")
@pytest.mark.parametrize("processor", ["x86-64", "haswell", "znver4"])
@pytest.mark.parametrize("name", [*OWN, "power"])
def test_the_same_bits_on_every_processor(name, processor, monkeypatch):
    """Compare the bits with those of older and newer processors, including one without fma."""
    if name == "power":
        function, x = power, [np.concatenate(each) for each in zip(*powers(3_000), strict=True)]
    else:
        function, x = OWN[name][0], [np.concatenate([*regions(name, 3_000), SPECIAL])]
    here = bits(over_arrays(function, 1, len(x))(*x))
    monkeypatch.setattr(machine, "_processor", lambda: (processor, ""))
    for width in WIDTHS:
        there = over_arrays.__wrapped__(function, width, len(x))
        np.testing.assert_array_equal(bits(there(*x)), here)


# --- sides, dtypes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sign"), [("tanh", -1), ("sin", -1), ("cos", 1)])
def test_odd_and_even_functions_are_symmetric(name, sign):
    x = np.concatenate(regions(name, 100))
    y, mirrored = (over_arrays(OWN[name][0], 8)(side) for side in (x, -x))
    np.testing.assert_array_equal(bits(y), bits(sign * mirrored))


CLOSEST = 6381956970095103 * 2.0**797
"""The float64 that is closest to a multiple of pi / 2 (Muller, Elementary Functions, 2016)."""


def test_the_angle_closest_to_a_multiple_of_half_pi():
    x = np.array([CLOSEST, -CLOSEST])
    for own, exact in ((trigonometric.cos, MP.cos), (trigonometric.sin, MP.sin)):
        assert ulps(exact, over_arrays(own, 2)(x), x).max() < 0.85


@pytest.mark.parametrize("name", OWN)
def test_float32_is_rounded_from_float64(name):
    function, _, _ = OWN[name]
    x = np.concatenate([*regions(name, 200), SPECIAL])
    with np.errstate(over="ignore", under="ignore"):
        float32_values = x.astype(np.float32)
        expected = over_arrays(function, 8)(float32_values.astype(np.float64)).astype(np.float32)
    for width in WIDTHS:
        native = over_arrays(function, width, dtype="float32")(float32_values)
        np.testing.assert_array_equal(bits(native), bits(expected))
