"""Boxes of a page: the boxes of a scene with texts, and few enough to be readable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mdf_loop.drawing.page.groups import group_boxes
from mdf_loop.drawing.page.nodes import (
    MAX_FORMULA_LENGTH,
    MAX_PORT_LENGTH,
    MAX_TITLE_LENGTH,
    box_lines,
    input_text,
    node_details,
)
from mdf_loop.drawing.page.operator_chains import join_operators
from mdf_loop.drawing.page.scene import Box, Numbering, Port, Scene
from mdf_loop.drawing.scene import elements
from mdf_loop.drawing.scene.elements import Wire
from mdf_loop.drawing.scene.formulas import OwnFormula
from mdf_loop.drawing.scene.graphs import imported_operator
from mdf_loop.drawing.texts import block_name, describe_schedule, node_remarks
from mdf_loop.drawing.theme import MARKS
from mdf_loop.outline import (
    BranchOutline,
    ConditionalOutline,
    InputOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
)
from mdf_loop.outline.pseudocode import pseudocode
from mdf_loop.outline.text import shorten, shorten_name, value_text
from mdf_loop.outline.words import headline

MAX_TERMINAL_LENGTH, MAX_REMARK_LENGTH, MAX_FRAME_TITLE_LENGTH = 36, 44, 80
"""Maximum number of characters of a terminal's name, of its remark, and of a frame's title."""


def page_scene(scene: elements.Scene, numbering: Numbering, around: str = "") -> Scene:
    """Return the boxes and wires of a page for a scene inside a box of the kind `around`.

    Chains of operators become single boxes, and many boxes become groups.
    """
    wires = (
        Wire(wire.source, wire.target, wire.line_style, wire.label if wire.edge else "")
        for wire in scene.wires
        if wire.source != wire.target
    )
    boxes = tuple(_page_box(box, numbering) for box in scene.boxes)
    page_scene = Scene(boxes, tuple(dict.fromkeys(wires)))
    if around in ("owner", "choice"):
        return page_scene
    return group_boxes(join_operators(page_scene, numbering), numbering)


def _page_box(box: elements.Box, numbering: Numbering) -> Box:
    """Return the box of a page, with texts, ports and inner boxes."""
    ports = [
        tuple(None if port is None else _page_port(port, box.kind) for port in side)
        for side in (box.left_ports, box.right_ports)
    ]
    if box.kind == "node":
        ports[0] = tuple(
            Port(port.id, input_text(outline))
            for port, outline in zip(box.left_ports, box.outline.inputs, strict=True)
            if port is not None
        )
    inner_scene = box.scene if box.kind != "branch" else _sort_entry_wires(box)
    return replace(
        _described_box(box),
        path=box.path,
        left_ports=ports[0],
        right_ports=ports[1],
        inner_scene=inner_scene and page_scene(inner_scene, numbering, box.kind),
        back_wires=tuple(replace(wire, path="") for wire in box.back_wires),
    )


def _page_port(port: elements.Port, box_kind: str) -> Port:
    """Return the port of a page, with texts."""
    if port.terminal is None:
        name = "" if box_kind == "branch" else shorten_name(port.name, MAX_PORT_LENGTH)
        return Port(port.id, name, passes_value=box_kind != "node")
    return Port(
        port.id,
        shorten_name(port.terminal.name, MAX_TERMINAL_LENGTH),
        shorten(port.terminal.remark, MAX_REMARK_LENGTH),
        port.terminal.mark_kind,
        passes_value=port.terminal.mark_kind in ("captured", "join"),
    )


def _sort_entry_wires(branch: elements.Box) -> elements.Scene | None:
    """Return the scene of a branch, with the wires from each of its left ports next to each other."""
    entries = {port.id for port in branch.left_ports if port is not None}
    exits = {port.id for port in branch.right_ports if port is not None}

    def position(wire: elements.Wire) -> tuple[bool, int]:
        return wire.target in exits, wire.source if wire.source in entries else 0

    return branch.scene and replace(
        branch.scene, wires=tuple(sorted(branch.scene.wires, key=position))
    )


# --- texts ----------------------------------------------------------------------------------------


def _described_box(box: elements.Box) -> Box:
    """Return a box with title, remark, lines and details, but without ports and inner boxes."""
    outline: Any = box.outline
    match outline:
        case NodeOutline():
            return _node_box(box, outline)
        case OwnFormula():
            return _formula_box(box, outline)
        case InputOutline():
            default_text = (
                "" if outline.default is None else f" = {value_text(outline.default, 24)}"
            )
            return _pill_box(box, outline.name, outline.type, default_text)
        case OutputOutline() if box.kind == "passed":
            return _pill_box(box, outline.port_id, "passed through")
        case OutputOutline():
            return _pill_box(box, outline.name, outline.type)
        case BranchOutline():
            return _branch_box(box, outline)
        case _:
            return _block_box(box, outline)


def _node_box(box: elements.Box, node: NodeOutline) -> Box:
    """Return the box of a node with its texts."""
    title = shorten_name(node.id, MAX_TITLE_LENGTH)
    if box.kind == "constant":
        title += f" = {value_text(node.constant, 24)}"
    remarks = node_remarks(node) if box.kind in ("node", "owner") else ()
    return Box(
        box.id,
        box.kind,
        imported_operator(node) if box.kind == "operator" else title,
        " · ".join(shorten(text, MAX_FORMULA_LENGTH + 2) for _, text in remarks),
        tuple(box_lines(node)) if box.kind == "node" else (),
        details=tuple(node_details(node)),
    )


def _pill_box(box: elements.Box, title: str, remark: str, suffix: str = "") -> Box:
    """Return the pill-shaped box of a model's input or output, or of a value passed through."""
    return Box(
        box.id,
        box.kind,
        shorten_name(title, MAX_TITLE_LENGTH) + suffix,
        remark,
        details=(("id", title), *([("type", remark)] if remark else [])),
    )


def _formula_box(box: elements.Box, formula: OwnFormula) -> Box:
    """Return the box of a formula that a node computes outside of its loops and conditionals."""
    type_text = formula.definition.type
    return Box(
        box.id,
        box.kind,
        formula.id,
        lines=tuple(shorten(text, MAX_FORMULA_LENGTH) for text in formula.formula_texts),
        details=(
            *(("", text) for text in formula.formula_texts),
            *([("type", type_text)] if type_text else []),
        ),
    )


def _branch_box(box: elements.Box, branch: BranchOutline) -> Box:
    """Return the box of a branch with its texts."""
    return Box(
        box.id,
        box.kind,
        shorten(branch.title, MAX_FRAME_TITLE_LENGTH),
        details=(("id", branch.title), *(("note", note) for note in branch.notes)),
    )


def _block_box(box: elements.Box, block: LoopOutline | ConditionalOutline) -> Box:
    """Return the box of a loop or conditional with its texts."""
    return Box(
        box.id,
        box.kind,
        shorten(headline(block), MAX_FRAME_TITLE_LENGTH),
        block_name(block),
        details=tuple(_block_details(box, block)),
    )


def _block_details(
    box: elements.Box, block: LoopOutline | ConditionalOutline
) -> Iterator[tuple[str, str]]:
    """Yield (title, text) pairs about a loop or conditional, such as notes, terminals and pseudo-code."""
    yield "id", block.full_name
    yield from (("note", note) for note in block.notes)
    if isinstance(block, LoopOutline):
        yield from (("schedule", text) for text in describe_schedule(block))
    for row in zip(box.left_ports, box.right_ports, strict=True):
        for terminal in (port.terminal for port in row if port and port.terminal):
            text = " ".join(text for text in (terminal.name, terminal.remark) if text)
            yield MARKS[terminal.mark_kind].legend_text, text
    yield "code", "\n".join(pseudocode(block))
    if box.node is not None:
        yield from (detail for detail in node_details(box.node) if detail[0] != "id")
