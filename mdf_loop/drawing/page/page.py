"""`Page`: a model, or a run of one, to look around in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from mdf_loop.drawing.page.ends import Numbers
from mdf_loop.drawing.page.graphs import model_scene
from mdf_loop.drawing.page.html import in_frame, page_html
from mdf_loop.drawing.page.replay import run_data
from mdf_loop.drawing.page.scene import Box, Scene, packed, plain
from mdf_loop.drawing.theme import MARKS, STROKES
from mdf_loop.outline import GraphOutline, Observation

FIRST = 50
"""Frames are open at first sight as long as no more boxes than that are to be seen."""
_VALUES = "a value"


class Page(Struct, frozen=True):
    """What a page is made from.

    `depth` is how many frames inside frames are open at first, `collapse` are nodes that are not;
    `captures` whether the wires of captured values are shown at first; `observation` is what a run
    has said.
    """

    graph: GraphOutline
    depth: int | None = None
    captures: bool = True
    collapse: frozenset[str] = frozenset()
    observation: Observation | None = None

    def html(self, svg: str = "") -> str:
        """The page as the text of a file; `svg` is the picture for readers without scripts."""
        return page_html(self.data(), svg)

    def in_place(self) -> str:
        """The page as a part of a notebook: in a frame that can do nothing to what is around it."""
        return in_frame(self.html())

    def data(self) -> dict[str, Any]:
        """All that the page knows, as plain data."""
        numbers = Numbers(level=2 if _is_over_time(self.graph) else 1)
        scene = model_scene(self.graph, numbers)
        graph = self.graph
        said = [graph.source] if graph.source and graph.source != graph.id else []
        strokes = {"data": _VALUES} | {k: s.words for k, s in STROKES.items() if s.words}
        run = run_data(self.observation, numbers) if self.observation else None
        return {
            "run": run,
            "title": plain(graph.id),
            "said": plain(" · ".join((*said, *graph.termination, *graph.notes))),
            "file": _file_name(graph.id),
            "g": packed(scene),
            "open": list(_opened(scene, self.depth, self.collapse)),
            "captures": self.captures,
            "marks": {k: [m.sign, m.ground, m.ink, m.words] for k, m in MARKS.items()},
            "strokes": strokes,
        }


def _is_over_time(graph: GraphOutline) -> bool:
    """Whether the graph is the body of a loop over time steps."""
    loops = (loop for node in graph.nodes for loop in node.loops)
    return any(loop.kind == "over time" for loop in loops)


def _file_name(name: str) -> str:
    """What a saved picture is called: letters and digits alone."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name)[:60] or "model"


def _opened(scene: Scene, depth: int | None, collapse: frozenset[str]) -> Iterator[int]:
    """The boxes that are open at first, outer ones first, until there is enough to be seen."""
    seen = len(scene.boxes)
    waiting = [(box, 0) for box in scene.boxes]
    for box, level in waiting:
        if box.inner is None or box.kind == "group" or _id(box) in collapse:
            continue
        more = _shown_by(box.inner)
        if seen + more > FIRST or (depth is not None and level >= depth):
            continue
        seen += more
        yield box.id
        deeper = level + (box.kind != "owner")
        for inner in box.inner.boxes:
            branch = inner.inner.boxes if inner.kind == "branch" and inner.inner else (inner,)
            waiting += [(each, deeper) for each in branch]


def _shown_by(inside: Scene) -> int:
    """How many boxes are to be seen once these are; branches are open with their choice."""
    branches = (box.inner for box in inside.boxes if box.kind == "branch" and box.inner)
    return len(inside.boxes) + sum(len(branch.boxes) for branch in branches)


def _id(box: Box) -> str:
    """The id of the node that a box is; of a frame that of the node that owns it."""
    said = next((text for what, text in box.details if what == "id"), "")
    return said.partition(".")[0] if box.kind in ("loop", "choice") else said
