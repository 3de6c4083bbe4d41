"""The level, the direction and the bands of a picture, where the caller leaves them to its size.

    level 3, left to right        fits: taken
    level 3, top to bottom        else this, if it fits
    level 2, ...                  else less detail
    operators, in bands           else, or of more than 150 nodes; frames are closed from inside
                                  until it fits

A picture fits on a page or a wide screen: neither a ribbon nor larger than a poster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.drawing.bands import length_of
from mdf_loop.drawing.canvas import Canvas
from mdf_loop.drawing.extent import Extent
from mdf_loop.drawing.flow import flow_of
from mdf_loop.drawing.theme import OPERATORS
from mdf_loop.drawing.view import View, all_nodes, default_level, detail_of
from mdf_loop.outline import GraphOutline

MOST_NODES = 150
"""A model of more nodes (inputs and constants do not count) is drawn by its operators."""
PAGE = 1500.0
"""Width that fits however low the picture is."""
WIDEST, HIGHEST, POSTER = 2400.0, 2400.0, 3600.0
"""Sides that fit where less detail makes them shorter, and what bands must keep."""
RATIO, RATIO_DOWN, TALL = 2.3, 2.5, 2.6
"""Width in parts of the height (the guess of what flows down is rather too broad), and height in parts
of the width, of larger pictures."""
BEST = 1.4
"""Width in parts of the height that bands are to have."""
BAND = 150.0
"""About how broad a band is."""
_TRIES = 3


class PictureForm(Struct, frozen=True):
    """How a picture is drawn, and what is said of what was chosen."""

    view: View
    rankdir: str
    note: str = ""


Build = Callable[[PictureForm], Canvas]
"""Draws a form, so that its extent is known."""


class Wish(Struct, frozen=True):
    """What the caller asks for; None is left to the size."""

    level: int | str | None
    rankdir: str | None
    depth: int | None
    bands: int | None
    view: View
    """All else, with a detail that does not count."""


def drawn(graph: GraphOutline, wish: Wish, build: Build) -> Canvas:
    """The picture in the first form that fits; in the last one where none does."""
    forms = _forms(graph, wish, build)
    canvas = build(next(forms))
    while not _fits(canvas.extent(), canvas.direction.sideways):
        form = next(forms, None)
        if form is None:
            break
        canvas = build(form)
    return canvas


def _fits(extent: Extent, sideways: bool) -> bool:
    ratio = RATIO if sideways else RATIO_DOWN
    wide = extent.width <= PAGE or extent.width <= min(ratio * extent.height, WIDEST)
    return wide and extent.height <= max(PAGE, min(HIGHEST, TALL * extent.width))


def _forms(graph: GraphOutline, wish: Wish, build: Build) -> Iterator[PictureForm]:
    count = sum(not n.is_input and n.constant is None for n in all_nodes(graph))
    if (wish.level is not None or count <= MOST_NODES) and not isinstance(wish.level, str):
        yield from _plain(graph, wish)
        if wish.rankdir is not None:
            return
    if wish.level is None or isinstance(wish.level, str):
        yield from _operators(graph, wish, build, count)


def _plain(graph: GraphOutline, wish: Wish) -> Iterator[PictureForm]:
    """Levels from the most detailed one that is asked for, each in both directions."""
    highest = default_level(graph)
    levels = [wish.level] if wish.level is not None else list(range(highest, 0, -1))
    if wish.rankdir is not None:
        levels = levels[:1]  # who has chosen the direction takes what it gives
    directions = ["LR", "TB"] if wish.rankdir is None else [wish.rankdir]
    for level in levels:
        for rankdir in directions:
            is_usual = (level == 3 or wish.level is not None) and rankdir == directions[0]
            said = f"{_WAYS[rankdir]}: chosen by its size"
            said = said if level == 3 else f"level {level} of 3, {said}"
            view = replace(wish.view, detail=detail_of(level), depth=wish.depth)
            yield PictureForm(view, rankdir, "" if is_usual else said)


_WAYS = {"LR": "left to right", "TB": "top to bottom"}


# --- operators --------------------------------------------------------------------------------


def _operators(graph: GraphOutline, wish: Wish, build: Build, count: int) -> Iterator[PictureForm]:
    """Operators in bands, with all frames open, then with fewer and fewer."""
    rankdir = wish.rankdir or "TB"
    deepest = _depth(graph)
    length = length_of(flow_of(graph))
    depths = [wish.depth] if wish.depth is not None else [None, *range(deepest - 1, -1, -1)]
    for depth in depths:
        view = replace(wish.view, detail=OPERATORS, depth=depth)
        form = _banded(PictureForm(view, rankdir), wish, length, build)
        closed = "" if depth is None else _how_deep(depth)
        yield replace(form, note=_operators_note(graph, form, wish, count) + closed)


def _how_deep(depth: int) -> str:
    if depth == 0:
        return ", frames closed"
    return f", {depth} {'frame' if depth == 1 else 'frames'} deep"


def _operators_note(graph: GraphOutline, form: PictureForm, wish: Wish, count: int) -> str:
    folded = flow_of(graph).folded
    said = f"operators of {count} nodes, {_WAYS[form.rankdir]}"
    if form.view.bands > 1:
        said += f" in {form.view.bands} bands"
    if wish.level is None:
        said += ": chosen by its size"
    return said + (f"; {folded} that depend on no input are in what reads them" if folded else "")


def _banded(form: PictureForm, wish: Wish, length: float, build: Build) -> PictureForm:
    """The form with as many bands as give it a good shape."""
    if wish.bands is not None:
        return replace(form, view=replace(form.view, bands=wish.bands))
    found: dict[int, float] = {}
    bands = max(1, round(math.sqrt(length / BAND / BEST)))
    for _ in range(_TRIES):
        extent = build(replace(form, view=replace(form.view, bands=bands))).extent()
        long, broad = extent.height, extent.width
        if form.rankdir == "LR":
            long, broad = broad, long
        wanted = 1 / BEST if form.rankdir == "LR" else BEST
        found[bands] = abs(math.log(broad / long / wanted)) + max(0.0, extent.width - POSTER)
        better = max(1, round(bands * math.sqrt(wanted * long / broad)))
        if better in found:
            break
        bands = better
    return replace(form, view=replace(form.view, bands=min(found, key=lambda b: found[b])))


def _depth(graph: GraphOutline) -> int:
    """How many frames stand inside each other at most."""
    depths = (1 + _depth(body) for node in graph.nodes for body in node.bodies)
    return max(depths, default=0)
