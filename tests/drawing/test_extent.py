"""Estimated size of a picture compared with the size in Graphviz."""

import importlib

import pytest

from mdf_loop.drawing import draw
from mdf_loop.drawing.dot.extent import (
    DENSE_SPACING,
    ROOMY_SPACING,
    UnplacedNode,
    estimate_extent,
    label_size,
)
from tests.drawing.layout import layout_of

canvas_module = importlib.import_module("mdf_loop.drawing.dot.canvas")


def test_a_label_is_measured_by_its_letters_and_lines():
    short_size, long_size = (
        label_size(f'<FONT POINT-SIZE="10">{text}</FONT>', None) for text in ("abcd", "abcdabcd")
    )
    assert long_size[0] == 2 * short_size[0]
    assert label_size("ab<BR/>ab", None)[1] == 2 * label_size("ab", None)[1]


def test_a_table_has_columns_and_rows():
    cells = '<TD WIDTH="50" HEIGHT="20">a</TD>'
    table = f'<TABLE CELLSPACING="2"><TR>{cells * 3}</TR><TR>{cells}</TR></TABLE>'
    assert label_size(table, None) == (3 * 50 + 4 * 2, 2 * 20 + 3 * 2)


def test_a_box_has_a_minimum_size():
    assert label_size("a", (54.0, 36.0)) == (54.0, 36.0)


def unplaced_nodes(names, band=0):
    return {name: UnplacedNode("abcdef", None, band, 0) for name in names}


def test_extents_of_chains_and_of_unconnected_nodes():
    chain_extent = estimate_extent(
        unplaced_nodes("abc"), [("a", "b"), ("b", "c")], ROOMY_SPACING, sideways=True
    )
    row_extent = estimate_extent(unplaced_nodes("abc"), [], ROOMY_SPACING, sideways=True)
    assert chain_extent.width > row_extent.width
    assert chain_extent.height < row_extent.height
    downward_extent = estimate_extent(
        unplaced_nodes("abc"), [("a", "b"), ("b", "c")], ROOMY_SPACING, sideways=False
    )
    assert downward_extent.height > downward_extent.width
    assert (
        estimate_extent(
            unplaced_nodes("abc"), [("a", "b"), ("b", "c")], DENSE_SPACING, sideways=True
        ).width
        < chain_extent.width
    )


def test_bands_stand_beside_each_other():
    banded_extent = estimate_extent(
        unplaced_nodes("ab") | unplaced_nodes("cd", band=1), [], DENSE_SPACING, sideways=False
    )
    assert (
        banded_extent.width
        > estimate_extent(unplaced_nodes("ab"), [], DENSE_SPACING, sideways=False).width
    )


def test_a_cycle_has_an_extent():
    assert (
        estimate_extent(
            unplaced_nodes("ab"), [("a", "b"), ("b", "a")], ROOMY_SPACING, sideways=True
        ).width
        > 0
    )


@pytest.mark.parametrize("rankdir", ["LR", "TB"])
@pytest.mark.parametrize("name", ["sample", "wavefront", "workshop", "conditions", "feedback"])
def test_the_estimate_is_near_the_layout(name, rankdir, models, monkeypatch):
    estimates = []
    finish = canvas_module.Canvas.finish
    monkeypatch.setattr(
        canvas_module.Canvas,
        "finish",
        lambda self, legend: estimates.append(self.extent()) or finish(self, legend),
    )
    layout = layout_of(draw(models / f"{name}.yaml", level=3, rankdir=rankdir).dot)
    assert 0.7 < estimates[0].width / layout.width < 1.35
    assert 0.6 < estimates[0].height / layout.height < 1.4


def test_sources_stand_just_before_their_readers():
    chain = [("a", "b"), ("b", "c"), ("c", "d")]
    late_sources = estimate_extent(
        unplaced_nodes("abcdxy"), [*chain, ("x", "c"), ("y", "d")], ROOMY_SPACING, sideways=False
    )
    early_sources = estimate_extent(
        unplaced_nodes("abcdxy"), [*chain, ("x", "b"), ("y", "b")], ROOMY_SPACING, sideways=False
    )
    assert late_sources.width < early_sources.width
