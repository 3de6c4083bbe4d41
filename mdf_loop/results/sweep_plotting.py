"""Sweeps of one evaluation, or of what is told of a whole run, as a picture: values over what is swept.

one axis             a line for each element over the swept value (over the number of the member, where
                     that is no number); more than 20 elements are an image
two axes of a grid   an image for each element: the second axis to the right, the first upwards

The elements of what is told of trials are responses, quantiles, bins of histograms: a histogram over one
axis is an image for each response.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from msgspec import Struct

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.results.figures import MOST_PANELS, Plot, drawable, label, left_out, shown
from mdf_loop.results.trial_words import element_words, is_histogram, responses
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.labels import element_names

MOST_LINES, MOST_IN_LEGEND = 20, 10
FEW_POINTS = 40
"""So many points of a line are marked."""


class SweptAxis(Struct, frozen=True, eq=False):
    """What stands along an axis: its label, where its places are, and what is written at them.

    Texts are written where values cannot be places: where they do not rise or fall.
    """

    label: str
    places: Array
    texts: tuple[str, ...] = ()


Panel = tuple[str, Callable[[Axes], None]]
"""What it is called, and what draws it."""


def is_over_members(results: Outputs) -> bool:
    """Whether there are members of a sweep, and neither time nor trials."""
    each = {axis.name for axis in results.axes if not axis.is_swept} & {"time", "trial"}
    return any(axis.is_swept for axis in results.axes) and not each


def figure(results: Outputs, names: Sequence[str] | None, title: str) -> Plot:
    """The figure of such results.

    Raises:
        InputError: there is nothing to draw, or more than two axes to draw it over.
    """
    found = list(_panels(results, names))
    if not found:
        raise InputError("there is nothing to plot: no output is made of numbers")
    drawn = found[:MOST_PANELS]
    made = Plot(figsize=(8, 3.6 * len(drawn) + 0.4 * bool(title)))
    for ax, (_, draw) in zip(made.subplots(len(drawn), 1, squeeze=False)[:, 0], drawn, strict=True):
        draw(ax)
    made.suptitle(shown(title))
    left_out(made, [name for name, _ in found[MOST_PANELS:]])
    return made


def _panels(results: Outputs, names: Sequence[str] | None) -> Iterator[Panel]:
    swept = [axis for axis in results.axes if axis.is_swept]
    if len(swept) > 2:
        raise InputError(
            f"a sweep over {len(swept)} axes cannot be drawn",
            hint="save the results, and choose a plane of them: results.to_xarray().sel(...)",
        )
    along = [_along(results, axis) for axis in swept]
    for name in results if names is None else names:
        array = results[name]
        if isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and array.size:
            yield from _panels_of(results, name, drawable(results, name), along)
        elif names is not None:
            raise InputError(f"'{name}' cannot be plotted: it is no array of numbers")


def _panels_of(
    results: Outputs, name: str, array: Array, along: Sequence[SweptAxis]
) -> Iterator[Panel]:
    unit, front = results.units.get(name, ""), len(along)
    words = element_words(results, name, array.shape[front:])
    rows = array.reshape(*array.shape[:front], -1)
    if front == 1 and is_histogram(results, name):
        yield from _histograms(results, name, array, along[0])
    elif front == 1:
        drawing = _lines if rows.shape[1] <= MOST_LINES else _image_of_elements
        yield name, partial(drawing, along[0], label(name, unit), rows, words)
    else:
        for k, word in enumerate(words):
            if not word or word.startswith("["):
                called, what = name + word, label(name + word, unit)
            else:
                called, what = f"{name} {word}", f"{label(name, unit)}\n{word}"
            yield called, partial(_image, along, what, rows[..., k])


def _histograms(results: Outputs, name: str, array: Array, along: SweptAxis) -> Iterator[Panel]:
    """An image for each response: what is swept to the right, the bins upwards."""
    of, edges = name.rpartition(".")[0], np.asarray(results.told[name], np.float64)
    said = label(of, results.units.get(of, ""))
    for response, counts in zip(
        responses(results) or [""],
        array.reshape(len(array), -1, array.shape[-1]).swapaxes(0, 1),
        strict=True,
    ):
        what = "\n".join(filter(None, ("trials", response)))
        yield f"{name} {response}", partial(image_of_bins, along, said, (counts, edges), what)


def places_in(shape: tuple[int, ...]) -> list[str]:
    """The index of each element: `[0]`, `[1,0]`; none for a single number."""
    return list(element_names("", shape))


def _along(results: Outputs, axis: Axis) -> SweptAxis:
    """The swept number, or the number of the member where several, or no numbers, are swept."""
    named = [(name, np.asarray(values)) for name, values in axis.coordinates.items()]
    ((name, values), *others) = named
    if others or values.ndim > 1 or values.dtype.kind not in "iufb":
        return SweptAxis("member of the sweep", np.arange(axis.length))
    steps = np.diff(values.astype(np.float64))
    said = label(name, results.units.get(name, ""))
    if bool(np.isfinite(values).all()) and (bool((steps > 0).all()) or bool((steps < 0).all())):
        return SweptAxis(said, values.astype(np.float64))
    return SweptAxis(said, np.arange(axis.length), tuple(f"{value:.6g}" for value in values))


def along_members(results: Outputs) -> SweptAxis:
    """What all members of a sweep stand along: what is swept, or in a grid their numbers."""
    swept = [axis for axis in results.axes if axis.is_swept]
    if len(swept) == 1:
        return _along(results, swept[0])
    count = math.prod(axis.length for axis in swept)
    return SweptAxis("member of the sweep", np.arange(count))


# --- drawing --------------------------------------------------------------------------------------


def _lines(along: SweptAxis, what: str, rows: Array, places: Sequence[str], ax: Axes) -> None:
    count = rows.shape[1]
    few = count <= MOST_IN_LEGEND
    shades = mpl.colormaps["tab10" if few else "viridis"]
    for k, place in enumerate(places):
        ax.plot(
            along.places,
            rows[:, k].astype(np.float64),
            color=shades(k if few else k / (count - 1)),
            label=place,
            marker="o" if len(rows) <= FEW_POINTS else None,
            markersize=4,
        )
    if 1 < count <= MOST_IN_LEGEND:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), labelspacing=0.2)
    if rows.dtype == bool:
        ax.set_yticks([0, 1], ["false", "true"])
    ax.set_ylabel(what)
    _write(ax.set_xlabel, ax.set_xticks, along)


def _image_of_elements(
    along: SweptAxis, what: str, rows: Array, places: Sequence[str], ax: Axes
) -> None:
    _mesh(ax, _edges(along.places), np.arange(len(places) + 1) - 0.5, rows.T, what)
    ax.set_ylabel("element")
    _write(ax.set_xlabel, ax.set_xticks, along)


def image_of_bins(
    along: SweptAxis, said: str, binned: tuple[Array, Array], what: str, ax: Axes
) -> None:
    """Histograms, `counts[member, bin]` and edges, as an image: members to the right, bins upwards."""
    counts, edges = binned
    _mesh(ax, _edges(along.places), edges, counts.T, what)
    ax.set_ylabel(said)
    _write(ax.set_xlabel, ax.set_xticks, along)


def _image(along: Sequence[SweptAxis], what: str, values: Array, ax: Axes) -> None:
    up, right = along
    _mesh(ax, _edges(right.places), _edges(up.places), values, what)
    _write(ax.set_xlabel, ax.set_xticks, right)
    _write(ax.set_ylabel, ax.set_yticks, up)


def _mesh(ax: Axes, right: Array, up: Array, values: Array, what: str) -> None:
    """Each value as a cell between edges."""
    cells = ax.pcolormesh(right, up, values.astype(np.float64), rasterized=values.size > 1000)
    ax.grid(visible=False)
    ax.figure.colorbar(cells, ax=ax, label=what)


def _edges(places: Array) -> Array:
    """Where cells end: in the middle between places."""
    places = np.asarray(places, np.float64)
    if len(places) == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middle = (places[1:] + places[:-1]) / 2
    first, last = 2 * places[0] - middle[0], 2 * places[-1] - middle[-1]
    ends: Array = np.concatenate([[first], middle, [last]])
    return ends


def _write(name: Any, ticks: Any, along: SweptAxis) -> None:
    name(along.label)
    if along.texts:
        chosen = np.unique(np.linspace(0, len(along.texts) - 1, 10).astype(int))
        ticks(along.places[chosen], [along.texts[k] for k in chosen])
