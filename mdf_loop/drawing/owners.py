"""A node that owns graphs: its frames, and the formulas before, between and after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mdf_loop.drawing.canvas import STRAIGHT, Arrival, Canvas, End, Wires
from mdf_loop.drawing.choices import draw_choice
from mdf_loop.drawing.formulas import OwnFormula, own_formulas
from mdf_loop.drawing.frames import Frame, GraphDrawer, draw_frame
from mdf_loop.drawing.labels import cell, lines, row, styled, table
from mdf_loop.drawing.nodes import draw_box, formula_cell, title
from mdf_loop.drawing.theme import HEADER, LINE, NORMAL, PAPER
from mdf_loop.drawing.view import View
from mdf_loop.lower import names_in
from mdf_loop.outline import Block, ChoiceOutline, LoopOutline, NodeOutline
from mdf_loop.outline.loops import result_positions
from mdf_loop.outline.text import shorten, value_text
from mdf_loop.outline.words import closed_headline

Drawer: TypeAlias = Callable[[Canvas, Any, View, GraphDrawer], Frame]

ELEMENTS: Mapping[type[Block], Drawer] = {LoopOutline: draw_frame, ChoiceOutline: draw_choice}
"""What owns graphs, as its outline -> what draws it."""


def draw_owner(canvas: Canvas, node: NodeOutline, view: View, draw_graph: GraphDrawer) -> Wires:
    """Draw a node that owns graphs, as one box if the view does not open it."""
    if not view.opens(node):
        return draw_box(canvas, node, [_signature(block) for block in node.blocks])
    formulas_ = own_formulas(node)
    if len(node.blocks) == 1 and not formulas_ and not node.condition:
        return _draw_parts(canvas, node, formulas_, view, draw_graph)
    name = canvas.name(node.id)
    with canvas.cluster(
        name,
        lines(*title(node, canvas), align="LEFT"),
        "node",
        node.path,
        style="rounded",
        pencolor=LINE,
        margin="12",
    ):
        return _draw_parts(canvas, node, formulas_, view, draw_graph)


def _signature(block: Block) -> str:
    """`for i in range(M=10)` and `(b) → (b_final, values)` on two lines."""
    given = ", ".join(value_text(name, 24) for name in block.source_expressions)
    named = ", ".join(port for ports in block.result_ports for port in ports)
    return lines(
        styled(closed_headline(block), size=NORMAL), styled(shorten(f"({given}) → ({named})", 80))
    )


# --- drawing ----------------------------------------------------------------------------------


def _draw_parts(
    canvas: Canvas,
    node: NodeOutline,
    found: list[OwnFormula],
    view: View,
    draw_graph: GraphDrawer,
) -> Wires:
    frames = {
        block.id: ELEMENTS[type(block)](canvas, block, view, draw_graph) for block in node.blocks
    }
    ends, entries = _draw_formulas(canvas, node, found, view)
    tables = tuple(dict.fromkeys(end.name for end in ends.values()))
    ports = [frame.first for frame in frames.values()]
    lasts = [frame.last for frame in frames.values()]
    wires = Wires(first=ports[0], last=lasts[-1], loose=tables)
    known = {part.id for part in node.inputs}
    for entry in (*(e for frame in frames.values() for e in frame.reads), *entries):
        for name in sorted({n for text in entry.expressions for n in names_in(text)}):
            if name in known:
                wires.inputs.setdefault(name, []).append(entry)
            elif name in ends:
                canvas.edge(ends[name], entry.end, entry.kind, node.path)
            elif name not in frames:
                wires.reads.setdefault(name, []).append(entry)
        _wire_results(canvas, node, entry, frames)
    if len(frames) > 1:
        canvas.hold(ports[0], lasts[-1], STRAIGHT)
    for name in tables:
        if not canvas.joined(name):
            canvas.hold(ports[0], name)
            canvas.hold(name, lasts[-1])
    wires.outputs = _outputs(node, found, frames, ends, wires)
    return wires


def _wire_results(
    canvas: Canvas, node: NodeOutline, entry: Arrival, frames: dict[str, Frame]
) -> None:
    """Edges from the results of frames that an expression reads."""
    for block_id, frame in frames.items():
        for text in entry.expressions:
            for k in result_positions(text, block_id):
                results = frame.results if k is None else frame.results[k : k + 1]
                for end in results:
                    canvas.edge(end, entry.end, entry.kind, node.path)


def _draw_formulas(
    canvas: Canvas, node: NodeOutline, found: list[OwnFormula], view: View
) -> tuple[dict[str, End], list[Arrival]]:
    """One small table for the formulas of each stage; a stage ends where a frame must run first."""
    stages = _stages(node, found)
    enter, leave = canvas.direction.enter, canvas.direction.leave
    ends: dict[str, End] = {}
    entries: list[Arrival] = []
    for stage in sorted(set(stages.values())):
        name = canvas.name(node.id, "formulas")
        rows = [row([cell(styled(node.id), BGCOLOR=HEADER)])]
        for k, formula in enumerate(f for f in found if stages[f.id] == stage):
            rows += [
                row([formula_cell(text, formula.item.type, view.detail, f"f{k}")])
                for text in formula.texts
            ]
            ends[formula.id] = End(name, f"f{k}", leave)
            entries.append(Arrival(End(name, f"f{k}", enter), "data", formula.expressions))
        canvas.node(
            name,
            table(rows, BORDER=1, COLOR=LINE, BGCOLOR=PAPER, CELLPADDING=4),
            "node",
            node.path,
        )
    return ends, entries


def _stages(node: NodeOutline, found: list[OwnFormula]) -> dict[str, int]:
    """How many frames stand before each formula on the longest way to it."""
    by_id = {formula.id: formula for formula in found}
    blocks = {block.id: block for block in node.blocks}
    known: dict[str, int] = {}

    def stage(name: str, visiting: frozenset[str]) -> int:
        if name in visiting:
            return 0
        if name not in known:
            inner = visiting | {name}
            if name in blocks:
                known[name] = 1 + max((stage(n, inner) for n in _reads(blocks[name])), default=0)
            elif name in by_id:
                known[name] = max((stage(n, inner) for n in by_id[name].reads), default=0)
            else:
                return 0
        return known[name]

    return {formula.id: stage(formula.id, frozenset()) for formula in found}


def _reads(block: Block) -> set[str]:
    texts = [*block.expressions, *(capture.name for capture in block.captures)]
    return {name for text in texts for name in names_in(text)}


def _outputs(
    node: NodeOutline,
    found: list[OwnFormula],
    frames: dict[str, Frame],
    ends: dict[str, End],
    wires: Wires,
) -> dict[str, End]:
    """Where each output port of the node leaves."""
    outputs = {f.id: ends[f.id] for f in found if f.is_port}
    for block in node.blocks:
        for end, ports in zip(frames[block.id].results, block.result_ports, strict=True):
            outputs.update(dict.fromkeys(ports, end))
    for loop in node.loops:
        for told in loop.results:
            outputs.update(dict.fromkeys(told.ports, frames[loop.id].named[told.name]))
    for port in node.outputs:
        if port.id not in outputs and isinstance(port.value, str) and port.value.strip() in ends:
            outputs[port.id] = ends[port.value.strip()]
    return outputs
