"""The size of a picture as it is guessed, beside that which Graphviz gives it."""

import importlib

import pytest

from mdf_loop.drawing import draw
from mdf_loop.drawing.extent import DENSE, ROOMY, Sized, extent_of, size
from tests.drawing.layout import layout_of

canvas_module = importlib.import_module("mdf_loop.drawing.canvas")


def test_a_label_is_measured_by_its_letters_and_lines():
    one, two = (size(f'<FONT POINT-SIZE="10">{text}</FONT>', None) for text in ("abcd", "abcdabcd"))
    assert two[0] == 2 * one[0]
    assert size("ab<BR/>ab", None)[1] == 2 * size("ab", None)[1]


def test_a_table_has_columns_and_rows():
    cells = '<TD WIDTH="50" HEIGHT="20">a</TD>'
    table = f'<TABLE CELLSPACING="2"><TR>{cells * 3}</TR><TR>{cells}</TR></TABLE>'
    assert size(table, None) == (3 * 50 + 4 * 2, 2 * 20 + 3 * 2)


def test_a_box_has_a_least_size():
    assert size("a", (54.0, 36.0)) == (54.0, 36.0)


def placed(names, band=0):
    return {name: Sized("abcdef", None, band, 0) for name in names}


def test_a_chain_is_long_and_what_is_not_joined_is_broad():
    chain = extent_of(placed("abc"), [("a", "b"), ("b", "c")], ROOMY, sideways=True)
    loose = extent_of(placed("abc"), [], ROOMY, sideways=True)
    assert chain.width > loose.width
    assert chain.height < loose.height
    down = extent_of(placed("abc"), [("a", "b"), ("b", "c")], ROOMY, sideways=False)
    assert down.height > down.width
    assert (
        extent_of(placed("abc"), [("a", "b"), ("b", "c")], DENSE, sideways=True).width < chain.width
    )


def test_bands_stand_beside_each_other():
    apart = extent_of(placed("ab") | placed("cd", band=1), [], DENSE, sideways=False)
    assert apart.width > extent_of(placed("ab"), [], DENSE, sideways=False).width


def test_a_circle_has_an_extent():
    assert extent_of(placed("ab"), [("a", "b"), ("b", "a")], ROOMY, sideways=True).width > 0


@pytest.mark.parametrize("rankdir", ["LR", "TB"])
@pytest.mark.parametrize("name", ["sample", "wavefront", "workshop", "conditions", "feedback"])
def test_the_guess_is_near(name, rankdir, models, monkeypatch):
    guesses = []
    finish = canvas_module.Canvas.finish
    monkeypatch.setattr(
        canvas_module.Canvas,
        "finish",
        lambda self, legend: guesses.append(self.extent()) or finish(self, legend),
    )
    layout = layout_of(draw(models / f"{name}.yaml", level=3, rankdir=rankdir).dot)
    assert 0.7 < guesses[0].width / layout.width < 1.35
    assert 0.6 < guesses[0].height / layout.height < 1.4


def test_sources_stand_just_before_what_reads_them():
    chain = [("a", "b"), ("b", "c"), ("c", "d")]
    beside = extent_of(placed("abcdxy"), [*chain, ("x", "c"), ("y", "d")], ROOMY, sideways=False)
    all_first = extent_of(placed("abcdxy"), [*chain, ("x", "b"), ("y", "b")], ROOMY, sideways=False)
    assert beside.width < all_first.width
