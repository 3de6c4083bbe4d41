"""Drawing of loops as frames with a headline, inputs, outputs, the loop's body and back edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from mdf_loop.drawing.canvas import (
    STRAIGHT_LINE_WEIGHT,
    Canvas,
    EdgeEnd,
    EdgeTarget,
    NodeConnections,
)
from mdf_loop.drawing.labels import bold_text, small_text, stack_lines, style_text, wrap_text
from mdf_loop.drawing.observed import describe_loop
from mdf_loop.drawing.terminal_tables import (
    TerminalTable,
    draw_terminal_tables,
    shown_rows,
)
from mdf_loop.drawing.theme import (
    BIG_FONT_SIZE,
    FRAME_FILL_COLORS,
    IMPORTED_FUNCTION_ID,
    LOOP_LINE_COLOR,
    MARKS,
    REMARK_COLOR,
    SMALL_FONT_SIZE,
    WARNING_COLOR,
)
from mdf_loop.drawing.view import View, all_nodes
from mdf_loop.outline import Block, GraphOutline, LoopOutline
from mdf_loop.outline.order import order_nodes
from mdf_loop.outline.text import shorten, shorten_name, value_text, weight_text
from mdf_loop.outline.words import headline

MAX_COUNTED_EVENTS_LINE_LENGTH = 90
"""Maximum number of characters in a line about the scheduler's counted events."""
MAX_TITLE_LINE_LENGTH = 26
"""Maximum number of characters in a line of a title in a table of inputs."""

GraphDrawer = Callable[[Canvas, GraphOutline, View], dict[str, NodeConnections]]
"""Function that draws the nodes and edges of a graph, and returns the connections of its nodes by id."""


class Frame(Struct, frozen=True):
    """Frame of a drawn loop or conditional, with the points at which edges connect to the frame."""

    first_dot_node: str
    last_dot_node: str
    edge_targets: tuple[EdgeTarget, ...]
    result_ends: tuple[EdgeEnd, ...]
    report_ends: dict[str, EdgeEnd]


def draw_frame(canvas: Canvas, loop: LoopOutline, view: View, draw_graph: GraphDrawer) -> Frame:
    """Draw a loop as a frame that contains the loop's body."""
    frame_name, title_lines = canvas.unused_name(loop.owner_id, loop.id), [loop_title(loop)]
    if observation_text := describe_loop(view.observation, loop):
        title_lines.append(observation_text)
        canvas.mark_kinds.update({"native"} if MARKS["native"].sign in observation_text else ())
    fill_color = FRAME_FILL_COLORS[view.nesting_depth % len(FRAME_FILL_COLORS)]
    with canvas.cluster(
        frame_name,
        frame_title(canvas, loop, title_lines),
        "loop",
        loop.path,
        style="rounded,filled",
        pencolor=LOOP_LINE_COLOR,
        fillcolor=fill_color,
        penwidth="1.6",
        margin="12",
    ):
        terminal_rows = shown_rows(loop, view)
        schedule_lines = describe_schedule(loop) if view.detail.shows_bodies else []
        input_table, output_table = draw_terminal_tables(
            canvas, loop, terminal_rows, wrap_frame_title(loop, [*title_lines, *schedule_lines])
        )
        if loop.body is not None and view.detail.shows_bodies:
            with _draw_passes_frame(canvas, loop, schedule_lines):
                connections = draw_graph(canvas, loop.body, view.inside_frame())
            wire_inputs(canvas, _terminals_by_name(loop), loop.body, connections, input_table)
            _wire_outputs(canvas, loop, loop.body, connections, input_table, output_table)
            receivers_by_node = keep_body_between_tables(
                canvas, input_table.name, output_table.name, loop.body, connections
            )
            path_ends = longest_path_ends(loop.body, receivers_by_node, connections)
            straighten(canvas, input_table.name, output_table.name, path_ends)
        else:
            placeholder_name = draw_placeholder(canvas, loop, loop.body)
            canvas.add_invisible_edge(input_table.name, placeholder_name, STRAIGHT_LINE_WEIGHT)
            canvas.add_invisible_edge(placeholder_name, output_table.name, STRAIGHT_LINE_WEIGHT)
        _draw_back_edges(canvas, loop, input_table, output_table)
    return Frame(
        first_dot_node=input_table.name,
        last_dot_node=output_table.name,
        edge_targets=tuple(_edge_targets(loop, input_table)),
        result_ends=tuple(
            output_table.outer_end(terminal_key)
            for terminal_key in (
                *(f"v{k}" for k in range(len(loop.carried_values))),
                *(f"r{k}" for k in range(len(loop.recorded_values))),
            )
        ),
        report_ends={
            report.name: output_table.outer_end(f"x{k}") for k, report in enumerate(loop.reports)
        },
    )


def block_name(block: Block) -> str:
    """Return the displayed name of a loop or conditional: `node · function`, or only the node."""
    is_unnamed = block.id in (block.owner_id, IMPORTED_FUNCTION_ID)
    return shorten_name(block.owner_id, 60) if is_unnamed else f"{block.owner_id} · {block.id}"


@contextmanager
def _draw_passes_frame(
    canvas: Canvas, loop: LoopOutline, schedule_lines: list[str]
) -> Iterator[None]:
    """Draw a dashed frame around a graph whose nodes the scheduler may run in several passes.

    Without `schedule_lines`, no frame is drawn.
    """
    if not schedule_lines:
        yield
        return
    canvas.mark_kinds.add("schedule")
    lines_below_title = schedule_lines if canvas.direction.is_sideways else []
    with canvas.cluster(
        canvas.unused_name(loop.owner_id, "passes"),
        stack_lines(
            bold_text("for each pass of an evaluation"),
            *map(small_text, lines_below_title),
            align="LEFT",
        ),
        "passes",
        loop.path,
        style="rounded,dashed",
        pencolor=REMARK_COLOR,
        margin="12",
    ):
        yield


def describe_schedule(loop: LoopOutline) -> list[str]:
    """Describe when an evaluation of a scheduled model ends, and which events the scheduler counts."""
    body = loop.body
    if body is None or loop.kind != "over time" or not body.is_scheduled:
        return []
    termination_texts = [text.removeprefix("each evaluation ") for text in body.termination]
    descriptions = [
        f"an evaluation {text}" for text in termination_texts or ["ends when all nodes have run"]
    ]
    if body.counted_events:
        descriptions += wrap_text(
            f"counted: {', '.join(body.counted_events)}", MAX_COUNTED_EVENTS_LINE_LENGTH
        )
    return descriptions


def loop_title(loop: LoopOutline) -> str:
    """Return the title of a loop: its name, and a remark if the body reads only declared inputs."""
    loop_name = block_name(loop)
    return f"{loop_name} · strict: reads only what it is given" if loop.is_strict else loop_name


def frame_title(canvas: Canvas, block: Block, text_lines: list[str]) -> str:
    """Return the label of a frame: a headline of the loop or conditional, text lines, and notes.

    If the table of inputs has headline and lines, the title has only the notes.
    """
    note_labels = [
        style_text(f"⚠ {shorten(note, 110)}", size=SMALL_FONT_SIZE, color=WARNING_COLOR)
        for note in block.notes
    ]
    headline_lines = (
        [bold_text(headline(block), BIG_FONT_SIZE), *map(small_text, text_lines)]
        if canvas.direction.is_sideways
        else []
    )
    return stack_lines(*headline_lines, *note_labels, align="LEFT")


def wrap_frame_title(block: Block, text_lines: list[str]) -> tuple[list[str], list[str]]:
    """Wrap the headline and the text lines of a loop or conditional to a small width."""
    wrapped_lines = [
        line for text in text_lines for line in wrap_text(text, MAX_TITLE_LINE_LENGTH + 8)
    ]
    return wrap_text(headline(block), MAX_TITLE_LINE_LENGTH), wrapped_lines


def draw_placeholder(canvas: Canvas, block: Block, body: GraphOutline | None) -> str:
    """Draw a placeholder for a hidden loop body or branch, and return its DOT name."""
    node_count = sum(1 for _ in all_nodes(body)) if body else 0
    placeholder_text = (
        "no body" if body is None else f"{node_count} node{'s' if node_count != 1 else ''}"
    )
    placeholder_name = canvas.unused_name(block.owner_id, block.id, "body")
    canvas.add_auxiliary_node(placeholder_name, small_text(f"… {placeholder_text} …"))
    return placeholder_name


def _edge_targets(loop: LoopOutline, input_table: TerminalTable) -> list[EdgeTarget]:
    """Return the points at a loop's inputs where edges with outside values end."""
    edge_targets = []
    if loop.trip_count is not None:
        edge_targets.append(
            EdgeTarget(input_table.outer_end("N"), "data", (loop.trip_count.expression,))
        )
    if loop.start_condition is not None:
        edge_targets.append(
            EdgeTarget(input_table.outer_end("c"), "data", (loop.start_condition.expression,))
        )
    for k, carried_value in enumerate(loop.carried_values):
        edge_targets.append(
            EdgeTarget(input_table.outer_end(f"v{k}"), "data", (carried_value.initial_expression,))
        )
    for k, sliced_input in enumerate(loop.sliced_inputs):
        edge_targets.append(
            EdgeTarget(input_table.outer_end(f"s{k}"), "data", (sliced_input.source_expression,))
        )
    for k, delayed_value in enumerate(loop.delayed_values):
        edge_targets.append(
            EdgeTarget(input_table.outer_end(f"d{k}"), "data", (delayed_value.initial_expression,))
        )
    edge_targets += [
        EdgeTarget(input_table.outer_end(f"o{k}"), "capture", (capture.name,))
        for k, capture in enumerate(loop.captures)
    ]
    return edge_targets


# --- inside -----------------------------------------------------------------------------------


def _terminals_by_name(loop: LoopOutline) -> dict[str, tuple[str, str]]:
    """Map each name that enters a loop's body to the key of its input and to its line style."""
    terminals = {capture.name: (f"o{k}", "capture") for k, capture in enumerate(loop.captures)}
    terminals.update(
        {
            carried_value.input_name: (f"v{k}", "data")
            for k, carried_value in enumerate(loop.carried_values)
        }
    )
    terminals.update(
        {sliced_input.name: (f"s{k}", "data") for k, sliced_input in enumerate(loop.sliced_inputs)}
    )
    terminals.update(
        {
            delayed_value.name: (f"d{k}", "data")
            for k, delayed_value in enumerate(loop.delayed_values)
        }
    )
    terminals.update({loop.iteration_name: ("i", "data"), loop.condition_name: ("c", "data")})
    terminals.pop("", None)
    return terminals


def wire_inputs(
    canvas: Canvas,
    terminals: dict[str, tuple[str, str]],
    body: GraphOutline,
    connections: dict[str, NodeConnections],
    input_table: TerminalTable,
) -> None:
    """Draw edges from the inputs of a frame to the nodes that read them inside the frame."""
    for body_input in body.inputs:
        terminal_key, terminal_line_style = terminals.get(body_input.name, ("", ""))
        if not terminal_key:
            continue
        node_connections = connections[body_input.node_id]
        targets_by_port = (
            node_connections.inputs
            if body_input.port_id is not None
            else node_connections.targets_by_name
        )
        for target in targets_by_port.get(
            body_input.port_id or body_input.name, [EdgeTarget(node_connections.node_input)]
        ):
            line_style = (
                "capture" if "capture" in (terminal_line_style, target.line_style) else "data"
            )
            canvas.add_edge(
                input_table.inner_end(terminal_key),
                target.edge_end,
                line_style,
                body_input.path,
                weight_text(body_input.weight),
            )


def _wire_outputs(
    canvas: Canvas,
    loop: LoopOutline,
    body: GraphOutline,
    connections: dict[str, NodeConnections],
    input_table: TerminalTable,
    output_table: TerminalTable,
) -> None:
    """Draw edges from the body of a loop to the outputs of its frame."""
    terminals = _terminals_by_name(loop)
    carried_terminal_keys = ["c", *(f"v{k}" for k in range(len(loop.carried_values)))]
    terminal_keys = [*carried_terminal_keys, *(f"r{k}" for k in range(len(loop.recorded_values)))]
    for terminal_key, output in zip(terminal_keys, body.outputs, strict=False):
        if terminal_key == "c" and loop.start_condition is None and not loop.has_mid_exit:
            continue
        if output.node_id is not None:
            node_connections = connections[output.node_id]
            source_end = node_connections.outputs.get(output.port_id, node_connections.node_output)
            canvas.add_edge(source_end, output_table.inner_end(terminal_key), "data", output.path)
        elif output.port_id in terminals:
            source_key, line_style = terminals[output.port_id]
            canvas.add_edge(
                input_table.inner_end(source_key),
                output_table.inner_end(terminal_key),
                line_style,
                output.path,
            )


def _draw_back_edges(
    canvas: Canvas, loop: LoopOutline, input_table: TerminalTable, output_table: TerminalTable
) -> None:
    """Draw the back edges of a loop, from outputs of the body to inputs of a later iteration.

    Only the first edge has the label `t+1`, because it is above the other edges.
    """
    direction = canvas.direction
    for k, carried_value in direction.stacking_order(list(enumerate(loop.carried_values))):
        canvas.add_edge(
            output_table.inner_end(f"v{k}", direction.back_start_side),
            input_table.inner_end(f"v{k}", direction.back_end_side),
            "back",
            f"{loop.path} {carried_value.input_name}",
            "t+1" if k == 0 else "",
        )
    terminal_key_by_name = {
        carried_value.output_name: f"v{k}" for k, carried_value in enumerate(loop.carried_values)
    }
    terminal_key_by_name |= {
        recorded_value.name: f"r{k}" for k, recorded_value in enumerate(loop.recorded_values)
    }
    for k, delayed_value in enumerate(loop.delayed_values):
        if delayed_value.source_name in terminal_key_by_name:
            canvas.add_edge(
                output_table.inner_end(
                    terminal_key_by_name[delayed_value.source_name], direction.back_start_side
                ),
                input_table.inner_end(f"d{k}", direction.back_end_side),
                "back",
                f"{loop.path} {delayed_value.name}",
                f"t+{value_text(delayed_value.iterations_back)}",
            )


def keep_body_between_tables(
    canvas: Canvas,
    first_dot_node: str,
    last_dot_node: str,
    graph: GraphOutline,
    connections: dict[str, NodeConnections],
) -> dict[str, list[str]]:
    """Add invisible edges that keep a loop's body between the inputs and the outputs of its frame.

    Return the receivers of each node.
    """
    drawn_node_ids = [node.id for node in graph.nodes if node.id in connections]
    receivers_by_node: dict[str, list[str]] = {node: [] for node in drawn_node_ids}
    for edge in graph.edges:
        if (
            not edge.is_feedback
            and edge.sender in receivers_by_node
            and edge.receiver in receivers_by_node
        ):
            receivers_by_node[edge.sender].append(edge.receiver)
    receiving_node_ids = {
        receiver for receivers in receivers_by_node.values() for receiver in receivers
    }
    for node in drawn_node_ids:
        if node not in receiving_node_ids:
            canvas.add_invisible_edge(first_dot_node, connections[node].first_dot_node)
        if not receivers_by_node[node]:
            canvas.add_invisible_edge(connections[node].last_dot_node, last_dot_node)
        for unanchored_dot_node in connections[node].unanchored_dot_nodes:
            canvas.add_invisible_edge(first_dot_node, unanchored_dot_node)
            canvas.add_invisible_edge(unanchored_dot_node, last_dot_node)
    return receivers_by_node


def longest_path_ends(
    graph: GraphOutline,
    receivers_by_node: dict[str, list[str]],
    connections: dict[str, NodeConnections],
) -> list[tuple[str, str]]:
    """Return the first and last DOT node that draw each model node on the longest path."""
    return [
        (connections[node].first_dot_node, connections[node].last_dot_node)
        for node in _longest_path(graph, receivers_by_node)
    ]


def straighten(
    canvas: Canvas, first_dot_node: str, last_dot_node: str, path_ends: list[tuple[str, str]]
) -> None:
    """Add invisible edges that align a path of nodes with two opposite sides of its frame."""
    edge_starts = [first_dot_node, *(end_name for _, end_name in path_ends)]
    edge_ends = [*(begin_name for begin_name, _ in path_ends), last_dot_node]
    for edge_start, edge_end in zip(edge_starts, edge_ends, strict=True):
        canvas.add_invisible_edge(edge_start, edge_end, STRAIGHT_LINE_WEIGHT)


def _longest_path(graph: GraphOutline, receivers_by_node: dict[str, list[str]]) -> list[str]:
    """Return the longest path of nodes along the edges of a graph."""
    longest_path_by_start: dict[str, list[str]] = {}
    for node in (
        outline_node.id
        for outline_node in reversed(order_nodes(graph))
        if outline_node.id in receivers_by_node
    ):
        receiver_paths = [
            longest_path_by_start[receiver]
            for receiver in receivers_by_node[node]
            if receiver in longest_path_by_start
        ]
        longest_path_by_start[node] = [node, *max(receiver_paths, key=len, default=[])]
    return max((longest_path_by_start[node] for node in receivers_by_node), key=len, default=[])
