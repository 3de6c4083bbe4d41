"""`draw`: a model as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mdf_loop.arguments import flag, names
from mdf_loop.drawing.auto import PictureForm, Wish, drawn
from mdf_loop.drawing.canvas import Canvas
from mdf_loop.drawing.edges import draw_ends
from mdf_loop.drawing.focus import check_ids, focused
from mdf_loop.drawing.graphs import draw_graph
from mdf_loop.drawing.labels import bold, lines, small
from mdf_loop.drawing.legend import legend
from mdf_loop.drawing.observed import run_words
from mdf_loop.drawing.page import Page
from mdf_loop.drawing.render import format_of, render
from mdf_loop.drawing.theme import BIG, DIRECTIONS, LEVELS, OPERATORS
from mdf_loop.drawing.view import View
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, write_whole
from mdf_loop.importing.opening import Source
from mdf_loop.outline import GraphOutline, Observation, outline, outline_over_time
from mdf_loop.paths import Files, noting

MOST_BANDS = 100


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture: its DOT text, and pixels or a page when they are asked for.

    `read_from` are the files of the model, which nothing is saved over.
    """

    dot: str
    page: Page
    read_from: Files = frozenset()

    def svg(self) -> str:
        """The picture as SVG text."""
        return render(self.dot, "svg").decode()

    def html(self) -> str:
        """The picture as a page to look around in, with the SVG for readers without scripts."""
        return self.page.html(self.svg())

    def save(self, target: str | Path) -> None:
        """Write the picture; the suffix says how: .svg, .png, .pdf, .html or .dot."""
        form = format_of(target)
        with noting(self.read_from):
            place = checked_place(target)
        picture = self.html().encode() if form == "html" else render(self.dot, form)
        write_whole(place, lambda stream: stream.write(picture))

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.page.in_place()


def draw(
    source: Source,
    target: str | Path | None = None,
    *,
    level: int | str | None = None,
    depth: int | None = None,
    captures: bool | str = True,
    rankdir: str = "auto",
    bands: int | None = None,
    focus: str | Iterable[str] = (),
    collapse: str | Iterable[str] = (),
    over_time: bool = False,
    observation: Observation | None = None,
) -> Drawing:
    """Draw a model: a path, a modeci_mdf Model or Graph. It need not be one that can be compiled.

    Args:
        source: the model.
        target: a file to write too; its suffix says how (.svg, .png, .pdf, .html, .dot).
        level: 0 one box per node, 1 loop frames with terminals, 2 bodies with formulas,
            3 dtypes, shapes and values too, "operators" those of a large graph, chains of them in
            one box; left out, as much as a page can hold.
        depth: how many loops inside loops to open; left out, all of them.
        captures: whether to draw what bodies read from outside; "all" draws captured constants
            one by one, however many they are.
        rankdir: LR from left to right, TB from top to bottom, auto as it fits better.
        bands: into how many bands operators are cut; left out, as many as make a good shape.
        focus: ids of nodes; only they and their neighbours are drawn.
        collapse: ids of nodes to draw as one box.
        over_time: whether to draw the model over time: the graph inside of one loop over time
            steps, with its states as carried values.
        observation: what a run says of loops and ports, written beside them: `results.draw` gives it.

    Raises:
        LoopError: the model cannot be read, the file cannot be written, or there is nothing to draw
            with.
    """
    if target is not None:
        if format_of(target) == "html":
            _check_page(level, rankdir, bands)
        checked_place(target)
    with noting() as files:
        graph = outline_over_time(source) if flag(over_time, "over_time") else outline(source)
        if target is not None:
            checked_place(target)
    chosen, closed = _ids(focus, "focus"), _ids(collapse, "collapse")
    check_ids(graph, sorted(chosen | closed))
    if chosen:
        graph = focused(graph, chosen)
    weights = isinstance(captures, str) and captures == "all"
    wish = Wish(
        level=_level(level, bands),
        rankdir=_rankdir(rankdir),
        depth=_depth(depth),
        bands=_bands(bands),
        view=View(
            detail=OPERATORS,
            captures=weights or flag(captures, "captures"),
            collapse=closed,
            weights=weights,
            observation=observation,
        ),
    )
    page = Page(graph, wish.depth, wish.view.captures, closed, observation)
    drawing = Drawing(_dot(graph, wish), page, frozenset(files))
    if target is not None:
        drawing.save(target)
    return drawing


def _dot(graph: GraphOutline, wish: Wish) -> str:
    canvas = drawn(graph, wish, lambda form: _canvas(graph, form))
    return canvas.finish(legend(canvas))


def _canvas(graph: GraphOutline, form: PictureForm) -> Canvas:
    view = form.view
    hidden = frozenset() if view.captures else frozenset({"capture"})
    canvas = Canvas(graph.id, DIRECTIONS[form.rankdir], hidden, dense=view.detail.operators)
    title = _title(graph, [*run_words(view.observation), form.note])
    with canvas.cluster("model", title, "model", graph.path, pencolor="none", margin="8"):
        wires = draw_graph(canvas, graph, view)
        if not view.detail.operators:
            draw_ends(canvas, graph, wires, view)
    return canvas


def _title(graph: GraphOutline, notes: list[str]) -> str:
    said = [graph.source] if graph.source and graph.source != graph.id else []
    said += [*_ends(graph), *filter(None, notes)]
    return lines(bold(graph.id, BIG + 2), *(small(text) for text in said), align="LEFT")


def _ends(graph: GraphOutline) -> tuple[str, ...]:
    """When evaluations end; over time it stands at the frame of the passes."""
    loops = (block.kind for node in graph.nodes for block in node.loops)
    return () if "over time" in loops else graph.termination


def _check_page(level: int | str | None, rankdir: str, bands: int | None) -> None:
    """A page is folded by its reader, and has one direction."""
    if level is not None:
        raise InputError(
            f"a page has no level {level}"[:200],
            hint="it has all of them: leave the level out, and say with depth what is open at first",
        )
    if _rankdir(rankdir) == "TB":
        raise InputError(
            "a page cannot be drawn from top to bottom",
            hint="leave rankdir out: it wraps what is long",
        )
    if bands is not None:
        raise InputError("a page has no bands", hint="leave bands out: it wraps what is long")


def _ids(given: str | Iterable[str], what: str) -> frozenset[str]:
    return frozenset(names(given, what))


def _level(level: int | str | None, bands: int | None) -> int | str | None:
    words = (*range(len(LEVELS)), OPERATORS.level)
    if level is not None and not (isinstance(level, int | str) and level in words):
        raise InputError(
            f"there is no level {level}"[:200], hint="levels are 0, 1, 2 and 3, and 'operators'"
        )
    if bands is None:
        return level
    if isinstance(level, int):
        raise InputError(
            f"level {level} has no bands", hint="leave the level out, or ask for level='operators'"
        )
    return OPERATORS.level


def _bands(bands: int | None) -> int | None:
    if bands is not None and (type(bands) is not int or not 1 <= bands <= MOST_BANDS):
        raise InputError(
            f"the number of bands is {bands!r}"[:200],
            hint=f"give a whole number from 1 to {MOST_BANDS}",
        )
    return bands


def _depth(depth: int | None) -> int | None:
    if depth is not None and (not isinstance(depth, int) or depth < 0):
        raise InputError(f"the depth is {depth!r}"[:200], hint="give a whole number from 0 on")
    return depth


def _rankdir(rankdir: str) -> str | None:
    if isinstance(rankdir, str) and rankdir == "auto":
        return None
    if not isinstance(rankdir, str) or rankdir not in DIRECTIONS:
        raise InputError(
            f"there is no direction {rankdir!r}"[:200],
            hint="use 'LR' (left to right), 'TB' (top to bottom) or 'auto'",
        )
    return rankdir
