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
MIN_SUBNORMAL, MIN_NORMAL, LARGEST = 5e-324, 2.0**-1022, np.finfo(float).max
LOG_MIN_SUBNORMAL, LOG_MIN_NORMAL, LOG_LARGEST = map(MP.log, (MIN_SUBNORMAL, MIN_NORMAL, LARGEST))
SIN_1, SIN_LARGEST = map(MP.sin, (1, LARGEST))

OWN_FUNCTIONS = {
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

MAGNITUDES = (1e-323, 2e-308, 1e-20, 1e-8, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e5, 1e9, 1e22, 1e308)
"""Bounds of the magnitudes of arguments; each pair of neighbours is a region of both signs."""

NEAR_REGIONS = {
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
    near_regions = [rng.uniform(low, high, count) for low, high in NEAR_REGIONS[name]]
    regions_by_size = []
    for low, high in itertools.pairwise(MAGNITUDES):
        magnitudes = np.exp(rng.uniform(np.log(low), np.log(high), count))
        regions_by_size.append(
            magnitudes if name == "log" else magnitudes * rng.choice([-1, 1], count)
        )
    if name in ("sin", "cos"):
        half_pi_multiples = rng.integers(1, 2**40, count) * (np.pi / 2)
        near_regions += [half_pi_multiples, np.rint(half_pi_multiples) * 2.0**200]
    if name == "log1p":
        regions_by_size = [x[x > -1] for x in regions_by_size]
    return near_regions + regions_by_size


SPECIAL_ARGUMENTS = np.array(
    [
        0.0,
        -0.0,
        INF,
        -INF,
        NAN,
        1.0,
        -1.0,
        MIN_SUBNORMAL,
        -MIN_SUBNORMAL,
        MIN_NORMAL,
        -MIN_NORMAL,
        LARGEST,
        -LARGEST,
    ]
)
VALUES_AT_SPECIAL = {
    "exp": [1, 1, INF, 0, NAN, np.e, 1 / np.e, 1, 1, 1, 1, INF, 0],
    "expm1": [0, -0.0, INF, -1, NAN, np.expm1(1), np.expm1(-1), *SPECIAL_ARGUMENTS[7:11], INF, -1],
    "tanh": [0, -0.0, 1, -1, NAN, np.tanh(1), np.tanh(-1), *SPECIAL_ARGUMENTS[7:11], 1, -1],
    "sigmoid": [0.5, 0.5, 1, 0, NAN, 1 / (1 + np.exp(-1)), 1 / (1 + np.e), *[0.5] * 4, 1, 0],
    "log": [
        *[-INF] * 2,
        INF,
        NAN,
        NAN,
        0,
        NAN,
        LOG_MIN_SUBNORMAL,
        NAN,
        LOG_MIN_NORMAL,
        NAN,
        LOG_LARGEST,
        NAN,
    ],
    "log1p": [0, -0.0, INF, NAN, NAN, np.log(2), -INF, *SPECIAL_ARGUMENTS[7:11], LOG_LARGEST, NAN],
    "sin": [
        0,
        -0.0,
        NAN,
        NAN,
        NAN,
        SIN_1,
        -SIN_1,
        *SPECIAL_ARGUMENTS[7:11],
        SIN_LARGEST,
        -SIN_LARGEST,
    ],
    "cos": [1, 1, NAN, NAN, NAN, *[np.cos(1)] * 2, 1, 1, 1, 1, *[MP.cos(LARGEST)] * 2],
}
EXACT_RESULTS = (0.0, 0.5, 1.0, MIN_SUBNORMAL, MIN_NORMAL)
"""Magnitudes of function values that must be exact."""


@pytest.mark.parametrize("name", OWN_FUNCTIONS)
def test_special_arguments(name):
    function, _, _ = OWN_FUNCTIONS[name]
    expected = np.array([float(true_value) for true_value in VALUES_AT_SPECIAL[name]])
    for width in WIDTHS:
        y = over_arrays(function, width)(SPECIAL_ARGUMENTS)
        np.testing.assert_allclose(y, expected, rtol=3e-16, atol=0)
        is_exact = np.isin(np.abs(expected), EXACT_RESULTS)
        np.testing.assert_array_equal(bits(y[is_exact]), bits(expected[is_exact]))


@pytest.mark.parametrize("name", OWN_FUNCTIONS)
def test_a_lane_has_the_same_bits_at_every_width(name):
    function, _, _ = OWN_FUNCTIONS[name]
    x = np.concatenate([*regions(name, 10_000), SPECIAL_ARGUMENTS])
    x = np.random.default_rng(2).permutation(x)
    scalar_bits = bits(over_arrays(function, 1)(x))
    for width in WIDTHS[1:]:
        np.testing.assert_array_equal(bits(over_arrays(function, width)(x)), scalar_bits)


@pytest.mark.parametrize("name", OWN_FUNCTIONS)
def test_special_lanes_do_not_change_other_lanes(name):
    function, _, _ = OWN_FUNCTIONS[name]
    usual_arguments = np.random.default_rng(5).uniform(0.1, 5, 1000)
    mixed_arguments = np.repeat(usual_arguments, 2)
    mixed_arguments[1::2] = np.resize(SPECIAL_ARGUMENTS, 1000)
    vector_function = over_arrays(function, 8)
    np.testing.assert_array_equal(
        bits(vector_function(mixed_arguments)[::2]), bits(vector_function(usual_arguments))
    )


@pytest.mark.parametrize("name", OWN_FUNCTIONS)
def test_errors_are_within_the_bound(name):
    _check_error(name, 40)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", OWN_FUNCTIONS)
def test_errors_are_within_the_bound_at_many_arguments(name):
    _check_error(name, times(800, 100_000))


def _check_error(name: str, count: int) -> None:
    """Check the error of a function at `count` arguments in each region."""
    function, reference, max_ulps = OWN_FUNCTIONS[name]
    for x in regions(name, count):
        y = over_arrays(function, 8)(x)
        errors = ulps(reference, y, x)
        worst_index = int(np.argmax(errors))
        assert errors[worst_index] <= max_ulps, (
            f"{name}({x[worst_index]!r}) = {y[worst_index]!r}: {errors[worst_index]} ulp"
        )


# --- powers ---------------------------------------------------------------------------------------


def powers(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of bases and exponents: common numbers, all magnitudes, and all magnitudes of powers."""
    rng = np.random.default_rng(13)
    magnitudes = np.exp(rng.uniform(-740, 709, (2, count)))
    bases_near_one = rng.uniform(0.5, 2.0, count)
    bases_nearest_one = 1 + rng.uniform(-1e-6, 1e-6, count)
    logarithms = rng.uniform(-744, 709, (3, count))
    integer_exponents = rng.integers(-20, 20, count).astype(float)
    return [
        (rng.uniform(0.1, 10, count), rng.uniform(-10, 10, count)),
        (magnitudes[0], logarithms[0] / np.log(magnitudes[0])),
        (magnitudes[0], magnitudes[1] * rng.choice([-1, 1], count)),
        (bases_near_one, logarithms[1] / np.log(bases_near_one)),
        (bases_nearest_one, logarithms[2] / np.log(bases_nearest_one)),
        (rng.uniform(-10, 10, count), integer_exponents),
    ]


def special_powers() -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of special bases and exponents."""
    more_numbers = [0.5, 2, 3, 4, 2.0**53 - 1, 2.0**53, 2.0**53 + 2]
    operand_values = np.concatenate([SPECIAL_ARGUMENTS, more_numbers, np.negative(more_numbers)])
    return tuple(operand.ravel() for operand in np.meshgrid(operand_values, operand_values))


@np.errstate(all="ignore")
def test_special_powers():
    """Compare with the powers of the C library within rounding."""
    x, y = special_powers()
    expected = np.array(
        [_power(*operand_pair) for operand_pair in zip(x.tolist(), y.tolist(), strict=True)]
    )
    for width in WIDTHS:
        native_powers = over_arrays(power, width, 2)(x, y)
        np.testing.assert_allclose(native_powers, expected, rtol=3e-16, atol=0)
        np.testing.assert_array_equal(np.signbit(native_powers), np.signbit(expected))


def _power(x: float, y: float) -> float:
    """Return the power as in C, where Python would raise an exception."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and y % 2 == 1 else INF
    except ValueError:
        is_odd = y % 2 == 1
        return math.copysign(INF, x if is_odd else 1) if x == 0 else NAN


def test_powers_have_the_same_bits_at_every_width():
    x, y = (
        np.concatenate(operands) for operands in zip(*powers(30_000), special_powers(), strict=True)
    )
    scalar_bits = bits(over_arrays(power, 1, 2)(x, y))
    for width in WIDTHS[1:]:
        np.testing.assert_array_equal(bits(over_arrays(power, width, 2)(x, y)), scalar_bits)


def test_errors_of_powers_are_within_the_bound():
    _check_error_of_powers(40)


@pytest.mark.slow
@pytest.mark.soak
def test_errors_of_powers_are_within_the_bound_at_many_arguments():
    _check_error_of_powers(times(800, 100_000))


def _check_error_of_powers(count: int) -> None:
    for x, y in powers(count):
        native_powers = over_arrays(power, 8, 2)(x, y)
        errors = ulps(MP.power, native_powers, x, y)
        worst_index = int(np.argmax(errors))
        message = f"{x[worst_index]!r} ** {y[worst_index]!r} = {native_powers[worst_index]!r}: {errors[worst_index]} ulp"
        assert errors[worst_index] <= 1.05, message


def test_powers_that_are_integers_are_exact():
    x, y = (operand.ravel() for operand in np.meshgrid(np.arange(-30.0, 31), np.arange(11.0)))
    exact_powers = np.array([float(int(a) ** int(b)) for a, b in zip(x, y, strict=True)])
    is_representable = np.abs(exact_powers) < 2.0**53
    np.testing.assert_array_equal(
        over_arrays(power, 8, 2)(x, y)[is_representable], exact_powers[is_representable]
    )


def test_a_square_has_the_bits_of_a_product():
    x = np.concatenate([*regions("sin", 1000), SPECIAL_ARGUMENTS])
    with np.errstate(all="ignore"):
        expected = x * x
    native_squares = over_arrays(power, 8, 2)(x, np.full_like(x, 2.0))
    np.testing.assert_array_equal(bits(native_squares), bits(expected))


@pytest.mark.parametrize("n", [2.0, 3.0, 4.0, 2.5])
def test_an_exponent_that_is_a_constant_changes_no_bit(n):
    x = np.concatenate([*regions("sin", 1000), SPECIAL_ARGUMENTS])
    constant_powers = over_arrays(lambda x: power(x, x.to_register(n)), 8)(x)
    np.testing.assert_array_equal(
        bits(constant_powers), bits(over_arrays(power, 8, 2)(x, np.full_like(x, n)))
    )


# --- processors -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these are x86")
@pytest.mark.parametrize("processor", ["x86-64", "haswell", "znver4"])
@pytest.mark.parametrize("name", [*OWN_FUNCTIONS, "power"])
def test_the_same_bits_on_every_processor(name, processor, monkeypatch):
    """Compare the bits with those of older and newer processors, including one without fma."""
    if name == "power":
        function, x = (
            power,
            [np.concatenate(operands) for operands in zip(*powers(3_000), strict=True)],
        )
    else:
        function, x = (
            OWN_FUNCTIONS[name][0],
            [np.concatenate([*regions(name, 3_000), SPECIAL_ARGUMENTS])],
        )
    expected_bits = bits(over_arrays(function, 1, len(x))(*x))
    monkeypatch.setattr(machine, "_processor", lambda: (processor, ""))
    for width in WIDTHS:
        other_function = over_arrays.__wrapped__(function, width, len(x))
        np.testing.assert_array_equal(bits(other_function(*x)), expected_bits)


# --- sides, dtypes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sign"), [("tanh", -1), ("sin", -1), ("cos", 1)])
def test_odd_and_even_functions_are_symmetric(name, sign):
    x = np.concatenate(regions(name, 100))
    y, mirrored_y = (
        over_arrays(OWN_FUNCTIONS[name][0], 8)(argument_side) for argument_side in (x, -x)
    )
    np.testing.assert_array_equal(bits(y), bits(sign * mirrored_y))


CLOSEST_ANGLE = 6381956970095103 * 2.0**797
"""The float64 that is closest to a multiple of pi / 2 (Muller, Elementary Functions, 2016)."""


def test_the_angle_closest_to_a_multiple_of_half_pi():
    x = np.array([CLOSEST_ANGLE, -CLOSEST_ANGLE])
    for own_function, exact_function in ((trigonometric.cos, MP.cos), (trigonometric.sin, MP.sin)):
        assert ulps(exact_function, over_arrays(own_function, 2)(x), x).max() < 0.85


@pytest.mark.parametrize("name", OWN_FUNCTIONS)
def test_float32_is_rounded_from_float64(name):
    function, _, _ = OWN_FUNCTIONS[name]
    x = np.concatenate([*regions(name, 200), SPECIAL_ARGUMENTS])
    with np.errstate(over="ignore", under="ignore"):
        float32_values = x.astype(np.float32)
        expected = over_arrays(function, 8)(float32_values.astype(np.float64)).astype(np.float32)
    for width in WIDTHS:
        native_numbers = over_arrays(function, width, dtype="float32")(float32_values)
        np.testing.assert_array_equal(bits(native_numbers), bits(expected))
