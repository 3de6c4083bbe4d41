"""Automatic choice of a picture's level of detail, direction and columns by the estimated size.

Options of the caller are never changed. The layouts are tried in this order:

    level 3, left to right        if it fits
    level 3, top to bottom        otherwise, if it fits
    level 2, ...                  otherwise with less detail
    operators, in bands           otherwise, or for more than 150 nodes, with as many inner frames
                                  open as fit

A picture fits if it is readable on a page or a wide screen, without extreme proportions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.drawing.dot.bands import flow_length
from mdf_loop.drawing.dot.canvas import Canvas
from mdf_loop.drawing.dot.extent import Extent
from mdf_loop.drawing.flow import flow_of
from mdf_loop.drawing.theme import OPERATORS_DETAIL
from mdf_loop.drawing.view import View, all_nodes, default_level, detail_of
from mdf_loop.outline import GraphOutline

MAX_DETAILED_NODES = 150
"""Maximum number of nodes, without inputs and constants, of a model that is not drawn as operators."""
PAGE_WIDTH = 1500.0
"""Width in points of a page. A picture of at most this width needs no less detail."""
MAX_PICTURE_WIDTH, MAX_PICTURE_HEIGHT, MAX_BANDS_WIDTH = 2400.0, 2400.0, 3600.0
"""Maximum width and height in points of a picture that fits, and maximum width of a picture in bands."""
MAX_ASPECT_RATIO_SIDEWAYS, MAX_ASPECT_RATIO_DOWNWARD, MAX_HEIGHT_TO_WIDTH = 2.3, 2.5, 2.6
"""Maximum ratio of width to height for flow from left to right and from top to bottom (whose estimated
width is too large), and maximum ratio of height to width, of pictures that are wider than a page.
"""
BANDS_ASPECT_RATIO = 1.4
"""Target ratio of width to height of a picture in bands."""
BAND_WIDTH = 150.0
"""Approximate width of a band in points."""
_BAND_ATTEMPTS = 3


class PictureLayout(Struct, frozen=True):
    """Layout of a picture: level of detail, direction, and a note about automatic choices."""

    view: View
    rankdir: str
    note: str = ""


CanvasBuilder = Callable[[PictureLayout], Canvas]
"""Function that draws a picture in a layout, so that the extent can be estimated."""


class LayoutRequest(Struct, frozen=True):
    """Layout options of the caller. None means an automatic choice."""

    detail_level: int | str | None
    rankdir: str | None
    open_depth: int | None
    band_count: int | None
    view: View
    """Other options of the picture. The level of detail in this view is ignored."""


def draw_fitting(
    graph: GraphOutline, request: LayoutRequest, build_canvas: CanvasBuilder
) -> Canvas:
    """Draw a graph in the most detailed layout that fits on a page, else in the least detailed."""
    layouts = _candidate_layouts(graph, request, build_canvas)
    canvas = build_canvas(next(layouts))
    while not _fits(canvas.extent(), canvas.direction.is_sideways):
        layout = next(layouts, None)
        if layout is None:
            break
        canvas = build_canvas(layout)
    return canvas


def _fits(extent: Extent, sideways: bool) -> bool:
    """Return True if a picture of size `extent` fits on a page or on a wide screen."""
    max_aspect_ratio = MAX_ASPECT_RATIO_SIDEWAYS if sideways else MAX_ASPECT_RATIO_DOWNWARD
    has_fitting_width = extent.width <= PAGE_WIDTH or extent.width <= min(
        max_aspect_ratio * extent.height, MAX_PICTURE_WIDTH
    )
    return has_fitting_width and extent.height <= max(
        PAGE_WIDTH, min(MAX_PICTURE_HEIGHT, MAX_HEIGHT_TO_WIDTH * extent.width)
    )


def _candidate_layouts(
    graph: GraphOutline, request: LayoutRequest, build_canvas: CanvasBuilder
) -> Iterator[PictureLayout]:
    """Yield the layouts of a picture to try, the most detailed first."""
    node_count = sum(not node.is_input and node.constant is None for node in all_nodes(graph))
    if (request.detail_level is not None or node_count <= MAX_DETAILED_NODES) and not isinstance(
        request.detail_level, str
    ):
        yield from _detail_level_layouts(graph, request)
        if request.rankdir is not None:
            return
    if request.detail_level is None or isinstance(request.detail_level, str):
        yield from _operator_layouts(graph, request, build_canvas, node_count)


def _detail_level_layouts(graph: GraphOutline, request: LayoutRequest) -> Iterator[PictureLayout]:
    """Yield a layout for each allowed level of detail and direction, the most detailed first."""
    default_detail_level = default_level(graph)
    detail_levels = (
        [request.detail_level]
        if request.detail_level is not None
        else list(range(default_detail_level, 0, -1))
    )
    if request.rankdir is not None:
        detail_levels = detail_levels[:1]  # a requested direction has no alternative
    directions = ["LR", "TB"] if request.rankdir is None else [request.rankdir]
    for detail_level in detail_levels:
        for rankdir in directions:
            is_default_layout = (
                detail_level == 3 or request.detail_level is not None
            ) and rankdir == directions[0]
            layout_note = f"{_DIRECTION_TEXTS[rankdir]}: chosen by its size"
            layout_note = (
                layout_note if detail_level == 3 else f"level {detail_level} of 3, {layout_note}"
            )
            view = replace(
                request.view, detail=detail_of(detail_level), open_depth=request.open_depth
            )
            yield PictureLayout(view, rankdir, "" if is_default_layout else layout_note)


_DIRECTION_TEXTS = {"LR": "left to right", "TB": "top to bottom"}


# --- operators --------------------------------------------------------------------------------


def _operator_layouts(
    graph: GraphOutline, request: LayoutRequest, build_canvas: CanvasBuilder, node_count: int
) -> Iterator[PictureLayout]:
    """Yield layouts that show only operators, with fewer and fewer levels of loops expanded."""
    rankdir = request.rankdir or "TB"
    max_depth = _max_depth(graph)
    path_length = flow_length(flow_of(graph))
    expansion_depths = (
        [request.open_depth]
        if request.open_depth is not None
        else [None, *range(max_depth - 1, -1, -1)]
    )
    for expansion_depth in expansion_depths:
        view = replace(request.view, detail=OPERATORS_DETAIL, open_depth=expansion_depth)
        layout = _choose_bands(PictureLayout(view, rankdir), request, path_length, build_canvas)
        depth_remark = "" if expansion_depth is None else _depth_remark(expansion_depth)
        yield replace(
            layout, note=_operators_note(graph, layout, request, node_count) + depth_remark
        )


def _depth_remark(depth: int) -> str:
    """Return a remark about the number of nested frames that are open in a picture."""
    if depth == 0:
        return ", frames closed"
    return f", {depth} {'frame' if depth == 1 else 'frames'} deep"


def _operators_note(
    graph: GraphOutline, layout: PictureLayout, request: LayoutRequest, node_count: int
) -> str:
    """Return a note for a picture of operators: node count, flow direction and number of columns."""
    folded_node_count = flow_of(graph).folded_node_count
    layout_note = f"operators of {node_count} nodes, {_DIRECTION_TEXTS[layout.rankdir]}"
    if layout.view.band_count > 1:
        layout_note += f" in {layout.view.band_count} bands"
    if request.detail_level is None:
        layout_note += ": chosen by its size"
    return layout_note + (
        f"; {folded_node_count} that depend on no input are in what reads them"
        if folded_node_count
        else ""
    )


def _choose_bands(
    layout: PictureLayout,
    request: LayoutRequest,
    flow_length_of_graph: float,
    build_canvas: CanvasBuilder,
) -> PictureLayout:
    """Choose the number of columns (bands) whose aspect ratio is closest to `BANDS_ASPECT_RATIO`."""
    if request.band_count is not None:
        return replace(layout, view=replace(layout.view, band_count=request.band_count))
    aspect_ratio_errors: dict[int, float] = {}
    column_count = max(1, round(math.sqrt(flow_length_of_graph / BAND_WIDTH / BANDS_ASPECT_RATIO)))
    for _ in range(_BAND_ATTEMPTS):
        extent = build_canvas(
            replace(layout, view=replace(layout.view, band_count=column_count))
        ).extent()
        flow_extent, cross_extent = extent.height, extent.width
        if layout.rankdir == "LR":
            flow_extent, cross_extent = cross_extent, flow_extent
        desired_aspect_ratio = (
            1 / BANDS_ASPECT_RATIO if layout.rankdir == "LR" else BANDS_ASPECT_RATIO
        )
        aspect_ratio_errors[column_count] = abs(
            math.log(cross_extent / flow_extent / desired_aspect_ratio)
        ) + max(0.0, extent.width - MAX_BANDS_WIDTH)
        next_band_count = max(
            1, round(column_count * math.sqrt(desired_aspect_ratio * flow_extent / cross_extent))
        )
        if next_band_count in aspect_ratio_errors:
            break
        column_count = next_band_count
    return replace(
        layout,
        view=replace(
            layout.view, band_count=min(aspect_ratio_errors, key=lambda b: aspect_ratio_errors[b])
        ),
    )


def _max_depth(graph: GraphOutline) -> int:
    """Return the largest nesting depth of frames in a graph."""
    depths = (1 + _max_depth(body) for node in graph.nodes for body in node.bodies)
    return max(depths, default=0)
