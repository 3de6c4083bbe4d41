"""Tests of the space of free parameters and of the faults that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.fitting.free import ParameterSpace, free_names, parameter_space

SHAPES = {"a.x": (), "a.w": (2, 2)}
BOUNDS = {"a.x": (-1.0, 3.0), "a.w": (0.0, [[1.0, 2.0], [3.0, 4.0]])}


def example_space() -> ParameterSpace:
    return parameter_space(BOUNDS, SHAPES)


def test_elements_have_names() -> None:
    assert example_space().elements == ("a.x", "a.w[0,0]", "a.w[0,1]", "a.w[1,0]", "a.w[1,1]")


def test_point_gives_positions_between_bounds() -> None:
    values = example_space().values(np.full((3, 5), 0.5))
    assert values["a.x"].tolist() == [1.0, 1.0, 1.0]
    assert values["a.w"].shape == (3, 2, 2)
    assert values["a.w"][1].tolist() == [[0.5, 1.0], [1.5, 2.0]]


def test_values_and_points_convert_both_ways() -> None:
    point = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(example_space().normalize(example_space().values(point)), point)


@pytest.mark.parametrize(
    ("bounds", "message"),
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
def test_malformed_bounds_are_refused(bounds: object, message: str) -> None:
    with pytest.raises(InputError, match=f"the bounds of 'a.x'.*{message}"):
        parameter_space({"a.x": bounds}, SHAPES)


@pytest.mark.parametrize("free", [{}, None])
def test_empty_free_is_refused(free: object) -> None:
    with pytest.raises(InputError, match="nothing is free"):
        free_names(free)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"a.x": 0.0}, "start says nothing of 'a.w'"),
        ({"a.x": 0.0, "a.w": 1.0}, r"the start of 'a.w' is of shape \[\], not \[2, 2\]"),
        ({"a.x": 9.0, "a.w": np.ones((2, 2))}, "the start of 'a.x', 9.0 is not within its bounds"),
        ({"a.x": 0.0, "a.w": np.ones((2, 2)), "b": 1}, "start names 'b', which is not free"),
    ],
)
def test_start_that_does_not_fit_is_refused(start: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        example_space().normalize(start)
