"""Rows of different shapes: allowed shapes, storage, and the length of each row."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import RecordShapeError
from mdf_loop.run.recording.lengths import (
    RowShapes,
    insert_axes,
    padding_mask,
    remove_padding,
    row_lengths,
)
from mdf_loop.run.recording.rows import Column

NAN = np.nan


@pytest.mark.parametrize(
    ("first", "later", "rank", "spread"),
    [
        ((), (), "one", None),
        ((3,), (3,), "one", None),
        ((), (3,), "one", (3,)),
        ((1,), (2, 3), "one", (2, 3)),
        ((3,), (1,), 1, None),
        ((2,), (3,), 1, None),
        (("n",), ("n",), 1, None),
        ((3,), ("n",), 1, None),
        ((), ("n", 2), 2, None),
        (None, (3,), None, None),
        ((3,), None, None, None),
    ],
)
def test_ragged_shapes_are_checked_before_the_run(first, later, rank, spread):
    shapes = RowShapes.of({"y": first}, {"y": later})
    assert shapes.varying_ranks.get("y", "one") == rank
    assert shapes.broadcast_shapes.get("y") == spread


def test_lengths():
    assert row_lengths(np.zeros((2, 5)), None, 1).tolist() == [5, 5]
    assert row_lengths(np.zeros((2, 5, 3)), None, 1).tolist() == [[5, 3], [5, 3]]
    assert row_lengths(np.zeros((2,)), None, 1).tolist() == [1, 1]
    assert row_lengths(np.zeros((3, 2, 5)), None, 2).tolist() == [[5, 5]] * 3
    has_run = np.array([False, True])
    assert row_lengths(np.zeros((2, 5)), has_run, 1).tolist() == [0, 5]
    assert row_lengths(np.zeros((2, 5, 3)), has_run, 1).tolist() == [[0, 0], [5, 3]]


def test_axes_come_behind_those_in_front():
    assert insert_axes(np.zeros((4,)), 2, 1).shape == (4, 1, 1)
    assert insert_axes(np.zeros((2, 4, 3)), 2, 2).shape == (2, 4, 1, 3)


def test_rows_without_padding():
    rows = np.arange(12.0).reshape(2, 2, 3)
    trimmed = remove_padding(rows, np.array([[2, 1], [0, 3]]))
    assert [row.tolist() for row in trimmed] == [[[0], [3]], []]
    members = remove_padding(rows, np.array([[1, 1], [0, 3]]), 2)  # one member has not run
    assert [row.tolist() for row in members] == [[[0], [3]], [[6, 7, 8], [9, 10, 11]]]
    assert [*remove_padding(np.arange(2.0), np.array([1, 1]))] == [0, 1]
    assert remove_padding(np.zeros((0, 2)), np.zeros(0, int)) == []


# --- a column -----------------------------------------------------------------------------------


def column(*parts: object, expected: int | None = None) -> np.ndarray:
    recorded = Column("A.y", expected)
    for part in parts:
        recorded.add(np.array(part))
    rows = recorded.rows.copy()
    recorded.trim()
    np.testing.assert_array_equal(recorded.rows, rows)
    return rows


@pytest.mark.parametrize("expected", [None, 3, 100])
def test_shorter_rows_are_filled_up(expected):
    rows = column([[1.0]], [[1.0, 2.0, 3.0]], [[4.0, 5.0]], expected=expected)
    np.testing.assert_array_equal(rows, [[1, NAN, NAN], [1, 2, 3], [4, 5, NAN]])


def test_integers_and_truth_values_keep_their_dtype():
    large = 2**62 + 1
    rows = column([[1, 2]], [[large]], [[5, 6]])
    assert rows.dtype == np.int64
    assert rows.tolist() == [[1, 2], [large, 0], [5, 6]]
    truths = column([[True]], [[True, False]])
    assert truths.dtype == np.bool_
    assert truths.tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("lengths", "shape", "front", "expected"),
    [
        ([1, 3], (2, 3), 1, [[0, 1, 1], [0, 0, 0]]),
        ([1, 0], (2,), 1, [0, 1]),
        ([[1, 2], [2, 1]], (2, 2, 2), 1, [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]),
        ([[1, 2], [2, 1]], (2, 2, 2), 2, [[[0, 1], [0, 0]], [[0, 0], [0, 1]]]),
    ],
)
def test_padding_is_behind_the_ends(lengths, shape, front, expected):
    assert padding_mask(np.array(lengths), shape, front).astype(int).tolist() == expected


def test_the_shape_of_empty_rows_does_not_matter():
    nothing = np.zeros((0, 7))
    assert column(nothing, [[1.0]], nothing, [[2.0]]).tolist() == [[1], [2]]
    assert column(nothing).shape == (0, 7)
    assert column(nothing, [[1]]).dtype == np.float64


def test_rows_that_always_become_longer():
    parts = [[np.arange(n) * 1.0] for n in range(300)]
    rows = column(*parts)
    assert rows.shape == (300, 299)
    assert [int(np.isfinite(row).sum()) for row in rows] == list(range(300))


def test_rows_of_another_number_of_axes_are_refused():
    with pytest.raises(RecordShapeError, match=r"'A\.y' has rows of 1 axes and of 2 axes"):
        column([[1.0]], [[[1.0]]])


def test_texts_are_refused():
    with pytest.raises(RecordShapeError, match=r"'A\.y' is text, and has not the same shape"):
        column([["a"]], [["b", "c"]])
