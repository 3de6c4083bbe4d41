"""Many boxes: runs of operators, constants inside of their readers, groups by scope or in a row."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest

from mdf_loop.drawing.page.ends import Numbers
from mdf_loop.drawing.page.groups import MOST, grouped
from mdf_loop.drawing.page.runs import joined
from mdf_loop.drawing.page.scene import Box, Pin, Scene, Wire


def operators(*names: str, kind: str = "operator") -> tuple[Box, ...]:
    """Boxes numbered from 1; the ids are the names."""
    return tuple(
        Box(k + 1, kind, name.split("/")[-1], details=(("id", name),))
        for k, name in enumerate(names)
    )


def fed(scene: Scene) -> Scene:
    """The scene with an input before its first box."""
    return Scene((*scene.boxes, Box(900, "input", "x")), (*scene.wires, Wire(900, 1)))


def chain(count: int, first: int = 1) -> tuple[Wire, ...]:
    """Wires from each box to the next."""
    return tuple(Wire(k, k + 1) for k in range(first, first + count - 1))


def numbers() -> Numbers:
    """Numbers that no box of a test has."""
    made = Numbers()
    for _ in range(10_000):
        made.next()
    return made


def acyclic(scene: Scene) -> bool:
    """Whether no box feeds itself through others."""
    owner = {end: box.id for box in scene.boxes for end in box.ends}
    flow = nx.DiGraph((owner[w.source], owner[w.target]) for w in scene.wires)
    return nx.is_directed_acyclic_graph(flow)


# --- runs ---------------------------------------------------------------------------------------


def test_a_chain_becomes_one_box_with_a_line_for_each():
    made = numbers()
    scene = joined(fed(Scene(operators("Mul", "Add", "Relu"), chain(3))), made)
    box, _ = scene.boxes
    assert (box.kind, box.title, box.lines) == ("run", "Mul", ("Add", "Relu"))
    assert scene.wires == (Wire(900, 1),)
    assert made.moved == {2: 1, 3: 1}


def test_a_run_ends_where_a_value_forks_and_at_eight():
    fork = fed(Scene(operators("A", "B", "C"), (Wire(1, 2), Wire(1, 3))))
    assert [box.kind for box in joined(fork, numbers()).boxes] == [*["operator"] * 3, "input"]
    long = joined(fed(Scene(operators(*"abcdefghij"), chain(10))), numbers())
    assert [len(box.lines) + 1 for box in long.boxes] == [8, 2, 1]
    assert len(long.wires) == 2


def test_what_depends_on_no_input_stands_among_its_readers_details():
    boxes = operators("Shape", "Add", "x", "Reshape")
    boxes = (*boxes[:2], Box(3, "input", "x"), boxes[3])
    scene = joined(Scene(boxes, (Wire(4, 1), Wire(1, 2), Wire(3, 2))), numbers())
    assert [box.title for box in scene.boxes] == ["Add", "x"]
    told = [text for what, text in scene.boxes[0].details if what == "from constants"]
    assert sorted(told) == ["Reshape", "Shape"]


def test_nodes_with_ports_are_no_runs():
    boxes = operators("a", "b", kind="node")
    assert joined(Scene(boxes, chain(2)), numbers()).boxes == boxes


# --- groups -------------------------------------------------------------------------------------


def layers(count: int, size: int) -> Scene:
    """Layers of operators in scopes of their own, one after the other."""
    names = [f"/net/layers.{k // size}/Op_{k}" for k in range(count * size)]
    return Scene(operators(*names), chain(count * size))


def test_few_boxes_stay_as_they_are():
    scene = layers(10, MOST // 10)
    assert grouped(scene, numbers()) is scene


def test_scopes_become_groups_with_a_port_for_each_value():
    scene = grouped(layers(30, 10), numbers())
    assert [box.title for box in scene.boxes][:2] == ["net/layers.0", "net/layers.1"]
    assert {box.kind for box in scene.boxes} == {"group"}
    first, second = scene.boxes[:2]
    assert (len(first.left), len(first.right)) == (0, 1)
    assert (len(second.left), len(second.right)) == (1, 1)
    assert all(isinstance(port, Pin) and port.passes for port in second.ports)
    assert scene.wires[0] == Wire(first.right[0].id, second.left[0].id)
    assert len(first.inner.boxes) == 10
    assert acyclic(scene)


def test_a_value_with_many_readers_enters_a_group_once():
    boxes = operators("x", *(f"/net/layers.{k // 10}/Op_{k}" for k in range(300)))
    wires = tuple(Wire(1, k) for k in range(2, 302))
    scene = grouped(Scene(boxes, wires), numbers())
    groups = [box for box in scene.boxes if box.kind == "group"]
    assert [len(box.left) for box in groups] == [1] * 30


def test_a_scope_that_would_feed_itself_is_cut_where_values_come_back():
    names = [f"/net/{'even' if k // 50 % 2 == 0 else 'odd'}/Op_{k}" for k in range(300)]
    scene = grouped(Scene(operators(*names), chain(300)), numbers())
    assert acyclic(scene)
    said = [f"net/{name} ({k} of 3)" for name in ("even", "odd") for k in (1, 2, 3)]
    assert sorted(box.title for box in scene.boxes) == said


@pytest.mark.parametrize("step", [1, 7])
def test_without_scopes_neighbours_are_grouped(step):
    order = sorted(range(1400), key=lambda k: (k * step) % 1400)
    wires = tuple(Wire(a + 1, b + 1) for a, b in pairwise(order))
    scene = grouped(Scene(operators(*(f"op{k}" for k in range(1400))), wires), numbers())
    assert acyclic(scene)
    assert 20 <= len(scene.boxes) <= 60
    assert scene.count - len(scene.boxes) == 1400


def test_interleaved_scopes_never_make_a_circle():
    names = [f"/net/{'abc'[k % 3]}/Op_{k}" for k in range(300)]
    scene = grouped(Scene(operators(*names), chain(300)), numbers())
    assert acyclic(scene)
    assert len(scene.boxes) <= MOST


def test_groups_of_many_boxes_have_groups_themselves():
    names = [f"/net/{'ab'[k // 600]}/part{k // 60}/Op_{k}" for k in range(1200)]
    scene = grouped(Scene(operators(*names), chain(1200)), numbers())
    assert [box.title for box in scene.boxes] == ["net/a", "net/b"]
    assert all(inner.kind == "group" for box in scene.boxes for inner in box.inner.boxes)
