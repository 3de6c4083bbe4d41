"""Division by a constant as a product with corrections: the bits equal those of a division."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Input, Loop, Output, Program, Recorded, Scanned
from mdf_loop.native import machine
from mdf_loop.ops.native.quotients import one_correction_suffices
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED

DIVISORS = (
    0.001,
    0.0125,
    3.0,
    -7.0,
    1 / 3,
    1.9999999999999998,
    1e-200,
    -1e200,
    1e-300,
    0.25,
    np.pi,
)
"""Divisors that need one correction, two corrections, or a division."""

LANE_COUNT = 203


def rounded(numbers: np.ndarray, precision: int) -> np.ndarray:
    """Round numbers to `precision` significant bits."""
    significand, exponent = np.frexp(numbers)
    return np.ldexp(np.rint(np.ldexp(significand, precision)), exponent - precision)


@pytest.mark.parametrize("precision", [5, 6, 8, 10, 11])
def test_corrections_are_exact_for_all_numbers_of_few_bits(precision: int) -> None:
    once_corrected_divisors = []
    x = 1 + np.arange(2 ** (precision - 1)) / 2 ** (precision - 1)
    for c in x[1:].tolist():
        r = float(rounded(np.array(1 / c), precision))
        q = rounded(x * r, precision)
        corrected_quotients = []
        for _ in range(2):
            q = rounded(q - rounded(q * c - x, precision) * r, precision)
            corrected_quotients.append(q)
        exact_quotients = rounded(x / c, precision)
        np.testing.assert_array_equal(corrected_quotients[1], exact_quotients)
        if one_correction_suffices(c, r, precision):
            np.testing.assert_array_equal(corrected_quotients[0], exact_quotients)
            once_corrected_divisors.append(c)
    assert len(once_corrected_divisors) > 0.6 * x.size


def quotients(rows: np.ndarray, c: float) -> np.ndarray:
    """Return the rows divided by `c` in a native loop."""
    b = Builder()
    dtype = str(rows.dtype)
    dividends = b.new(dtype, rows.shape, "x")
    body = b.body()
    i, condition_in = body.new("int64", (), "i"), body.new("bool", (), "go")
    row = body.new(dtype, rows.shape[1:], "row")
    with body.at("$.here"):
        quotient = body.op("Div", row, body.constant(np.array(c, dtype)))
    stack = b.new(dtype, rows.shape, "stack")
    trip_count, ops = b.constant(np.array(len(rows))), tuple(body.ops)
    scanned_inputs, recorded_values = (Scanned(dividends, row),), (Recorded(quotient, stack),)
    b.append(
        Loop(
            "loop",
            trip_count,
            None,
            i,
            condition_in,
            None,
            (),
            recorded_values,
            ops,
            scanned_inputs,
            where="$",
        )
    )
    program = Program("quotients", (Input(dividends),), tuple(b.ops), (Output("y", stack),))
    quotient_rows: np.ndarray = Session(program, REQUIRED).run({"x": rows})["y"]
    return quotient_rows


def hard(dtype: str, c: float, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of all magnitudes, multiples of `c` and their neighbours, and special numbers."""
    integer_dtype = f"uint{8 * np.dtype(dtype).itemsize}"
    random_bits = rng.integers(
        0, np.iinfo(integer_dtype).max, 20 * LANE_COUNT, dtype=integer_dtype, endpoint=True
    )
    usual_numbers = rng.normal(size=20 * LANE_COUNT).astype(dtype)
    dtype_info = np.finfo(dtype)
    multiples = (np.arange(-LANE_COUNT, LANE_COUNT) * np.asarray(c, dtype)).astype(dtype)
    neighbours = [
        np.nextafter(multiples, np.asarray(direction, dtype)) for direction in (-np.inf, np.inf)
    ]
    extreme_numbers = [
        dtype_info.tiny,
        dtype_info.smallest_subnormal,
        dtype_info.max,
        0.0,
        np.inf,
        np.nan,
    ]
    special_numbers = np.array(
        [*extreme_numbers, *(-number for number in extreme_numbers), 2.0**-100, 2.0**-101], dtype
    )
    numbers = np.concatenate(
        [
            random_bits.view(dtype),
            usual_numbers,
            multiples,
            *neighbours,
            special_numbers,
            usual_numbers[:50],
        ]
    )
    return np.resize(numbers, (-(-numbers.size // LANE_COUNT), LANE_COUNT))


@pytest.fixture(autouse=True)
def _without_the_divider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable division instructions, also on processors with a fast divider."""
    assert machine.vector_width() * 8 <= LANE_COUNT
    monkeypatch.setattr(machine, "divides_quickly", lambda lanes: False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("c", DIVISORS)
def test_quotients_have_the_bits_of_a_division(dtype: str, c: float) -> None:
    with np.errstate(all="ignore"):
        if not np.isfinite(np.asarray(c, dtype)) or not np.asarray(c, dtype):
            pytest.skip("no number of this dtype")
        rows = hard(dtype, c, np.random.default_rng(5))
        exact_quotients = rows / np.asarray(c, dtype)
    native_quotients = quotients(rows, c)
    np.testing.assert_array_equal(native_quotients, exact_quotients)
    np.testing.assert_array_equal(
        np.signbit(native_quotients),
        np.signbit(exact_quotients) | np.isnan(native_quotients) * np.signbit(native_quotients),
    )
