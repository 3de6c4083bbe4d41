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

LANES = 203


def rounded(numbers: np.ndarray, precision: int) -> np.ndarray:
    """Round numbers to `precision` significant bits."""
    part, exponent = np.frexp(numbers)
    return np.ldexp(np.rint(np.ldexp(part, precision)), exponent - precision)


@pytest.mark.parametrize("precision", [5, 6, 8, 10, 11])
def test_corrections_are_exact_for_all_numbers_of_few_bits(precision: int) -> None:
    once = []
    x = 1 + np.arange(2 ** (precision - 1)) / 2 ** (precision - 1)
    for c in x[1:].tolist():
        r = float(rounded(np.array(1 / c), precision))
        q = rounded(x * r, precision)
        corrected = []
        for _ in range(2):
            q = rounded(q - rounded(q * c - x, precision) * r, precision)
            corrected.append(q)
        exact = rounded(x / c, precision)
        np.testing.assert_array_equal(corrected[1], exact)
        if one_correction_suffices(c, r, precision):
            np.testing.assert_array_equal(corrected[0], exact)
            once.append(c)
    assert len(once) > 0.6 * x.size


def quotients(rows: np.ndarray, c: float) -> np.ndarray:
    """Return the rows divided by `c` in a native loop."""
    b = Builder()
    dtype = str(rows.dtype)
    numbers = b.new(dtype, rows.shape, "x")
    body = b.body()
    i, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    row = body.new(dtype, rows.shape[1:], "row")
    with body.at("$.here"):
        quotient = body.op("Div", row, body.constant(np.array(c, dtype)))
    stack = b.new(dtype, rows.shape, "stack")
    trip, ops = b.constant(np.array(len(rows))), tuple(body.ops)
    scanned, recorded = (Scanned(numbers, row),), (Recorded(quotient, stack),)
    b.append(Loop("loop", trip, None, i, go, None, (), recorded, ops, scanned, where="$"))
    program = Program("quotients", (Input(numbers),), tuple(b.ops), (Output("y", stack),))
    quotient_rows: np.ndarray = Session(program, REQUIRED).run({"x": rows})["y"]
    return quotient_rows


def hard(dtype: str, c: float, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of all magnitudes, multiples of `c` and their neighbours, and special numbers."""
    whole = f"uint{8 * np.dtype(dtype).itemsize}"
    any_bits = rng.integers(0, np.iinfo(whole).max, 20 * LANES, dtype=whole, endpoint=True)
    usual = rng.normal(size=20 * LANES).astype(dtype)
    info = np.finfo(dtype)
    multiples = (np.arange(-LANES, LANES) * np.asarray(c, dtype)).astype(dtype)
    around = [np.nextafter(multiples, np.asarray(end, dtype)) for end in (-np.inf, np.inf)]
    ends = [info.tiny, info.smallest_subnormal, info.max, 0.0, np.inf, np.nan]
    edges = np.array([*ends, *(-e for e in ends), 2.0**-100, 2.0**-101], dtype)
    numbers = np.concatenate([any_bits.view(dtype), usual, multiples, *around, edges, usual[:50]])
    return np.resize(numbers, (-(-numbers.size // LANES), LANES))


@pytest.fixture(autouse=True)
def _without_the_divider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable division instructions, also on processors with a fast divider."""
    assert machine.vector_width() * 8 <= LANES
    monkeypatch.setattr(machine, "divides_quickly", lambda lanes: False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("c", DIVISORS)
def test_quotients_have_the_bits_of_a_division(dtype: str, c: float) -> None:
    with np.errstate(all="ignore"):
        if not np.isfinite(np.asarray(c, dtype)) or not np.asarray(c, dtype):
            pytest.skip("no number of this dtype")
        rows = hard(dtype, c, np.random.default_rng(5))
        exact = rows / np.asarray(c, dtype)
    native = quotients(rows, c)
    np.testing.assert_array_equal(native, exact)
    np.testing.assert_array_equal(
        np.signbit(native), np.signbit(exact) | np.isnan(native) * np.signbit(native)
    )
