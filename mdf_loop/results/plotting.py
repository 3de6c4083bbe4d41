"""Plots of results over time: one panel for each output above a common time axis.

    1 element        a line
    2 .. 10          a line for each element, with a legend of their indices
    11 .. 20         a line for each element, coloured by its index in the array
    more             an image: time to the right, elements upwards, values as colours
    a sweep          a panel for each element with a line for each member, coloured by the swept value
    5 and more booleans  (elements or members) a mark at each time of True, as in a spike raster

A figure has 12 panels at most. A line below them names the outputs without a panel.
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
    MAX_PANELS,
    Plot,
    axis_label,
    note_undrawn,
    plottable_array,
    shorten,
    styled_figure,
)
from mdf_loop.results.sweep_plotting import element_indices, is_sweep_alone
from mdf_loop.results.trial_plotting import Panel, distribution_panels, has_distributions
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import Labelled, coordinates, outputs

MAX_LINES = 20
"""Number of elements above which an array is drawn as an image."""
MAX_LEGEND_ENTRIES = 10
MAX_BOOLEAN_LINES = 4
"""Number of boolean elements above which they are drawn as marks instead of lines."""
MAX_DRAWN_MEMBERS = 200
"""Maximum number of drawn members of a sweep, or trials. Of a larger number, evenly spaced ones are drawn."""
MAX_VECTOR_POINTS = 20_000
"""Number of points above which a line in an svg or pdf file is drawn as pixels.

Viewers cannot open files with so many points as vector graphics.
"""


class _Panel(Struct, frozen=True, eq=False):
    """Data of one panel of a figure: `array[member, time, element]` with labels."""

    output_name: str
    value_label: str
    array: Array
    element_shape: tuple[int, ...]
    element_dims: tuple[str, ...] = ()


def plot_results(
    results: Outputs, path: str | Path | None, names: Sequence[str] | None, title: str
) -> Figure:
    """Plot outputs over time, over a sweep or over trials, and save the figure if `path` is given."""
    with styled_figure(path) as figure_slot:
        if is_sweep_alone(results):
            full_names = None if names is None else [_full_name(results, name) for name in names]
            figure_slot.figure = sweep_plotting.plot_sweep(results, full_names, title)
        elif has_distributions(results):
            figure_slot.figure = _draw_distributions(
                distribution_panels(results, names), results, title
            )
        else:
            figure_arguments = (
                _build_panels(results, names),
                _axis_coordinate(results, "time"),
                _colour_coordinate(results),
            )
            figure_slot.figure = _draw_figure(*figure_arguments, title)
    return figure_slot.figure


# --- panels -----------------------------------------------------------------------------------


def _axis_coordinate(results: Outputs, axis: str) -> Labelled:
    """Return the first coordinate array of an axis of results, such as the times.

    Raises:
        InputError: The results have no such axis.
    """
    for coordinate in coordinates(results):
        if coordinate.dims == (axis,):
            return replace(coordinate, array=np.asarray(coordinate.array))
    raise missing_axis_error(axis)


def missing_axis_error(axis: str = "time") -> InputError:
    """Return the error for a plot along an axis that the results do not have."""
    return InputError(
        f"there is nothing to plot: the results have no axis of {axis}",
        hint="run the model over time: give steps, and dt where time passes",
    )


def _colour_coordinate(results: Outputs) -> Labelled | None:
    """Return the coordinate that the colours of the lines in a figure represent.

    It is the swept number, the member number, or the trial.
    """
    swept_coordinates = _member_coordinates(results)
    trial_coordinates = [
        coordinate for coordinate in coordinates(results) if coordinate.dims == ("trial",)
    ]
    if trial_coordinates and swept_coordinates:
        (trial_count,) = trial_coordinates[0].array.shape
        return replace(
            swept_coordinates[0],
            array=np.repeat(np.asarray(swept_coordinates[0].array, np.float64), trial_count),
        )
    if not swept_coordinates:
        return trial_coordinates[0] if trial_coordinates else None
    (coordinate, *other_coordinates) = swept_coordinates
    is_numeric = coordinate.array.dtype.kind in "iuf" and bool(np.isfinite(coordinate.array).all())
    if other_coordinates or not is_numeric or coordinate.name == "batch":
        return Labelled("member of the sweep", ("batch",), np.arange(len(coordinate.array)), "")
    return coordinate


def _member_coordinates(results: Outputs) -> list[Labelled]:
    """Return the swept values of a sweep's members, or the member numbers for a grid."""
    swept_axes = [axis for axis in results.axes if axis.is_swept]
    if len(swept_axes) > 1:
        member_count = math.prod(axis.length for axis in swept_axes)
        return [Labelled("member of the sweep", ("batch",), np.arange(member_count), "")]
    swept_dims = [(axis.name,) for axis in swept_axes]
    return [coordinate for coordinate in coordinates(results) if coordinate.dims in swept_dims]


def _build_panels(results: Outputs, names: Sequence[str] | None) -> list[_Panel]:
    """Return the panels of a figure for the outputs `names`, or for all drawable outputs."""
    _axis_coordinate(results, "time")
    labelled_outputs = {labelled_array.name: labelled_array for labelled_array in outputs(results)}
    if names is None:
        drawn_outputs = [
            labelled_array
            for labelled_array in labelled_outputs.values()
            if _is_drawable(labelled_array)
        ]
    else:
        drawn_outputs = [labelled_outputs[_full_name(results, name)] for name in names]
    for labelled_array in drawn_outputs:
        if not _is_drawable(labelled_array):
            raise InputError(
                f"'{labelled_array.name}' cannot be plotted: it is {labelled_array.array.dtype}{list(labelled_array.array.shape)}"
            )
    panels = [
        panel
        for labelled_array in drawn_outputs
        for panel in _build_output_panels(results, labelled_array)
    ]
    if not panels:
        raise InputError("there is nothing to plot: no output is made of numbers")
    return panels


def _full_name(results: Outputs, name: str) -> str:
    """Return the full name of the output to which a shorter name refers.

    Raises:
        InputError: No output has this name, or several have it.
    """
    try:
        return results.full_name(name)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None


def _is_drawable(labelled_array: Labelled) -> bool:
    """Return True if an output is an array of numbers or booleans over time."""
    return (
        "time" in labelled_array.dims
        and labelled_array.array.dtype.kind in "biuf"
        and labelled_array.array.size > 0
    )


def _build_output_panels(results: Outputs, labelled_array: Labelled) -> list[_Panel]:
    """Return the panels of one output: a single one, or in a sweep one for each element."""
    axis_names = [axis.name for axis in results.axes]
    panel_array = np.moveaxis(
        plottable_array(results, labelled_array.name), axis_names.index("time"), 0
    )
    element_shape = panel_array.shape[len(axis_names) :]
    panel_shape = (
        len(panel_array),
        math.prod(panel_array.shape[1 : len(axis_names)]),
        math.prod(element_shape),
    )
    panel_array = panel_array.reshape(panel_shape).swapaxes(0, 1)
    if len(axis_names) == 1:
        element_dims = labelled_array.dims[1:] if labelled_array.name in results.dims else ()
        return [
            _Panel(
                labelled_array.name,
                axis_label(labelled_array.name, labelled_array.unit),
                panel_array,
                element_shape,
                element_dims,
            )
        ]
    if panel_shape[2] == 1:
        return [
            _Panel(
                labelled_array.name,
                axis_label(labelled_array.name, labelled_array.unit),
                panel_array,
                (),
            )
        ]
    if panel_shape[2] > MAX_LINES:
        raise InputError(
            f"'{labelled_array.name}' has {panel_shape[2]} elements in each member of the sweep, too many to plot",
            hint="name other outputs to plot, or save the results and choose elements",
        )
    return [
        _Panel(
            labelled_array.name + element_index,
            axis_label(labelled_array.name + element_index, labelled_array.unit),
            panel_array[:, :, k : k + 1],
            (),
        )
        for k, element_index in enumerate(element_indices(element_shape))
    ]


# --- distributions --------------------------------------------------------------------------------


def _draw_distributions(panels: list[Panel], results: Outputs, title: str) -> Plot:
    """Draw a figure with panels of distributions over trials."""
    drawn_panels = panels[:MAX_PANELS]
    figure = Plot(figsize=(8, 3.4 * len(drawn_panels) + 0.4 * bool(title)))
    panel_axes = figure.subplots(len(drawn_panels), 1, squeeze=False)[:, 0]
    for ax, (x_label, y_label, name, draw_panel) in zip(panel_axes, drawn_panels, strict=True):
        draw_panel(ax)
        unit = results.units.get(name, "")
        if x_label:
            ax.set_xlabel(axis_label(x_label, unit if x_label == name else ""))
        ax.set_ylabel(axis_label(y_label, unit if y_label == name else ""))
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
    figure.suptitle(shorten(title))
    note_undrawn(figure, list(dict.fromkeys(name for *_, name, _ in panels[MAX_PANELS:])))
    return figure


# --- drawing ----------------------------------------------------------------------------------


def _draw_figure(
    panels: list[_Panel], time: Labelled, colour_coordinate: Labelled | None, title: str
) -> Plot:
    """Draw a figure with panels over time, with a colour bar for the members of a sweep."""
    drawn_panels = panels[:MAX_PANELS]
    panel_height = {1: 4.0, 2: 2.8}.get(len(drawn_panels), 2.1)
    figure = Plot(figsize=(8, panel_height * len(drawn_panels) + 0.4 * bool(title)))
    panel_axes = figure.subplots(len(drawn_panels), 1, sharex=True, squeeze=False)[:, 0]
    for ax, panel in zip(panel_axes, drawn_panels, strict=True):
        _draw_panel(ax, panel, time.array, colour_coordinate)
    if colour_coordinate is not None and not (
        colour_coordinate.name == "trial" and all(map(_is_raster_of_members, drawn_panels))
    ):
        colour_mapping = ScalarMappable(_colour_range(colour_coordinate.array), _member_colours())
        figure.colorbar(
            colour_mapping,
            ax=list(panel_axes),
            label=axis_label(colour_coordinate.name, colour_coordinate.unit),
            aspect=30,
        )
    if len(time.array) > 1:
        panel_axes[-1].set_xlim(time.array[0], time.array[-1])
        panel_axes[-1].xaxis.set_major_locator(MaxNLocator(integer=time.array.dtype.kind in "iu"))
    else:
        panel_axes[-1].set_xticks(time.array)
    panel_axes[-1].set_xlabel(axis_label(time.name, time.unit))
    figure.suptitle(shorten(title))
    note_undrawn(figure, [panel.output_name for panel in panels[MAX_PANELS:]])
    figure.align_ylabels(panel_axes)
    return figure


def _draw_panel(ax: Axes, panel: _Panel, time: Array, colour_coordinate: Labelled | None) -> None:
    """Draw the array of a panel as lines, marks or an image, depending on dtype and size."""
    element_count = panel.array.shape[2]
    if colour_coordinate is not None:
        draw_batch = _draw_marks_of_members if _is_raster_of_members(panel) else _draw_members
        draw_batch(ax, panel, time, colour_coordinate)
    elif panel.array.dtype == bool and element_count > MAX_BOOLEAN_LINES:
        _draw_marks(ax, panel, time)
    elif element_count <= MAX_LINES:
        _draw_lines(ax, panel, time)
    else:
        _draw_image(ax, panel, time)


def _is_raster_of_members(panel: _Panel) -> bool:
    """Return True if a panel shows a row of marks for each sweep member or trial."""
    return bool(panel.array.dtype == bool) and len(panel.array) > MAX_BOOLEAN_LINES


def _draw_lines(ax: Axes, panel: _Panel, time: Array) -> None:
    """Draw a line over time for each element, as steps for integers and booleans."""
    (element_series,) = panel.array
    element_count = element_series.shape[1]
    has_legend = element_count <= MAX_LEGEND_ENTRIES
    colour_map = mpl.colormaps["tab10" if has_legend else "viridis"]
    for k, element_index in enumerate(element_indices(panel.element_shape)):
        ax.plot(
            time,
            element_series[:, k],
            color=colour_map(k if has_legend else k / (element_count - 1)),
            label=element_index,
            drawstyle="default" if element_series.dtype.kind == "f" else "steps-post",
            marker="o" if _has_isolated_point(element_series[:, k]) else None,
            rasterized=len(time) > MAX_VECTOR_POINTS,
        )
    _label_values(ax, panel)
    if 1 < element_count <= MAX_LEGEND_ENTRIES:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), labelspacing=0.2)
    elif not has_legend:
        colour_mapping = ScalarMappable(Normalize(0, element_count - 1), "viridis")
        colour_bar = _add_colour_bar(ax, colour_mapping, _elements_label(panel))
        colour_bar.locator = MaxNLocator(integer=True)


def _has_isolated_point(values: Array) -> bool:
    """Return True if a value in a time series has no finite neighbour and needs a marker."""
    is_finite = np.pad(np.isfinite(values), 1)
    return bool((is_finite[1:-1] & ~is_finite[:-2] & ~is_finite[2:]).any())


def _label_values(ax: Axes, panel: _Panel) -> None:
    """Label the value axis of a panel with the output's name and unit, and set its ticks."""
    ax.set_ylabel(panel.value_label)
    finite_values = panel.array[np.isfinite(panel.array)]
    if panel.array.dtype == bool:
        ax.set_yticks([0, 1], ["false", "true"])
        return
    if (
        finite_values.size and finite_values.min() == finite_values.max()
    ):  # rounding errors would fill the axis
        constant_value = float(finite_values.min())
        axis_margin = abs(constant_value) or 1.0
        ax.set_ylim(constant_value - axis_margin, constant_value + axis_margin)
    if panel.array.dtype.kind != "f":
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def _add_colour_bar(ax: Axes, colours: ScalarMappable, label: str) -> Any:
    """Add a colour bar beside a panel without changing the panel's width."""
    return ax.figure.colorbar(colours, cax=ax.inset_axes((1.02, 0, 0.02, 1)), label=label)


def _draw_members(ax: Axes, panel: _Panel, time: Array, colour_coordinate: Labelled) -> None:
    """Draw a line over time for each member of a sweep, or for evenly selected members."""
    member_indices = np.unique(np.linspace(0, len(panel.array) - 1, MAX_DRAWN_MEMBERS).astype(int))
    member_series = panel.array[member_indices, :, 0].astype(np.float64)
    colour_coordinate = replace(colour_coordinate, array=colour_coordinate.array[member_indices])
    is_dense = len(member_series) > 10
    line_collection = LineCollection(
        list(np.stack([np.broadcast_to(time, member_series.shape), member_series], axis=-1)),
        array=colour_coordinate.array.astype(np.float64),
        norm=_colour_range(colour_coordinate.array),
        cmap=_member_colours(),
        linewidths=0.9 if is_dense else 1.6,
        alpha=0.7 if is_dense else None,
        rasterized=member_series.size > MAX_VECTOR_POINTS,
    )
    ax.add_collection(line_collection)
    ax.autoscale_view()
    _label_values(ax, panel)


def _draw_marks_of_members(
    ax: Axes, panel: _Panel, time: Array, colour_coordinate: Labelled
) -> None:
    """Draw a row of event marks for each member of a sweep or each trial."""
    member_count = len(panel.array)
    member_indices = np.unique(np.linspace(0, member_count - 1, MAX_DRAWN_MEMBERS).astype(int))
    event_rows, event_steps = np.nonzero(panel.array[member_indices, :, 0])
    member_values = colour_coordinate.array[member_indices]
    colour_options = {
        "c": member_values[event_rows].astype(np.float64),
        "norm": _colour_range(member_values),
        "cmap": _member_colours(),
    }
    ax.scatter(
        time[event_steps],
        member_indices[event_rows],
        marker="|",
        s=min(64, max(2, (180 / len(member_indices)) ** 2)),
        linewidths=1,
        rasterized=len(event_steps) > MAX_VECTOR_POINTS,
        **({"color": "black"} if colour_coordinate.name == "trial" else colour_options),
    )
    ax.set_ylim(-0.5, member_count - 0.5)
    _label_elements(
        ax, f"{panel.value_label}\n{'trial' if colour_coordinate.name == 'trial' else 'member'}"
    )


def _draw_marks(ax: Axes, panel: _Panel, time: Array) -> None:
    """Draw a row of marks for each boolean element, with a mark at each time with the value True."""
    (element_series,) = panel.array
    true_steps, true_elements = np.nonzero(element_series)
    ax.plot(
        time[true_steps],
        true_elements,
        linestyle="none",
        marker="|",
        markersize=min(8, max(1, 120 / element_series.shape[1])),
        color="black",
        rasterized=len(true_steps) > MAX_VECTOR_POINTS,
    )
    ax.set_ylim(-0.5, element_series.shape[1] - 0.5)
    _label_elements(ax, f"{panel.value_label}\n{_elements_label(panel)}")


def _draw_image(ax: Axes, panel: _Panel, time: Array) -> None:
    """Draw an output as an image, with time to the right, elements upwards and values as colours."""
    (element_series,) = panel.array
    half_step = (time[-1] - time[0]) / (2 * (len(time) - 1)) if len(time) > 1 else 0.5
    image = ax.imshow(
        element_series.T.astype(np.float64),
        aspect="auto",
        origin="lower",
        extent=(time[0] - half_step, time[-1] + half_step, -0.5, element_series.shape[1] - 0.5),
    )
    ax.grid(visible=False)
    _label_elements(ax, _elements_label(panel))
    _add_colour_bar(ax, image, panel.value_label)


def _label_elements(ax: Axes, label: str) -> None:
    """Label the element axis of a panel, and give it integer ticks."""
    ax.set_ylabel(label)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))


def _elements_label(panel: _Panel) -> str:
    """Return the label of a panel's element axis: names of dimensions, or "element"."""
    dims_label = ", ".join(map(shorten, panel.element_dims)) or "element"
    if len(panel.element_shape) < 2:
        return dims_label
    return f"{dims_label}\n({'×'.join(map(str, panel.element_shape))}, row by row)"


def _member_colours() -> ListedColormap:
    """Return the colour map for the members of a sweep, without colours that are pale on white."""
    return ListedColormap(mpl.colormaps["viridis"](np.linspace(0, 0.8, 256)))


def _colour_range(values: Array) -> Normalize:
    """Return a colour scale from the smallest to the largest value of a coordinate."""
    return Normalize(float(np.min(values)), float(np.max(values)))
