"""Legend of the signs and line styles that occur in a picture."""

from __future__ import annotations

from mdf_loop.drawing.dot.canvas import Canvas
from mdf_loop.drawing.dot.labels import badge, cell, row, small_text, style_text, table
from mdf_loop.drawing.theme import LINE_STYLES, MARKS

ENTRIES_PER_ROW = 5


def draw_legend(canvas: Canvas) -> str:
    """Return the legend of the signs and line styles in a picture, or an empty text.

    The text is empty if nothing needs an explanation.
    """
    legend_entries = [
        badge(mark_kind, 9, 18, 16) + cell(small_text(mark.legend_text), ALIGN="LEFT")
        for mark_kind, mark in MARKS.items()
        if mark_kind in canvas.mark_kinds
    ]
    legend_entries += [
        cell(style_text(line_style.legend_sample, color=line_style.attributes["color"], tag="B"))
        + cell(small_text(line_style.legend_text), ALIGN="LEFT")
        for line_style_name, line_style in LINE_STYLES.items()
        if line_style_name in canvas.drawn_line_styles and line_style.legend_text
    ]
    if not legend_entries:
        return ""
    entry_rows = [
        legend_entries[k : k + ENTRIES_PER_ROW]
        for k in range(0, len(legend_entries), ENTRIES_PER_ROW)
    ]
    return table((row(cells) for cells in entry_rows), CELLSPACING=3, CELLPADDING=1)
