"""Drawing of conditionals (If, case_of) as frames with an inner frame for each branch.

Frames of conditionals have square corners and another colour than loops, and no back edges.
"""

from __future__ import annotations

from mdf_loop.drawing.canvas import Canvas, EdgeEnd, EdgeTarget, NodeConnections
from mdf_loop.drawing.frames import (
    Frame,
    GraphDrawer,
    block_name,
    draw_placeholder,
    frame_title,
    keep_body_between_tables,
    longest_path_ends,
    straighten,
    wire_inputs,
    wrap_frame_title,
)
from mdf_loop.drawing.labels import bold_text, small_text, stack_lines, style_text
from mdf_loop.drawing.terminal_tables import (
    TerminalTable,
    draw_terminal_tables,
    shown_rows,
)
from mdf_loop.drawing.theme import (
    BRANCH_FILL_COLOR,
    CONDITIONAL_FILL_COLOR,
    CONDITIONAL_LINE_COLOR,
    PAPER_COLOR,
    REMARK_COLOR,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import BranchOutline, ConditionalOutline


def draw_conditional(
    canvas: Canvas, conditional: ConditionalOutline, view: View, draw_graph: GraphDrawer
) -> Frame:
    """Draw a conditional (If or case_of) as a frame with one inner frame for each branch."""
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
        terminal_rows = shown_rows(conditional, view)
        input_table, output_table = draw_terminal_tables(
            canvas,
            conditional,
            terminal_rows,
            wrap_frame_title(conditional, [block_name(conditional)]),
        )
        path_ends_of_branches = [
            _draw_branch(canvas, conditional, branch, view, draw_graph, input_table, output_table)
            for branch in canvas.direction.stacking_order(conditional.branches)
        ]
        canvas.keep_side_by_side([path_ends[0][0] for path_ends in path_ends_of_branches])
        if path_ends_of_branches:
            straighten(
                canvas,
                input_table.name,
                output_table.name,
                path_ends_of_branches[len(path_ends_of_branches) // 2],
            )
    edge_targets = [EdgeTarget(input_table.outer_end("c"), "data", tuple(conditional.expressions))]
    edge_targets += [
        EdgeTarget(input_table.outer_end(f"o{k}"), "capture", (capture.name,))
        for k, capture in enumerate(conditional.captures)
    ]
    return Frame(
        first_dot_node=input_table.name,
        last_dot_node=output_table.name,
        edge_targets=tuple(edge_targets),
        result_ends=tuple(
            output_table.outer_end(f"r{k}") for k in range(len(conditional.joined_results))
        ),
        report_ends={},
    )


def _draw_branch(
    canvas: Canvas,
    conditional: ConditionalOutline,
    branch: BranchOutline,
    view: View,
    draw_graph: GraphDrawer,
    input_table: TerminalTable,
    output_table: TerminalTable,
) -> list[tuple[str, str]]:
    """Draw the frame of one branch of a conditional.

    Return the first and the last drawn node of each node in its longest chain.

    The edges between the branch and the conditional's terminals are drawn outside of the frame.
    """
    visible_body = branch.body if view.detail.shows_bodies else None
    with canvas.cluster(
        canvas.unused_name(conditional.owner_id, conditional.id, branch.title),
        bold_text(branch.title),
        "branch",
        conditional.path if branch.body is None else branch.body.path,
        style="filled",
        pencolor=CONDITIONAL_LINE_COLOR,
        fillcolor=BRANCH_FILL_COLOR,
        penwidth="1",
        margin="10",
    ):
        connections = (
            draw_graph(canvas, visible_body, view.inside_frame())
            if visible_body is not None
            else {}
        )
        pill_name_by_value = (
            _draw_pass_through(canvas, conditional, branch)
            if visible_body or branch.body is None
            else {}
        )
        placeholder_name = (
            ""
            if connections or pill_name_by_value
            else draw_placeholder(canvas, conditional, branch.body)
        )
    path_ends = [(pill, pill) for pill in [placeholder_name, *pill_name_by_value.values()] if pill][
        :1
    ]
    if placeholder_name:
        _keep_between_tables(canvas, input_table, placeholder_name, output_table)
    if visible_body is not None and connections:
        wire_inputs(canvas, _terminals_by_name(conditional), visible_body, connections, input_table)
        path_ends = longest_path_ends(
            visible_body,
            keep_body_between_tables(
                canvas, input_table.name, output_table.name, visible_body, connections
            ),
            connections,
        )
    _wire_outputs(
        canvas, conditional, branch, connections, pill_name_by_value, input_table, output_table
    )
    return path_ends


def _terminals_by_name(conditional: ConditionalOutline) -> dict[str, tuple[str, str]]:
    """Map each captured name to the key of a drawn input and the style of its edges."""
    return {capture.name: (f"o{k}", "capture") for k, capture in enumerate(conditional.captures)}


def _draw_pass_through(
    canvas: Canvas, conditional: ConditionalOutline, branch: BranchOutline
) -> dict[str, str]:
    """Draw a pill-shaped node for each value that a branch returns unchanged."""
    pill_name_by_value: dict[str, str] = {}
    for output in branch.outputs:
        if output.node_id is None and output.port_id and output.port_id not in pill_name_by_value:
            pill_name = canvas.unused_name(
                conditional.owner_id, conditional.id, branch.title, output.port_id
            )
            pill_name_by_value[output.port_id] = pill_name
            canvas.add_node(
                pill_name,
                stack_lines(style_text(output.port_id, tag="I"), small_text("passed through")),
                "passed",
                output.path,
                shape="box",
                style="rounded,filled",
                fillcolor=PAPER_COLOR,
                color=REMARK_COLOR,
                margin="0.1,0.04",
                height="0.3",
            )
    return pill_name_by_value


def _wire_outputs(
    canvas: Canvas,
    conditional: ConditionalOutline,
    branch: BranchOutline,
    connections: dict[str, NodeConnections],
    pill_name_by_value: dict[str, str],
    input_table: TerminalTable,
    output_table: TerminalTable,
) -> None:
    """Draw edges from the outputs of a branch to the results of the conditional."""
    for pill_name in pill_name_by_value.values():
        _keep_between_tables(canvas, input_table, pill_name, output_table)
    terminals = _terminals_by_name(conditional)
    for k, output in enumerate(branch.outputs):
        if output.node_id in connections:
            node_connections = connections[output.node_id]
            source_end = node_connections.outputs.get(output.port_id, node_connections.node_output)
        elif output.port_id in pill_name_by_value:
            source_end = EdgeEnd(pill_name_by_value[output.port_id])
            if output.port_id in terminals:
                terminal_key, line_style = terminals[output.port_id]
                canvas.add_edge(
                    input_table.inner_end(terminal_key), source_end, line_style, output.path
                )
        else:
            continue
        canvas.add_edge(source_end, output_table.inner_end(f"r{k}"), "data", f"{output.path} {k}")


def _keep_between_tables(
    canvas: Canvas, input_table: TerminalTable, name: str, output_table: TerminalTable
) -> None:
    """Add invisible edges that keep a node between the inputs and the outputs of its frame."""
    canvas.add_invisible_edge(input_table.name, name)
    canvas.add_invisible_edge(name, output_table.name)
