"""What all pictures of results have in common: their style, their files, how names are written.

Only matplotlib's Figure objects are used: no window opens and pyplot's figures are left alone.
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

from mdf_loop.files import checked_place, checked_target, write_whole
from mdf_loop.ir import Array
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import storable
from mdf_loop.run.recording.lengths import padding_as_nan
from mdf_loop.visible import on_one_line, without_middle

LONGEST_DRAWN = 60
"""A name of more characters is drawn without its middle."""

FARTHEST = 1e150
"""Larger numbers are gaps, as infinite ones are: ticks between two such have no distance."""
MOST_PANELS = 12
"""Of more a picture says which are left out."""

PICTURES: Mapping[str, Mapping[str, Any]] = {
    ".png": {},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None}},
}
"""How a figure is written, by the suffix of the file; the same figure gives the same bytes."""

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
    """A figure that shows itself in notebooks."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def check_picture(path: str | Path) -> Path:
    """The path of a file that a figure can be saved to, or an InputError."""
    target = checked_target(path, PICTURES, "a plot")
    checked_place(target)
    return target


class Drawn(Struct):
    """A figure that is being drawn."""

    figure: Figure


@contextmanager
def drawing(path: str | Path | None) -> Iterator[Drawn]:
    """What is drawn inside has our style, and is written at the end if there is a path.

    Raises:
        InputError: the file cannot be written.
    """
    target = None if path is None else check_picture(path)
    with mpl.rc_context(STYLE):
        made = Drawn(Plot())
        yield made
        if target is not None:
            suffix = target.suffix.lower()
            write_whole(target, lambda stream: _write(made.figure, suffix, stream))


def _write(figure: Figure, suffix: str, stream: BinaryIO) -> None:
    figure.savefig(stream, format=suffix[1:], **PICTURES[suffix])


def within_reach(array: Array) -> Array:
    """The array with gaps where a number is too large for the ticks of an axis."""
    if array.dtype != np.float64 or not (large := np.abs(array) > FARTHEST).any():
        return array
    return np.where(large, np.nan, array)


def drawable(results: Outputs, name: str) -> Array:
    """Return an output with gaps for padding, and where a number is too large for an axis."""
    full = results.full_name(name)
    front = len(results.axes_of(full))
    array = storable(np.asarray(results[full]))
    return within_reach(padding_as_nan(array, results.lengths.get(full), front))


def label(name: str, unit: str) -> str:
    """The name with its unit, long ones in two lines."""
    parts = name.rsplit(".", 1) if len(name) > 20 else [name]
    lines = "\n".join(map(shown, parts))
    return f"{lines} ({shown(unit)})" if unit else lines


def shown(text: str) -> str:
    """A text as there is room for it; the time to lay one out grows with its length."""
    return without_middle(on_one_line(text), LONGEST_DRAWN)


def left_out(figure: Figure, names: Sequence[str]) -> None:
    """Say below the panels which there is no room for: `not drawn: A.v, A.w, ... (9 in all)`."""
    if names:
        some = ", ".join(map(shown, names[:4])) + (
            f", ... ({len(names)} in all)" * (len(names) > 4)
        )
        figure.supxlabel(f"not drawn: {some}; name outputs to choose", fontsize=9, color="0.4")
