"""Drawing of nodes that contain loops or conditionals, as frames connected with formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mdf_loop.drawing.canvas import (
    STRAIGHT_LINE_WEIGHT,
    Canvas,
    EdgeEnd,
    EdgeTarget,
    NodeConnections,
)
from mdf_loop.drawing.conditionals import draw_conditional
from mdf_loop.drawing.frames import Frame, GraphDrawer, draw_frame
from mdf_loop.drawing.labels import cell, row, stack_lines, style_text, table
from mdf_loop.drawing.nodes import draw_box, formula_cell, title_lines
from mdf_loop.drawing.scene.formulas import OwnFormula, own_formulas
from mdf_loop.drawing.theme import HEADER_COLOR, LINE_COLOR, NORMAL_FONT_SIZE, PAPER_COLOR
from mdf_loop.drawing.view import View
from mdf_loop.lower import names_in
from mdf_loop.outline import Block, ConditionalOutline, LoopOutline, NodeOutline
from mdf_loop.outline.loops import result_positions
from mdf_loop.outline.text import shorten, value_text
from mdf_loop.outline.words import closed_headline

Drawer: TypeAlias = Callable[[Canvas, Any, View, GraphDrawer], Frame]

BLOCK_DRAWERS: Mapping[type[Block], Drawer] = {
    LoopOutline: draw_frame,
    ConditionalOutline: draw_conditional,
}
"""Function that draws a block, by the class of the block's outline."""


def draw_owner(
    canvas: Canvas, node: NodeOutline, view: View, draw_graph: GraphDrawer
) -> NodeConnections:
    """Draw a node with loops or conditionals as frames, or as one box if the node is collapsed."""
    if not view.opens(node):
        return draw_box(canvas, node, [_closed_block_lines(block) for block in node.blocks])
    formulas = own_formulas(node)
    if len(node.blocks) == 1 and not formulas and not node.scheduler_condition:
        return _draw_frames_and_formulas(canvas, node, formulas, view, draw_graph)
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
        return _draw_frames_and_formulas(canvas, node, formulas, view, draw_graph)


def _closed_block_lines(block: Block) -> str:
    """Describe a closed loop or conditional in two lines: its headline, and its inputs and outputs."""
    source_text = ", ".join(value_text(expression, 24) for expression in block.source_expressions)
    result_text = ", ".join(port for result_ports in block.result_ports for port in result_ports)
    return stack_lines(
        style_text(closed_headline(block), size=NORMAL_FONT_SIZE),
        style_text(shorten(f"({source_text}) → ({result_text})", 80)),
    )


# --- drawing ----------------------------------------------------------------------------------


def _draw_frames_and_formulas(
    canvas: Canvas,
    node: NodeOutline,
    formulas: list[OwnFormula],
    view: View,
    draw_graph: GraphDrawer,
) -> NodeConnections:
    """Draw the frames and formulas of a node, and the edges between them."""
    frames = {
        block.id: BLOCK_DRAWERS[type(block)](canvas, block, view, draw_graph)
        for block in node.blocks
    }
    formula_ends, formula_targets = _draw_formulas(canvas, node, formulas, view)
    formula_table_names = tuple(
        dict.fromkeys(edge_end.node_name for edge_end in formula_ends.values())
    )
    first_dot_nodes = [frame.first_dot_node for frame in frames.values()]
    last_dot_nodes = [frame.last_dot_node for frame in frames.values()]
    connections = NodeConnections(
        first_dot_node=first_dot_nodes[0],
        last_dot_node=last_dot_nodes[-1],
        unanchored_dot_nodes=formula_table_names,
    )
    input_names = {port.id for port in node.inputs}
    for target in (
        *(frame_target for frame in frames.values() for frame_target in frame.edge_targets),
        *formula_targets,
    ):
        for name in sorted(
            {read_name for expression in target.expressions for read_name in names_in(expression)}
        ):
            if name in input_names:
                connections.inputs.setdefault(name, []).append(target)
            elif name in formula_ends:
                canvas.add_edge(formula_ends[name], target.edge_end, target.line_style, node.path)
            elif name not in frames:
                connections.targets_by_name.setdefault(name, []).append(target)
        _wire_results(canvas, node, target, frames)
    if len(frames) > 1:
        canvas.add_invisible_edge(first_dot_nodes[0], last_dot_nodes[-1], STRAIGHT_LINE_WEIGHT)
    for name in formula_table_names:
        if not canvas.has_edge(name):
            canvas.add_invisible_edge(first_dot_nodes[0], name)
            canvas.add_invisible_edge(name, last_dot_nodes[-1])
    connections.outputs = _source_ends(node, formulas, frames, formula_ends, connections)
    return connections


def _wire_results(
    canvas: Canvas, node: NodeOutline, target: EdgeTarget, frames: dict[str, Frame]
) -> None:
    """Draw edges to `target` from the results of loops and conditionals that it reads."""
    for block_id, frame in frames.items():
        for expression in target.expressions:
            for k in result_positions(expression, block_id):
                result_ends = frame.result_ends if k is None else frame.result_ends[k : k + 1]
                for end in result_ends:
                    canvas.add_edge(end, target.edge_end, target.line_style, node.path)


def _draw_formulas(
    canvas: Canvas, node: NodeOutline, formulas: list[OwnFormula], view: View
) -> tuple[dict[str, EdgeEnd], list[EdgeTarget]]:
    """Draw tables of a node's formulas that are computed before, between and after its frames."""
    stage_by_formula_id = _formula_stages(node, formulas)
    input_side, output_side = canvas.direction.enter_side, canvas.direction.leave_side
    formula_ends: dict[str, EdgeEnd] = {}
    formula_targets: list[EdgeTarget] = []
    for stage in sorted(set(stage_by_formula_id.values())):
        table_name = canvas.unused_name(node.id, "formulas")
        table_rows = [row([cell(style_text(node.id), BGCOLOR=HEADER_COLOR)])]
        for k, formula in enumerate(
            stage_formula
            for stage_formula in formulas
            if stage_by_formula_id[stage_formula.id] == stage
        ):
            table_rows += [
                row([formula_cell(text, formula.definition.type, view.detail, f"f{k}")])
                for text in formula.formula_texts
            ]
            formula_ends[formula.id] = EdgeEnd(table_name, f"f{k}", output_side)
            formula_targets.append(
                EdgeTarget(EdgeEnd(table_name, f"f{k}", input_side), "data", formula.expressions)
            )
        canvas.add_node(
            table_name,
            table(table_rows, BORDER=1, COLOR=LINE_COLOR, BGCOLOR=PAPER_COLOR, CELLPADDING=4),
            "node",
            node.path,
        )
    return formula_ends, formula_targets


def _formula_stages(node: NodeOutline, formulas: list[OwnFormula]) -> dict[str, int]:
    """Return the number of loops and conditionals on the longest path to each formula."""
    formulas_by_id = {formula.id: formula for formula in formulas}
    blocks = {block.id: block for block in node.blocks}
    stage_by_name: dict[str, int] = {}

    def stage(name: str, visiting: frozenset[str]) -> int:
        if name in visiting:
            return 0
        if name not in stage_by_name:
            visited_names = visiting | {name}
            if name in blocks:
                stage_by_name[name] = 1 + max(
                    (stage(read_name, visited_names) for read_name in _names_read(blocks[name])),
                    default=0,
                )
            elif name in formulas_by_id:
                stage_by_name[name] = max(
                    (
                        stage(read_name, visited_names)
                        for read_name in formulas_by_id[name].names_read
                    ),
                    default=0,
                )
            else:
                return 0
        return stage_by_name[name]

    return {formula.id: stage(formula.id, frozenset()) for formula in formulas}


def _names_read(block: Block) -> set[str]:
    """Return the names that a loop or conditional reads in its expressions or captures from its node."""
    expressions = [*block.expressions, *(capture.name for capture in block.captures)]
    return {name for expression in expressions for name in names_in(expression)}


def _source_ends(
    node: NodeOutline,
    formulas: list[OwnFormula],
    frames: dict[str, Frame],
    ends: dict[str, EdgeEnd],
    connections: NodeConnections,
) -> dict[str, EdgeEnd]:
    """Return the point at which the edges from each output port of a node start."""
    source_ends = {formula.id: ends[formula.id] for formula in formulas if formula.is_port}
    for block in node.blocks:
        for end, ports in zip(frames[block.id].result_ends, block.result_ports, strict=True):
            source_ends.update(dict.fromkeys(ports, end))
    for loop in node.loops:
        for report in loop.reports:
            source_ends.update(
                dict.fromkeys(report.ports, frames[loop.id].report_ends[report.name])
            )
    for port in node.outputs:
        if (
            port.id not in source_ends
            and isinstance(port.value, str)
            and port.value.strip() in ends
        ):
            source_ends[port.id] = ends[port.value.strip()]
    return source_ends
