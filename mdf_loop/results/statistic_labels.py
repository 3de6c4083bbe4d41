"""Labels of trial statistics in plots, such as `choice = true`, `0.9` or `0 to 0.5`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.labels import element_names


def value_label(name: str, value: Any) -> str:
    """Return a label for a value of an output or parameter, such as `choice = true`."""
    is_float = isinstance(value, float | np.floating)
    return f"{name.rsplit('.', 1)[-1]} = {f'{value:.6g}' if is_float else str(value).lower()}"


def member_labels(results: Outputs) -> list[str]:
    """Return a label for each member of a sweep, such as `threshold = 0.5, drift = 1`.

    Members of swept arrays have labels like `member 3`.
    """
    swept_axes = [axis for axis in results.axes if axis.is_swept]
    axis_labels = [_axis_labels(axis) for axis in swept_axes]
    return [", ".join(label_parts) for label_parts in product(*axis_labels)] if swept_axes else []


def _axis_labels(axis: Axis) -> list[str]:
    """Return the label of each member along one swept axis of results."""
    coordinate_arrays = {name: np.asarray(values) for name, values in axis.coordinates.items()}
    if any(values.ndim > 1 for values in coordinate_arrays.values()):
        return [f"member {k}" for k in range(axis.length)]
    return [
        ", ".join(value_label(name, values[k]) for name, values in coordinate_arrays.items())
        for k in range(axis.length)
    ]


def response_axis(results: Outputs) -> Axis | None:
    """Return the axis of the responses (such as choices) that group trial statistics, or None."""
    response_axes = (
        axis for axis in results.axes if not axis.is_swept and axis.name not in _NON_RESPONSE_AXES
    )
    return next(response_axes, None) if results.statistics else None


_NON_RESPONSE_AXES = ("time", "trial")


def response_labels(results: Outputs) -> list[str]:
    """Return a label, such as `choice = true`, for each response that groups trial statistics.

    The list is empty if the statistics are not grouped.
    """
    axis = response_axis(results)
    if axis is None:
        return []
    return [value_label(axis.name, value) for value in np.asarray(axis.coordinates[axis.name])]


def is_histogram(results: Outputs, name: str) -> bool:
    """Return True if an output is a histogram of a scalar over trials."""
    bin_edges, output_shape = results.statistics.get(name, ()), np.shape(results[name])
    element_shape = output_shape[len(results.axes_of(name)) :]
    return name.endswith(".histogram") and element_shape == (len(bin_edges) - 1,)


def element_labels(results: Outputs, name: str, shape: Sequence[int]) -> list[str]:
    """Return a label for each element of an output, such as `choice = true, 0.9` for a quantile.

    Elements of outputs that are not statistics are labelled with their index: `[0]`, `[1,0]`. A single
    number has an empty label.
    """
    labels_of_responses = response_labels(results)
    labels_of_statistic = _statistic_labels(
        results, name, tuple(shape[bool(labels_of_responses) :])
    )
    if not labels_of_responses:
        return labels_of_statistic
    return [
        ", ".join(filter(None, label_pair))
        for label_pair in product(labels_of_responses, labels_of_statistic)
    ]


def _statistic_labels(results: Outputs, name: str, shape: tuple[int, ...]) -> list[str]:
    """Return a label for each element of a trial statistic: a bin, a quantile or an index."""
    statistic_parameters = results.statistics.get(name, ())
    if is_histogram(results, name):
        return [
            f"{lower_edge:g} to {upper_edge:g}"
            for lower_edge, upper_edge in pairwise(statistic_parameters)
        ]
    if statistic_parameters and shape == (len(statistic_parameters),):
        return [f"{number:g}" for number in statistic_parameters]
    return list(element_names("", shape))
