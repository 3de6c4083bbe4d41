"""Function `draw`, which draws a model as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mdf_loop.arguments import flag, names
from mdf_loop.drawing.dot.auto import LayoutRequest, PictureLayout, draw_fitting
from mdf_loop.drawing.dot.canvas import Canvas
from mdf_loop.drawing.dot.drawers import BOX_DRAWERS
from mdf_loop.drawing.dot.graphs import draw_scene
from mdf_loop.drawing.dot.labels import bold_text, small_text, stack_lines
from mdf_loop.drawing.dot.legend import draw_legend
from mdf_loop.drawing.dot.render import format_of, render
from mdf_loop.drawing.dot.wires import Picture
from mdf_loop.drawing.focus import check_ids, focus_graph
from mdf_loop.drawing.observed import describe_run
from mdf_loop.drawing.page import Page
from mdf_loop.drawing.scene.graphs import model_scene
from mdf_loop.drawing.theme import BIG_FONT_SIZE, DETAIL_LEVELS, DIRECTIONS, OPERATORS_DETAIL
from mdf_loop.drawing.view import View
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, write_atomically
from mdf_loop.importing.opening import Source
from mdf_loop.outline import GraphOutline, Observation, outline, outline_over_time
from mdf_loop.paths import Files, track_read_files
from mdf_loop.public_call import public_call, public_calls

MAX_BANDS = 100

MAX_NOTEBOOK_BYTES = 200_000
"""Maximum size in bytes of a picture that a notebook shows automatically."""


@public_calls
@dataclass(frozen=True, slots=True)
class Drawing:
    """Picture of a model as DOT text, which is rendered as an image or page on demand.

    `read_from` are the files of the model, which saving never overwrites.
    """

    dot: str
    page: Page
    read_from: Files = frozenset()

    def svg(self) -> str:
        """Return the picture as SVG text."""
        return render(self.dot, "svg").decode()

    def html(self) -> str:
        """Return the picture as an interactive page, with the SVG for readers without scripts."""
        return self.page.html(self.svg())

    def save(self, target: str | Path) -> None:
        """Write the picture in the format of the suffix: .svg, .png, .pdf, .html or .dot."""
        suffix_format = format_of(target)
        with track_read_files(self.read_from):
            target_path = checked_place(target)
        picture = (
            self.html().encode() if suffix_format == "html" else render(self.dot, suffix_format)
        )
        write_atomically(target_path, lambda stream: stream.write(picture))

    def interactive(self) -> InteractiveDrawing:
        """Return the interactive page for a notebook. The page embeds the layout engine of 700 kB."""
        return InteractiveDrawing(self.page)

    def __repr__(self) -> str:
        return "Drawing: .save(path) writes the picture, .interactive() shows a page in a notebook"

    def _repr_svg_(self) -> str | None:
        """Return the picture as SVG text for notebooks, or None if it has more than `MAX_NOTEBOOK_BYTES`."""
        svg = self.svg()
        return svg if len(svg.encode()) <= MAX_NOTEBOOK_BYTES else None


@dataclass(frozen=True, slots=True)
class InteractiveDrawing:
    """Interactive page of a model, which a notebook shows in a frame."""

    page: Page

    def __repr__(self) -> str:
        return "InteractiveDrawing: a notebook shows the page"

    def _repr_html_(self) -> str:
        return self.page.notebook_html()


@public_call
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
    """Draw a model as a picture, even if the model cannot be compiled.

    Args:
        source: Path, modeci_mdf Model or Graph.
        target: File to write as well. Its suffix selects the format (.svg, .png, .pdf, .html, .dot).
        level: 0 for one box per node, 1 for loop frames with terminals, 2 for bodies with formulas, 3 for
            dtypes, shapes and values, "operators" for the operators of a large graph with chains in one
            box. The default is the most detailed level that fits on a page.
        depth: Number of nested loops to open. The default is all.
        captures: True to draw the values that bodies read from outside. "all" also draws each of many
            captured constants.
        rankdir: LR for left to right, TB for top to bottom, auto for the direction that fits better.
        bands: Number of bands of operators. The default gives the picture a good aspect ratio.
        focus: Ids of nodes. Only these nodes and their neighbours are drawn.
        collapse: Ids of nodes to draw as one box.
        over_time: True to draw the model over time: the graph inside one loop over time steps, with its
            states as carried values.
        observation: Observation of a run, to be written beside loops and ports. `results.draw` passes it.

    Raises:
        LoopError: The model cannot be read, the file cannot be written, or the drawing program is missing.
    """
    if target is not None:
        if format_of(target) == "html":
            _check_page_options(level, rankdir, bands)
        checked_place(target)
    with track_read_files() as read_files:
        graph = outline_over_time(source) if flag(over_time, "over_time") else outline(source)
        if target is not None:
            checked_place(target)
    focus_ids, collapse_ids = _node_ids(focus, "focus"), _node_ids(collapse, "collapse")
    check_ids(graph, sorted(focus_ids | collapse_ids))
    if focus_ids:
        graph = focus_graph(graph, focus_ids)
    shows_all_constants = isinstance(captures, str) and captures == "all"
    request = LayoutRequest(
        detail_level=_check_level(level, bands),
        rankdir=_check_rankdir(rankdir),
        open_depth=_check_depth(depth),
        band_count=_check_bands(bands),
        view=View(
            detail=OPERATORS_DETAIL,
            shows_captures=shows_all_constants or flag(captures, "captures"),
            collapsed_ids=collapse_ids,
            draws_all_constants=shows_all_constants,
            observation=observation,
        ),
    )
    page = Page(graph, request.open_depth, request.view.shows_captures, collapse_ids, observation)
    drawing = Drawing(_draw_dot(graph, request), page, frozenset(read_files))
    if target is not None:
        drawing.save(target)
    return drawing


def _draw_dot(graph: GraphOutline, request: LayoutRequest) -> str:
    """Draw a graph, and return the picture as DOT text."""
    canvas = draw_fitting(graph, request, lambda layout: _draw_canvas(graph, layout))
    return canvas.finish(draw_legend(canvas))


def _draw_canvas(graph: GraphOutline, layout: PictureLayout) -> Canvas:
    """Draw a graph with a level of detail and a direction, and return the canvas."""
    view = layout.view
    hidden_styles = frozenset() if view.shows_captures else frozenset({"capture"})
    canvas = Canvas(
        graph.id, DIRECTIONS[layout.rankdir], hidden_styles, dense=view.detail.shows_only_operators
    )
    picture_title = _picture_title(graph, [*describe_run(view.observation), layout.note])
    with canvas.cluster("model", picture_title, "model", graph.path, pencolor="none", margin="8"):
        draw_scene(Picture(canvas, BOX_DRAWERS), model_scene(graph, view), view)
    return canvas


def _picture_title(graph: GraphOutline, notes: list[str]) -> str:
    """Return the title of a picture: graph name, file name, termination conditions and notes."""
    title_lines = [graph.source_name] if graph.source_name and graph.source_name != graph.id else []
    title_lines += [*_termination_texts(graph), *filter(None, notes)]
    return stack_lines(
        bold_text(graph.id, BIG_FONT_SIZE + 2),
        *(small_text(text) for text in title_lines),
        align="LEFT",
    )


def _termination_texts(graph: GraphOutline) -> tuple[str, ...]:
    """Return texts on when evaluations end, or () if the frame of a time loop shows them."""
    loop_modes = (block.kind for node in graph.nodes for block in node.loops)
    return () if "over time" in loop_modes else graph.termination


def _check_page_options(level: int | str | None, rankdir: str, bands: int | None) -> None:
    """Check that an interactive page supports the options `level`, `rankdir` and `bands`.

    Raises:
        InputError: An option does not apply to pages.
    """
    if level is not None:
        raise InputError(
            f"a page has no level {level}"[:200],
            hint="a page has all levels: omit level, and limit the open frames with depth",
        )
    if _check_rankdir(rankdir) == "TB":
        raise InputError(
            "a page cannot be drawn from top to bottom",
            hint="omit rankdir: a page wraps long rows",
        )
    if bands is not None:
        raise InputError("a page has no bands", hint="omit bands: a page wraps long rows")


def _node_ids(ids: str | Iterable[str], argument: str) -> frozenset[str]:
    """Convert an argument with one or several node ids to a set of ids."""
    return frozenset(names(ids, argument))


def _check_level(level: int | str | None, bands: int | None) -> int | str | None:
    """Check the level of detail, and return "operators" for a picture in columns (`bands`)."""
    known_detail_levels = (*range(len(DETAIL_LEVELS)), OPERATORS_DETAIL.level)
    if level is not None and not (isinstance(level, int | str) and level in known_detail_levels):
        raise InputError(
            f"there is no level {level}"[:200], hint="levels are 0, 1, 2 and 3, and 'operators'"
        )
    if bands is None:
        return level
    if isinstance(level, int):
        raise InputError(
            f"level {level} has no bands", hint="leave the level out, or ask for level='operators'"
        )
    return OPERATORS_DETAIL.level


def _check_bands(bands: int | None) -> int | None:
    """Return the number of columns (bands), or raise an error for an invalid number."""
    if bands is not None and (type(bands) is not int or not 1 <= bands <= MAX_BANDS):
        raise InputError(
            f"the number of bands is {bands!r}"[:200],
            hint=f"give a whole number from 1 to {MAX_BANDS}",
        )
    return bands


def _check_depth(depth: int | None) -> int | None:
    """Return the number of nested loops to open, or raise an error for an invalid number."""
    if depth is not None and (not isinstance(depth, int) or depth < 0):
        raise InputError(f"the depth is {depth!r}"[:200], hint="give a whole number from 0 on")
    return depth


def _check_rankdir(rankdir: str) -> str | None:
    """Return the flow direction, None for "auto", or raise an error for an invalid direction."""
    if isinstance(rankdir, str) and rankdir == "auto":
        return None
    if not isinstance(rankdir, str) or rankdir not in DIRECTIONS:
        raise InputError(
            f"there is no direction {rankdir!r}"[:200],
            hint="use 'LR' (left to right), 'TB' (top to bottom) or 'auto'",
        )
    return rankdir
