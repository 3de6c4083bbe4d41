"""Reduction of many boxes: runs of operators, constants in their readers, and groups."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest

from mdf_loop.drawing.page.groups import MAX_BOXES, group_boxes
from mdf_loop.drawing.page.operator_chains import join_operators
from mdf_loop.drawing.page.scene import Box, Numbering, Port, Scene
from mdf_loop.drawing.scene.elements import Wire


def operators(*names: str, kind: str = "operator") -> tuple[Box, ...]:
    """Return boxes with numbers from 1 and with the names as ids."""
    return tuple(
        Box(k + 1, kind, name.split("/")[-1], details=(("id", name),))
        for k, name in enumerate(names)
    )


def with_input(scene: Scene) -> Scene:
    """Return the scene with an input before its first box."""
    return Scene((*scene.boxes, Box(900, "input", "x")), (*scene.wires, Wire(900, 1)))


def chain(count: int, first: int = 1) -> tuple[Wire, ...]:
    """Return wires from each box to the next."""
    return tuple(Wire(k, k + 1) for k in range(first, first + count - 1))


def high_numbering() -> Numbering:
    """Return a numbering beyond all boxes of the tests."""
    numbering = Numbering()
    for _ in range(10_000):
        numbering.next()
    return numbering


def acyclic(scene: Scene) -> bool:
    """Return True if no box feeds itself through other boxes."""
    box_id_by_end = {end: box.id for box in scene.boxes for end in box.ends}
    flow = nx.DiGraph((box_id_by_end[w.source], box_id_by_end[w.target]) for w in scene.wires)
    return nx.is_directed_acyclic_graph(flow)


# --- runs ---------------------------------------------------------------------------------------


def test_a_chain_becomes_one_box_with_a_line_for_each():
    numbering = high_numbering()
    scene = join_operators(with_input(Scene(operators("Mul", "Add", "Relu"), chain(3))), numbering)
    box, _ = scene.boxes
    assert (box.kind, box.title, box.lines) == ("run", "Mul", ("Add", "Relu"))
    assert scene.wires == (Wire(900, 1),)
    assert numbering.chain_box_by_operator == {2: 1, 3: 1}


def test_a_run_ends_at_forks_and_after_eight_operators():
    fork = with_input(Scene(operators("A", "B", "C"), (Wire(1, 2), Wire(1, 3))))
    assert [box.kind for box in join_operators(fork, high_numbering()).boxes] == [
        *["operator"] * 3,
        "input",
    ]
    long_scene = join_operators(
        with_input(Scene(operators(*"abcdefghij"), chain(10))), high_numbering()
    )
    assert [len(box.lines) + 1 for box in long_scene.boxes] == [8, 2, 1]
    assert len(long_scene.wires) == 2


def test_constant_operators_are_details_of_their_reader():
    boxes = operators("Shape", "Add", "x", "Reshape")
    boxes = (*boxes[:2], Box(3, "input", "x"), boxes[3])
    scene = join_operators(Scene(boxes, (Wire(4, 1), Wire(1, 2), Wire(3, 2))), high_numbering())
    assert [box.title for box in scene.boxes] == ["Add", "x"]
    folded_titles = [text for title, text in scene.boxes[0].details if title == "from constants"]
    assert sorted(folded_titles) == ["Reshape", "Shape"]


def test_nodes_with_ports_are_not_joined():
    boxes = operators("a", "b", kind="node")
    assert join_operators(Scene(boxes, chain(2)), high_numbering()).boxes == boxes


# --- groups -------------------------------------------------------------------------------------


def layers(count: int, size: int) -> Scene:
    """Return layers of operators with one scope per layer, in sequence."""
    names = [f"/net/layers.{k // size}/Op_{k}" for k in range(count * size)]
    return Scene(operators(*names), chain(count * size))


def test_few_boxes_are_not_grouped():
    scene = layers(10, MAX_BOXES // 10)
    assert group_boxes(scene, high_numbering()) is scene


def test_scopes_become_groups_with_a_port_for_each_value():
    scene = group_boxes(layers(30, 10), high_numbering())
    assert [box.title for box in scene.boxes][:2] == ["net/layers.0", "net/layers.1"]
    assert {box.kind for box in scene.boxes} == {"group"}
    first, second = scene.boxes[:2]
    assert (len(first.left_ports), len(first.right_ports)) == (0, 1)
    assert (len(second.left_ports), len(second.right_ports)) == (1, 1)
    assert all(isinstance(port, Port) and port.passes_value for port in second.ports)
    assert scene.wires[0] == Wire(first.right_ports[0].id, second.left_ports[0].id)
    assert len(first.inner_scene.boxes) == 10
    assert acyclic(scene)


def test_a_value_with_many_readers_enters_a_group_once():
    boxes = operators("x", *(f"/net/layers.{k // 10}/Op_{k}" for k in range(300)))
    wires = tuple(Wire(1, k) for k in range(2, 302))
    scene = group_boxes(Scene(boxes, wires), high_numbering())
    groups = [box for box in scene.boxes if box.kind == "group"]
    assert [len(box.left_ports) for box in groups] == [1] * 30


def test_a_scope_that_feeds_itself_is_split():
    names = [f"/net/{'even' if k // 50 % 2 == 0 else 'odd'}/Op_{k}" for k in range(300)]
    scene = group_boxes(Scene(operators(*names), chain(300)), high_numbering())
    assert acyclic(scene)
    titles = [f"net/{name} ({k} of 3)" for name in ("even", "odd") for k in (1, 2, 3)]
    assert sorted(box.title for box in scene.boxes) == titles


@pytest.mark.parametrize("step", [1, 7])
def test_without_scopes_neighbours_are_grouped(step):
    order = sorted(range(1400), key=lambda k: (k * step) % 1400)
    wires = tuple(Wire(a + 1, b + 1) for a, b in pairwise(order))
    scene = group_boxes(Scene(operators(*(f"op{k}" for k in range(1400))), wires), high_numbering())
    assert acyclic(scene)
    assert 20 <= len(scene.boxes) <= 60
    assert scene.count - len(scene.boxes) == 1400


def test_interleaved_scopes_make_no_cycle():
    names = [f"/net/{'abc'[k % 3]}/Op_{k}" for k in range(300)]
    scene = group_boxes(Scene(operators(*names), chain(300)), high_numbering())
    assert acyclic(scene)
    assert len(scene.boxes) <= MAX_BOXES


def test_groups_of_many_boxes_are_nested():
    names = [f"/net/{'ab'[k // 600]}/part{k // 60}/Op_{k}" for k in range(1200)]
    scene = group_boxes(Scene(operators(*names), chain(1200)), high_numbering())
    assert [box.title for box in scene.boxes] == ["net/a", "net/b"]
    assert all(inner.kind == "group" for box in scene.boxes for inner in box.inner_scene.boxes)
