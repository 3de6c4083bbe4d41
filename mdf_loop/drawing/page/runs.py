"""Imported operators: a linear run as one box, and what depends on no input inside its only reader.

Mul -> Add -> Relu          one box of three lines
Constant -> Reshape -> Add  Add alone, the others among its details
"""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from mdf_loop.drawing.page.ends import Numbers
from mdf_loop.drawing.page.scene import Box, Scene

LONGEST = 8
"""Operators in one box."""


def joined(scene: Scene, numbers: Numbers) -> Scene:
    """The scene with runs of operators as one box."""
    return _runs(_folded(scene), numbers)


class _Links:
    """Which boxes each box is wired to, by number."""

    def __init__(self, scene: Scene) -> None:
        self.owner = {end: box.id for box in scene.boxes for end in box.ends}
        self.readers: dict[int, set[int]] = defaultdict(set)
        self.sources: dict[int, set[int]] = defaultdict(set)
        for wire in scene.wires:
            source = self.owner.get(wire.source, -wire.source)
            target = self.owner.get(wire.target, -wire.target)
            self.readers[source].add(target)
            self.sources[target].add(source)


def _folded(scene: Scene) -> Scene:
    """Without the operators that depend on no input and have one reader."""
    links = _Links(scene)
    boxes = {box.id: box for box in scene.boxes}
    waiting = [
        box.id for box in scene.boxes if box.kind == "operator" and not links.sources[box.id]
    ]
    while waiting:
        number = waiting.pop()
        readers = links.readers[number]
        (reader,) = readers if len(readers) == 1 else (0,)
        if reader not in boxes or boxes[reader].kind != "operator":
            continue
        gone = boxes.pop(number)
        said = (("from constants", gone.title), *gone.details)
        boxes[reader] = replace(boxes[reader], details=(*boxes[reader].details, *said))
        links.sources[reader].discard(number)
        if not links.sources[reader]:
            waiting.append(reader)
    kept = {end for box in boxes.values() for end in box.ends}
    lost = {end for box in scene.boxes for end in box.ends} - kept
    wires = (wire for wire in scene.wires if not {wire.source, wire.target} & lost)
    return Scene(tuple(boxes.values()), tuple(wires))


def _runs(scene: Scene, numbers: Numbers) -> Scene:
    links = _Links(scene)
    boxes = {box.id: box for box in scene.boxes}
    head: dict[int, int] = {}
    runs: dict[int, list[Box]] = {}
    for box in _in_order(scene, links):
        before = next(iter(links.sources[box.id]), 0) if len(links.sources[box.id]) == 1 else 0
        first = head.get(before, 0)
        follows = first and links.readers[before] == {box.id} and len(runs[first]) < LONGEST
        if box.kind == "operator" and follows:
            runs[first].append(box)
            head[box.id] = first
        elif box.kind == "operator":
            head[box.id] = box.id
            runs[box.id] = [box]
    made = [_run(runs[n]) if n in runs else boxes[n] for n in boxes if head.get(n, n) == n]
    for number, first in head.items():
        if number != first:
            numbers.moved[number] = first
    moved = (
        replace(w, source=head.get(w.source, w.source), target=head.get(w.target, w.target))
        for w in scene.wires
    )
    wires = dict.fromkeys(wire for wire in moved if wire.source != wire.target)
    return Scene(tuple(made), tuple(wires))


def _in_order(scene: Scene, links: _Links) -> list[Box]:
    """Boxes so that a source comes before its readers where there is no circle."""
    boxes = {box.id: box for box in scene.boxes}
    left = {n: {s for s in links.sources[n] if s in boxes} for n in boxes}
    ready = [n for n, sources in left.items() if not sources]
    order: list[Box] = []
    for number in ready:
        order.append(boxes[number])
        for reader in links.readers[number]:
            sources = left.get(reader)
            if sources and number in sources:
                sources.discard(number)
                if not sources:
                    ready.append(reader)
    seen = {box.id for box in order}
    return order + [box for box in scene.boxes if box.id not in seen]


def _run(boxes: list[Box]) -> Box:
    if len(boxes) == 1:
        return boxes[0]
    details = (said for box in boxes for said in (("operator", box.title), *box.details))
    titles = tuple(box.title for box in boxes)
    return replace(boxes[0], kind="run", title=titles[0], lines=titles[1:], details=tuple(details))
