"""Drawing of nodes that contain loops or conditionals, as frames connected with formulas."""

from __future__ import annotations

from mdf_loop.drawing.dot.canvas import STRAIGHT_LINE_WEIGHT
from mdf_loop.drawing.dot.labels import cell, row, stack_lines, style_text, table
from mdf_loop.drawing.dot.nodes import formula_cell, title_lines
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.scene.elements import Box, Scene
from mdf_loop.drawing.theme import HEADER_COLOR, LINE_COLOR, PAPER_COLOR
from mdf_loop.drawing.view import View
from mdf_loop.lower import names_in
from mdf_loop.outline import Block, NodeOutline


def draw_owner(picture: Picture, box: Box, view: View) -> None:
    """Draw a node with loops or conditionals as frames, connected with the node's formulas."""
    node, canvas, scene = box.outline, picture.canvas, box.scene or Scene()
    cluster_name = canvas.unused_name(node.id)
    with canvas.cluster(
        cluster_name,
        stack_lines(*title_lines(node, canvas), align="LEFT"),
        "node",
        node.path,
        style="rounded",
        pencolor=LINE_COLOR,
        margin="12",
    ):
        frames = [inner_box for inner_box in scene.boxes if inner_box.kind != "formula"]
        for frame in frames:
            picture.draw_box(frame, view)
        formula_boxes = [inner_box for inner_box in scene.boxes if inner_box.kind == "formula"]
        formula_tables = _formula_tables(node, formula_boxes)
        table_names = [_draw_formulas(picture, node, boxes, view) for boxes in formula_tables]
        first, last = picture.anchors[frames[0].id].first, picture.anchors[frames[-1].id].last
        _draw_wires(picture, box, scene, [formula for boxes in formula_tables for formula in boxes])
        if len(frames) > 1:
            canvas.add_invisible_edge(first, last, STRAIGHT_LINE_WEIGHT)
        for name in table_names:
            if not canvas.has_edge(name):
                canvas.add_invisible_edge(first, name)
                canvas.add_invisible_edge(name, last)
    picture.place_box(box, first, last, table_names)


def _draw_wires(picture: Picture, box: Box, scene: Scene, formulas: list[Box]) -> None:
    """Draw the edges between frames and formulas, those to frames first, and register their ends.

    The wires at the ports of the box have no edges, because the box has no ports in the picture.
    """
    positions = {formula.id: k for k, formula in enumerate(formulas)}
    wires = sorted(scene.wires, key=lambda wire: positions.get(wire.target, -1))
    inner_wires, port_wires = box.split_wires(wires)
    picture.draw_wires(inner_wires)
    entry_port_ids = {port.id for port in box.left_ports if port is not None}
    for wire in port_wires:
        if wire.source in entry_port_ids:
            picture.continue_to(wire)
        else:
            picture.continue_from(wire)


def _draw_formulas(picture: Picture, node: NodeOutline, boxes: list[Box], view: View) -> str:
    """Draw a table of formulas of a node, and return its DOT name."""
    table_name = picture.canvas.unused_name(node.id, "formulas")
    table_rows = [row([cell(style_text(node.id), BGCOLOR=HEADER_COLOR)])]
    for k, box in enumerate(boxes):
        table_rows += [
            row([formula_cell(text, box.outline.definition.type, view.detail, f"f{k}")])
            for text in box.outline.formula_texts
        ]
        picture.place_port(box.id, table_name, f"f{k}", f"f{k}")
    picture.canvas.add_node(
        table_name,
        table(table_rows, BORDER=1, COLOR=LINE_COLOR, BGCOLOR=PAPER_COLOR, CELLPADDING=4),
        "node",
        node.path,
    )
    return table_name


def _formula_tables(node: NodeOutline, formula_boxes: list[Box]) -> list[list[Box]]:
    """Return the formulas of a node in tables, by the number of frames on the longest path to each."""
    blocks = {block.id: block for block in node.blocks}
    names_read = {box.outline.id: box.outline.names_read for box in formula_boxes}
    names_read |= {name: _names_read(block) for name, block in blocks.items()}
    frame_count_by_name: dict[str, int] = {}

    def stage(name: str, visiting: frozenset[str] = frozenset()) -> int:
        if name in visiting or name not in names_read:
            return 0
        if name not in frame_count_by_name:
            frame_counts = (stage(read_name, visiting | {name}) for read_name in names_read[name])
            frame_count_by_name[name] = max(frame_counts, default=0) + (name in blocks)
        return frame_count_by_name[name]

    boxes_by_frame_count: dict[int, list[Box]] = {}
    for box in formula_boxes:
        boxes_by_frame_count.setdefault(stage(box.outline.id), []).append(box)
    return [boxes for _, boxes in sorted(boxes_by_frame_count.items())]


def _names_read(block: Block) -> frozenset[str]:
    """Return the names that a loop or conditional reads in its expressions or captures from its node."""
    expressions = [*block.expressions, *(capture.name for capture in block.captures)]
    return frozenset(name for expression in expressions for name in names_in(expression))
