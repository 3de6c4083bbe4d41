"""The legend: the signs and lines that are in this picture, and no others."""

from __future__ import annotations

from mdf_loop.drawing.canvas import Canvas
from mdf_loop.drawing.labels import badge, cell, row, small, styled, table
from mdf_loop.drawing.theme import MARKS, STROKES

PER_ROW = 5


def legend(canvas: Canvas) -> str:
    """A small table of what was drawn; empty if nothing needs to be explained."""
    entries = [
        badge(kind, 9, 18, 16) + cell(small(mark.words), ALIGN="LEFT")
        for kind, mark in MARKS.items()
        if kind in canvas.kinds
    ]
    entries += [
        cell(styled(stroke.sample, color=stroke.attributes["color"], tag="B"))
        + cell(small(stroke.words), ALIGN="LEFT")
        for kind, stroke in STROKES.items()
        if kind in canvas.strokes and stroke.words
    ]
    if not entries:
        return ""
    rows = [entries[k : k + PER_ROW] for k in range(0, len(entries), PER_ROW)]
    return table((row(cells) for cells in rows), CELLSPACING=3, CELLPADDING=1)
