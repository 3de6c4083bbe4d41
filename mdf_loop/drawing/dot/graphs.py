"""Drawing of a scene: boxes, cycles and wires, or only the operators of a large graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mdf_loop.drawing.dot.labels import style_text
from mdf_loop.drawing.dot.operators import draw_bands
from mdf_loop.drawing.dot.small import draw_pills
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.scene.elements import Scene
from mdf_loop.drawing.theme import LINE_STYLES
from mdf_loop.drawing.view import View


def draw_scene(picture: Picture, scene: Scene, view: View) -> None:
    """Draw the boxes and wires of a scene."""
    if scene.flow is not None:
        draw_bands(picture, scene, scene.flow, view)
        return
    node_box_ids = {wire_ends.box_id for wire_ends in scene.ends_by_node.values()}
    node_boxes = [box for box in scene.boxes if box.id in node_box_ids]
    cycle_by_box = _cycle_by_box(scene)
    for box in picture.canvas.direction.stacking_order(node_boxes):
        cycle = cycle_by_box.get(box.id)
        if box.id not in picture.anchors:
            boxes = [other for other in node_boxes if cycle and cycle_by_box.get(other.id) == cycle]
            with _cycle_frame(picture, cycle, scene.path):
                for cycle_box in boxes or [box]:
                    picture.draw_box(cycle_box, view)
    for wire in scene.wires:
        if wire.edge is not None:
            picture.draw_edge(wire, scene.ends_by_node, view)
    model_port_boxes = [box for box in scene.boxes if box.id not in node_box_ids]
    draw_pills(picture, model_port_boxes, scene.wires, view)


def _cycle_by_box(scene: Scene) -> dict[int, tuple[str, ...]]:
    """Map the box of each node that feeds itself through other nodes to the ids of these nodes."""
    return {
        scene.ends_by_node[node].box_id: cycle
        for cycle in (scene.graph.cycles if scene.graph is not None else ())
        for node in cycle
        if node in scene.ends_by_node
    }


@contextmanager
def _cycle_frame(picture: Picture, cycle: tuple[str, ...] | None, path: str) -> Iterator[None]:
    """Draw a frame around nodes that form a cycle, or no frame without a cycle."""
    if cycle is None:
        yield
        return
    color = LINE_STYLES["feedback"].attributes["color"]
    with picture.canvas.cluster(
        picture.canvas.unused_name("cycle", *cycle),
        style_text("cycle: once around per pass", color=color),
        "cycle",
        path,
        style="rounded,dashed",
        pencolor=color,
        margin="12",
    ):
        yield
