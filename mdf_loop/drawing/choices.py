"""Drawing of choices (If, case_of) as frames with an inner frame for each branch.

Frames of choices have square corners and another colour than loops, and no back edges.
"""

from __future__ import annotations

from mdf_loop.drawing.canvas import Canvas, EdgeTarget, End, NodeConnections
from mdf_loop.drawing.frames import (
    Frame,
    GraphDrawer,
    block_name,
    draw_placeholder,
    frame_title,
    keep_body_between_rails,
    longest_chain_ends,
    rail_title,
    straighten,
    wire_inputs,
)
from mdf_loop.drawing.labels import bold_text, small_text, stack_lines, style_text
from mdf_loop.drawing.rails import Rail, choice_rows, draw_rails
from mdf_loop.drawing.theme import (
    BRANCH_FILL_COLOR,
    CHOICE_FILL_COLOR,
    CHOICE_LINE_COLOR,
    PAPER_COLOR,
    REMARK_COLOR,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import BranchOutline, ChoiceOutline


def draw_choice(
    canvas: Canvas, choice: ChoiceOutline, view: View, draw_graph: GraphDrawer
) -> Frame:
    """Draw a choice (If or case_of) as a frame with one inner frame for each branch."""
    with canvas.cluster(
        canvas.name(choice.owner, choice.id),
        frame_title(canvas, choice, [block_name(choice)]),
        "choice",
        choice.path,
        style="filled",
        pencolor=CHOICE_LINE_COLOR,
        fillcolor=CHOICE_FILL_COLOR,
        penwidth="1.6",
        margin="12",
    ):
        rows = choice_rows(choice, view.detail, view.shows_captures)
        left_rail, right_rail = draw_rails(
            canvas, choice, rows, rail_title(choice, [block_name(choice)])
        )
        chain_ends_of_branches = [
            _draw_branch(canvas, choice, branch, view, draw_graph, left_rail, right_rail)
            for branch in canvas.direction.stacking_order(choice.branches)
        ]
        canvas.keep_side_by_side([chain_ends[0][0] for chain_ends in chain_ends_of_branches])
        if chain_ends_of_branches:
            straighten(
                canvas,
                left_rail.name,
                right_rail.name,
                chain_ends_of_branches[len(chain_ends_of_branches) // 2],
            )
    edge_targets = [EdgeTarget(left_rail.outer("c"), "data", tuple(choice.expressions))]
    edge_targets += [
        EdgeTarget(left_rail.outer(f"o{k}"), "capture", (capture.name,))
        for k, capture in enumerate(choice.captures)
    ]
    return Frame(
        first_name=left_rail.name,
        last_name=right_rail.name,
        edge_targets=tuple(edge_targets),
        result_ends=tuple(right_rail.outer(f"r{k}") for k in range(len(choice.joins))),
        report_ends={},
    )


def _draw_branch(
    canvas: Canvas,
    choice: ChoiceOutline,
    branch: BranchOutline,
    view: View,
    draw_graph: GraphDrawer,
    left_rail: Rail,
    right_rail: Rail,
) -> list[tuple[str, str]]:
    """Draw the frame of one branch of a choice.

    Return the first and the last drawn node of each node in its longest chain.

    The edges between branch and rails are drawn outside of the frame.
    """
    visible_body = branch.body if view.detail.shows_bodies else None
    with canvas.cluster(
        canvas.name(choice.owner, choice.id, branch.title),
        bold_text(branch.title),
        "branch",
        choice.path if branch.body is None else branch.body.path,
        style="filled",
        pencolor=CHOICE_LINE_COLOR,
        fillcolor=BRANCH_FILL_COLOR,
        penwidth="1",
        margin="10",
    ):
        connections = (
            draw_graph(canvas, visible_body, view.inner()) if visible_body is not None else {}
        )
        pills = (
            _draw_pass_through(canvas, choice, branch)
            if visible_body or branch.body is None
            else {}
        )
        placeholder_name = (
            "" if connections or pills else draw_placeholder(canvas, choice, branch.body)
        )
    chain_ends = [(pill, pill) for pill in [placeholder_name, *pills.values()] if pill][:1]
    if placeholder_name:
        _keep_between_rails(canvas, left_rail, placeholder_name, right_rail)
    if visible_body is not None and connections:
        wire_inputs(canvas, _terminals_by_name(choice), visible_body, connections, left_rail)
        chain_ends = longest_chain_ends(
            visible_body,
            keep_body_between_rails(
                canvas, left_rail.name, right_rail.name, visible_body, connections
            ),
            connections,
        )
    _wire_outputs(canvas, choice, branch, connections, pills, left_rail, right_rail)
    return chain_ends


def _terminals_by_name(choice: ChoiceOutline) -> dict[str, tuple[str, str]]:
    """Return the input terminal's key and the edge stroke of each value that the branches capture."""
    return {capture.name: (f"o{k}", "capture") for k, capture in enumerate(choice.captures)}


def _draw_pass_through(
    canvas: Canvas, choice: ChoiceOutline, branch: BranchOutline
) -> dict[str, str]:
    """Draw a pill-shaped node for each value that a branch returns unchanged."""
    pills: dict[str, str] = {}
    for output in branch.outputs:
        if output.node is None and output.port and output.port not in pills:
            pill_name = canvas.name(choice.owner, choice.id, branch.title, output.port)
            pills[output.port] = pill_name
            canvas.node(
                pill_name,
                stack_lines(style_text(output.port, tag="I"), small_text("passed through")),
                "passed",
                output.path,
                shape="box",
                style="rounded,filled",
                fillcolor=PAPER_COLOR,
                color=REMARK_COLOR,
                margin="0.1,0.04",
                height="0.3",
            )
    return pills


def _wire_outputs(
    canvas: Canvas,
    choice: ChoiceOutline,
    branch: BranchOutline,
    connections: dict[str, NodeConnections],
    pills: dict[str, str],
    left_rail: Rail,
    right_rail: Rail,
) -> None:
    """Draw edges from the outputs of a branch to the results of the choice."""
    for pill_name in pills.values():
        _keep_between_rails(canvas, left_rail, pill_name, right_rail)
    terminals = _terminals_by_name(choice)
    for k, output in enumerate(branch.outputs):
        if output.node in connections:
            node_ends = connections[output.node]
            source_end = node_ends.outputs.get(output.port, node_ends.node_output)
        elif output.port in pills:
            source_end = End(pills[output.port])
            if output.port in terminals:
                terminal_key, stroke = terminals[output.port]
                canvas.edge(left_rail.inner(terminal_key), source_end, stroke, output.path)
        else:
            continue
        canvas.edge(source_end, right_rail.inner(f"r{k}"), "data", f"{output.path} {k}")


def _keep_between_rails(canvas: Canvas, left_rail: Rail, name: str, right_rail: Rail) -> None:
    """Draw invisible edges that keep a node between the input and the output side of its frame."""
    canvas.add_invisible_edge(left_rail.name, name)
    canvas.add_invisible_edge(name, right_rail.name)
