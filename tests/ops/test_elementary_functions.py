"""Elementary functions in float64 against mpmath, in units in the last place."""

from __future__ import annotations

import functools
import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdf_loop.ir import Constant
from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import in_a_loop, legal_run, program_of, run, session_of

# An exact subtraction of whole multiples of pi from 1e308 takes 2**1024.
MP = mpmath.mp.clone()
MP.prec = 1250

EDGES = (1e-320, 1e-300, 1e-20, 1e-8, 1e-3, 0.3, 1.0, 3.0, 40.0, 700.0, 711.0, 5e8, 1e22, 1e308)
FUNCTIONS = {
    "Acos": MP.acos,
    "Acosh": MP.acosh,
    "Asin": MP.asin,
    "Asinh": MP.asinh,
    "Atan": MP.atan,
    "Atanh": MP.atanh,
    "Cosh": MP.cosh,
    "Elu": lambda x: x if x > 0 else MP.expm1(x),
    "Erf": MP.erf,
    "Sinh": MP.sinh,
    "Softplus": lambda x: x + MP.log1p(MP.exp(-x)) if x > 0 else MP.log1p(MP.exp(x)),
    "Tan": MP.tan,
}
EXPONENTIAL = {"Sinh", "Cosh", "Softplus", "Elu"}
INF, NAN = np.inf, np.nan


def points(op_type: str) -> np.ndarray:
    """Return points of all magnitudes and both signs, and points close to 1."""
    rng = np.random.default_rng(7)
    pairs = itertools.pairwise(EDGES)
    parts = [np.exp(rng.uniform(np.log(low), np.log(high), 60)) for low, high in pairs]
    size = np.concatenate(parts)
    if op_type in EXPONENTIAL:
        size = size[size < 800]
    if op_type == "Tan":
        size = size[size < 2.0**29]
    near_one = np.concatenate([1 - size[size < 1], 1 + size[size < 1e300]])
    return np.concatenate([size, -size, near_one, -near_one])


def ulps(op_type: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the distance of y from the true value in ulp; infinite for nan or infinity in place of a number."""
    function = FUNCTIONS[op_type]

    def one(a: float, number: float) -> float:
        exact = function(MP.mpf(float(a)))
        true = np.nan if isinstance(exact, MP.mpc) else float(exact)
        if not np.isfinite(true) or true == 0:
            return 0.0 if np.array_equal(true, number, equal_nan=True) else INF
        if not np.isfinite(number):
            return INF
        return float(abs(MP.mpf(float(number)) - exact) / MP.mpf(float(np.spacing(abs(true)))))

    return np.array([one(a, b) for a, b in zip(x, y, strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_errors_are_within_four_ulp(op_type):
    x = points(op_type)
    (y,) = legal_run(op_type, [x])
    errors = ulps(op_type, x, y)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 4, f"{op_type}({x[worst]!r}) = {y[worst]!r}"


def test_tan_beside_its_poles_and_zeros():
    rng = np.random.default_rng(3)
    n = np.concatenate([np.arange(1, 400), rng.integers(1, 2**28, 400)])
    x = np.concatenate([n * (np.pi / 2), -n * (np.pi / 4)])
    x = x[np.abs(x) < 2.0**29]
    (y,) = legal_run("Tan", [x])
    assert ulps("Tan", x, y).max() <= 4


def test_tan_of_huge_numbers():
    x = np.exp(np.random.default_rng(3).uniform(np.log(6e8), np.log(1e300), 300))
    (y,) = legal_run("Tan", [x])
    assert ulps("Tan", x, y).max() <= 8


SPECIAL = np.array([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 1.5, 5e-324, -5e-324])
AT_SPECIAL = {
    "Acos": [np.pi / 2, np.pi / 2, NAN, NAN, NAN, 0.0, np.pi, NAN, np.pi / 2, np.pi / 2],
    "Acosh": [NAN, NAN, INF, NAN, NAN, 0.0, NAN, 0.9624236501192069, NAN, NAN],
    "Asin": [0.0, -0.0, NAN, NAN, NAN, np.pi / 2, -np.pi / 2, NAN, 5e-324, -5e-324],
    "Asinh": [0.0, -0.0, INF, -INF, NAN, *np.arcsinh([1.0, -1.0, 1.5]), 5e-324, -5e-324],
    "Atan": [0.0, -0.0, np.pi / 2, -np.pi / 2, NAN, *np.arctan([1.0, -1.0, 1.5]), 5e-324, -5e-324],
    "Atanh": [0.0, -0.0, NAN, NAN, NAN, INF, -INF, NAN, 5e-324, -5e-324],
    "Cosh": [1.0, 1.0, INF, INF, NAN, *np.cosh([1.0, -1.0, 1.5]), 1.0, 1.0],
    "Elu": [0.0, 0.0, INF, -1.0, NAN, 1.0, np.expm1(-1.0), 1.5, 5e-324, -5e-324],
    "Erf": [0.0, -0.0, 1.0, -1.0, NAN, *map(float, map(MP.erf, (1, -1, 1.5))), 5e-324, -5e-324],
    "Sinh": [0.0, -0.0, INF, -INF, NAN, *np.sinh([1.0, -1.0, 1.5]), 5e-324, -5e-324],
    "Softplus": [
        np.log(2),
        np.log(2),
        INF,
        0.0,
        NAN,
        *np.log1p(np.exp([1.0, -1.0, 1.5])),
        *[np.log(2)] * 2,
    ],
    "Tan": [0.0, -0.0, NAN, NAN, NAN, *np.tan([1.0, -1.0, 1.5]), 5e-324, -5e-324],
}


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_special_values_and_the_sign_of_zero(op_type):
    (y,) = legal_run(op_type, [SPECIAL])
    expected = np.array(AT_SPECIAL[op_type])
    np.testing.assert_allclose(y, expected, rtol=1e-15, atol=0)
    if op_type != "Elu":
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_one_element_and_no_axes_give_the_same_as_many(op_type):
    x = np.linspace(1.0, 2.5, 5) if op_type == "Acosh" else np.linspace(-0.9, 0.8, 5)
    (many,) = legal_run(op_type, [x])
    single_results = [legal_run(op_type, [np.array(value)])[0] for value in x]
    np.testing.assert_allclose(single_results, many, rtol=1e-15)


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_elementary_functions_inside_a_loop(op_type):
    x = np.array([1.25, 2.0]) if op_type == "Acosh" else np.array([-0.5, 0.75])
    program = prepare(in_a_loop(op_type, x), LEGAL)
    assert any(isinstance(op, Constant) for op in program.ops[:-1])
    (rows,) = run(program, [x])
    second = x / 2 + rows[0] / 4
    np.testing.assert_allclose(rows[0], legal_run(op_type, [x])[0], rtol=1e-15)
    np.testing.assert_allclose(rows[1], legal_run(op_type, [second])[0], rtol=1e-15)


@functools.cache
def session_for(op_type):
    return session_of(prepare(program_of(op_type, [SPECIAL], shapes=[("n",)]), LEGAL))


@pytest.mark.slow
@pytest.mark.parametrize("op_type", ["Asinh", "Atan", "Erf", "Sinh", "Tan"])
@given(data=st.data())
def test_odd_functions_are_odd(op_type, data):
    shape = hnp.array_shapes(max_dims=1, max_side=4)
    x = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(allow_nan=False)))
    y, mirrored = (session_for(op_type).run(None, {"x0": side})[0] for side in (x, -x))
    np.testing.assert_array_equal(y, -mirrored)
    np.testing.assert_array_equal(np.signbit(y[x == 0]), np.signbit(x[x == 0]))
