"""Plots of distributions over trials, as histograms or quantiles.

    outputs of trials            a histogram of each number, with one line per response if there are responses
    outputs of a swept model     a panel for each response with a line for each member; more than 10
                                 members are an image: members to the right, values upwards
    quantiles by response        each quantile over the probability of the response
    histograms over trials       steps, one line per response

A response is an integer or boolean output with few different values, one in each trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.results import figures
from mdf_loop.results.statistic_labels import (
    member_labels,
    response_axis,
    response_labels,
    value_label,
)
from mdf_loop.results.sweep_plotting import draw_binned_image, members_axis
from mdf_loop.run.outputs import Outputs

MAX_RESPONSES = 6
"""Number of different values up to which an output is a response."""

FLOAT_BIN_COUNT = 40
MAX_MEMBER_LINES = 10
"""Number of members of a sweep above which their distributions are drawn as an image."""

Panel = tuple[str, str, str, Callable[[Axes], None]]
"""Panel of a figure: label of the x axis, label of the y axis, name of the output, and drawing function.

Both labels are empty if the drawing function writes them itself.
"""


def has_distributions(results: Outputs) -> bool:
    """Return True if results have trials or trial statistics, and no time axis."""
    axis_names = [axis.name for axis in results.axes]
    return "time" not in axis_names and ("trial" in axis_names or bool(results.statistics))


def distribution_panels(results: Outputs, names: Sequence[str] | None) -> list[Panel]:
    """Return the panels with distributions over trials, for the outputs `names` or all outputs.

    Raises:
        InputError: No output is one number in each trial.
    """
    output_names = list(results) if names is None else [results.full_name(name) for name in names]
    panel_generator = (
        _build_statistic_panels(results, output_names)
        if results.statistics
        else _build_trial_panels(results, output_names)
    )
    panels = list(panel_generator)
    if not panels:
        raise InputError(
            "there is nothing to plot: no output is one number in each trial",
            hint="record one that is, e.g. a reaction time; or ask for quantiles or a histogram",
        )
    return panels


# --- outputs of trials ----------------------------------------------------------------------------


def _build_trial_panels(results: Outputs, names: Sequence[str]) -> Iterator[Panel]:
    """Yield a panel with the distribution over trials of each scalar, grouped by response."""
    axis_count = len(results.axes)
    arrays = {name: np.asarray(results[name]) for name in names}
    arrays_of_scalars = {
        name: array.ravel()
        for name, array in arrays.items()
        if array.ndim == axis_count and array.dtype.kind in "biuf"
    }
    response_names = {name for name, array in arrays_of_scalars.items() if _is_response(array)}
    response_name = next((name for name in arrays_of_scalars if name in response_names), None)
    labels_of_members = member_labels(results)
    for name, array in arrays_of_scalars.items():
        if name in response_names and len(arrays_of_scalars) > len(response_names):
            continue
        trial_mask_by_response = _group_by_response(
            array,
            None
            if response_name is None or response_name == name
            else arrays_of_scalars[response_name],
            response_name,
        )
        if labels_of_members:
            yield from _build_member_panels(
                results, name, array, trial_mask_by_response, labels_of_members
            )
        else:
            values_by_response = {
                label: array[mask] for label, mask in trial_mask_by_response.items()
            }
            yield name, "trials", name, partial(_draw_values, groups=values_by_response)


def _build_member_panels(
    results: Outputs, name: str, array: Array, groups: dict[str, Array], member_names: Sequence[str]
) -> Iterator[Panel]:
    """Yield a panel for each response (such as a choice), with a histogram per sweep member."""
    bin_edges = _choose_bins(array)
    trial_count = len(array) // len(member_names)
    for response_label, trial_mask in groups.items():
        member_histograms = np.stack(
            [
                _count_in_bins(member_values[member_mask], bin_edges)
                for member_values, member_mask in zip(
                    array.reshape(-1, trial_count), trial_mask.reshape(-1, trial_count), strict=True
                )
            ]
        )
        count_label = f"trials, {response_label}" if response_label else "trials"
        if len(member_names) <= MAX_MEMBER_LINES:
            draw_panel = partial(
                _draw_members, rows=member_histograms, edges=bin_edges, labels=member_names
            )
            yield name, count_label, name, draw_panel
        else:
            axis_label = figures.axis_label(name, results.units.get(name, ""))
            swept_axis = members_axis(results)
            yield (
                "",
                name,
                name,
                partial(
                    draw_binned_image,
                    swept_axis,
                    axis_label,
                    (member_histograms, bin_edges),
                    count_label,
                ),
            )


def _is_response(array: Array) -> bool:
    """Return True if an output can be a response: it has integers or booleans with few values."""
    return array.dtype.kind in "biu" and len(np.unique(array)) <= MAX_RESPONSES


def _group_by_response(
    array: Array, responses: Array | None, response_name: str | None
) -> dict[str, Array]:
    """Map response labels, such as `choice = true`, to masks of the trials with the response."""
    if responses is None or response_name is None:
        return {"": np.ones(array.shape, bool)}
    return {value_label(response_name, value): responses == value for value in np.unique(responses)}


def _draw_values(ax: Axes, groups: dict[str, Array]) -> None:
    """Draw a histogram of the values in each group of trials."""
    bin_edges = _choose_bins(np.concatenate([*groups.values()]))
    for k, (label, group_values) in enumerate(groups.items()):
        _draw_steps(ax, _count_in_bins(group_values, bin_edges), bin_edges, label, k)


def _choose_bins(array: Array) -> Array:
    """Return histogram bin edges, with one bin per distinct value of integers or booleans."""
    finite_values = array[np.isfinite(array)]
    if finite_values.dtype.kind == "f":
        return np.asarray(np.histogram_bin_edges(finite_values, FLOAT_BIN_COUNT))
    distinct_values = np.unique(finite_values.astype(np.int64))
    return (
        np.append(distinct_values, distinct_values[-1:] + 1) - 0.5
        if len(distinct_values)
        else np.arange(2.0)
    )


def _count_in_bins(array: Array, edges: Array) -> Array:
    """Return the number of finite values in each bin of a histogram."""
    return np.histogram(array[np.isfinite(array)].astype(np.float64), edges)[0]


def _draw_members(ax: Axes, rows: Array, edges: Array, labels: Sequence[str]) -> None:
    """Draw the histogram of each sweep member as a line in the member's colour."""
    member_colours = mpl.colormaps["viridis"](np.linspace(0, 0.8, len(rows)))
    for bin_counts, label, member_colour in zip(rows, labels, member_colours, strict=True):
        ax.stairs(bin_counts, edges, color=member_colour, label=label, linewidth=1.6)


def _draw_steps(ax: Axes, counts: Array, edges: Array, label: str, k: int) -> None:
    """Draw a histogram as a filled step curve."""
    group_colour = mpl.colormaps["tab10"](k)
    ax.stairs(counts, edges, color=group_colour, label=label or None, linewidth=1.6)
    ax.stairs(counts, edges, color=group_colour, fill=True, alpha=0.15)


# --- statistics over trials -----------------------------------------------------------------------


def _build_statistic_panels(results: Outputs, names: Sequence[str]) -> Iterator[Panel]:
    """Yield panels that draw histograms and quantiles over trials."""
    axis_of_responses = response_axis(results)
    response_name = "" if axis_of_responses is None else axis_of_responses.name
    labels_of_responses = response_labels(results) or [""]
    for name in names:
        output_name, _, statistic_name = name.rpartition(".")
        statistic_parameters, array = results.statistics.get(name), np.asarray(results[name])
        if not statistic_parameters or array.ndim != 1 + bool(response_name):
            continue
        statistic_rows = array.reshape(-1, array.shape[-1])
        if statistic_name == "histogram":
            yield (
                output_name,
                "trials",
                output_name,
                partial(
                    _draw_histograms,
                    rows=statistic_rows,
                    edges=statistic_parameters,
                    labels=labels_of_responses,
                ),
            )
        elif f"{output_name}.count" in results and response_name:
            response_counts = np.asarray(results[f"{output_name}.count"])
            draw_panel = partial(
                _draw_quantiles,
                rows=statistic_rows,
                counts=response_counts,
                probabilities=statistic_parameters,
            )
            yield (
                f"probability of {response_name.rsplit('.', 1)[-1]}",
                output_name,
                output_name,
                draw_panel,
            )
        else:
            draw_panel = partial(
                _draw_cumulative,
                rows=statistic_rows,
                probabilities=statistic_parameters,
                labels=labels_of_responses,
            )
            yield "probability", output_name, output_name, draw_panel


def _draw_histograms(ax: Axes, rows: Array, edges: Sequence[float], labels: Sequence[str]) -> None:
    """Draw a histogram over trials for each response (such as a choice)."""
    for k, (bin_counts, label) in enumerate(zip(rows, labels, strict=True)):
        _draw_steps(ax, bin_counts, np.asarray(edges), label, k)


def _draw_quantiles(ax: Axes, rows: Array, counts: Array, probabilities: Sequence[float]) -> None:
    """Draw each quantile over trials as a line against the probability of the response (choice)."""
    response_probabilities = counts / counts.sum()
    response_order = np.argsort(response_probabilities)
    colour_map = mpl.colormaps["viridis"]
    for k, probability in enumerate(probabilities):
        quantile_colour = colour_map(k / max(1, len(probabilities) - 1))
        ax.plot(
            response_probabilities[response_order],
            rows[response_order, k],
            marker="o",
            color=quantile_colour,
            label=f"{probability:g}",
        )
    ax.set_xlim(0, 1)


def _draw_cumulative(
    ax: Axes, rows: Array, probabilities: Sequence[float], labels: Sequence[str]
) -> None:
    """Draw the quantiles over trials of each response against the cumulative probability."""
    for k, (quantiles, label) in enumerate(zip(rows, labels, strict=True)):
        response_colour = mpl.colormaps["tab10"](k)
        ax.plot(probabilities, quantiles, marker="o", color=response_colour, label=label or None)
    ax.set_xlim(0, 1)
