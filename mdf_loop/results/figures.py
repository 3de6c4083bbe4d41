"""Common parts of the figures of results: style, file formats and axis labels.

Only matplotlib's Figure objects are used. No window opens, and figures of pyplot are left alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from msgspec import Struct

from mdf_loop.files import checked_place, checked_target, write_atomically
from mdf_loop.ir import Array
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import convert_to_storable
from mdf_loop.run.recording.lengths import replace_padding_by_nan
from mdf_loop.text_escaping import escape_to_one_line, shorten_middle

MAX_LABEL_LENGTH = 60
"""Number of characters above which a name is drawn without its middle."""

MAX_PLOTTED_NUMBER = 1e150
"""Absolute value above which a number is a gap in the plot, as infinity is.

Ticks between two larger numbers would have no distance.
"""
MAX_PANELS = 12
"""Number of panels of a figure. Further panels are named in a line below."""

FIGURE_FORMATS: Mapping[str, Mapping[str, Any]] = {
    ".png": {},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None}},
}
"""Keyword arguments of `savefig` by file suffix. They make the same figure give the same bytes."""

STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "0.9",
    "image.cmap": "viridis",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
    "svg.hashsalt": "mdf_loop",
    "agg.path.chunksize": 20_000,
    "text.parse_math": False,
}


class Plot(Figure):
    """Matplotlib figure that a notebook displays as an image."""

    def _repr_png_(self) -> bytes:
        """Return the figure as a PNG image, which notebooks display."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def check_figure_path(path: str | Path) -> Path:
    """Return the path of a new figure file, after a check of the suffix and the folder.

    Raises:
        InputError: The suffix is not a figure format, or the file cannot be written there.
    """
    target = checked_target(path, FIGURE_FORMATS, "a plot")
    checked_place(target)
    return target


class FigureSlot(Struct):
    """Mutable reference to the figure that a `with styled_figure()` block draws."""

    figure: Figure


@contextmanager
def styled_figure(path: str | Path | None) -> Iterator[FigureSlot]:
    """Apply the common figure style inside a `with` block, and save the figure if `path` is given.

    Raises:
        InputError: The file cannot be written.
    """
    target = None if path is None else check_figure_path(path)
    with mpl.rc_context(STYLE):
        figure_slot = FigureSlot(Plot())
        yield figure_slot
        if target is not None:
            suffix = target.suffix.lower()
            write_atomically(target, lambda stream: _write(figure_slot.figure, suffix, stream))


def _write(figure: Figure, suffix: str, stream: BinaryIO) -> None:
    """Write a figure to a stream in the image format that a file suffix stands for."""
    figure.savefig(stream, format=suffix[1:], **FIGURE_FORMATS[suffix])


def mask_huge_numbers(array: Array) -> Array:
    """Return an array with nan in place of numbers that are too large for a plot axis."""
    if array.dtype != np.float64 or not (is_large := np.abs(array) > MAX_PLOTTED_NUMBER).any():
        return array
    return np.where(is_large, np.nan, array)


def plottable_array(results: Outputs, name: str) -> Array:
    """Return an output with nan in place of padding and of numbers that are too large to plot."""
    full_name = results.full_name(name)
    axis_count = len(results.axes_of(full_name))
    array = convert_to_storable(np.asarray(results[full_name]))
    return mask_huge_numbers(
        replace_padding_by_nan(array, results.lengths.get(full_name), axis_count)
    )


def axis_label(name: str, unit: str) -> str:
    """Return an axis label composed of a name and a unit, on two lines if the name is long."""
    label_lines = name.rsplit(".", 1) if len(name) > 20 else [name]
    label_text = "\n".join(map(shorten, label_lines))
    return f"{label_text} ({shorten(unit)})" if unit else label_text


def shorten(text: str) -> str:
    """Return a text on one line, without the middle part of a long text.

    The time that matplotlib needs to lay out a text grows with its length.
    """
    return shorten_middle(escape_to_one_line(text), MAX_LABEL_LENGTH)


def note_undrawn(figure: Figure, names: Sequence[str]) -> None:
    """Write below the panels the names of the outputs that a figure does not show.

    An example is `not drawn: A.v, A.w, ... (9 in all)`.
    """
    if names:
        listed_names = ", ".join(map(shorten, names[:4])) + (
            f", ... ({len(names)} in all)" * (len(names) > 4)
        )
        figure.supxlabel(
            f"not drawn: {listed_names}; name outputs to choose", fontsize=9, color="0.4"
        )
