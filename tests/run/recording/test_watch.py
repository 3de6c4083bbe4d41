"""The first value that is not finite, by row and then by order of computation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.run.control.stepper import Block
from mdf_loop.run.recording.watch import NotFiniteValue, first_not_finite

FLOATS = ("float64", "float32", "float16", ml_dtypes.bfloat16)


def block(numbers=None, **watched):
    length = len(next(iter(watched.values())))
    return Block(range(100, 100 + length) if numbers is None else numbers, {}, watched)


def rows(length=1000, shape=(), dtype="float64", **bad):
    """Return rows of ones, with the number `word` in row `bad[word]`."""
    array = np.ones((length, *shape), dtype)
    for word, row in bad.items():
        array[row, ...] = float(word)
    return array


def test_finite_rows():
    assert first_not_finite(block(a=rows(), b=rows(shape=(2, 3)))) is None
    assert first_not_finite(Block(range(5), {"a": rows(nan=3)})) is None
    assert first_not_finite(block(a=rows(length=0))) is None


def test_large_floats_are_finite():
    assert first_not_finite(block(a=np.full(5000, np.finfo(float).max))) is None
    assert first_not_finite(block(a=np.full(5000, np.finfo(np.float16).max, np.float16))) is None


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (70_000,), (3, 0)])
def test_the_first_row(dtype, shape):
    first = first_not_finite(block(a=rows(9, shape, dtype, nan=[5, 7])))
    assert first == (None if 0 in shape else NotFiniteValue(5, 105, "a", "nan"))
    array = rows(9, shape, dtype)
    array.reshape(-1)[-1:] = -np.inf
    first = first_not_finite(block(a=array))
    assert first == (None if 0 in shape else NotFiniteValue(8, 108, "a", "infinite"))


@pytest.mark.parametrize("row", [0, 1, 65_535, 65_536, 65_537, 199_999])
def test_any_row_of_many(row):
    first = first_not_finite(
        block(a=rows(200_000), b=rows(200_000, inf=row, nan=slice(row + 1, None)))
    )
    assert first == NotFiniteValue(row, 100 + row, "b", "infinite")


def test_an_earlier_row_counts_more_than_an_earlier_variable():
    first = first_not_finite(block(a=rows(nan=8), b=rows(inf=7), c=rows(nan=9)))
    assert first == NotFiniteValue(7, 107, "b", "infinite")


def test_in_one_row_the_variable_that_was_computed_first():
    first = first_not_finite(block(a=rows(), c=rows(inf=7), b=rows(nan=7)))
    assert first == NotFiniteValue(7, 107, "c", "infinite")


def test_nan_is_named_before_infinite():
    array = rows(shape=(3,))
    array[4] = [np.inf, np.nan, 1.0]
    assert first_not_finite(block(a=array)).word == "nan"


def test_numbers_of_steps_may_be_any():
    first = first_not_finite(block(numbers=np.array([3, 8, 21]), a=np.array([0.0, 1.0, np.nan])))
    assert first == NotFiniteValue(2, 21, "a", "nan")
    assert isinstance(first.step, int)


def test_members_of_a_sweep():
    array = np.ones((4, 50, 2))
    array[1, 30, 0] = np.nan
    array[3, 20, 1] = np.inf
    first = first_not_finite(Block(range(50), {}, {"a": np.ones((4, 50)), "b": array}), axis=1)
    assert first == NotFiniteValue(20, 20, "b", "infinite", 3)
    assert first.sentence(None) == "'b' of member 3 of the sweep was infinite at step 20"


def test_sentences():
    location = NotFiniteValue(34, 1234, "FNpop.V", "nan")
    assert location.sentence("0.0617 s") == "'FNpop.V' was nan at step 1234 (time 0.0617 s)"
    assert location.sentence(None) == "'FNpop.V' was nan at step 1234"
    assert (
        NotFiniteValue(0, 0, "A.x", "infinite").sentence("0 s")
        == "'A.x' was infinite at step 0 (time 0 s)"
    )
