"""Scene of a model: boxes, ports and wires."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mdf_loop.drawing.page.boxes import page_scene
from mdf_loop.drawing.page.page import Page
from mdf_loop.drawing.page.scene import MAX_TEXT_LENGTH, Numbering, Scene, pack_scene, safe_text
from mdf_loop.drawing.scene.graphs import model_scene
from mdf_loop.drawing.theme import PAGE_DETAIL
from mdf_loop.drawing.view import View
from mdf_loop.outline import outline, outline_over_time

EXAMPLES = Path(__file__).parents[3] / "examples"
MODELS = Path(__file__).parents[1] / "models"
ALL = sorted([*EXAMPLES.glob("*/model.yaml"), *MODELS.glob("*.yaml")])


def scene_of(model) -> Scene:
    """Return the scene of a model."""
    return scene_of_graph(outline(model))


def scene_of_graph(graph) -> Scene:
    """Return the scene of an outlined graph."""
    numbering = Numbering()
    return page_scene(model_scene(graph, View(PAGE_DETAIL), numbering), numbering)


def all_scenes(scene):
    """Yield a scene, and the scenes inside its boxes with the box around them."""
    queue = [(None, scene)]
    while queue:
        around, inner_scene = queue.pop()
        yield around, inner_scene
        queue += [
            (box, box.inner_scene) for box in inner_scene.boxes if box.inner_scene is not None
        ]


def ends_of(scene):
    """Return box and port of each end as text, by number."""
    texts_by_number = {}
    for _, inner_scene in all_scenes(scene):
        for box in inner_scene.boxes:
            texts_by_number[box.id] = box.title
            texts_by_number |= {port.id: f"{box.title}.{port.name}" for port in box.ports}
    return texts_by_number


def wired(scene, kind=None):
    """Return all wires as texts."""
    names = ends_of(scene)
    return {
        (names[wire.source], names[wire.target])
        for _, inner_scene in all_scenes(scene)
        for wire in inner_scene.wires
        if kind in (None, wire.line_style)
    }


@pytest.mark.parametrize("model", ALL, ids=[f"{p.parent.name}_{p.stem}" for p in ALL])
def test_numbers_are_unique_and_wires_stay_within_frames(model):
    for make_outline in (outline, outline_over_time):
        try:
            graph = make_outline(model)
        except Exception:  # noqa: BLE001 - not every model can be run over time
            continue
        scene = scene_of_graph(graph)
        numbers = Counter()
        for around, inner_scene in all_scenes(scene):
            known_ends = {end for box in inner_scene.boxes for end in box.ends}
            numbers.update(end for box in inner_scene.boxes for end in box.ends)
            if around is not None:
                known_ends |= {port.id for port in around.ports}
                back = {end for wire in around.back_wires for end in (wire.source, wire.target)}
                assert back <= {port.id for port in around.ports}
            assert {
                end for wire in inner_scene.wires for end in (wire.source, wire.target)
            } <= known_ends
        assert set(numbers.values()) <= {1}


def test_a_loop_has_rails_and_back_edges():
    scene = scene_of(EXAMPLES / "nested_triangular" / "model.yaml")
    (loop,) = [box for box in scene.boxes if box.kind == "loop"]
    rails = [
        [port.mark_kind if port else "" for port in rail]
        for rail in (loop.left_ports, loop.right_ports)
    ]
    assert rails == [["trip_count", "iteration", "enter", ""], ["", "", "leave", "recorded"]]
    names = ends_of(scene)
    back_edges = [(names[w.source], names[w.target], w.label) for w in loop.back_wires]
    title = "for i in range(M=n)"
    assert back_edges == [(f"{title}.total_next", f"{title}.total", "t+1")]
    assert ("n = 5", f"{title}.n") in wired(scene)
    assert (f"{title}.total_next", "totals") in wired(scene)
    assert (f"{title}.total", "row.total") in wired(scene)


def test_captured_values_go_through_a_port_of_each_frame():
    scene = scene_of(EXAMPLES / "nested_triangular" / "model.yaml")
    inner = "for j in range(M=i)"
    captured = wired(scene, "capture")
    assert ("row.i", f"{inner}.i") in captured
    assert (f"{inner}.i", "cell.i") in captured


def test_branches_stand_in_their_choice_and_join_at_its_results():
    document = {
        "heater": {
            "nodes": {
                "room": {
                    "input_ports": {
                        "t": {"default_value": 17.0},
                        "target": {"default_value": 20.0},
                    },
                    "functions": {
                        "choice": {
                            "function": "onnx::If",
                            "args": {
                                "cond": "t < target",
                                "then_branch": {
                                    "heat": {
                                        "metadata": {"outputs": ["warmer"]},
                                        "nodes": {
                                            "burn": {
                                                "input_ports": {"t": {}},
                                                "output_ports": {"warmer": {"value": "t + 1"}},
                                            }
                                        },
                                    }
                                },
                                "else_branch": {
                                    "rest": {"metadata": {"outputs": ["t"]}, "nodes": {}}
                                },
                            },
                        }
                    },
                    "output_ports": {"temperature": {"value": "choice[0]"}},
                }
            }
        }
    }
    scene = scene_of(document)
    (choice,) = [box for box in scene.boxes if box.kind == "choice"]
    assert [(box.kind, box.title) for box in choice.inner_scene.boxes] == [
        ("branch", "if t < target"),
        ("branch", "else"),
    ]
    assert [
        [box.kind for box in branch.inner_scene.boxes] for branch in choice.inner_scene.boxes
    ] == [
        ["node"],
        ["passed"],
    ]
    (join,) = [port for port in choice.right_ports if port is not None]
    assert [wire.target for wire in choice.inner_scene.wires].count(join.id) == 2


def test_a_node_with_several_frames_is_a_box_around_them():
    scene = scene_of(MODELS / "workshop.yaml")
    (owner,) = [box for box in scene.boxes if box.kind == "owner"]
    kinds = Counter(box.kind for box in owner.inner_scene.boxes)
    assert kinds["loop"] == 2
    assert kinds["formula"] >= 3


def test_unknown_parts_have_notes():
    details = [
        d
        for _, s in all_scenes(scene_of(MODELS / "broken.yaml"))
        for b in s.boxes
        for d in b.details
    ]
    assert ("note", "the loop has no body") in details


def test_details_have_paths_types_formulas_and_code():
    scene = scene_of(EXAMPLES / "nested_triangular" / "model.yaml")
    by_title = {box.title: box for _, inner_scene in all_scenes(scene) for box in inner_scene.boxes}
    cell = by_title["cell"]
    assert ("in", "i: int64[]") in cell.details
    assert ("", "subtotal_next = subtotal + i * j") in cell.details
    assert cell.path.endswith(".nodes['cell']")
    assert "for i in range(n):" in dict(by_title["for i in range(M=n)"].details)["code"]


def test_details_have_end_and_counted_events():
    scene = scene_of_graph(outline_over_time(MODELS / "conditions.yaml"))
    schedule_texts = [text for title, text in scene.boxes[0].details if title == "schedule"]
    assert schedule_texts[0].startswith("an evaluation ends")
    assert schedule_texts[1].startswith("counted: ")


def test_frames_that_are_open_at_first():
    graph = outline(EXAMPLES / "nested_triangular" / "model.yaml")
    assert len(Page(graph).data()["open"]) == 3
    assert len(Page(graph, open_depth=1).data()["open"]) == 1
    assert Page(graph, open_depth=0).data()["open"] == []
    assert Page(graph, collapsed_ids=frozenset({"adder"})).data()["open"] == []
    assert len(Page(graph, collapsed_ids=frozenset({"row"})).data()["open"]) == 1


def test_data_has_no_empty_entries_and_shortened_texts():
    data = pack_scene(scene_of(EXAMPLES / "nested_triangular" / "model.yaml"))
    assert all(value not in ("", []) for box in data["b"] for value in box.values())
    assert len(safe_text("n" * 10_000_000)) == MAX_TEXT_LENGTH
    assert safe_text("a\u202eb\nc") == r"a\u202eb\nc"
