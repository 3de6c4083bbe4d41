"""Drawing of conditionals (If, case_of) as frames with an inner frame for each branch.

Frames of conditionals have square corners and another colour than loops, and no back edges.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.drawing.dot.frames import (
    draw_placeholder,
    frame_title,
    keep_between,
    keep_body_between_tables,
    straighten,
    wrap_frame_title,
)
from mdf_loop.drawing.dot.graphs import draw_scene
from mdf_loop.drawing.dot.labels import bold_text, small_text, stack_lines, style_text
from mdf_loop.drawing.dot.small import add_pill
from mdf_loop.drawing.dot.terminal_tables import draw_terminal_tables
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.scene.elements import Box, Scene
from mdf_loop.drawing.texts import block_name
from mdf_loop.drawing.theme import (
    BRANCH_FILL_COLOR,
    CONDITIONAL_FILL_COLOR,
    CONDITIONAL_LINE_COLOR,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import ConditionalOutline


def draw_conditional(picture: Picture, box: Box, view: View) -> None:
    """Draw a conditional (If or case_of) as a frame with one inner frame for each branch."""
    conditional, canvas = box.outline, picture.canvas
    with canvas.cluster(
        canvas.unused_name(conditional.owner_id, conditional.id),
        frame_title(canvas, conditional, [block_name(conditional)]),
        "choice",
        conditional.path,
        style="filled",
        pencolor=CONDITIONAL_LINE_COLOR,
        fillcolor=CONDITIONAL_FILL_COLOR,
        penwidth="1.6",
        margin="12",
    ):
        title = wrap_frame_title(conditional, [block_name(conditional)])
        draw_terminal_tables(picture, box, view, title)
        branches = box.scene.boxes if box.scene is not None else ()
        longest_branch_paths = [
            _draw_branch(picture, box, branch, view)
            for branch in canvas.direction.stacking_order(branches)
        ]
        canvas.keep_side_by_side([longest_path[0][0] for longest_path in longest_branch_paths])
        if longest_branch_paths:
            middle_branch_path = longest_branch_paths[len(longest_branch_paths) // 2]
            straighten(canvas, picture.anchors[box.id], middle_branch_path)


def _draw_branch(picture: Picture, box: Box, branch: Box, view: View) -> list[tuple[str, str]]:
    """Draw the frame of one branch of a conditional, and the edges at the conditional's terminals.

    Return the first and the last drawn node of each node in the branch's longest chain.
    """
    conditional, canvas, frame = box.outline, picture.canvas, picture.anchors[box.id]
    title, body, scene = branch.outline.title, branch.outline.body, branch.scene or Scene()
    inner_wires, port_wires = branch.split_wires(scene.wires)
    passed_boxes = [inner_box for inner_box in scene.boxes if inner_box.kind == "passed"]
    node_boxes = scene.boxes[: len(scene.boxes) - len(passed_boxes)]
    with canvas.cluster(
        canvas.unused_name(conditional.owner_id, conditional.id, title),
        bold_text(title),
        "branch",
        branch.path,
        style="filled",
        pencolor=CONDITIONAL_LINE_COLOR,
        fillcolor=BRANCH_FILL_COLOR,
        penwidth="1",
        margin="10",
    ):
        inner_scene = replace(scene, boxes=node_boxes, wires=tuple(inner_wires))
        draw_scene(picture, inner_scene, view.inside_frame())
        names = [
            _draw_passed(picture, conditional, title, passed_box) for passed_box in passed_boxes
        ]
        if not scene.boxes:
            names = [draw_placeholder(canvas, conditional, body)]
    outer_wires = branch.split_wires(box.scene.wires if box.scene is not None else ())[1]
    for wire in (*outer_wires, *port_wires):
        if not wire.path:
            picture.continue_from(wire)
    passed_box_ids = {passed_box.id for passed_box in passed_boxes}
    input_wires = [wire for wire in port_wires if wire.path]
    picture.draw_wires(wire for wire in input_wires if wire.target not in passed_box_ids)
    longest_path = keep_body_between_tables(picture, frame, scene)
    for name in names:
        keep_between(canvas, frame, name)
    source_by_exit = {wire.target: wire.source for wire in port_wires if not wire.path}
    for result_wire in (wire for wire in outer_wires if wire.path):
        result_source_id = source_by_exit[result_wire.source]
        picture.draw_wires(
            wire
            for wire in input_wires
            if wire.target == result_source_id and result_source_id in passed_box_ids
        )
        picture.draw_wires([result_wire])
    return longest_path or [(name, name) for name in names[:1]]


def _draw_passed(picture: Picture, conditional: ConditionalOutline, title: str, pill: Box) -> str:
    """Draw a pill-shaped node for a value that a branch returns unchanged, and return its DOT name."""
    name = pill.outline.port_id
    pill_name = picture.canvas.unused_name(conditional.owner_id, conditional.id, title, name)
    label = stack_lines(style_text(name, tag="I"), small_text("passed through"))
    add_pill(picture, pill, pill_name, label, margin="0.1,0.04")
    return pill_name
