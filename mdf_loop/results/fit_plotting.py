"""A fit as a picture: curves over the data with residuals below, or times beside those observed.

a curve             the model's rows as a line, data as dots; below, model minus data
reaction times      a panel for each choice: data as bars, what the model expects as a line; an area
is a proportion of all trials
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
from mdf_loop.results.figures import Plot, drawing, label, shown
from mdf_loop.results.fit_data import Curve, Distribution, FitData

MOST_ELEMENTS = 10
"""Of an output of more elements so many are drawn, evenly chosen."""

MODEL, DATA = "#b2182b", "0.45"
"""Colours where there is one of each."""


def plot(fit: FitData, path: str | Path | None, title: str) -> Figure:
    """The figure of a fit; written to a file if there is a path.

    Raises:
        InputError: there are no data to draw, or the file cannot be written.
    """
    if not fit.curves and not fit.distributions:
        raise InputError("this fit has no data to draw", hint="fit to data: against, likelihood")
    with drawing(path) as drawn:
        drawn.figure = (
            _curves(fit.curves, title) if fit.curves else _distributions(fit.distributions, title)
        )
    return drawn.figure


def _curves(curves: Sequence[Curve], title: str) -> Plot:
    figure = Plot(figsize=(8, 3.9 * len(curves) + 0.4 * bool(title)))
    axes = figure.subplots(
        2 * len(curves), 1, squeeze=False, sharex=True, height_ratios=[3, 1] * len(curves)
    )[:, 0]
    for k, curve in enumerate(curves):
        _draw_curve(axes[2 * k], axes[2 * k + 1], curve)
    axes[-1].set_xlabel(label("time", curves[0].time_unit))
    figure.suptitle(shown(title))
    return figure


def _draw_curve(above: Axes, below: Axes, curve: Curve) -> None:
    fitted, observed, residuals = (
        np.asarray(array, float).reshape(len(array), -1)
        for array in (curve.fitted, curve.observed, curve.residuals)
    )
    count = fitted.shape[1]
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_ELEMENTS)).round().astype(int))
    for k in chosen:
        dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3}
        dots |= {"color": DATA if count == 1 else f"C{k % 10}", "markeredgewidth": 0}
        line = MODEL if count == 1 else f"C{k % 10}"
        name = "" if count == 1 else f"[{k}]"
        above.plot(curve.observed_at, observed[:, k], alpha=0.6, label=_said("data", k), **dots)
        above.plot(curve.time, fitted[:, k], color=line, label=name or "model")
        below.plot(curve.observed_at, residuals[:, k], alpha=0.6, **dots)
    if len(chosen) < count:
        above.set_title(f"{len(chosen)} of {count} elements", fontsize=10)
    above.set_ylabel(label(curve.output, ""))
    above.legend(ncols=min(len(chosen) + 1, 6))
    below.axhline(0.0, color="0.6", linewidth=0.8)
    below.set_ylabel("residual")
    most = np.nanmax(np.abs(residuals), initial=0.0) or 1.0
    below.set_ylim(-1.15 * most, 1.15 * most)


def _said(word: str, k: int) -> str:
    """The word in a legend, once."""
    return word if k == 0 else ""


def _distributions(bins: Sequence[Distribution], title: str) -> Plot:
    figure = Plot(figsize=(8, 3.0 * len(bins) + 0.4 * bool(title)))
    axes = figure.subplots(len(bins), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    total = sum(int(each.observed.sum()) for each in bins)
    edges = [_closed(each.edges) for each in bins]
    for ax, each, ends in zip(axes, bins, edges, strict=True):
        width = np.diff(ends) * total
        ax.stairs(each.observed / width, ends, fill=True, color="0.8", label="data")
        ax.stairs(each.expected / width, ends, color=MODEL, linewidth=1.8, label="model")
        ax.set_ylabel("density")
        if each.choice is not None:
            ax.set_title(f"choice {each.choice:g}", loc="left", fontsize=10)
        ax.legend()
    axes[-1].set_xlabel("reaction time")
    figure.suptitle(shown(title))
    return figure


def _closed(edges: Array) -> Array:
    """Edges with ends for the outer bins, which are open: as wide as their neighbours, at least."""
    if len(edges) == 0:
        return np.array([0.0, 1.0])
    width = float(np.diff(edges).mean()) if len(edges) > 1 else max(abs(float(edges[0])), 1.0)
    first = max(0.0, float(edges[0]) - width) if edges[0] > 0 else float(edges[0]) - width
    return np.array([first, *edges, float(edges[-1]) + 2 * width])
