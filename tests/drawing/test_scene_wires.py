"""Scene of a model at each level of detail: numbers, wires between boxes, and their drawing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mdf_loop.drawing import draw
from mdf_loop.drawing.scene.elements import Scene
from mdf_loop.drawing.scene.graphs import model_scene
from mdf_loop.drawing.theme import DETAIL_LEVELS, OPERATORS_DETAIL, PAGE_DETAIL
from mdf_loop.drawing.view import View
from mdf_loop.outline import outline
from tests.drawing.dot_text import edges

MODELS = sorted((Path(__file__).parent / "models").glob("*.yaml"))
DETAILS = {str(detail.level): detail for detail in (*DETAIL_LEVELS, OPERATORS_DETAIL)}
DETAILS["page"] = PAGE_DETAIL


def scenes_with_outer_ends(scene: Scene):
    """Yield each scene, with the ends of wires in it: its boxes and ports, and those around it."""
    queue = [(scene, set())]
    for inner_scene, outer_ends in queue:
        ends_by_box = {
            box.id: {box.id, *(p.id for p in (*box.left_ports, *box.right_ports) if p is not None)}
            for box in inner_scene.boxes
        }
        yield inner_scene, ends_by_box, outer_ends
        queue += [(b.scene, ends_by_box[b.id]) for b in inner_scene.boxes if b.scene is not None]


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("model", MODELS, ids=[path.stem for path in MODELS])
def test_numbers_are_unique_and_wires_stay_within_boxes(model, detail):
    scene = model_scene(outline(model), View(DETAILS[detail]))
    numbers = Counter()
    for inner_scene, ends_by_box, outer_ends in scenes_with_outer_ends(scene):
        inner_ends = set().union(*ends_by_box.values())
        numbers.update(inner_ends)
        wired_ends = {end for wire in inner_scene.wires for end in (wire.source, wire.target)}
        assert wired_ends <= inner_ends | outer_ends
        assert {ends.box_id for ends in inner_scene.ends_by_node.values()} <= ends_by_box.keys()
    assert set(numbers.values()) <= {1}


def test_a_state_beside_a_loop_enters_the_formula_that_reads_it():
    body = {
        "metadata": {"outputs": ["go", "y_next"]},
        "nodes": {
            "step": {
                "input_ports": {"y": {}},
                "output_ports": {"y_next": {"value": "y + 1"}, "go": {"value": "y < 5"}},
            }
        },
    }
    loop = {"function": "onnx::Loop", "args": {"M": "3", "v_initial": "(n,)", "body": {"b": body}}}
    node = {
        "parameters": {"n": {"value": "n + 1", "default_initial_value": 0}},
        "functions": {"count": loop},
        "output_ports": {"total": {"value": "count[0]"}},
    }
    dot = draw({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}, level=3, over_time=True).dot
    assert ("g_over_time__g_over_time__in:v0_i:e", "A__formulas:f0:w") in edges(dot, "data")


def test_a_condition_that_the_body_passes_on_has_an_input():
    body = {
        "metadata": {"inputs": ["i", "go", "x"], "outputs": ["go", "x_next", "go"]},
        "nodes": {
            "step": {"input_ports": {"x": {}}, "output_ports": {"x_next": {"value": "x + 1"}}}
        },
    }
    loop = {
        "function": "onnx::Loop",
        "args": {"M": "3", "v_initial": "(1.0,)", "body": {"b": body}},
    }
    node = {"functions": {"count": loop}, "output_ports": {"went": {"value": "count[1]"}}}
    dot = draw({"m": {"graphs": {"g": {"nodes": {"A": node}}}}}, level=3, rankdir="LR").dot
    assert ("A__count__in:c_i:e", "A__count__out:r0_i:w") in edges(dot, "data")
    assert 'PORT="c_i"' in dot
