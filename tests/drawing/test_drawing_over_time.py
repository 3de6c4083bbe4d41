"""Pictures of models over time, checked in their DOT text."""

import re

import pytest

from mdf_loop.drawing import draw
from tests.drawing.dot_text import edges, visible_text


def labels(dot):
    """Return the label of every node of the graph by name."""
    matches = re.findall(r'^\s*(\w+) \[label=<(.*?)> class="node"', dot, re.MULTILINE)
    return dict(matches)


@pytest.mark.parametrize("name", ["fitzhugh_nagumo", "two_nodes", "states", "conditions"])
def test_nodes_are_the_same_with_and_without_time(name, models):
    dot_without_time = draw(models / f"{name}.yaml", level=2).dot
    dot_over_time = draw(models / f"{name}.yaml", level=2, over_time=True).dot
    assert labels(dot_without_time)
    assert labels(dot_over_time) == labels(dot_without_time)
    inner_edges = [
        pair for pair in edges(dot_without_time, "data") if not pair[1].startswith("output")
    ]
    inner_edges = [pair for pair in inner_edges if not pair[0].startswith("input")]
    assert set(inner_edges) <= set(edges(dot_over_time, "data"))


def test_states_are_carried_pairs(models):
    dot = draw(models / "fitzhugh_nagumo.yaml", over_time=True, rankdir="LR").dot
    text = visible_text(dot)
    assert "for each time step" in text
    assert "V ← initial_v = [-1]" in text
    assert "W&#x27; ▲" in text or "▲ W&#x27;" in text
    assert "V[t] → V" in text
    rail = "fitzhugh_nagumo_over_time__fitzhugh_nagumo_over_time__"
    assert edges(dot, "back") == [(f"{rail}out:v{k}_i:w", f"{rail}in:v{k}_i:e") for k in (1, 0)]
    assert (f"{rail}in:v0_i:e", "cell:head:w") in edges(dot, "data")
    assert ("cell:out0:e", f"{rail}out:v0_i:w") in edges(dot, "data")
    assert ("cell:out0:e", f"{rail}out:r0_i:w") in edges(dot, "data")
    assert (f"{rail}in:o0_i:e", "cell:in0:w") in edges(dot, "capture")


def test_feedback_is_a_carried_output_and_no_cycle(models):
    dot = draw(models / "two_nodes.yaml", over_time=True).dot
    text = visible_text(dot)
    assert "lynx.kills ← 0" in text
    assert "label=< × 0.2 >" in dot
    assert edges(dot, "feedback") == []
    assert "cycle: once around" not in text


def test_several_passes_have_feedback_edges(models):
    dot = draw(models / "feedback.yaml", over_time=True).dot
    assert edges(dot, "feedback") == [("cell_2", "cell_1_a_b_c_d")]
    assert "an evaluation ends after 2 calls of reader or after pass 9" in visible_text(dot)


def test_level_depth_and_captures_over_time(models):
    def text(**options):
        return visible_text(draw(models / "two_nodes.yaml", over_time=True, **options).dot)

    assert "for each time step (10, 2, 0) → (lynxes)" in text(level=0)
    assert "… 2 nodes …" in text(level=1)
    assert "dhares/dt" not in text(depth=0)
    picture_without_captures = draw(models / "two_nodes.yaml", over_time=True, captures=False).dot
    assert edges(picture_without_captures, "capture") == []
    assert "input_food" not in picture_without_captures
    assert "↻ hares(0)" not in text(collapse="hare")
    assert "dlynxes/dt" in text(collapse="hare")


def test_focus_over_time_has_the_frame(models):
    text = visible_text(draw(models / "conditions.yaml", over_time=True, focus="log").dot)
    assert "for each time step" in text
    assert "seen = x" in text
    assert "rings = rings + 1" not in text


def test_every_shared_model_is_drawn_over_time(shared):
    for path in sorted((shared / "models").rglob("*.*")):
        assert "for each time step" in visible_text(draw(path, over_time=True).dot)


# --- schedules and types ------------------------------------------------------------------------


def test_the_frame_of_passes_has_end_and_counted_events(models):
    dot = draw(models / "conditions.yaml", over_time=True, level=2, rankdir="LR").dot
    text = visible_text(dot)
    assert dot.count("class=passes") == 1
    assert "for each pass of an evaluation" in text
    assert "an evaluation ends after 4 passes" in text
    assert "counted: number of pass in the evaluation, runs of clock not used by average" in text
    assert text.count("after 4 passes") == 1


def test_a_model_without_conditions_has_no_frame_for_passes(models):
    assert "class=passes" not in draw(models / "two_nodes.yaml", over_time=True).dot


def test_types_over_time(models):
    options = {"over_time": True, "level": 3, "rankdir": "LR"}
    text = visible_text(draw(models / "conditions.yaml", **options).dot)
    assert "ticks ← 0 · float64[]" in text.replace("▼ ", "")  # it begins as a whole number
    assert "rings[t] → rings · float64[time]" in text
    fitz = visible_text(draw(models / "fitzhugh_nagumo.yaml", **options).dot)
    assert "→ V · float64[time, 1]" in fitz


def test_words_for_a_condition_on_its_own_node():
    from mdf_loop.reading.schedule.table import describe_condition

    assert describe_condition({"type": "AfterNCalls", "kwargs": {"node": "A", "n": 2}}) == (
        "after 2 calls of A"
    )
