"""Joining of imported operators on a page: each linear chain of operators becomes one box.

Operators that compute constants become details of their reader.

Mul -> Add -> Relu          one box of three lines
Constant -> Reshape -> Add  the box of Add, with Constant and Reshape among its details
"""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from mdf_loop.drawing.page.scene import Box, Numbering, Scene

MAX_CHAIN_LENGTH = 8
"""Maximum number of operators in one box."""


def join_operators(scene: Scene, numbering: Numbering) -> Scene:
    """Join each linear chain of operators into one box, after folding constant operators."""
    return _join_chains(_fold_constant_operators(scene), numbering)


class _Links:
    """Adjacency of the boxes in a scene: the senders and readers of each box, by box number."""

    def __init__(self, scene: Scene) -> None:
        self.box_id_by_end = {end: box.id for box in scene.boxes for end in box.ends}
        self.reader_ids_by_box: dict[int, set[int]] = defaultdict(set)
        self.source_ids_by_box: dict[int, set[int]] = defaultdict(set)
        for wire in scene.wires:
            source_box_id = self.box_id_by_end.get(wire.source, -wire.source)
            target_box_id = self.box_id_by_end.get(wire.target, -wire.target)
            self.reader_ids_by_box[source_box_id].add(target_box_id)
            self.source_ids_by_box[target_box_id].add(source_box_id)


def _fold_constant_operators(scene: Scene) -> Scene:
    """Remove operators that depend on no input, and describe them in their reader's box.

    The details of the reader's box describe the removed operators.
    """
    box_links = _Links(scene)
    boxes_by_id = {box.id: box for box in scene.boxes}
    unvisited_box_ids = [
        box.id
        for box in scene.boxes
        if box.kind == "operator" and not box_links.source_ids_by_box[box.id]
    ]
    while unvisited_box_ids:
        box_id = unvisited_box_ids.pop()
        reader_box_ids = box_links.reader_ids_by_box[box_id]
        (reader_box_id,) = reader_box_ids if len(reader_box_ids) == 1 else (0,)
        if reader_box_id not in boxes_by_id or boxes_by_id[reader_box_id].kind != "operator":
            continue
        folded_box = boxes_by_id.pop(box_id)
        folded_details = (("from constants", folded_box.title), *folded_box.details)
        boxes_by_id[reader_box_id] = replace(
            boxes_by_id[reader_box_id],
            details=(*boxes_by_id[reader_box_id].details, *folded_details),
        )
        box_links.source_ids_by_box[reader_box_id].discard(box_id)
        if not box_links.source_ids_by_box[reader_box_id]:
            unvisited_box_ids.append(reader_box_id)
    remaining_ends = {end for box in boxes_by_id.values() for end in box.ends}
    removed_ends = {end for box in scene.boxes for end in box.ends} - remaining_ends
    wires = (wire for wire in scene.wires if not {wire.source, wire.target} & removed_ends)
    return Scene(tuple(boxes_by_id.values()), tuple(wires))


def _join_chains(scene: Scene, numbering: Numbering) -> Scene:
    """Join each linear chain of operators into one box."""
    box_links = _Links(scene)
    boxes_by_id = {box.id: box for box in scene.boxes}
    chain_start_by_box: dict[int, int] = {}
    boxes_by_chain: dict[int, list[Box]] = {}
    for box in _topological_order(scene, box_links):
        sender_box_id = (
            next(iter(box_links.source_ids_by_box[box.id]), 0)
            if len(box_links.source_ids_by_box[box.id]) == 1
            else 0
        )
        chain_start = chain_start_by_box.get(sender_box_id, 0)
        is_chain_extended = (
            chain_start
            and box_links.reader_ids_by_box[sender_box_id] == {box.id}
            and len(boxes_by_chain[chain_start]) < MAX_CHAIN_LENGTH
        )
        if box.kind == "operator" and is_chain_extended:
            boxes_by_chain[chain_start].append(box)
            chain_start_by_box[box.id] = chain_start
        elif box.kind == "operator":
            chain_start_by_box[box.id] = box.id
            boxes_by_chain[box.id] = [box]
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


def _topological_order(scene: Scene, links: _Links) -> list[Box]:
    """Return the boxes of a scene in topological order. Boxes of cycles are last."""
    boxes_by_id = {box.id: box for box in scene.boxes}
    unvisited_source_ids = {
        box_id: {
            source_box_id
            for source_box_id in links.source_ids_by_box[box_id]
            if source_box_id in boxes_by_id
        }
        for box_id in boxes_by_id
    }
    ready_box_ids = [
        box_id for box_id, source_box_ids in unvisited_source_ids.items() if not source_box_ids
    ]
    ordered_boxes: list[Box] = []
    for box_id in ready_box_ids:
        ordered_boxes.append(boxes_by_id[box_id])
        for reader_box_id in links.reader_ids_by_box[box_id]:
            source_box_ids = unvisited_source_ids.get(reader_box_id)
            if source_box_ids and box_id in source_box_ids:
                source_box_ids.discard(box_id)
                if not source_box_ids:
                    ready_box_ids.append(reader_box_id)
    ordered_box_ids = {box.id for box in ordered_boxes}
    return ordered_boxes + [box for box in scene.boxes if box.id not in ordered_box_ids]


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
