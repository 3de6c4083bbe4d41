"""Plots of distributions over trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError

NODE = {
    "parameters": {
        "z": {"value": "numpy.random.normal(0.6, 1.0)"},
        "rt": {"value": "0.2 + numpy.abs(z)"},
        "choice": {"value": "z > 0"},
        "v": {"value": "numpy.random.rand(3)"},
        "s": {"value": "s + 0.1 * numpy.random.normal()", "default_initial_value": 0.0},
    },
    "metadata": {},
    "output_ports": {name: {"value": name} for name in ("rt", "choice", "v", "s")},
}
QUANTILES, EDGES = [0.1, 0.5, 0.9], [0.0, 1.0, 2.0, 4.0]


@pytest.fixture
def compiled() -> Any:
    return mdf_loop.compile({"g": {"nodes": {"A": NODE}}})


def labels(figure: Any) -> list[tuple[str, str]]:
    return [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes]


def legend(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_histogram_for_each_response(compiled: Any, tmp_path: Path) -> None:
    results = compiled.run(trials=300)
    figure = results.plot(tmp_path / "rt.svg", title="trials")
    assert (tmp_path / "rt.svg").stat().st_size > 0
    assert labels(figure) == [("A.rt", "trials"), ("A.s", "trials")]
    assert legend(figure.axes[0]) == ["choice = false", "choice = true"]
    steps = figure.axes[0].patches[::2]
    counts = [int(sum(patch.get_data().values)) for patch in steps]
    assert counts == [int((~results["choice"]).sum()), int(results["choice"].sum())]


def test_a_response_alone(compiled: Any) -> None:
    results = compiled.run(trials=100, only=["A.choice"])
    (ax,) = results.plot().axes
    values, edges, _ = ax.patches[0].get_data()
    assert edges.tolist() == [-0.5, 0.5, 1.5]
    assert values.tolist() == [int((~results["choice"]).sum()), int(results["choice"].sum())]


def test_quantiles_over_probabilities_of_responses(compiled: Any) -> None:
    statistics = {"rt": ["count", {"quantiles": QUANTILES}, {"histogram": EDGES}]}
    results = compiled.run(trials=400, over_trials=statistics, by="choice")
    first, second = results.plot().axes
    assert (first.get_xlabel(), first.get_ylabel()) == ("probability of choice", "rt")
    assert legend(first) == ["0.1", "0.5", "0.9"]
    probabilities = np.sort(results["rt.count"] / 400)
    np.testing.assert_allclose(first.lines[0].get_xdata(), probabilities)
    assert second.patches[0].get_data().edges.tolist() == EDGES
    assert legend(second) == ["choice = false", "choice = true"]


def test_quantiles_of_all_trials(compiled: Any) -> None:
    results = compiled.run(trials=100, over_trials={"rt": [{"quantiles": QUANTILES}]})
    (ax,) = results.plot().axes
    assert ax.lines[0].get_ydata().tolist() == results["rt.quantiles"].tolist()


SWEPT = {"A.rt0": [0.1, 0.2, 0.4]}


@pytest.fixture
def shifted() -> Any:
    parameters = {"rt0": {"value": 0.2, "metadata": {"units": "s"}}, **NODE["parameters"]}
    parameters["rt"] = {"value": "rt0 + numpy.abs(z)"}
    return mdf_loop.compile({"g": {"nodes": {"A": {**NODE, "parameters": parameters}}}})


def test_statistics_of_a_sweep_are_lines_over_the_swept_value(shifted: Any) -> None:
    statistics = {"rt": ["mean", {"quantiles": QUANTILES}]}
    results = shifted.run(trials=50, over_trials=statistics, sweep=SWEPT)
    means, quantiles = results.plot().axes
    assert labels(results.plot()) == [
        ("A.rt0 (s)", "rt.mean"),
        ("A.rt0 (s)", "rt.quantiles"),
    ]
    assert means.lines[0].get_xdata().tolist() == SWEPT["A.rt0"]
    assert means.lines[0].get_ydata().tolist() == results["rt.mean"].tolist()
    assert legend(quantiles) == ["0.1", "0.5", "0.9"]
    assert quantiles.lines[2].get_ydata().tolist() == results["rt.quantiles"][:, 2].tolist()


def test_statistics_of_a_sweep_by_responses(shifted: Any) -> None:
    statistics = {"rt": ["mean", {"quantiles": [0.5, 0.9]}, {"histogram": EDGES}]}
    results = shifted.run(trials=50, over_trials=statistics, by="choice", sweep=SWEPT)
    means, quantiles, *images = results.plot().axes
    assert legend(means) == ["choice = false", "choice = true"]
    assert legend(quantiles)[1] == "choice = false, 0.9"
    assert quantiles.lines[1].get_ydata().tolist() == results["rt.quantiles"][:, 0, 1].tolist()
    first, second, *bars = images
    assert [ax.get_ylabel() for ax in (first, second)] == ["rt", "rt"]
    assert [bar.get_ylabel() for bar in bars] == [
        "trials\nchoice = false",
        "trials\nchoice = true",
    ]
    cells = second.collections[0].get_array()
    assert cells.tolist() == results["rt.histogram"][:, 1].T.tolist()
    assert second.get_ylim() == (0.0, 4.0)


def test_statistics_of_a_grid_are_images(shifted: Any) -> None:
    grid = mdf_loop.grid({**SWEPT, "A.s": [0.0, 1.0]})
    statistics = {"rt": ["mean", {"quantiles": [0.5, 0.9]}]}
    results = shifted.run(trials=20, over_trials=statistics, sweep=grid)
    mean, median, *_, last = results.plot().axes
    assert mean.collections[0].get_array().tolist() == results["rt.mean"].tolist()
    assert median.collections[0].get_array().tolist() == results["rt.quantiles"][..., 0].tolist()
    assert last.get_ylabel() == "rt.quantiles\n0.9"


def test_each_member_of_a_sweep_has_a_distribution(shifted: Any) -> None:
    results = shifted.run(trials=60, sweep=SWEPT, only=["A.rt", "A.choice"])
    figure = results.plot()
    assert labels(figure) == [
        ("A.rt", "trials, choice = false"),
        ("A.rt", "trials, choice = true"),
    ]
    for ax, response in zip(figure.axes, (False, True), strict=True):
        assert legend(ax) == ["rt0 = 0.1", "rt0 = 0.2", "rt0 = 0.4"]
        counts = [int(sum(patch.get_data().values)) for patch in ax.patches]
        assert counts == (results["A.choice"] == response).sum(axis=1).tolist()


def test_trials_of_many_members_are_an_image(shifted: Any) -> None:
    values = np.linspace(0.1, 0.5, 11)
    results = shifted.run(trials=20, sweep={"A.rt0": values}, only=["A.rt"])
    ax, bar = results.plot().axes
    assert (ax.get_xlabel(), ax.get_ylabel(), bar.get_ylabel()) == ("A.rt0 (s)", "A.rt", "trials")
    assert ax.collections[0].get_array().sum(axis=0).tolist() == [20] * 11


def test_grid_members_are_labelled_with_all_swept_values(shifted: Any) -> None:
    few = mdf_loop.grid({"A.rt0": [0.1, 0.2], "A.s": [0, 1]})
    (ax,) = shifted.run(trials=20, sweep=few, only=["A.rt"]).plot().axes
    assert legend(ax)[1] == "rt0 = 0.1, s = 1"
    many = mdf_loop.grid({"A.rt0": [0.1, 0.2], "A.s": np.arange(8.0)})
    ax, _bar = shifted.run(trials=20, sweep=many, only=["A.rt"]).plot().axes
    assert ax.get_xlabel() == "member of the sweep"


def test_responses_of_members_alone(shifted: Any) -> None:
    results = shifted.run(trials=30, sweep=SWEPT, only=["A.choice"])
    (ax,) = results.plot().axes
    assert ax.patches[2].get_data().values.tolist() == [
        int((~results["A.choice"][2]).sum()),
        int(results["A.choice"][2].sum()),
    ]


def test_traces_of_many_trials_are_thinned(compiled: Any) -> None:
    results = compiled.run(trials=1000, steps=5, only=["A.s"])
    figure = results.plot()
    assert len(figure.axes[0].collections[0].get_segments()) == 200
    sweep_run = compiled.run(trials=3, steps=5, only=["A.s"], sweep={"A.s": [0.0, 1.0]}).plot()
    assert len(sweep_run.axes[0].collections[0].get_segments()) == 6
    assert sweep_run.axes[0].collections[0].get_array().tolist() == [0.0] * 3 + [1.0] * 3


@pytest.mark.parametrize(
    "options", [{"only": ["A.v"]}, {"over_trials": {"rt": ["mean"]}}], ids=["arrays", "means"]
)
def test_arrays_and_means_over_trials_cannot_be_plotted(
    compiled: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="there is nothing to plot"):
        compiled.run(trials=10, **options).plot()
