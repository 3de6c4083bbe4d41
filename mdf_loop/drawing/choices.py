"""A choice as a frame: one frame per branch inside of it, whose outputs join at the right rail.

Frames of choices have corners and another colour than loops, and no back edges.
"""

from __future__ import annotations

from mdf_loop.drawing.canvas import Arrival, Canvas, End, Wires
from mdf_loop.drawing.frames import (
    Frame,
    GraphDrawer,
    block_name,
    frame_title,
    hold_body,
    line_of,
    placeholder,
    rail_title,
    straighten,
    wire_inputs,
)
from mdf_loop.drawing.labels import bold, lines, small, styled
from mdf_loop.drawing.rails import Rail, choice_rows, draw_rails
from mdf_loop.drawing.theme import (
    BRANCH_FILL,
    CHOICE_FILL,
    CHOICE_LINE,
    PAPER,
    QUIET,
)
from mdf_loop.drawing.view import View
from mdf_loop.outline import BranchOutline, ChoiceOutline


def draw_choice(
    canvas: Canvas, choice: ChoiceOutline, view: View, draw_graph: GraphDrawer
) -> Frame:
    """Draw a choice with its branches."""
    with canvas.cluster(
        canvas.name(choice.owner, choice.id),
        frame_title(canvas, choice, [block_name(choice)]),
        "choice",
        choice.path,
        style="filled",
        pencolor=CHOICE_LINE,
        fillcolor=CHOICE_FILL,
        penwidth="1.6",
        margin="12",
    ):
        rows = choice_rows(choice, view.detail, view.captures)
        left, right = draw_rails(canvas, choice, rows, rail_title(choice, [block_name(choice)]))
        drawn = [
            _draw_branch(canvas, choice, branch, view, draw_graph, left, right)
            for branch in canvas.direction.stacked(choice.branches)
        ]
        canvas.in_order([line[0][0] for line in drawn])
        if drawn:
            straighten(canvas, left.name, right.name, drawn[len(drawn) // 2])
    entries = [Arrival(left.outer("c"), "data", tuple(choice.expressions))]
    entries += [
        Arrival(left.outer(f"o{k}"), "capture", (capture.name,))
        for k, capture in enumerate(choice.captures)
    ]
    return Frame(
        first=left.name,
        last=right.name,
        reads=tuple(entries),
        results=tuple(right.outer(f"r{k}") for k in range(len(choice.joins))),
        named={},
    )


def _draw_branch(
    canvas: Canvas,
    choice: ChoiceOutline,
    branch: BranchOutline,
    view: View,
    draw_graph: GraphDrawer,
    left: Rail,
    right: Rail,
) -> list[tuple[str, str]]:
    """The frame of a branch: where the longest chain in it begins and ends, node by node.

    Its edges to the rails stand outside of it, as the rails do.
    """
    shown = branch.body if view.detail.bodies else None
    with canvas.cluster(
        canvas.name(choice.owner, choice.id, branch.title),
        bold(branch.title),
        "branch",
        choice.path if branch.body is None else branch.body.path,
        style="filled",
        pencolor=CHOICE_LINE,
        fillcolor=BRANCH_FILL,
        penwidth="1",
        margin="10",
    ):
        wires = draw_graph(canvas, shown, view.inner()) if shown is not None else {}
        passed = _draw_passed(canvas, choice, branch) if shown or branch.body is None else {}
        name = "" if wires or passed else placeholder(canvas, choice, branch.body)
    line = [(pill, pill) for pill in [name, *passed.values()] if pill][:1]
    if name:
        _hold(canvas, left, name, right)
    if shown is not None and wires:
        wire_inputs(canvas, _terminals(choice), shown, wires, left)
        line = line_of(shown, hold_body(canvas, left.name, right.name, shown, wires), wires)
    _wire_outputs(canvas, choice, branch, wires, passed, left, right)
    return line


def _terminals(choice: ChoiceOutline) -> dict[str, tuple[str, str]]:
    """The key of the terminal of every name that branches read, and its stroke."""
    return {capture.name: (f"o{k}", "capture") for k, capture in enumerate(choice.captures)}


def _draw_passed(canvas: Canvas, choice: ChoiceOutline, branch: BranchOutline) -> dict[str, str]:
    """A pill for each value that a branch passes on as it is."""
    pills: dict[str, str] = {}
    for output in branch.outputs:
        if output.node is None and output.port and output.port not in pills:
            name = canvas.name(choice.owner, choice.id, branch.title, output.port)
            pills[output.port] = name
            canvas.node(
                name,
                lines(styled(output.port, tag="I"), small("passed through")),
                "passed",
                output.path,
                shape="box",
                style="rounded,filled",
                fillcolor=PAPER,
                color=QUIET,
                margin="0.1,0.04",
                height="0.3",
            )
    return pills


def _wire_outputs(
    canvas: Canvas,
    choice: ChoiceOutline,
    branch: BranchOutline,
    wires: dict[str, Wires],
    passed: dict[str, str],
    left: Rail,
    right: Rail,
) -> None:
    """From the branch to the results; both rails keep it between them."""
    for name in passed.values():
        _hold(canvas, left, name, right)
    terminals = _terminals(choice)
    for k, output in enumerate(branch.outputs):
        if output.node in wires:
            drawn = wires[output.node]
            tail = drawn.outputs.get(output.port, drawn.whole_out)
        elif output.port in passed:
            tail = End(passed[output.port])
            if output.port in terminals:
                key, kind = terminals[output.port]
                canvas.edge(left.inner(key), tail, kind, output.path)
        else:
            continue
        canvas.edge(tail, right.inner(f"r{k}"), "data", f"{output.path} {k}")


def _hold(canvas: Canvas, left: Rail, name: str, right: Rail) -> None:
    canvas.hold(left.name, name)
    canvas.hold(name, right.name)
