"""Joining of imported operators on a page: each linear chain of operators becomes one box.

Operators that compute constants become details of their reader.

Mul -> Add -> Relu          one box of three lines
Constant -> Reshape -> Add  the box of Add, with Constant and Reshape among its details
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mdf_loop.drawing.page.box_graphs import build_box_graph, topological_order
from mdf_loop.drawing.page.scene import Box, Numbering, Scene

MAX_CHAIN_LENGTH = 8
"""Maximum number of operators in one box."""


def join_operators(scene: Scene, numbering: Numbering) -> Scene:
    """Join each linear chain of operators into one box, after folding constant operators."""
    return _join_chains(_fold_constant_operators(scene), numbering)


def _fold_constant_operators(scene: Scene) -> Scene:
    """Remove operators that depend on no input, and describe them in their reader's box.

    The details of the reader's box describe the removed operators.
    """
    graph = build_box_graph(scene)
    boxes_by_id = {box.id: box for box in scene.boxes}
    unvisited_box_ids = [
        box.id for box in scene.boxes if box.kind == "operator" and not graph.pred[box.id]
    ]
    while unvisited_box_ids:
        box_id = unvisited_box_ids.pop()
        reader_box_id = _only(graph.succ[box_id])
        if reader_box_id not in boxes_by_id or boxes_by_id[reader_box_id].kind != "operator":
            continue
        folded_box = boxes_by_id.pop(box_id)
        folded_details = (("from constants", folded_box.title), *folded_box.details)
        boxes_by_id[reader_box_id] = replace(
            boxes_by_id[reader_box_id],
            details=(*boxes_by_id[reader_box_id].details, *folded_details),
        )
        graph.remove_node(box_id)
        if not graph.pred[reader_box_id]:
            unvisited_box_ids.append(reader_box_id)
    remaining_wire_ends = {wire_end for box in boxes_by_id.values() for wire_end in box.ends}
    removed_wire_ends = {
        wire_end for box in scene.boxes for wire_end in box.ends
    } - remaining_wire_ends
    wires = (wire for wire in scene.wires if not {wire.source, wire.target} & removed_wire_ends)
    return Scene(tuple(boxes_by_id.values()), tuple(wires))


def _only(box_ids: Iterable[int]) -> int:
    """Return the only element of box numbers, or 0 if there are none or several."""
    box_id_list = list(box_ids)
    return box_id_list[0] if len(box_id_list) == 1 else 0


def _join_chains(scene: Scene, numbering: Numbering) -> Scene:
    """Join each linear chain of operators into one box."""
    graph = build_box_graph(scene)
    boxes_by_id = {box.id: box for box in scene.boxes}
    chain_start_by_box: dict[int, int] = {}
    boxes_by_chain: dict[int, list[Box]] = {}
    for box_id in topological_order(graph):
        if box_id not in boxes_by_id or boxes_by_id[box_id].kind != "operator":
            continue
        sender_box_id = _only(graph.pred[box_id])
        chain_start = chain_start_by_box.get(sender_box_id, box_id)
        if _only(graph.succ.get(sender_box_id, ())) != box_id or (
            len(boxes_by_chain.get(chain_start, ())) == MAX_CHAIN_LENGTH
        ):
            chain_start = box_id
        chain_start_by_box[box_id] = chain_start
        boxes_by_chain.setdefault(chain_start, []).append(boxes_by_id[box_id])
    joined_boxes = [
        _build_chain_box(boxes_by_chain[box_id])
        if box_id in boxes_by_chain
        else boxes_by_id[box_id]
        for box_id in boxes_by_id
        if chain_start_by_box.get(box_id, box_id) == box_id
    ]
    for box_id, chain_start in chain_start_by_box.items():
        if box_id != chain_start:
            numbering.chain_box_by_operator[box_id] = chain_start
    moved_wires = (
        replace(
            wire,
            source=chain_start_by_box.get(wire.source, wire.source),
            target=chain_start_by_box.get(wire.target, wire.target),
        )
        for wire in scene.wires
    )
    wires = dict.fromkeys(wire for wire in moved_wires if wire.source != wire.target)
    return Scene(tuple(joined_boxes), tuple(wires))


def _build_chain_box(boxes: list[Box]) -> Box:
    """Build one box that represents a linear chain of operators."""
    if len(boxes) == 1:
        return boxes[0]
    chain_details = (detail for box in boxes for detail in (("operator", box.title), *box.details))
    operator_names = tuple(box.title for box in boxes)
    return replace(
        boxes[0],
        kind="run",
        title=operator_names[0],
        lines=operator_names[1:],
        details=tuple(chain_details),
    )
