"""Plots over time: elements of each figure, labels and files. Pixels are not compared."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.image import imread

from mdf_loop.errors import InputError
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis

STEPS = 50
TIME = Axis("time", {"time": np.arange(STEPS) * 0.1})
GAINS = np.array([0.5, 1.0, 4.0])
BATCH = Axis("batch", {"A.gain": GAINS}, is_swept=True)


def over_time(*, units: dict[str, str] | None = None, **arrays: Any) -> Results:
    named = {f"A.{name}": array for name, array in arrays.items()}
    return Results(named, {}, "cpu", "float64", axes=(TIME,), units=units)


def waves(*shape: int) -> Any:
    phase = np.arange(np.prod(shape, dtype=int)).reshape(shape) / 7
    return np.sin(np.arange(STEPS).reshape(-1, *(1 for _ in shape)) / 5 + phase)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- panels ---------------------------------------------------------------------------------------


def test_panels_share_the_time_axis():
    results = over_time(v=waves(), w=waves(1), units={"A.v": "mV"})
    figure = results.plot(title="A model")
    v, w = figure.axes
    assert (v.get_ylabel(), w.get_ylabel()) == ("A.v (mV)", "A.w")
    assert (v.get_xlabel(), w.get_xlabel()) == ("", "time (s)")
    assert v.get_shared_x_axes().joined(v, w)
    assert figure.get_suptitle() == "A model"
    for ax, array in zip((v, w), (waves(), waves(1)[:, 0]), strict=True):
        (line,) = ax.lines
        np.testing.assert_array_equal(line.get_xydata(), np.stack([results.time, array], axis=1))
        assert ax.get_legend() is None


def test_huge_numbers_are_gaps(tmp_path):
    v = waves()
    v[3:6] = 1e308, -1e308, np.inf
    figure = over_time(v=v).plot(tmp_path / "large.png")
    (line,) = figure.axes[0].lines
    assert np.isnan(line.get_ydata()[3:5]).all()
    assert (tmp_path / "large.png").exists()


@pytest.mark.parametrize(
    ("shape", "labels"), [((2,), ["[0]", "[1]"]), ((2, 1), ["[0,0]", "[1,0]"])]
)
def test_a_few_elements_are_lines_with_a_legend(shape, labels):
    (ax,) = over_time(v=waves(*shape)).plot().axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == labels
    assert [list(line.get_ydata()) for line in ax.lines] == waves(*shape).reshape(
        STEPS, -1
    ).T.tolist()


@pytest.mark.parametrize("count", [11, 20])
def test_more_elements_are_lines_with_a_colour_bar(count):
    ax = over_time(v=waves(count)).plot().axes[0]
    assert len(ax.lines) == count
    assert ax.get_legend() is None
    assert [child.get_ylabel() for child in ax.child_axes] == ["element"]


def test_many_elements_are_an_image():
    ax = over_time(v=waves(3, 7), units={"A.v": "mV"}).plot().axes[0]
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), waves(3, 7).reshape(STEPS, 21).T)
    np.testing.assert_allclose(image.get_extent(), (-0.05, 4.95, -0.5, 20.5))
    assert ax.get_ylabel() == "element\n(3×7, row by row)"
    assert [child.get_ylabel() for child in ax.child_axes] == ["A.v (mV)"]


def test_many_booleans_are_a_raster():
    spikes = waves(30) > 0.9
    ax = over_time(spikes=spikes).plot().axes[0]
    (marks,) = ax.lines
    expected = [(TIME.coordinates["time"][i], k) for i, k in np.argwhere(spikes)]
    assert [tuple(point) for point in marks.get_xydata()] == expected


@pytest.mark.parametrize(("count", "is_raster"), [(2, False), (4, False), (5, True), (12, True)])
def test_five_booleans_are_a_raster(count, is_raster):
    spikes = waves(count) > 0.9
    ax = over_time(spikes=spikes).plot().axes[0]
    assert len(ax.lines) == (1 if is_raster else count)
    assert ({line.get_marker() for line in ax.lines} == {"|"}) is is_raster


def test_booleans_and_integers_are_steps():
    figure = over_time(yes=waves() > 0, n=np.arange(STEPS) // 20).plot()
    yes, n = figure.axes
    assert {ax.lines[0].get_drawstyle() for ax in (yes, n)} == {"steps-post"}
    assert [label.get_text() for label in yes.get_yticklabels()] == ["false", "true"]
    figure.draw_without_rendering()
    assert all(float(tick).is_integer() for tick in n.get_yticks())


@pytest.mark.parametrize(("value", "limits"), [(0.0, (-1, 1)), (-60.0, (-120, 0)), (7, (0, 14))])
def test_a_constant_is_a_line_in_the_middle(value, limits):
    (ax,) = over_time(v=np.full((STEPS, 2), value)).plot().axes
    assert ax.get_ylim() == limits


def test_steps_without_time():
    results = Results(
        {"A.v": np.arange(3.0)}, {}, "cpu", "float64", axes=(Axis("time", {"step": np.arange(3)}),)
    )
    assert results.plot().axes[0].get_xlabel() == "step"


def test_one_step_is_a_point():
    axes = (Axis("time", {"time": np.zeros(1)}),)
    results = Results({"A.v": np.ones(1)}, {}, "cpu", "float64", axes=axes)
    assert results.plot().axes[0].lines[0].get_marker() == "o"


def test_missing_rows_are_gaps(tmp_path):
    late, never = waves(), np.full(STEPS, np.nan)
    late[:10] = np.nan
    figure = over_time(late=late, never=never, many=np.full((STEPS, 30), np.nan)).plot(
        tmp_path / "gaps.png"
    )
    assert np.isnan(figure.axes[0].lines[0].get_ydata()[:10]).all()


def test_outputs_without_numbers_have_no_panel():
    words = np.array(["a"] * STEPS, dtype=object)
    figure = over_time(words=words, none=np.zeros((STEPS, 0)), v=waves()).plot()
    assert [ax.get_ylabel() for ax in figure.axes] == ["A.v"]


def test_names_choose_the_outputs_and_their_order():
    figure = over_time(v=waves(), w=waves(), u=waves()).plot(names=["w", "A.v"])
    assert [ax.get_ylabel() for ax in figure.axes] == ["A.w", "A.v"]


def test_dollar_signs_in_names_are_no_formulas(tmp_path):
    results = Results({"$x_$.y$": waves()}, {}, "cpu", "float64", axes=(TIME,))
    results.plot(tmp_path / "r.png")


# --- sweeps ---------------------------------------------------------------------------------------


def sweep(array: Any, batch: Axis = BATCH) -> Results:
    return Results({"A.v": array}, {}, "cpu", "float64", axes=(batch, TIME), units={"A.gain": "nS"})


def test_a_sweep_has_a_line_for_each_member_coloured_by_the_swept_value(tmp_path):
    array = GAINS[:, np.newaxis] * waves()
    ax, bar = sweep(array).plot(tmp_path / "sweep.png").axes
    (lines,) = ax.collections
    assert isinstance(lines, LineCollection)
    np.testing.assert_array_equal([segment[:, 1] for segment in lines.get_segments()], array)
    np.testing.assert_array_equal(lines.get_array(), GAINS)
    assert bar.get_ylabel() == "A.gain (nS)"
    assert bar.get_ylim() == (0.5, 4.0)


def test_booleans_of_five_members_are_a_coloured_raster():
    gains = np.linspace(0.5, 4.0, 5)
    spikes = gains[:, np.newaxis] * waves() > 0.4
    batch = Axis("batch", {"A.gain": gains}, is_swept=True)
    ax, bar = sweep(spikes, batch).plot().axes
    (marks,) = ax.collections
    members, steps = np.nonzero(spikes)
    expected = np.stack([TIME.coordinates["time"][steps], members], axis=1)
    np.testing.assert_array_equal(marks.get_offsets(), expected)
    np.testing.assert_array_equal(marks.get_array(), gains[members])
    assert (ax.get_ylabel(), bar.get_ylabel()) == ("A.v\nmember", "A.gain (nS)")


def test_booleans_of_trials_are_a_black_raster():
    spikes = np.arange(100)[:, np.newaxis] / 100 * waves() > 0.4
    trials = Axis("trial", {"trial": np.arange(100)})
    (ax,) = sweep(spikes, trials).plot().axes
    (marks,) = ax.collections
    assert marks.get_facecolor().tolist() == [[0.0, 0.0, 0.0, 1.0]]
    assert ax.get_ylabel() == "A.v\ntrial"
    ax.figure.canvas.draw()
    assert {tick % 10 for tick in ax.get_yticks()} == {0.0}


def test_raster_rows_have_the_numbers_of_their_trials():
    trials = Axis("trial", {"trial": np.arange(1000)})
    (ax,) = sweep(np.ones((1000, STEPS), bool), trials).plot().axes
    rows = np.unique(ax.collections[0].get_offsets()[:, 1])
    assert (len(rows), rows[0], rows[-1]) == (200, 0, 999)


def test_member_colours_are_dark_enough():
    (ax, _bar) = sweep(GAINS[:, np.newaxis] * waves()).plot().axes
    (lines,) = ax.collections
    red, green, blue, _ = lines.to_rgba(GAINS)[-1]
    assert 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.8


def test_a_sweep_of_arrays_has_a_panel_for_each_element():
    array = GAINS[:, np.newaxis, np.newaxis] * waves(2)
    *axes, _bar = sweep(array).plot().axes
    assert [ax.get_ylabel() for ax in axes] == ["A.v[0]", "A.v[1]"]
    (only, _bar) = sweep(array[:, :, :1]).plot().axes
    assert only.get_ylabel() == "A.v"


@pytest.mark.parametrize(
    "coordinates",
    [
        {"A.gain": GAINS, "A.seed": np.arange(3)},
        {"A.yes": np.array([True, False, True])},
        {"A.gain": np.array([1.0, np.nan, 2.0])},
    ],
)
def test_members_are_numbered_without_a_single_swept_number(coordinates):
    figure = sweep(GAINS[:, np.newaxis] * waves(), Axis("batch", coordinates, is_swept=True)).plot()
    assert figure.axes[-1].get_ylabel() == "member of the sweep"


def test_a_sweep_of_long_arrays_is_refused():
    with pytest.raises(InputError, match=r"'A.v' has 21 elements in each member of the sweep"):
        sweep(np.zeros((3, STEPS, 21))).plot()


# --- files ----------------------------------------------------------------------------------------


def test_png_has_the_size_of_the_figure(tmp_path):
    over_time(v=waves()).plot(tmp_path / "v.png")
    assert imread(tmp_path / "v.png").shape == (600, 1200, 4)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".SVG"])
def test_the_same_results_give_the_same_file(tmp_path, suffix):
    for name in ("a", "b"):
        over_time(v=waves(3), many=waves(30)).plot(tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("a", "b"))
    assert first == second
    assert first


@pytest.mark.slow
def test_long_runs_give_small_svg_files(tmp_path):
    time = Axis("time", {"step": np.arange(100_000)})
    noise = np.random.default_rng(1).standard_normal(100_000)
    results = Results({"A.v": noise}, {}, "cpu", "float64", axes=(time,))
    results.plot(tmp_path / "v.svg")
    assert (tmp_path / "v.svg").stat().st_size < 300_000


def test_notebooks_display_a_figure():
    figure: Any = over_time(v=waves()).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
def test_pyplot_is_left_alone(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from mdf_loop.results.data import Results\n"
        "from mdf_loop.run.outputs import Axis\n"
        "axes = (Axis('time', {'step': np.arange(3)}),)\n"
        "Results({'A.v': np.arange(3)}, {}, 'cpu', 'float64', axes=axes).plot(sys.argv[1])\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "v.png")]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (process.stdout.strip(), process.stderr) == ("False", "")


# --- refused --------------------------------------------------------------------------------------


def test_results_without_time_cannot_be_plotted():
    results = Results({"A.v": np.ones(3)}, {}, "cpu", "float64")
    with pytest.raises(InputError, match="the results have no axis of time") as error:
        results.plot()
    assert "give steps" in str(error.value)


def test_names_without_numbers_are_refused(tmp_path):
    results = over_time(v=waves(), words=np.array(["a"] * STEPS, dtype=object))
    with pytest.raises(InputError, match=r"no output 'x'; there are A\.v, A\.words"):
        results.plot(names=["x"])
    with pytest.raises(InputError, match=r"'A\.words' cannot be plotted"):
        results.plot(names=["words"])
    with pytest.raises(InputError, match="no output is made of numbers"):
        over_time(words=np.array(["a"] * STEPS, dtype=object)).plot()


def test_outputs_beyond_twelve_panels_are_named(tmp_path):
    results = over_time(**{f"v{k}": waves() for k in range(17)})
    figure = results.plot(tmp_path / "v.png")
    assert [ax.get_ylabel() for ax in figure.axes] == [f"A.v{k}" for k in range(12)]
    assert figure.get_supxlabel() == (
        "not drawn: A.v12, A.v13, A.v14, A.v15, ... (5 in all); name outputs to choose"
    )
    assert over_time(**{f"v{k}": waves() for k in range(12)}).plot().get_supxlabel() == ""
    thirteen = sweep(np.zeros((3, STEPS, 13))).plot()
    assert thirteen.get_supxlabel() == "not drawn: A.v[12]; name outputs to choose"


def test_files_that_cannot_be_written(tmp_path):
    results = over_time(v=waves())
    with pytest.raises(InputError, match=r"cannot save a plot as '\.gif'") as error:
        results.plot(tmp_path / "v.gif")
    assert "use .png, .svg or .pdf" in str(error.value)
    with pytest.raises(InputError, match="there is no folder"):
        results.plot(tmp_path / "missing" / "v.png")
    assert list(tmp_path.iterdir()) == []


def test_long_names_are_shortened(tmp_path):
    name = "v" * 100_000
    results = over_time(**{name: waves(2)}, units={f"A.{name}": "m" * 100_000})
    figure = results.plot(tmp_path / "x.png", title="t" * 100_000)
    (axes,) = figure.axes
    assert len(axes.get_ylabel()) < 200
    assert axes.get_ylabel().startswith("A\nvvv")
    assert len(figure.get_suptitle()) == 60
