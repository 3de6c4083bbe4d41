"""Class `Page`, the interactive page of a model or of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from mdf_loop.drawing.page.boxes import page_scene
from mdf_loop.drawing.page.html import embed_in_frame, page_html
from mdf_loop.drawing.page.replay import find_observed_ends, pack_run
from mdf_loop.drawing.page.scene import Box, Numbering, Scene, pack_scene, safe_text
from mdf_loop.drawing.scene.graphs import model_scene
from mdf_loop.drawing.theme import LINE_STYLES, MARKS, PAGE_DETAIL
from mdf_loop.drawing.view import View
from mdf_loop.outline import GraphOutline, Observation

MAX_INITIAL_BOXES = 50
"""Maximum number of visible boxes at first. Further frames are closed."""
_VALUE_LEGEND_TEXT = "a value"


class Page(Struct, frozen=True):
    """Interactive HTML page of a model, with the data that the page contains.

    Attributes:
        open_depth: Number of nested frames that are open at first.
        shows_captures: True if the wires of captured values are visible at first.
        collapsed_ids: Nodes that are closed at first.
        observation: Observation of a run.
    """

    graph: GraphOutline
    open_depth: int | None = None
    shows_captures: bool = True
    collapsed_ids: frozenset[str] = frozenset()
    observation: Observation | None = None

    def html(self, svg: str = "") -> str:
        """Return the page as HTML text, with the picture `svg` for readers without scripts."""
        return page_html(self.data(), svg)

    def notebook_html(self) -> str:
        """Return the page as HTML for a notebook, in a frame that cannot affect the notebook."""
        return embed_in_frame(self.html())

    def data(self) -> dict[str, Any]:
        """Return the content of the page as plain data that can be written as JSON."""
        numbering = Numbering()
        model = model_scene(self.graph, View(PAGE_DETAIL), numbering)
        scene = page_scene(model, numbering)
        graph = self.graph
        source_lines = (
            [graph.source_name] if graph.source_name and graph.source_name != graph.id else []
        )
        line_styles = {"data": _VALUE_LEGEND_TEXT} | {
            line_style_name: line_style.legend_text
            for line_style_name, line_style in LINE_STYLES.items()
            if line_style.legend_text
        }
        observed_ports = find_observed_ends(model, numbering.chain_box_by_operator)
        run_content = pack_run(self.observation, observed_ports) if self.observation else None
        return {
            "run": run_content,
            "title": safe_text(graph.id),
            "said": safe_text(" · ".join((*source_lines, *graph.termination, *graph.notes))),
            "file": _file_name(graph.id),
            "g": pack_scene(scene),
            "open": list(_boxes_open_at_first(scene, self.open_depth, self.collapsed_ids)),
            "captures": self.shows_captures,
            "marks": {
                mark_kind: [mark.sign, mark.background_color, mark.text_color, mark.legend_text]
                for mark_kind, mark in MARKS.items()
            },
            "strokes": line_styles,
        }


def _file_name(name: str) -> str:
    """Return a file name for a saved picture, composed of ASCII letters and digits."""
    return (
        "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)[:60]
        or "model"
    )


def _boxes_open_at_first(
    scene: Scene, depth: int | None, collapse: frozenset[str]
) -> Iterator[int]:
    """Yield the boxes to open first, outer before inner, until `MAX_INITIAL_BOXES` are visible."""
    visible_count = len(scene.boxes)
    box_queue = [(box, 0) for box in scene.boxes]
    for box, frame_depth in box_queue:
        if box.inner_scene is None or box.kind == "group" or _node_id(box) in collapse:
            continue
        added_box_count = _visible_count(box.inner_scene)
        if visible_count + added_box_count > MAX_INITIAL_BOXES or (
            depth is not None and frame_depth >= depth
        ):
            continue
        visible_count += added_box_count
        yield box.id
        inner_level = frame_depth + (box.kind != "owner")
        for nested_box in box.inner_scene.boxes:
            visible_boxes = (
                nested_box.inner_scene.boxes
                if nested_box.kind == "branch" and nested_box.inner_scene
                else (nested_box,)
            )
            box_queue += [(inner_box, inner_level) for inner_box in visible_boxes]


def _visible_count(inner_scene: Scene) -> int:
    """Return the number of boxes that become visible when the box around `inner_scene` opens.

    The branches of a conditional open with the conditional.
    """
    branch_scenes = (
        box.inner_scene for box in inner_scene.boxes if box.kind == "branch" and box.inner_scene
    )
    return len(inner_scene.boxes) + sum(len(branch.boxes) for branch in branch_scenes)


def _node_id(box: Box) -> str:
    """Return the id of the node that a box represents, or that owns a loop's or conditional's box."""
    details_id = next((text for title, text in box.details if title == "id"), "")
    return details_id.partition(".")[0] if box.kind in ("loop", "choice") else details_id
