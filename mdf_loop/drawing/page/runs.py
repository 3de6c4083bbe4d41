"""Joining of imported operators: a linear run is one box, and constant operators are details of their reader.

Mul -> Add -> Relu          one box of three lines
Constant -> Reshape -> Add  the box of Add, with Constant and Reshape among its details
"""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from mdf_loop.drawing.page.ends import Numbering
from mdf_loop.drawing.page.scene import Box, Scene

MAX_RUN_LENGTH = 8
"""Maximum number of operators in one box."""


def join_operators(scene: Scene, numbers: Numbering) -> Scene:
    """Join linear runs of operators into single boxes, and fold constant operators into their reader."""
    return _join_runs(_fold_constant_operators(scene), numbers)


class _Links:
    """Neighbours of each box in a scene: the boxes that feed it and that read it, by number."""

    def __init__(self, scene: Scene) -> None:
        self.box_of_end = {end: box.id for box in scene.boxes for end in box.ends}
        self.readers: dict[int, set[int]] = defaultdict(set)
        self.sources: dict[int, set[int]] = defaultdict(set)
        for wire in scene.wires:
            source_box = self.box_of_end.get(wire.source, -wire.source)
            target_box = self.box_of_end.get(wire.target, -wire.target)
            self.readers[source_box].add(target_box)
            self.sources[target_box].add(source_box)


def _fold_constant_operators(scene: Scene) -> Scene:
    """Remove operators that depend on no input and have one reader. The reader's details describe them."""
    links = _Links(scene)
    boxes = {box.id: box for box in scene.boxes}
    unvisited_boxes = [
        box.id for box in scene.boxes if box.kind == "operator" and not links.sources[box.id]
    ]
    while unvisited_boxes:
        number = unvisited_boxes.pop()
        readers = links.readers[number]
        (reader_id,) = readers if len(readers) == 1 else (0,)
        if reader_id not in boxes or boxes[reader_id].kind != "operator":
            continue
        folded_box = boxes.pop(number)
        folded_details = (("from constants", folded_box.title), *folded_box.details)
        boxes[reader_id] = replace(
            boxes[reader_id], details=(*boxes[reader_id].details, *folded_details)
        )
        links.sources[reader_id].discard(number)
        if not links.sources[reader_id]:
            unvisited_boxes.append(reader_id)
    remaining_ends = {end for box in boxes.values() for end in box.ends}
    removed_ends = {end for box in scene.boxes for end in box.ends} - remaining_ends
    wires = (wire for wire in scene.wires if not {wire.source, wire.target} & removed_ends)
    return Scene(tuple(boxes.values()), tuple(wires))


def _join_runs(scene: Scene, numbers: Numbering) -> Scene:
    """Join each linear run of operators into one box."""
    links = _Links(scene)
    boxes = {box.id: box for box in scene.boxes}
    first_of_run: dict[int, int] = {}
    runs: dict[int, list[Box]] = {}
    for box in _topological_order(scene, links):
        sender_id = next(iter(links.sources[box.id]), 0) if len(links.sources[box.id]) == 1 else 0
        first_id = first_of_run.get(sender_id, 0)
        extends_run = (
            first_id
            and links.readers[sender_id] == {box.id}
            and len(runs[first_id]) < MAX_RUN_LENGTH
        )
        if box.kind == "operator" and extends_run:
            runs[first_id].append(box)
            first_of_run[box.id] = first_id
        elif box.kind == "operator":
            first_of_run[box.id] = box.id
            runs[box.id] = [box]
    joined_boxes = [
        _build_run_box(runs[box_id]) if box_id in runs else boxes[box_id]
        for box_id in boxes
        if first_of_run.get(box_id, box_id) == box_id
    ]
    for number, first_id in first_of_run.items():
        if number != first_id:
            numbers.box_of_run[number] = first_id
    moved_wires = (
        replace(
            w,
            source=first_of_run.get(w.source, w.source),
            target=first_of_run.get(w.target, w.target),
        )
        for w in scene.wires
    )
    wires = dict.fromkeys(wire for wire in moved_wires if wire.source != wire.target)
    return Scene(tuple(joined_boxes), tuple(wires))


def _topological_order(scene: Scene, links: _Links) -> list[Box]:
    """Return the boxes in topological order. Boxes of cycles are last."""
    boxes = {box.id: box for box in scene.boxes}
    open_sources = {n: {s for s in links.sources[n] if s in boxes} for n in boxes}
    visitable_ids = [n for n, sources in open_sources.items() if not sources]
    order: list[Box] = []
    for number in visitable_ids:
        order.append(boxes[number])
        for reader in links.readers[number]:
            sources = open_sources.get(reader)
            if sources and number in sources:
                sources.discard(number)
                if not sources:
                    visitable_ids.append(reader)
    ordered_ids = {box.id for box in order}
    return order + [box for box in scene.boxes if box.id not in ordered_ids]


def _build_run_box(boxes: list[Box]) -> Box:
    """Build one box that represents a run of operators."""
    if len(boxes) == 1:
        return boxes[0]
    details = (detail for box in boxes for detail in (("operator", box.title), *box.details))
    titles = tuple(box.title for box in boxes)
    return replace(boxes[0], kind="run", title=titles[0], lines=titles[1:], details=tuple(details))
