"""Text of arrays: the format of NumPy, with only the ends of a long array."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import zarr

from mdf_loop.cli.text import results_as_text
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis
from mdf_loop.run.recording.ticks import Clock, Ticks

SHAPES = [
    *((), (0,), (1,), (6,), (7,), (8,), (40,), (41,), (1000,), (3, 0), (0, 3), (13, 1), (12, 2)),
    *((14, 7), (100, 3), (3, 100), (200, 200), (7, 7), (8, 8), (5, 30, 1), (5, 3, 3), (4, 50, 60)),
    *((1, 1, 1), (9, 2, 3, 4), (2, 9, 3, 4)),
]


def text(array: Any, axes: tuple[Axis, ...] = ()) -> str:
    return results_as_text(Results({"n.x": array}, {}, "cpu", "float64", axes=axes), "asked for")


def by_numpy(array: np.ndarray) -> str:
    """Return NumPy's text of the whole array."""
    many_lines = array.ndim > 1 and array.size > 12 * array.shape[-1]
    return np.array2string(
        array,
        separator=", ",
        max_line_width=100,
        threshold=0 if many_lines else 40,
        edgeitems=3 if array.ndim < 3 else 1,
    )


def arrays(shape: tuple[int, ...]) -> list[np.ndarray]:
    normal = np.random.default_rng(1).normal(size=shape)
    return [
        np.asarray(normal),
        np.asarray(1e6 * normal).astype(np.int64),
        np.asarray(normal > 0),
        np.asarray(np.where(normal > 1, np.nan, 1e20 * normal)),
        np.asarray(normal).astype(np.float32),
        np.asarray(normal).astype(str).astype(object),
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_numpy_arrays_are_shown_as_by_numpy(shape):
    for array in arrays(shape):
        head, *lines = text(array).splitlines()
        assert head == f"n.x: {array.dtype}[{', '.join(map(str, shape))}]"
        expected = [f"  {line}" for line in by_numpy(array).splitlines() if line]
        assert lines[:-1] == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_store_is_shown_as_the_array_in_it(tmp_path, shape):
    for k, array in enumerate(arrays(shape)[:-1]):
        stored = zarr.create_array(tmp_path / f"{k}.zarr", data=array)
        assert text(stored) == text(array)


@pytest.mark.parametrize("dt", [None, 0.1])
@pytest.mark.parametrize(
    "numbers",
    [range(0), range(1), range(40), range(41), range(0, 9000, 10), np.array([1, 5, 9]), "many"],
)
def test_times_are_shown_as_an_array(numbers, dt):
    chosen = np.flatnonzero(np.random.default_rng(2).random(1000) > 0.5)
    ticks = Ticks(chosen if isinstance(numbers, str) else numbers, Clock(0, 0.0, dt))
    name = "step" if dt is None else "time"
    rows = np.zeros(len(ticks))
    text_of_rows = text(rows, (Axis("time", {name: np.asarray(ticks)}),))
    assert text(rows, (Axis("time", {name: ticks}),)) == text_of_rows


def test_a_reduction_has_no_axis_of_time():
    axes = (Axis("time", {"step": np.arange(3)}),)
    arrays_by_name = {"n.x": np.zeros((3, 2)), "n.x.mean": np.zeros(2)}
    results = Results(arrays_by_name, {}, "cpu", "float64", axes=axes, reduced={"n.x.mean"})
    text_of_results = results_as_text(results, "asked for")
    assert "n.x: float64[time=3, 2]\n" in text_of_results
    assert "n.x.mean: float64[2]\n" in text_of_results


def test_names_of_swept_outputs_and_texts():
    axes = (Axis("batch", {"n.x": np.array(["a", "bc"], object)}),)
    text_of_results = text(np.zeros(2), axes)
    assert text_of_results.startswith("n.x (swept): <U2[batch=2]\n  ['a', 'bc']\n")


def test_ten_million_rows_take_no_memory():
    count = 10_000_000
    rows = np.zeros(count)
    axes = (Axis("time", {"time": Ticks(range(count), Clock(0, 0.0, 0.1))}),)
    text(rows[:100], ())
    tracemalloc.start()
    try:
        text_of_results = text(rows, axes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "time: float64[time=10000000] s\n" in text_of_results
    assert "..., 9.999997e+05, 9.999998e+05, 9.999999e+05]\n" in text_of_results
    assert peak < 1_000_000
