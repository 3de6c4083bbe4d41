"""Drawing of loops as frames with a headline, inputs, outputs, the loop's body and back edges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from mdf_loop.drawing.dot.canvas import STRAIGHT_LINE_WEIGHT, Canvas
from mdf_loop.drawing.dot.graphs import draw_scene
from mdf_loop.drawing.dot.labels import bold_text, small_text, stack_lines, style_text
from mdf_loop.drawing.dot.terminal_tables import draw_terminal_tables
from mdf_loop.drawing.dot.wires import Anchors, Picture
from mdf_loop.drawing.observed import describe_loop
from mdf_loop.drawing.scene.elements import Box, Scene
from mdf_loop.drawing.texts import block_name, describe_schedule, wrap_text
from mdf_loop.drawing.theme import (
    BIG_FONT_SIZE,
    FRAME_FILL_COLORS,
    LOOP_LINE_COLOR,
    MARKS,
    REMARK_COLOR,
    SMALL_FONT_SIZE,
    WARNING_COLOR,
)
from mdf_loop.drawing.view import View, all_nodes
from mdf_loop.outline import Block, GraphOutline, LoopOutline
from mdf_loop.outline.order import order_nodes
from mdf_loop.outline.text import shorten
from mdf_loop.outline.words import headline

MAX_TITLE_LINE_LENGTH = 26
"""Maximum number of characters in a line of a title in a table of inputs."""


def draw_frame(picture: Picture, box: Box, view: View) -> None:
    """Draw a loop as a frame that contains the loop's body."""
    loop, canvas = box.outline, picture.canvas
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
        schedule_lines = describe_schedule(loop) if view.detail.shows_bodies else []
        draw_terminal_tables(
            picture, box, view, wrap_frame_title(loop, [*title_lines, *schedule_lines])
        )
        anchors = picture.anchors[box.id]
        if box.scene is not None:
            inner_wires, own_wires = box.split_wires(box.scene.wires)
            with _draw_passes_frame(canvas, loop, schedule_lines):
                draw_scene(
                    picture, replace(box.scene, wires=tuple(inner_wires)), view.inside_frame()
                )
            picture.draw_wires(own_wires)
            straighten(canvas, anchors, keep_body_between_tables(picture, anchors, box.scene))
        else:
            placeholder_name = draw_placeholder(canvas, loop, loop.body)
            straighten(canvas, anchors, [(placeholder_name, placeholder_name)])
        _draw_back_edges(picture, box)


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


def _draw_back_edges(picture: Picture, box: Box) -> None:
    """Draw the back edges of a loop, from outputs of the body to inputs of a later iteration.

    Only the first edge of the carried values has a label, because it is above the other edges.
    """
    direction = picture.canvas.direction
    carried_count = len(box.outline.carried_values)
    carried_wires, delayed_wires = box.back_wires[:carried_count], box.back_wires[carried_count:]
    for wire in (*direction.stacking_order(carried_wires), *delayed_wires):
        ((edge_tail, _),), (edge_head, _) = (
            picture.targets[wire.source],
            picture.sources[wire.target],
        )
        picture.canvas.add_edge(
            replace(edge_tail, side=direction.back_start_side),
            replace(edge_head, side=direction.back_end_side),
            "back",
            wire.path,
            "" if wire in carried_wires[1:] else wire.label,
        )


def keep_body_between_tables(
    picture: Picture, frame: Anchors, scene: Scene
) -> list[tuple[str, str]]:
    """Add invisible edges that keep a loop's body between the inputs and the outputs of its frame.

    Return the first and last DOT node that draw each model node on the body's longest path.
    """
    graph, canvas = scene.graph, picture.canvas
    if graph is None:
        return []
    anchors = {
        node.id: picture.anchors[scene.ends_by_node[node.id].box_id]
        for node in graph.nodes
        if node.id in scene.ends_by_node
    }
    receivers_by_node: dict[str, list[str]] = {node: [] for node in anchors}
    for edge in graph.edges:
        if not edge.is_feedback and {edge.sender, edge.receiver} <= anchors.keys():
            receivers_by_node[edge.sender].append(edge.receiver)
    receiving_node_ids = {
        receiver for receivers in receivers_by_node.values() for receiver in receivers
    }
    for node, node_anchors in anchors.items():
        if node not in receiving_node_ids:
            canvas.add_invisible_edge(frame.first, node_anchors.first)
        if not receivers_by_node[node]:
            canvas.add_invisible_edge(node_anchors.last, frame.last)
        for dot_node in node_anchors.unanchored:
            keep_between(canvas, frame, dot_node)
    return [
        (anchors[node].first, anchors[node].last)
        for node in _longest_path(graph, receivers_by_node)
    ]


def keep_between(canvas: Canvas, frame: Anchors, dot_node: str) -> None:
    """Add invisible edges that keep a DOT node between the inputs and the outputs of its frame."""
    canvas.add_invisible_edge(frame.first, dot_node)
    canvas.add_invisible_edge(dot_node, frame.last)


def straighten(canvas: Canvas, frame: Anchors, path_ends: list[tuple[str, str]]) -> None:
    """Add invisible edges that align a path of nodes with two opposite sides of its frame."""
    edge_starts = [frame.first, *(end_name for _, end_name in path_ends)]
    edge_ends = [*(begin_name for begin_name, _ in path_ends), frame.last]
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
