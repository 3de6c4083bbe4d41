"""A node that owns graphs: one frame, or a box around its frames and its formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mdf_loop.drawing.formulas import OwnFormula, own_formulas
from mdf_loop.drawing.page.ends import End, Ends, Numbers, Pins
from mdf_loop.drawing.page.frames import Frame, GraphMaker
from mdf_loop.drawing.page.nodes import FORMULA, PORT, TITLE, node_details, remarks
from mdf_loop.drawing.page.scene import Box, Pin, Scene, Wire
from mdf_loop.lower import names_in
from mdf_loop.outline import NodeOutline
from mdf_loop.outline.loops import result_positions
from mdf_loop.outline.text import shorten, shorten_name

Reader = tuple[int, str, tuple[Any, ...]]
"""A place that reads expressions: its number, its stroke, what it reads."""


def owner_box(
    node: NodeOutline,
    outer: frozenset[str],
    numbers: Numbers,
    maker: GraphMaker,
) -> tuple[Box, Ends]:
    """The box of a node with blocks: the frame itself where there is nothing beside it.

    `outer` are the names that it reads from around its graph.
    """
    found = own_formulas(node)
    frames = {block.id: Frame(block, numbers) for block in node.blocks}
    if len(frames) == 1 and not found and not node.condition:
        (frame,) = frames.values()
        return _alone(node, frame, maker)
    known = outer | {port.id for port in node.inputs}
    return _around(node, frames, found, known, numbers, maker)


def _alone(node: NodeOutline, frame: Frame, maker: GraphMaker) -> tuple[Box, Ends]:
    box = frame.box(maker)
    box = replace(box, details=(*box.details, *_without_id(node)))
    ends = Ends(box.id, outputs=_ports(frame))
    known = {port.id for port in node.inputs}
    for number, kind, expressions in _readers(frame):
        for name in _names(expressions):
            into = ends.inputs if name in known else ends.reads
            into.setdefault(name, []).append((number, kind))
    return box, ends


def _without_id(node: NodeOutline) -> Iterator[tuple[str, str]]:
    return (said for said in node_details(node) if said[0] != "id")


def _around(
    node: NodeOutline,
    frames: dict[str, Frame],
    found: list[OwnFormula],
    known: frozenset[str],
    numbers: Numbers,
    maker: GraphMaker,
) -> tuple[Box, Ends]:
    boxes = {formula.id: _formula_box(formula, numbers) for formula in found}
    readers: list[Reader] = [
        (boxes[formula.id].id, "data", formula.expressions) for formula in found
    ]
    for frame in frames.values():
        readers += _readers(frame)
    wires, outside = _inner_wires(node, frames, boxes, readers)
    pins, ends = Pins(numbers), Ends(numbers.next())
    inputs = {port.id for port in node.inputs}
    for name in (name for name in outside if name in known):
        entry = pins.enter(name, outside[name], Pin(0, shorten_name(name, PORT)))
        (ends.inputs if name in inputs else ends.reads)[name] = [entry]
    for port, source in _outputs(node, frames, found, boxes).items():
        ends.outputs[port] = pins.leave(port, source, Pin(0, shorten_name(port, PORT)))
    inner = (*boxes.values(), *(frame.box(maker) for frame in frames.values()))
    box = Box(
        id=ends.whole,
        kind="owner",
        title=shorten_name(node.id, TITLE),
        below=remarks(node),
        inner=Scene(inner, (*wires, *pins.wires)),
        details=tuple(node_details(node)),
        path=node.path,
        left=tuple(pins.left.values()),
        right=tuple(pins.right.values()),
    )
    return box, ends


def _formula_box(formula: OwnFormula, numbers: Numbers) -> Box:
    kind = formula.item.type
    return Box(
        id=numbers.next(),
        kind="formula",
        title=formula.id,
        lines=tuple(shorten(text, FORMULA) for text in formula.texts),
        details=(
            *(("", text) for text in formula.texts),
            *((("type", kind),) if kind else ()),
        ),
        path=formula.item.path,
    )


def _readers(frame: Frame) -> list[Reader]:
    return [
        (frame.left[entry.key].id, entry.kind, entry.expressions)
        for entry in frame.terminals.takes
        if entry.key in frame.left
    ]


def _names(expressions: tuple[Any, ...]) -> list[str]:
    return sorted({name for text in expressions for name in names_in(text)})


def _inner_wires(
    node: NodeOutline,
    frames: dict[str, Frame],
    boxes: dict[str, Box],
    readers: list[Reader],
) -> tuple[list[Wire], dict[str, list[End]]]:
    """Wires between formulas and frames; and by name where values arrive from outside."""
    wires: list[Wire] = []
    outside: dict[str, list[End]] = {}
    inputs = {port.id for port in node.inputs}
    for number, kind, expressions in readers:
        for name in _names(expressions):
            if name in boxes and name not in inputs and boxes[name].id != number:
                wires.append(Wire(boxes[name].id, number, kind))
            elif name not in frames:
                outside.setdefault(name, []).append((number, kind))
        for block, frame in frames.items():
            positions = {k for text in expressions for k in result_positions(text, block)}
            wires += [Wire(end, number, kind) for end in _results(frame, positions)]
    return wires, outside


def _results(frame: Frame, positions: set[int | None]) -> list[int]:
    keys = frame.terminals.results
    chosen = keys if None in positions else [keys[k] for k in positions if k and k < len(keys)]
    if None not in positions and 0 in positions and keys:
        chosen = [keys[0], *chosen]
    return [frame.right[key].id for key in chosen if key in frame.right]


def _ports(frame: Frame) -> dict[str, int]:
    given = frame.terminals.ports.items()
    return {port: frame.right[key].id for port, key in given if key in frame.right}


def _outputs(
    node: NodeOutline, frames: dict[str, Frame], found: list[OwnFormula], boxes: dict[str, Box]
) -> dict[str, int]:
    """Where each output port of the node comes from."""
    outputs = {formula.id: boxes[formula.id].id for formula in found if formula.is_port}
    for frame in frames.values():
        outputs |= _ports(frame)
    for port in node.outputs:
        written = port.value.strip() if isinstance(port.value, str) else ""
        if port.id not in outputs and written in boxes:
            outputs[port.id] = boxes[written].id
    return outputs
