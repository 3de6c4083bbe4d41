"""Plots of a fit: curves with the data and residuals, or histograms of reaction times.

    curve               rows of the model as a line, data as dots; below, model minus data
    reaction times      a panel per choice: data as bars, the expectation of the model as a line

An area of a histogram is a proportion of all trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.results.figures import Plot, axis_label, shorten, styled_figure
from mdf_loop.results.fit_data import Curve, Distribution, FitData

MAX_DRAWN_ELEMENTS = 10
"""Maximum number of drawn elements of an output. Of a larger output, evenly spaced elements are drawn."""

MODEL_COLOUR, DATA_COLOUR = "#b2182b", "0.45"
"""Colours of the model and the data in a panel with a single element."""


def plot_fit(fit: FitData, path: str | Path | None, title: str) -> Figure:
    """Plot a fit, and save the figure to a file if `path` is given.

    Raises:
        InputError: The fit has no data to draw, or the file cannot be written.
    """
    if not fit.curves and not fit.distributions:
        raise InputError("this fit has no data to draw", hint="fit to data: against, likelihood")
    with styled_figure(path) as figure_slot:
        figure_slot.figure = (
            _draw_curves(fit.curves, title)
            if fit.curves
            else _draw_distributions(fit.distributions, title)
        )
    return figure_slot.figure


def _draw_curves(curves: Sequence[Curve], title: str) -> Plot:
    """Draw a figure with a panel for each fitted output and a panel for its residuals."""
    figure = Plot(figsize=(8, 3.9 * len(curves) + 0.4 * bool(title)))
    panel_axes = figure.subplots(
        2 * len(curves), 1, squeeze=False, sharex=True, height_ratios=[3, 1] * len(curves)
    )[:, 0]
    for k, curve in enumerate(curves):
        _draw_curve(panel_axes[2 * k], panel_axes[2 * k + 1], curve)
    panel_axes[-1].set_xlabel(axis_label("time", curves[0].time_unit))
    figure.suptitle(shorten(title))
    return figure


def _draw_curve(above: Axes, below: Axes, curve: Curve) -> None:
    """Draw a fitted output with the data in one panel, and the residuals in another panel."""
    fitted_values, observed_values, residuals = (
        np.asarray(array, float).reshape(len(array), -1)
        for array in (curve.fitted, curve.observed, curve.residuals)
    )
    element_count = fitted_values.shape[1]
    element_indices = np.unique(
        np.linspace(0, element_count - 1, min(element_count, MAX_DRAWN_ELEMENTS))
        .round()
        .astype(int)
    )
    for k in element_indices:
        marker_style: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3}
        marker_style |= {
            "color": DATA_COLOUR if element_count == 1 else f"C{k % 10}",
            "markeredgewidth": 0,
        }
        line_colour = MODEL_COLOUR if element_count == 1 else f"C{k % 10}"
        element_label = "" if element_count == 1 else f"[{k}]"
        above.plot(
            curve.observed_at,
            observed_values[:, k],
            alpha=0.6,
            label=_legend_entry("data", k),
            **marker_style,
        )
        above.plot(
            curve.time, fitted_values[:, k], color=line_colour, label=element_label or "model"
        )
        below.plot(curve.observed_at, residuals[:, k], alpha=0.6, **marker_style)
    if len(element_indices) < element_count:
        above.set_title(f"{len(element_indices)} of {element_count} elements", fontsize=10)
    above.set_ylabel(axis_label(curve.output, ""))
    above.legend(ncols=min(len(element_indices) + 1, 6))
    below.axhline(0.0, color="0.6", linewidth=0.8)
    below.set_ylabel("residual")
    max_residual = np.nanmax(np.abs(residuals), initial=0.0) or 1.0
    below.set_ylim(-1.15 * max_residual, 1.15 * max_residual)


def _legend_entry(word: str, k: int) -> str:
    """Return a legend label for the first element of an output, and "" for other elements."""
    return word if k == 0 else ""


def _draw_distributions(distributions: Sequence[Distribution], title: str) -> Plot:
    """Draw one panel per choice with the observed and expected densities of reaction times."""
    figure = Plot(figsize=(8, 3.0 * len(distributions) + 0.4 * bool(title)))
    panel_axes = figure.subplots(len(distributions), 1, squeeze=False, sharex=True, sharey=True)[
        :, 0
    ]
    observation_count = sum(int(distribution.observed.sum()) for distribution in distributions)
    bin_edges_per_choice = [_close_outer_bins(distribution.edges) for distribution in distributions]
    for ax, distribution, bin_edges in zip(
        panel_axes, distributions, bin_edges_per_choice, strict=True
    ):
        counts_per_density = np.diff(bin_edges) * observation_count
        ax.stairs(
            distribution.observed / counts_per_density,
            bin_edges,
            fill=True,
            color="0.8",
            label="data",
        )
        ax.stairs(
            distribution.expected / counts_per_density,
            bin_edges,
            color=MODEL_COLOUR,
            linewidth=1.8,
            label="model",
        )
        ax.set_ylabel("density")
        if distribution.choice is not None:
            ax.set_title(f"choice {distribution.choice:g}", loc="left", fontsize=10)
        ax.legend()
    panel_axes[-1].set_xlabel("reaction time")
    figure.suptitle(shorten(title))
    return figure


def _close_outer_bins(edges: Array) -> Array:
    """Return bin edges with finite limits for the two open outer bins, for drawing.

    Each is at least as wide as its neighbour.
    """
    if len(edges) == 0:
        return np.array([0.0, 1.0])
    mean_bin_width = (
        float(np.diff(edges).mean()) if len(edges) > 1 else max(abs(float(edges[0])), 1.0)
    )
    first_edge = (
        max(0.0, float(edges[0]) - mean_bin_width)
        if edges[0] > 0
        else float(edges[0]) - mean_bin_width
    )
    return np.array([first_edge, *edges, float(edges[-1]) + 2 * mean_bin_width])
