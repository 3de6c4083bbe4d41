"""`draw`: a model as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mdf_loop.arguments import flag, names
from mdf_loop.drawing.canvas import Canvas
from mdf_loop.drawing.focus import check_ids, focused
from mdf_loop.drawing.graphs import draw_ends, draw_graph
from mdf_loop.drawing.labels import bold, lines, small
from mdf_loop.drawing.legend import legend
from mdf_loop.drawing.render import format_of, render
from mdf_loop.drawing.theme import BIG, DIRECTIONS, LEVELS
from mdf_loop.drawing.view import View, default_level, detail_of
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, write_whole
from mdf_loop.importing.opening import Source
from mdf_loop.outline import GraphOutline, outline, outline_over_time
from mdf_loop.paths import Files, noting


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture: its DOT text, and pixels when they are asked for.

    `read_from` are the files of the model, which nothing is saved over.
    """

    dot: str
    read_from: Files = frozenset()

    def svg(self) -> str:
        """The picture as SVG text."""
        return render(self.dot, "svg").decode()

    def save(self, target: str | Path) -> None:
        """Write the picture; the suffix says how: .svg, .png, .pdf or .dot."""
        form = format_of(target)
        with noting(self.read_from):
            place = checked_place(target)
        picture = render(self.dot, form)
        write_whole(place, lambda stream: stream.write(picture))

    def _repr_svg_(self) -> str:
        return self.svg()


def draw(
    source: Source,
    target: str | Path | None = None,
    *,
    level: int | None = None,
    depth: int | None = None,
    captures: bool = True,
    rankdir: str = "LR",
    focus: str | Iterable[str] = (),
    collapse: str | Iterable[str] = (),
    over_time: bool = False,
) -> Drawing:
    """Draw a model: a path, a modeci_mdf Model or Graph. It need not be one that can be compiled.

    Args:
        source: the model.
        target: a file to write too; its suffix says how (.svg, .png, .pdf, .dot).
        level: 0 one box per node, 1 loop frames with terminals, 2 bodies with formulas,
            3 dtypes, shapes and values too; left out, as much as a page can hold.
        depth: how many loops inside loops to open; left out, all of them.
        captures: whether to draw what bodies read from outside.
        rankdir: LR from left to right, TB from top to bottom.
        focus: ids of nodes; only they and their neighbours are drawn.
        collapse: ids of nodes to draw as one box.
        over_time: whether to draw the model over time: the graph inside of one loop over time
            steps, with its states as carried values.

    Raises:
        LoopError: the model cannot be read, the file cannot be written, or there is nothing to draw
            with.
    """
    if target is not None:
        format_of(target)
        checked_place(target)
    with noting() as files:
        graph = outline_over_time(source) if flag(over_time, "over_time") else outline(source)
        if target is not None:
            checked_place(target)
    chosen, closed = _ids(focus, "focus"), _ids(collapse, "collapse")
    check_ids(graph, sorted(chosen | closed))
    if chosen:
        graph = focused(graph, chosen)
    view = View(
        detail=detail_of(default_level(graph) if level is None else _level(level)),
        depth=_depth(depth),
        captures=flag(captures, "captures"),
        collapse=closed,
    )
    drawing = Drawing(_dot(graph, view, _rankdir(rankdir)), frozenset(files))
    if target is not None:
        drawing.save(target)
    return drawing


def _dot(graph: GraphOutline, view: View, rankdir: str) -> str:
    hidden = frozenset() if view.captures else frozenset({"capture"})
    canvas = Canvas(graph.id, DIRECTIONS[rankdir], hidden)
    with canvas.cluster("model", _title(graph), "model", graph.path, pencolor="none", margin="8"):
        wires = draw_graph(canvas, graph, view)
        draw_ends(canvas, graph, wires, view)
    return canvas.finish(legend(canvas))


def _title(graph: GraphOutline) -> str:
    said = [graph.source] if graph.source and graph.source != graph.id else []
    said += list(graph.termination)
    return lines(bold(graph.id, BIG + 2), *(small(text) for text in said), align="LEFT")


def _ids(given: str | Iterable[str], what: str) -> frozenset[str]:
    return frozenset(names(given, what))


def _level(level: int) -> int:
    if not isinstance(level, int) or level not in range(len(LEVELS)):
        raise InputError(f"there is no level {level}", hint="levels are 0, 1, 2 and 3")
    return level


def _depth(depth: int | None) -> int | None:
    if depth is not None and (not isinstance(depth, int) or depth < 0):
        raise InputError(f"the depth is {depth!r}"[:200], hint="give a whole number from 0 on")
    return depth


def _rankdir(rankdir: str) -> str:
    if not isinstance(rankdir, str) or rankdir not in DIRECTIONS:
        raise InputError(
            f"there is no direction {rankdir!r}"[:200], hint="use 'LR' (left to right) or 'TB'"
        )
    return rankdir
