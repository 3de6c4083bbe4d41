"""Plots of sweeps without time: lines over the swept values, and images of grids."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis

GAINS, TAUS = np.array([0.5, 1.0, 4.0]), np.array([1.0, 2.0, 4.0, 8.0])
UNITS = {"A.gain": "nS", "A.tau": "ms", "A.rate": "Hz"}


def swept(name: str, values: Any) -> Axis:
    return Axis(name, {name: np.asarray(values)}, is_swept=True)


def results(*axes: Axis, **arrays: Any) -> Results:
    arrays_by_name = {f"A.{name}": np.asarray(array) for name, array in arrays.items()}
    return Results(arrays_by_name, {}, "cpu", "float64", axes=axes, units=UNITS)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_number_is_a_line_over_the_swept_value(tmp_path):
    (ax,) = results(swept("A.gain", GAINS), rate=GAINS**2).plot(tmp_path / "r.png").axes
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), np.stack([GAINS, GAINS**2], axis=1))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("A.gain (nS)", "A.rate (Hz)")


def test_few_elements_are_lines_and_many_are_an_image():
    few, many, _bar = (
        results(swept("A.gain", GAINS), w=np.ones((3, 2)), x=np.ones((3, 21))).plot().axes
    )
    assert [text.get_text() for text in few.get_legend().get_texts()] == ["[0]", "[1]"]
    assert len(few.lines) == 2
    assert many.collections[0].get_array().shape == (21, 3)


def test_booleans_are_labelled_with_words():
    (ax,) = results(swept("A.gain", GAINS), yes=GAINS > 1).plot().axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["false", "true"]


@pytest.mark.parametrize(
    ("axis", "label", "places"),
    [
        (Axis("batch", {"A.a": GAINS, "A.b": GAINS}, True), "member of the sweep", [0, 1, 2]),
        (Axis("batch", {"A.a": np.ones((3, 2))}, True), "member of the sweep", [0, 1, 2]),
        (swept("A.gain", [1.0, 0.5, 2.0]), "A.gain (nS)", [0, 1, 2]),
        (swept("A.gain", [4.0, 1.0, 0.5]), "A.gain (nS)", [4.0, 1.0, 0.5]),
    ],
)
def test_members_are_numbered_unless_values_are_monotonic(axis, label, places):
    (ax,) = results(axis, rate=GAINS).plot().axes
    assert ax.get_xlabel() == label
    assert ax.lines[0].get_xdata().tolist() == places


def test_a_grid_has_an_image_for_each_element(tmp_path):
    grid = (swept("A.gain", GAINS), swept("A.tau", TAUS))
    rates = np.outer(GAINS, TAUS)
    figure = results(*grid, rate=rates, w=np.stack([rates, -rates], axis=-1)).plot(
        tmp_path / "g.png"
    )
    images = [ax for ax in figure.axes if ax.get_xlabel() == "A.tau (ms)"]
    bars = [ax.get_ylabel() for ax in figure.axes if ax not in images]
    assert [ax.get_ylabel() for ax in images] == ["A.gain (nS)"] * 3
    assert bars == ["A.rate (Hz)", "A.w[0]", "A.w[1]"]
    for ax, expected in zip(images, (rates, rates, -rates), strict=True):
        (cells,) = ax.collections
        np.testing.assert_array_equal(cells.get_array(), expected)
        corners = cells.get_coordinates()
        np.testing.assert_allclose(corners[0, :, 0], [0.5, 1.5, 3.0, 6.0, 10.0])
        np.testing.assert_allclose(corners[:, 0, 1], [0.25, 0.75, 2.5, 5.5])


def test_sweeps_over_three_axes_are_refused():
    axes = (swept("A.a", [1.0]), swept("A.b", [1.0]), swept("A.c", [1.0]))
    with pytest.raises(InputError, match="a sweep over 3 axes cannot be drawn"):
        results(*axes, rate=np.ones((1, 1, 1))).plot()


def test_named_outputs_without_numbers_are_refused():
    text_results = results(
        swept("A.gain", GAINS), words=np.array(["a", "b", "c"], object), rate=GAINS
    )
    assert len(text_results.plot().axes) == 1
    with pytest.raises(InputError, match=r"'A\.words' cannot be plotted"):
        text_results.plot(names=["words"])
    with pytest.raises(InputError, match="no output 'x'"):
        text_results.plot(names=["x"])


def test_elements_beyond_twelve_panels_are_named():
    grid = (swept("A.gain", GAINS), swept("A.tau", TAUS))
    figure = results(*grid, w=np.zeros((3, 4, 14))).plot()
    assert figure.get_supxlabel() == "not drawn: A.w[12], A.w[13]; name outputs to choose"


def test_means_over_time_of_a_grid_are_an_image():
    parameters = {
        "gain": {"value": 1.0},
        "tau": {"value": 1.0},
        "v": {"default_initial_value": 0.0, "value": "v + gain / tau"},
    }
    cell = {"parameters": parameters, "output_ports": {"o": {"value": "v"}}}
    model = mdf_loop.compile({"g": {"nodes": {"cell": cell}}})
    grid = mdf_loop.grid({"cell.gain": GAINS, "cell.tau": TAUS})
    run_results = model.run(sweep=grid, steps=5, only=[], reduce={"cell.o": "mean,max"})
    assert list(run_results) == ["cell.o.mean", "cell.o.max"]
    figure = run_results.plot()
    assert [ax.get_ylabel() for ax in figure.axes[2:]] == ["cell.o.mean", "cell.o.max"]
