"""Distributions over trials as a picture.

    outputs of trials            a histogram for each number, one for each response where there are some
    the same of a sweep          a panel for each response, in it a line for each member; of more than 10
                                 members an image: members to the right, values upwards
    quantiles told by responses  each quantile over the probability of the response
    histograms told of trials    steps, one line for each response

A response is an output of few whole numbers or truth values, one in each trial.
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
from mdf_loop.results.sweep_plotting import along_members, image_of_bins
from mdf_loop.results.trial_words import by_axis, member_words, responses, said
from mdf_loop.run.outputs import Outputs

MOST_RESPONSES = 6
"""An output of more values is no response."""

BINS = 40
MOST_MEMBERS = 10
"""The distributions of more members of a sweep are an image."""

Panel = tuple[str, str, str, Callable[[Axes], None]]
"""What stands along both axes (nothing, if what draws it says so), of which output that is, and what
draws it."""


def is_over_trials(results: Outputs) -> bool:
    """Whether there are trials and no time: numbers whose distribution can be drawn."""
    front = [axis.name for axis in results.axes]
    return "time" not in front and ("trial" in front or bool(results.told))


def panels(results: Outputs, names: Sequence[str] | None) -> list[Panel]:
    """What is drawn of such results.

    Raises:
        InputError: there is nothing that could be.
    """
    chosen = list(results) if names is None else [results.full_name(name) for name in names]
    made = _told(results, chosen) if results.told else _of_trials(results, chosen)
    found = list(made)
    if not found:
        raise InputError(
            "there is nothing to plot: no output is one number in each trial",
            hint="record one that is, e.g. a reaction time; or ask for quantiles or a histogram",
        )
    return found


# --- each trial -----------------------------------------------------------------------------------


def _of_trials(results: Outputs, names: Sequence[str]) -> Iterator[Panel]:
    front = len(results.axes)
    numbers = {n: np.asarray(results[n]) for n in names}
    single = {
        n: a.ravel() for n, a in numbers.items() if a.ndim == front and a.dtype.kind in "biuf"
    }
    responses = {name for name, array in single.items() if _is_response(array)}
    by = next((name for name in single if name in responses), None)
    words = member_words(results)
    for name, array in single.items():
        if name in responses and len(single) > len(responses):
            continue
        groups = _groups(array, None if by is None or by == name else single[by], by)
        if words:
            yield from _of_members(results, name, array, groups, words)
        else:
            chosen = {label: array[those] for label, those in groups.items()}
            yield name, "trials", name, partial(_histogram, groups=chosen)


def _of_members(
    results: Outputs, name: str, array: Array, groups: dict[str, Array], words: Sequence[str]
) -> Iterator[Panel]:
    """A panel for each response, in it the distribution of each member of a sweep."""
    edges = _bins(array)
    trials = len(array) // len(words)
    for response, those in groups.items():
        rows = np.stack(
            [
                _counted(values[chosen], edges)
                for values, chosen in zip(
                    array.reshape(-1, trials), those.reshape(-1, trials), strict=True
                )
            ]
        )
        what = f"trials, {response}" if response else "trials"
        if len(words) <= MOST_MEMBERS:
            draw = partial(_members, rows=rows, edges=edges, labels=words)
            yield name, what, name, draw
        else:
            axis = figures.label(name, results.units.get(name, ""))
            along = along_members(results)
            yield "", name, name, partial(image_of_bins, along, axis, (rows, edges), what)


def _is_response(array: Array) -> bool:
    return array.dtype.kind in "biu" and len(np.unique(array)) <= MOST_RESPONSES


def _groups(array: Array, responses: Array | None, by: str | None) -> dict[str, Array]:
    """Where the values of each response are, by the words for it."""
    if responses is None or by is None:
        return {"": np.ones(array.shape, bool)}
    return {said(by, value): responses == value for value in np.unique(responses)}


def _histogram(ax: Axes, groups: dict[str, Array]) -> None:
    edges = _bins(np.concatenate([*groups.values()]))
    for k, (label, array) in enumerate(groups.items()):
        _steps(ax, _counted(array, edges), edges, label, k)


def _bins(array: Array) -> Array:
    """The edges of bins for all values; whole numbers and truth values have one each."""
    finite = array[np.isfinite(array)]
    if finite.dtype.kind == "f":
        return np.asarray(np.histogram_bin_edges(finite, BINS))
    values = np.unique(finite.astype(np.int64))
    return np.append(values, values[-1:] + 1) - 0.5 if len(values) else np.arange(2.0)


def _counted(array: Array, edges: Array) -> Array:
    return np.histogram(array[np.isfinite(array)].astype(np.float64), edges)[0]


def _members(ax: Axes, rows: Array, edges: Array, labels: Sequence[str]) -> None:
    """The distribution of each member as a line, coloured by its place."""
    shades = mpl.colormaps["viridis"](np.linspace(0, 0.8, len(rows)))
    for counts, label, colour in zip(rows, labels, shades, strict=True):
        ax.stairs(counts, edges, color=colour, label=label, linewidth=1.6)


def _steps(ax: Axes, counts: Array, edges: Array, label: str, k: int) -> None:
    colour = mpl.colormaps["tab10"](k)
    ax.stairs(counts, edges, color=colour, label=label or None, linewidth=1.6)
    ax.stairs(counts, edges, color=colour, fill=True, alpha=0.15)


# --- what is told of all --------------------------------------------------------------------------


def _told(results: Outputs, names: Sequence[str]) -> Iterator[Panel]:
    axis = by_axis(results)
    by = "" if axis is None else axis.name
    labels = responses(results) or [""]
    for name in names:
        of, _, word = name.rpartition(".")
        numbers, array = results.told.get(name), np.asarray(results[name])
        if not numbers or array.ndim != 1 + bool(by):
            continue
        rows = array.reshape(-1, array.shape[-1])
        if word == "histogram":
            yield of, "trials", of, partial(_lines, rows=rows, edges=numbers, labels=labels)
        elif f"{of}.count" in results and by:
            counts = np.asarray(results[f"{of}.count"])
            draw = partial(_quantiles, rows=rows, counts=counts, probabilities=numbers)
            yield f"probability of {by.rsplit('.', 1)[-1]}", of, of, draw
        else:
            draw = partial(_cumulated, rows=rows, probabilities=numbers, labels=labels)
            yield "probability", of, of, draw


def _lines(ax: Axes, rows: Array, edges: Sequence[float], labels: Sequence[str]) -> None:
    for k, (counts, label) in enumerate(zip(rows, labels, strict=True)):
        _steps(ax, counts, np.asarray(edges), label, k)


def _quantiles(ax: Axes, rows: Array, counts: Array, probabilities: Sequence[float]) -> None:
    """A line for each quantile, over the probabilities of responses."""
    share = counts / counts.sum()
    order = np.argsort(share)
    shades = mpl.colormaps["viridis"]
    for k, probability in enumerate(probabilities):
        shade = shades(k / max(1, len(probabilities) - 1))
        ax.plot(share[order], rows[order, k], marker="o", color=shade, label=f"{probability:g}")
    ax.set_xlim(0, 1)


def _cumulated(
    ax: Axes, rows: Array, probabilities: Sequence[float], labels: Sequence[str]
) -> None:
    for k, (quantiles, label) in enumerate(zip(rows, labels, strict=True)):
        colour = mpl.colormaps["tab10"](k)
        ax.plot(probabilities, quantiles, marker="o", color=colour, label=label or None)
    ax.set_xlim(0, 1)
