"""Plots of sweeps without a time axis: single evaluations, or statistics of whole runs.

    one axis             a line for each element over the swept value (over the member number if the value
                         is not a number); more than 20 elements are an image
    two axes of a grid   an image for each element: the second axis to the right, the first upwards

Elements of statistics over trials are responses, quantiles or bins of histograms. A histogram over one
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
from mdf_loop.results.figures import (
    MAX_PANELS,
    Plot,
    axis_label,
    note_undrawn,
    plottable_array,
    shorten,
)
from mdf_loop.results.statistic_labels import element_labels, is_histogram, response_labels
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.labels import element_names

MAX_LINES, MAX_LEGEND_ENTRIES = 20, 10
MAX_MARKED_POINTS = 40
"""Number of points of a line up to which each point has a marker."""


class SweptAxis(Struct, frozen=True, eq=False):
    """Plot axis for the members of a sweep: its label, positions and tick labels.

    Tick labels replace the swept values if these are not monotonic, and therefore cannot be positions.
    """

    label: str
    positions: Array
    tick_labels: tuple[str, ...] = ()


Panel = tuple[str, Callable[[Axes], None]]
"""Name of a panel, and the function that draws it."""


def is_sweep_alone(results: Outputs) -> bool:
    """Return True if results have an axis of sweep members, but no axis of time or trials."""
    time_or_trial_axes = {axis.name for axis in results.axes if not axis.is_swept} & {
        "time",
        "trial",
    }
    return any(axis.is_swept for axis in results.axes) and not time_or_trial_axes


def plot_sweep(results: Outputs, names: Sequence[str] | None, title: str) -> Plot:
    """Plot the outputs of a sweep against the swept values.

    Raises:
        InputError: No output is numeric, or the sweep has more than two axes.
    """
    panels = list(_build_panels(results, names))
    if not panels:
        raise InputError("there is nothing to plot: no output is made of numbers")
    drawn_panels = panels[:MAX_PANELS]
    figure = Plot(figsize=(8, 3.6 * len(drawn_panels) + 0.4 * bool(title)))
    for ax, (_, draw_panel) in zip(
        figure.subplots(len(drawn_panels), 1, squeeze=False)[:, 0], drawn_panels, strict=True
    ):
        draw_panel(ax)
    figure.suptitle(shorten(title))
    note_undrawn(figure, [name for name, _ in panels[MAX_PANELS:]])
    return figure


def _build_panels(results: Outputs, names: Sequence[str] | None) -> Iterator[Panel]:
    """Yield the panels of a sweep's figure for the outputs `names`, or for all numeric outputs."""
    result_axes = [axis for axis in results.axes if axis.is_swept]
    if len(result_axes) > 2:
        raise InputError(
            f"a sweep over {len(result_axes)} axes cannot be drawn",
            hint="save the results, and choose a plane of them: results.to_xarray().sel(...)",
        )
    swept_axes = [_build_swept_axis(results, axis) for axis in result_axes]
    for name in results if names is None else names:
        array = results[name]
        if isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and array.size:
            yield from _build_output_panels(
                results, name, plottable_array(results, name), swept_axes
            )
        elif names is not None:
            raise InputError(f"'{name}' cannot be plotted: it is no array of numbers")


def _build_output_panels(
    results: Outputs, name: str, array: Array, swept_axes: Sequence[SweptAxis]
) -> Iterator[Panel]:
    """Yield the panels of one output of a sweep: a single one, or in a grid one per element."""
    unit, axis_count = results.units.get(name, ""), len(swept_axes)
    labels_of_elements = element_labels(results, name, array.shape[axis_count:])
    element_values = array.reshape(*array.shape[:axis_count], -1)
    if axis_count == 1 and is_histogram(results, name):
        yield from _build_histogram_panels(results, name, array, swept_axes[0])
    elif axis_count == 1:
        drawing_function = (
            _draw_lines if element_values.shape[1] <= MAX_LINES else _draw_elements_image
        )
        yield (
            name,
            partial(
                drawing_function,
                swept_axes[0],
                axis_label(name, unit),
                element_values,
                labels_of_elements,
            ),
        )
    else:
        for k, element_label in enumerate(labels_of_elements):
            if not element_label or element_label.startswith("["):
                panel_name, value_label = (
                    name + element_label,
                    axis_label(name + element_label, unit),
                )
            else:
                panel_name, value_label = (
                    f"{name} {element_label}",
                    f"{axis_label(name, unit)}\n{element_label}",
                )
            yield panel_name, partial(_draw_image, swept_axes, value_label, element_values[..., k])


def _build_histogram_panels(
    results: Outputs, name: str, array: Array, swept_axis: SweptAxis
) -> Iterator[Panel]:
    """Yield a panel for each response (such as a choice), an image of histograms over a sweep."""
    output_name, bin_edges = (
        name.rpartition(".")[0],
        np.asarray(results.statistics[name], np.float64),
    )
    value_label = axis_label(output_name, results.units.get(output_name, ""))
    for response_label, counts in zip(
        response_labels(results) or [""],
        array.reshape(len(array), -1, array.shape[-1]).swapaxes(0, 1),
        strict=True,
    ):
        count_label = "\n".join(filter(None, ("trials", response_label)))
        yield (
            f"{name} {response_label}",
            partial(draw_binned_image, swept_axis, value_label, (counts, bin_edges), count_label),
        )


def element_indices(shape: tuple[int, ...]) -> list[str]:
    """Return the index of each array element as text, such as `[1,0]`, or "" for a scalar."""
    return list(element_names("", shape))


def _build_swept_axis(results: Outputs, axis: Axis) -> SweptAxis:
    """Return the plot axis of a swept number, or of the member number for other swept values."""
    coordinate_arrays = [
        (swept_name, np.asarray(swept_values))
        for swept_name, swept_values in axis.coordinates.items()
    ]
    ((name, values), *other_coordinates) = coordinate_arrays
    if other_coordinates or values.ndim > 1 or values.dtype.kind not in "iufb":
        return SweptAxis("member of the sweep", np.arange(axis.length))
    swept_differences = np.diff(values.astype(np.float64))
    swept_label = axis_label(name, results.units.get(name, ""))
    if bool(np.isfinite(values).all()) and (
        bool((swept_differences > 0).all()) or bool((swept_differences < 0).all())
    ):
        return SweptAxis(swept_label, values.astype(np.float64))
    return SweptAxis(swept_label, np.arange(axis.length), tuple(f"{value:.6g}" for value in values))


def members_axis(results: Outputs) -> SweptAxis:
    """Return the plot axis of a sweep's members: the swept value, or the member number of a grid."""
    swept_axes = [axis for axis in results.axes if axis.is_swept]
    if len(swept_axes) == 1:
        return _build_swept_axis(results, swept_axes[0])
    member_count = math.prod(axis.length for axis in swept_axes)
    return SweptAxis("member of the sweep", np.arange(member_count))


# --- drawing --------------------------------------------------------------------------------------


def _draw_lines(
    swept_axis: SweptAxis, value_label: str, rows: Array, labels: Sequence[str], ax: Axes
) -> None:
    """Draw a line over the swept values for each element of an output."""
    element_count = rows.shape[1]
    has_legend = element_count <= MAX_LEGEND_ENTRIES
    colour_map = mpl.colormaps["tab10" if has_legend else "viridis"]
    for k, label in enumerate(labels):
        ax.plot(
            swept_axis.positions,
            rows[:, k].astype(np.float64),
            color=colour_map(k if has_legend else k / (element_count - 1)),
            label=label,
            marker="o" if len(rows) <= MAX_MARKED_POINTS else None,
            markersize=4,
        )
    if 1 < element_count <= MAX_LEGEND_ENTRIES:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), labelspacing=0.2)
    if rows.dtype == bool:
        ax.set_yticks([0, 1], ["false", "true"])
    ax.set_ylabel(value_label)
    _write_axis(ax.set_xlabel, ax.set_xticks, swept_axis)


def _draw_elements_image(
    swept_axis: SweptAxis, value_label: str, rows: Array, labels: Sequence[str], ax: Axes
) -> None:
    """Draw an output with many elements as an image, with the swept values to the right."""
    _draw_mesh(
        ax,
        _compute_cell_edges(swept_axis.positions),
        np.arange(len(labels) + 1) - 0.5,
        rows.T,
        value_label,
    )
    ax.set_ylabel("element")
    _write_axis(ax.set_xlabel, ax.set_xticks, swept_axis)


def draw_binned_image(
    swept_axis: SweptAxis,
    bin_label: str,
    histograms: tuple[Array, Array],
    count_label: str,
    ax: Axes,
) -> None:
    """Draw histograms of sweep members as an image, with members along x and bins along y."""
    counts, bin_edges = histograms
    _draw_mesh(ax, _compute_cell_edges(swept_axis.positions), bin_edges, counts.T, count_label)
    ax.set_ylabel(bin_label)
    _write_axis(ax.set_xlabel, ax.set_xticks, swept_axis)


def _draw_image(swept_axes: Sequence[SweptAxis], value_label: str, values: Array, ax: Axes) -> None:
    """Draw a scalar output of a grid as an image over the two swept axes."""
    y_axis, x_axis = swept_axes
    _draw_mesh(
        ax,
        _compute_cell_edges(x_axis.positions),
        _compute_cell_edges(y_axis.positions),
        values,
        value_label,
    )
    _write_axis(ax.set_xlabel, ax.set_xticks, x_axis)
    _write_axis(ax.set_ylabel, ax.set_yticks, y_axis)


def _draw_mesh(ax: Axes, x_edges: Array, y_edges: Array, values: Array, value_label: str) -> None:
    """Draw an array as coloured cells between the given edges, with a colour bar."""
    mesh = ax.pcolormesh(x_edges, y_edges, values.astype(np.float64), rasterized=values.size > 1000)
    ax.grid(visible=False)
    ax.figure.colorbar(mesh, ax=ax, label=value_label)


def _compute_cell_edges(positions: Array) -> Array:
    """Return the edges of image cells: the midpoints between positions, and two outer edges."""
    positions = np.asarray(positions, np.float64)
    if len(positions) == 1:
        return np.array([positions[0] - 0.5, positions[0] + 0.5])
    midpoints = (positions[1:] + positions[:-1]) / 2
    first_edge, last_edge = 2 * positions[0] - midpoints[0], 2 * positions[-1] - midpoints[-1]
    cell_edges: Array = np.concatenate([[first_edge], midpoints, [last_edge]])
    return cell_edges


def _write_axis(set_label: Any, set_ticks: Any, swept_axis: SweptAxis) -> None:
    """Write the label of a plot axis, and its tick labels unless there are none."""
    set_label(swept_axis.label)
    if swept_axis.tick_labels:
        tick_indices = np.unique(np.linspace(0, len(swept_axis.tick_labels) - 1, 10).astype(int))
        set_ticks(
            swept_axis.positions[tick_indices], [swept_axis.tick_labels[k] for k in tick_indices]
        )
