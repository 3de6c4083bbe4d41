"""Large graphs: readable pictures with operators in bands, and captured constants without rails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mdf_loop.drawing import draw
from mdf_loop.errors import InputError
from tests.drawing.dot_text import edges, visible_text
from tests.drawing.layout import back_edges_at_borders, crooked_rails, layout_of, shape_problem
from tests.strategies.onnx_pictures import NETWORKS, saved


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Return a function `network(name)` that returns the file of a network."""
    folder = tmp_path_factory.mktemp("networks")
    return lambda name: saved(name, folder)


# --- size and straight lines of pictures -----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_pictures_of_networks_have_a_readable_shape(name, network):
    layout = layout_of(draw(network(name)).dot)
    assert not shape_problem(layout)
    assert layout.height < 4000
    assert list(back_edges_at_borders(layout)) == []


NAMES = [
    *("branches", "broken", "cases", "conditions", "feedback", "fitzhugh_nagumo", "imported"),
    *("loop_in_branch", "middle", "modes", "nested", "sample", "scans", "slices", "states"),
    *("two_nodes", "wavefront", "workshop"),
]


def check_layout(dot):
    layout = layout_of(dot)
    assert not shape_problem(layout)
    assert list(back_edges_at_borders(layout)) == []
    assert list(crooked_rails(layout)) == []


@pytest.mark.slow
@pytest.mark.parametrize("over_time", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_pictures_of_models_fit_and_are_straight(name, over_time, models):
    check_layout(draw(models / f"{name}.yaml", over_time=over_time).dot)


@pytest.mark.slow
def test_pictures_of_examples_fit_and_are_straight():
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*/model.yaml")):
        check_layout(draw(path).dot)
        check_layout(draw(path, over_time=True).dot)


@pytest.mark.slow
def test_pictures_of_shared_models_fit_and_are_straight(shared):
    for path in sorted((shared / "models").rglob("*.*")):
        check_layout(draw(path).dot)
        check_layout(draw(path, over_time=True).dot)


# --- notes and options ------------------------------------------------------------------------


def test_the_note_has_automatic_choices(network):
    text = visible_text(draw(network("attention_75")).dot)
    assert re.search(r"operators of 86 nodes, top to bottom in \d bands: chosen by its size", text)


def test_a_small_picture_has_no_note(models):
    assert "chosen by its size" not in draw(models / "sample.yaml").dot


def test_a_long_row_is_drawn_from_top_to_bottom(models):
    dot = draw(models / "wavefront.yaml").dot
    assert "rankdir=TB" in dot
    assert "top to bottom: chosen by its size" in visible_text(dot)
    assert "rankdir=LR" in draw(models / "wavefront.yaml", rankdir="LR").dot


def test_all_options_can_be_set(network):
    path = network("convolutions_30")
    default_dot = draw(path, level=1, rankdir="LR").dot
    assert "/layer.0/Conv_1" in visible_text(default_dot)
    assert "chosen by its size" not in default_dot
    dot = draw(path, bands=3, rankdir="LR").dot
    assert dot.count("class=band") == 3
    assert "rankdir=LR" in dot
    assert draw(path, level="operators", bands=1).dot.count("class=band") == 0


def test_runs_of_operators_share_a_box_and_weights_fold(network):
    dot = draw(network("convolutions_30"), level="operators", bands=1).dot
    words = visible_text(dot)
    assert "Conv Relu Conv Relu" in words
    assert "Neg" not in words
    assert "depend on no input" in words
    assert "/layer.0/Conv_1 · /layer.0/Relu_2" in dot  # where the mouse is


def test_cut_edges_have_the_same_number_on_both_sides(network):
    dot = draw(network("attention_75"), bands=3).dot
    leaving = re.findall(r"<B>(\d+) ▸</B>", dot)
    arriving = re.findall(r"<B>▸ (\d+)</B>", dot)
    assert leaving == sorted(set(leaving), key=int)
    assert set(leaving) == set(arriving)
    assert len(edges(dot, "cut")) >= 2 * len(leaving)
    assert "goes on at its number" in visible_text(dot)


def test_many_captured_constants_have_one_terminal(network):
    path = network("control_100")
    text = visible_text(draw(path, level=2).dot)
    assert text.count("10 constants") == 4
    every = visible_text(draw(path, level=2, captures="all").dot)
    assert "constants" not in every
    assert every.count("◇") > text.count("◇")
    assert "◇" not in visible_text(draw(path, level=2, captures=False).dot)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bands": 0}, "the number of bands is 0"),
        ({"bands": "two"}, "the number of bands is 'two'"),
        ({"bands": 2, "level": 1}, "level 1 has no bands"),
        ({"level": "all"}, "there is no level all"),
        ({"rankdir": "up"}, "there is no direction 'up'"),
    ],
)
def test_invalid_options_are_refused(options, message, models):
    with pytest.raises(InputError, match=message):
        draw(models / "sample.yaml", **options)
