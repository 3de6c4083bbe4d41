"""Results over time as a picture: a panel for each output, one axis of time for all of them.

1 element        a line
2 .. 10          a line for each element, with a legend of their indices
11 .. 20         a line for each element, coloured by its place in the array
more             an image: time to the right, elements upwards, values as colours
a sweep          a panel for each element, in it a line for each member, coloured by what is swept
5 truth values   and more, elements or members: marks where they are true, a raster of spikes

A picture has 12 panels at most, and says what is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.results import sweep_plotting
from mdf_loop.results.figures import (
    MOST_PANELS,
    Plot,
    drawable,
    drawing,
    label,
    left_out,
    shown,
)
from mdf_loop.results.sweep_plotting import is_over_members, places_in
from mdf_loop.results.trial_plotting import Panel, is_over_trials, panels
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import Labelled, coordinates, outputs

MOST_LINES = 20
"""An array of more elements is drawn as an image."""
MOST_IN_LEGEND = 10
LINES_OF_TRUTH = 4
"""More truth values are marks."""
MOST_TRACES = 200
"""Of more members of a sweep, or trials, as many are drawn, evenly chosen."""
MANY_POINTS = 20_000
"""A line of more points is drawn as pixels in a svg or pdf, which could not be opened otherwise."""


class _Panel(Struct, frozen=True, eq=False):
    """What is drawn in one pair of axes: `array[member, time, element]`."""

    name: str
    label: str
    array: Array
    shape: tuple[int, ...]
    dims: tuple[str, ...] = ()


def plot(
    results: Outputs, path: str | Path | None, names: Sequence[str] | None, title: str
) -> Figure:
    """The figure of the outputs over time; written to a file if there is a path."""
    with drawing(path) as drawn:
        if is_over_members(results):
            whole = None if names is None else [_full_name(results, name) for name in names]
            drawn.figure = sweep_plotting.figure(results, whole, title)
        elif is_over_trials(results):
            drawn.figure = _distributions(panels(results, names), results, title)
        else:
            over_time = _panels(results, names), _along(results, "time"), _swept(results)
            drawn.figure = _figure(*over_time, title)
    return drawn.figure


# --- what is drawn ----------------------------------------------------------------------------


def _along(results: Outputs, axis: str) -> Labelled:
    """The first coordinate of an axis.

    Raises:
        InputError: there is no such axis.
    """
    for along in coordinates(results):
        if along.dims == (axis,):
            return replace(along, array=np.asarray(along.array))
    raise no_axis(axis)


def no_axis(axis: str = "time") -> InputError:
    """The error about results that have nothing to be drawn along."""
    return InputError(
        f"there is nothing to plot: the results have no axis of {axis}",
        hint="run the model over time: give steps, and dt where time passes",
    )


def _swept(results: Outputs) -> Labelled | None:
    """What colours stand for in a sweep: the swept number, or the number of the member."""
    found = _members(results)
    trials = [along for along in coordinates(results) if along.dims == ("trial",)]
    if trials and found:
        (count,) = trials[0].array.shape
        return replace(found[0], array=np.repeat(np.asarray(found[0].array, np.float64), count))
    if not found:
        return trials[0] if trials else None
    (along, *others) = found
    numbers = along.array.dtype.kind in "iuf" and bool(np.isfinite(along.array).all())
    if others or not numbers or along.name == "batch":
        return Labelled("member of the sweep", ("batch",), np.arange(len(along.array)), "")
    return along


def _members(results: Outputs) -> list[Labelled]:
    """The numbers of each member of a sweep; of a grid only which member it is."""
    axes = [axis for axis in results.axes if axis.is_swept]
    if len(axes) > 1:
        count = math.prod(axis.length for axis in axes)
        return [Labelled("member of the sweep", ("batch",), np.arange(count), "")]
    names = [(axis.name,) for axis in axes]
    return [along for along in coordinates(results) if along.dims in names]


def _panels(results: Outputs, names: Sequence[str] | None) -> list[_Panel]:
    _along(results, "time")
    known = {item.name: item for item in outputs(results)}
    if names is None:
        chosen = [item for item in known.values() if _is_drawable(item)]
    else:
        chosen = [known[_full_name(results, name)] for name in names]
    for item in chosen:
        if not _is_drawable(item):
            raise InputError(
                f"'{item.name}' cannot be plotted: it is {item.array.dtype}{list(item.array.shape)}"
            )
    found = [panel for item in chosen for panel in _panels_of(results, item)]
    if not found:
        raise InputError("there is nothing to plot: no output is made of numbers")
    return found


def _full_name(results: Outputs, name: str) -> str:
    try:
        return results.full_name(name)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None


def _is_drawable(item: Labelled) -> bool:
    return "time" in item.dims and item.array.dtype.kind in "biuf" and item.array.size > 0


def _panels_of(results: Outputs, item: Labelled) -> list[_Panel]:
    """One panel, or in a sweep one for each element."""
    front = [axis.name for axis in results.axes]
    array = np.moveaxis(drawable(results, item.name), front.index("time"), 0)
    shape = array.shape[len(front) :]
    extents = (len(array), math.prod(array.shape[1 : len(front)]), math.prod(shape))
    array = array.reshape(extents).swapaxes(0, 1)
    if len(front) == 1:
        dims = item.dims[1:] if item.name in results.dims else ()
        return [_Panel(item.name, label(item.name, item.unit), array, shape, dims)]
    if extents[2] == 1:
        return [_Panel(item.name, label(item.name, item.unit), array, ())]
    if extents[2] > MOST_LINES:
        raise InputError(
            f"'{item.name}' has {extents[2]} elements in each member of the sweep, too many to plot",
            hint="name other outputs to plot, or save the results and choose elements",
        )
    return [
        _Panel(item.name + place, label(item.name + place, item.unit), array[:, :, k : k + 1], ())
        for k, place in enumerate(places_in(shape))
    ]


# --- distributions --------------------------------------------------------------------------------


def _distributions(found: list[Panel], results: Outputs, title: str) -> Plot:
    drawn = found[:MOST_PANELS]
    figure = Plot(figsize=(8, 3.4 * len(drawn) + 0.4 * bool(title)))
    axes = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for ax, (along, up, name, draw) in zip(axes, drawn, strict=True):
        draw(ax)
        unit = results.units.get(name, "")
        if along:
            ax.set_xlabel(label(along, unit if along == name else ""))
        ax.set_ylabel(label(up, unit if up == name else ""))
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
    figure.suptitle(shown(title))
    left_out(figure, list(dict.fromkeys(name for *_, name, _ in found[MOST_PANELS:])))
    return figure


# --- drawing ----------------------------------------------------------------------------------


def _figure(found: list[_Panel], time: Labelled, swept: Labelled | None, title: str) -> Plot:
    panels = found[:MOST_PANELS]
    height = {1: 4.0, 2: 2.8}.get(len(panels), 2.1)
    figure = Plot(figsize=(8, height * len(panels) + 0.4 * bool(title)))
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel, time.array, swept)
    if swept is not None and not (
        swept.name == "trial" and all(map(_is_raster_of_members, panels))
    ):
        colours = ScalarMappable(_range(swept.array), _member_colours())
        figure.colorbar(colours, ax=list(axes), label=label(swept.name, swept.unit), aspect=30)
    if len(time.array) > 1:
        axes[-1].set_xlim(time.array[0], time.array[-1])
        axes[-1].xaxis.set_major_locator(MaxNLocator(integer=time.array.dtype.kind in "iu"))
    else:
        axes[-1].set_xticks(time.array)
    axes[-1].set_xlabel(label(time.name, time.unit))
    figure.suptitle(shown(title))
    left_out(figure, [panel.name for panel in found[MOST_PANELS:]])
    figure.align_ylabels(axes)
    return figure


def _draw(ax: Axes, panel: _Panel, time: Array, swept: Labelled | None) -> None:
    """A panel, in the way of its array."""
    elements = panel.array.shape[2]
    if swept is not None:
        draw = _draw_marks_of_members if _is_raster_of_members(panel) else _draw_members
        draw(ax, panel, time, swept)
    elif panel.array.dtype == bool and elements > LINES_OF_TRUTH:
        _draw_marks(ax, panel, time)
    elif elements <= MOST_LINES:
        _draw_lines(ax, panel, time)
    else:
        _draw_image(ax, panel, time)


def _is_raster_of_members(panel: _Panel) -> bool:
    """Whether members of a sweep, or trials, are rows of marks where they are true."""
    return bool(panel.array.dtype == bool) and len(panel.array) > LINES_OF_TRUTH


def _draw_lines(ax: Axes, panel: _Panel, time: Array) -> None:
    """A line for each element; what is not made of numbers with a point holds until it changes."""
    (array,) = panel.array
    count = array.shape[1]
    few = count <= MOST_IN_LEGEND
    shades = mpl.colormaps["tab10" if few else "viridis"]
    for k, place in enumerate(places_in(panel.shape)):
        ax.plot(
            time,
            array[:, k],
            color=shades(k if few else k / (count - 1)),
            label=place,
            drawstyle="default" if array.dtype.kind == "f" else "steps-post",
            marker="o" if _stands_alone(array[:, k]) else None,
            rasterized=len(time) > MANY_POINTS,
        )
    _label_values(ax, panel)
    if 1 < count <= MOST_IN_LEGEND:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), labelspacing=0.2)
    elif not few:
        colours = ScalarMappable(Normalize(0, count - 1), "viridis")
        bar = _colour_bar(ax, colours, _elements(panel))
        bar.locator = MaxNLocator(integer=True)


def _stands_alone(values: Array) -> bool:
    """Whether some value has no neighbour that a line could lead to: where rows are shorter."""
    there = np.pad(np.isfinite(values), 1)
    return bool((there[1:-1] & ~there[:-2] & ~there[2:]).any())


def _label_values(ax: Axes, panel: _Panel) -> None:
    """The axis of values: name and unit, words for truth values, whole numbers for whole numbers."""
    ax.set_ylabel(panel.label)
    finite = panel.array[np.isfinite(panel.array)]
    if panel.array.dtype == bool:
        ax.set_yticks([0, 1], ["false", "true"])
        return
    if finite.size and finite.min() == finite.max():  # else its rounding errors fill the axis
        value = float(finite.min())
        around = abs(value) or 1.0
        ax.set_ylim(value - around, value + around)
    if panel.array.dtype.kind != "f":
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def _colour_bar(ax: Axes, colours: ScalarMappable, label: str) -> Any:
    """A colour bar beside a panel; all panels stay equally wide."""
    return ax.figure.colorbar(colours, cax=ax.inset_axes((1.02, 0, 0.02, 1)), label=label)


def _draw_members(ax: Axes, panel: _Panel, time: Array, swept: Labelled) -> None:
    """A line for each member of a sweep, or for some of many trials."""
    chosen = np.unique(np.linspace(0, len(panel.array) - 1, MOST_TRACES).astype(int))
    rows = panel.array[chosen, :, 0].astype(np.float64)
    swept = replace(swept, array=swept.array[chosen])
    many = len(rows) > 10
    lines = LineCollection(
        list(np.stack([np.broadcast_to(time, rows.shape), rows], axis=-1)),
        array=swept.array.astype(np.float64),
        norm=_range(swept.array),
        cmap=_member_colours(),
        linewidths=0.9 if many else 1.6,
        alpha=0.7 if many else None,
        rasterized=rows.size > MANY_POINTS,
    )
    ax.add_collection(lines)
    ax.autoscale_view()
    _label_values(ax, panel)


def _draw_marks_of_members(ax: Axes, panel: _Panel, time: Array, swept: Labelled) -> None:
    """A row of marks for each member of a sweep in its colour, or for each of some trials in black."""
    count = len(panel.array)
    chosen = np.unique(np.linspace(0, count - 1, MOST_TRACES).astype(int))
    rows, steps = np.nonzero(panel.array[chosen, :, 0])
    numbers = swept.array[chosen]
    coloured = {
        "c": numbers[rows].astype(np.float64),
        "norm": _range(numbers),
        "cmap": _member_colours(),
    }
    ax.scatter(
        time[steps],
        chosen[rows],
        marker="|",
        s=min(64, max(2, (180 / len(chosen)) ** 2)),
        linewidths=1,
        rasterized=len(steps) > MANY_POINTS,
        **({"color": "black"} if swept.name == "trial" else coloured),
    )
    ax.set_ylim(-0.5, count - 0.5)
    _label_elements(ax, f"{panel.label}\n{'trial' if swept.name == 'trial' else 'member'}")


def _draw_marks(ax: Axes, panel: _Panel, time: Array) -> None:
    """A mark for each element and time where it is true; each keeps its size, however many steps."""
    (array,) = panel.array
    steps, elements = np.nonzero(array)
    ax.plot(
        time[steps],
        elements,
        linestyle="none",
        marker="|",
        markersize=min(8, max(1, 120 / array.shape[1])),
        color="black",
        rasterized=len(steps) > MANY_POINTS,
    )
    ax.set_ylim(-0.5, array.shape[1] - 0.5)
    _label_elements(ax, f"{panel.label}\n{_elements(panel)}")


def _draw_image(ax: Axes, panel: _Panel, time: Array) -> None:
    """Time to the right, elements upwards, values as colours."""
    (array,) = panel.array
    half = (time[-1] - time[0]) / (2 * (len(time) - 1)) if len(time) > 1 else 0.5
    image = ax.imshow(
        array.T.astype(np.float64),
        aspect="auto",
        origin="lower",
        extent=(time[0] - half, time[-1] + half, -0.5, array.shape[1] - 0.5),
    )
    ax.grid(visible=False)
    _label_elements(ax, _elements(panel))
    _colour_bar(ax, image, panel.label)


def _label_elements(ax: Axes, label: str) -> None:
    ax.set_ylabel(label)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def _elements(panel: _Panel) -> str:
    """What elements are called: by the name of their axis, if the model has one."""
    called = ", ".join(map(shown, panel.dims)) or "element"
    if len(panel.shape) < 2:
        return called
    return f"{called}\n({'×'.join(map(str, panel.shape))}, row by row)"


def _member_colours() -> ListedColormap:
    """The colours of members, none too pale to be seen as a thin line on white."""
    return ListedColormap(mpl.colormaps["viridis"](np.linspace(0, 0.8, 256)))


def _range(values: Array) -> Normalize:
    return Normalize(float(np.min(values)), float(np.max(values)))
