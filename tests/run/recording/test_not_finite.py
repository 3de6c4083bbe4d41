"""Check for finite values of each dtype and size, with the first of several non-finite values."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.run.recording.not_finite import (
    CHECKED_ELEMENTS,
    NotFinite,
    RowMonitor,
    earliest,
    find_in_states,
    is_finite,
)

FLOATS = [np.float16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16]
OTHERS = [np.int8, np.uint64, np.bool_, np.str_, object]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (0,)])
def test_numbers_of_any_dtype_and_shape(dtype: Any, bad: float, shape: tuple[int, ...]) -> None:
    numbers = np.ones(shape, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_finite(numbers)
        if numbers.size:
            numbers[(-1,) * len(shape)] = bad
            assert not is_finite(numbers)
            assert not is_finite([np.ones(2), numbers])


@pytest.mark.parametrize("dtype", OTHERS)
def test_integers_and_texts_are_finite(dtype: Any) -> None:
    assert is_finite(np.ones(3).astype(dtype))
    assert is_finite(None)


def test_the_largest_numbers_are_finite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_finite(np.full(100, np.finfo(float).max))


@pytest.mark.parametrize("place", [0, CHECKED_ELEMENTS - 1, -1, -CHECKED_ELEMENTS])
def test_both_ends_of_a_large_array_are_looked_at(place: int) -> None:
    numbers = np.zeros((3, CHECKED_ELEMENTS))
    numbers.reshape(-1)[place] = np.nan
    assert not is_finite(numbers)


def test_the_earliest_row_is_the_first_fault_then_the_first_output_and_member() -> None:
    late = NotFinite("a", "nan", 0, 7, "step 7")
    early = NotFinite("b", "nan", 1, 3, "step 3", member=4)
    first = NotFinite("b", "nan", 1, 3, "step 3", member=2)
    reduced = NotFinite("c.mean", "nan", 0)
    state = NotFinite("x", "nan", is_state=True)
    assert earliest([state, reduced, late, None, early, first]) is first
    assert earliest([state, reduced]) is reduced
    assert earliest([None]) is None


def test_rows_before_the_first_run_are_counted_for_each_member() -> None:
    ends = RowMonitor(axis=1)
    flags = np.array([[False, True, True], [False, False, False]])
    rows = np.where(flags, 1.0, np.nan)
    ends.check_rows({"x": rows}, {"x": flags})
    assert ends.are_finite
    ends.check_rows({"x": rows[:, ::-1]}, {"x": flags[:, ::-1]})
    assert ends.are_finite
    assert ends.unrun_counts["x"].tolist() == [2, 6]
    ends.check_rows({"x": np.full((2, 1), np.inf)}, {"x": np.ones((2, 1), bool)})
    assert not ends.are_finite


def test_a_state_is_called_by_its_name() -> None:
    entry = find_in_states({"parameter A.v": np.ones(2), "output A.w": np.array([np.inf, 1.0])})
    assert entry is not None
    assert (entry.name, entry.word) == ("A.w", "infinite")
