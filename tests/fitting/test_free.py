"""Free parameters as points, and what is refused of them."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.fitting.free import Free, free_names, free_of

SHAPES = {"a.x": (), "a.w": (2, 2)}
BOUNDS = {"a.x": (-1.0, 3.0), "a.w": (0.0, [[1.0, 2.0], [3.0, 4.0]])}


def free() -> Free:
    return free_of(BOUNDS, SHAPES)


def test_numbers_have_names() -> None:
    assert free().elements == ("a.x", "a.w[0,0]", "a.w[0,1]", "a.w[1,0]", "a.w[1,1]")


def test_a_point_says_where_between_bounds() -> None:
    made = free().values(np.full((3, 5), 0.5))
    assert made["a.x"].tolist() == [1.0, 1.0, 1.0]
    assert made["a.w"].shape == (3, 2, 2)
    assert made["a.w"][1].tolist() == [[0.5, 1.0], [1.5, 2.0]]


def test_there_and_back() -> None:
    point = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(free().point(free().values(point)), point)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((1.0, 1.0), "leave nothing between them"),
        ((2.0, 1.0), "leave nothing between them"),
        ((0.0, np.inf), "are not finite"),
        ((np.nan, 1.0), "are not finite"),
        (3.0, "are no two numbers"),
        ((1.0, 2.0, 3.0), "are no two numbers"),
        (("a", "b"), "are no two numbers"),
        ((0.0, [1.0, 2.0]), "are no two numbers"),
    ],
)
def test_bounds_that_are_none(bounds: object, said: str) -> None:
    with pytest.raises(InputError, match=f"the bounds of 'a.x'.*{said}"):
        free_of({"a.x": bounds}, SHAPES)


@pytest.mark.parametrize("given", [{}, None])
def test_nothing_is_free(given: object) -> None:
    with pytest.raises(InputError, match="nothing is free"):
        free_names(given)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"a.x": 0.0}, "start says nothing of 'a.w'"),
        ({"a.x": 0.0, "a.w": 1.0}, r"the start of 'a.w' is of shape \[\], not \[2, 2\]"),
        ({"a.x": 9.0, "a.w": np.ones((2, 2))}, "the start of 'a.x', 9.0 is not within its bounds"),
        ({"a.x": 0.0, "a.w": np.ones((2, 2)), "b": 1}, "start names 'b', which is not free"),
    ],
)
def test_starts_that_do_not_fit(start: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        free().point(start)
