"""Signs of zeros, and results for nan, infinity and subnormal numbers, as in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mdf_loop
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.pipeline import LEGAL, prepare
from mdf_loop.reading import bind, read
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import STANDARD

DTYPES = ("float64", "float32", "float16")

REMAINDERS = (
    *("x % y", "numpy.mod(x, y)", "numpy.remainder(x, y)", "numpy.divmod(x, y)[1]"),
    *("numpy.fmod(x, y)", "numpy.modf(x)[0]"),
)
QUOTIENTS = ("x // y", "numpy.floor_divide(x, y)", "numpy.divmod(x, y)[0]")
ROUNDED = ("numpy.trunc(x)", "numpy.fix(x)", "numpy.ceil(x)", "numpy.rint(x)", "numpy.modf(x)[1]")
SIGNS = ("numpy.copysign(x, y)", "numpy.sign(x)", "numpy.cbrt(x)", "numpy.log1p(x)", "-x", "x * y")


def number_pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of numbers whose quotient is a separate case."""
    kind = np.finfo(dtype)
    sizes = [0, 0.5, 1, 2.5, 3, 7.3, 1e4, kind.tiny, kind.smallest_subnormal, kind.max, np.inf]
    signed = [*sizes, *(-size for size in map(float, sizes)), np.nan]
    signed = np.array(signed, dtype)
    pairs = np.array(list(itertools.product(signed, signed)))
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def graph(expression: str, dtype: str, shape: list[int]) -> dict[str, object]:
    ports = {name: {"type": dtype, "shape": shape} for name in "xy"}
    node = {"input_ports": ports, "output_ports": {"z": {"value": expression}}}
    return {"g": {"nodes": {"A": node}}}


def assert_same_signs(results: np.ndarray, expected: np.ndarray, digits: int) -> None:
    """Check that arrays are equal up to `digits` times the last bit, with the signs of zeros."""
    assert results.dtype == expected.dtype
    rtol = digits * float(np.finfo(expected.dtype).eps)
    np.testing.assert_allclose(results, expected, rtol=rtol, atol=0)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(results[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("expression", REMAINDERS + QUOTIENTS + ROUNDED + SIGNS)
def test_signs_of_zeros_equal_numpy(expression: str, dtype: str) -> None:
    x, y = number_pairs(dtype)
    with np.errstate(all="ignore"):
        expected = eval(expression, {"numpy": np, "x": x, "y": y})
    document = open_document(graph(expression, dtype, [len(x)]))
    program, arrays = read(document), bind(document, {"x": x, "y": y}, Options()).arrays
    digits = 8 if expression in SIGNS else 0
    assert_same_signs(interpret(program, arrays)["A.z"], expected, digits)
    assert_same_signs(
        Session(prepare(program, LEGAL), STANDARD).run(arrays)["A.z"], expected, digits
    )


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("1.0 / (x % 3.0)", -3.0, np.inf),
        ("1.0 / (x % 3.0)", -0.0, np.inf),
        ("1.0 / (x % -3.0)", 3.0, -np.inf),
        ("1.0 / numpy.mod(x, 3.0)", -3.0, np.inf),
        ("1.0 / (x // -3.0)", 0.0, -np.inf),
        ("1.0 / numpy.copysign(0.0, x)", -1.0, -np.inf),
    ],
)
def test_signs_of_zeros_in_reciprocals(expression: str, x: float, expected: float) -> None:
    model = mdf_loop.compile(graph(expression, "float64", []))
    assert model.run({"x": x, "y": 0.0})["z"] == expected
