"""Plots of fits: panels, lines and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import Curve, Distribution
from tests.models.fitted import CELL, DT, FREE, compiled, trace

TIME = np.arange(5.0)


@pytest.fixture(scope="module")
def fit() -> Fit:
    cell = compiled(CELL)
    return cell.fit(trace(cell), FREE, "cell.V", dt=DT)


def test_a_curve_has_its_residuals_below(fit: Fit) -> None:
    figure = fit.plot(title="A cell")
    above, below = figure.axes
    data_line, model_line = above.lines
    np.testing.assert_array_equal(data_line.get_ydata(), fit.curves[0].observed)
    np.testing.assert_array_equal(model_line.get_ydata(), fit.curves[0].fitted)
    np.testing.assert_array_equal(below.lines[0].get_ydata(), fit.curves[0].residuals)
    assert figure.get_suptitle() == "A cell"


def test_ten_of_many_elements_are_drawn(fit: Fit) -> None:
    rows = np.ones((5, 30))
    large_fit = replace(fit, curves=(Curve("net.y", TIME, rows, TIME, rows, 0 * rows),))
    above, _ = large_fit.plot().axes
    assert above.get_title() == "10 of 30 elements"
    assert len(above.lines) == 20


def test_a_panel_for_each_choice(fit: Fit) -> None:
    bins = [Distribution(c, np.array([0.5, 1.0]), np.array([2, 3, 1]), np.ones(3)) for c in (0, 1)]
    figure = replace(fit, curves=(), distributions=tuple(bins)).plot()
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["choice 0", "choice 1"]
    heights, edges, _ = figure.axes[0].patches[0].get_data()
    assert float(heights @ np.diff(edges)) == pytest.approx(0.5)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_fit_gives_the_same_file(fit: Fit, tmp_path: Path, suffix: str) -> None:
    for name in ("one", "two"):
        fit.plot(tmp_path / f"{name}.{suffix}")
    first, second = ((tmp_path / f"{n}.{suffix}").read_bytes() for n in ("one", "two"))
    assert first == second
    assert len(first) > 1000


def test_a_fit_without_data_cannot_be_plotted(fit: Fit) -> None:
    with pytest.raises(InputError, match="no data to draw"):
        replace(fit, curves=()).plot()
