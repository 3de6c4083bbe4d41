"""Conversion of results to a `pandas.DataFrame`.

It has one row per time, member and trial, and one column per number.

results of a sweep of A.gain over time       index A.gain, time      columns A.v, A.w[0], A.w[1]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import Array
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.labels import (
    Labelled,
    coordinates,
    element_names,
    outputs,
    variables,
)
from mdf_loop.run.recording.lengths import padding_mask

if TYPE_CHECKING:
    from pandas import DataFrame


def to_frame(results: Outputs) -> DataFrame:
    """Return results as a pandas data frame with one row per time, member and trial.

    Raises:
        InputError: An output is not an array.
    """
    from pandas import DataFrame, Index, MultiIndex

    result_axes = results.axes
    index_levels, swept_arrays = _index_levels(results, result_axes)
    padding_masks = _find_padding(results, result_axes)
    labelled_arrays = (*swept_arrays, *variables(results))
    columns = [
        column
        for labelled_array in labelled_arrays
        for column in _frame_columns(
            labelled_array, result_axes, padding_masks.get(labelled_array.name)
        )
    ]
    data_frame = DataFrame(dict(columns), index=None)
    if len(index_levels) == 1:
        ((level_name, level_values),) = index_levels.items()
        data_frame.index = Index(level_values, name=level_name)
    elif index_levels:
        data_frame.index = MultiIndex.from_arrays(
            list(index_levels.values()), names=list(index_levels)
        )
    data_frame.attrs["units"] = dict(results.units)
    return data_frame


def _index_levels(
    results: Outputs, axes: tuple[Axis, ...]
) -> tuple[dict[str, Array], list[Labelled]]:
    """Return the index levels of a data frame, and the swept arrays that become columns.

    The index levels are one-dimensional coordinates.
    """
    labelled_coordinates = coordinates(results)
    index_levels = {
        labelled_array.name: _broadcast_rows(labelled_array, axes).ravel()
        for labelled_array in labelled_coordinates
        if len(labelled_array.dims) == 1
    }
    return index_levels, [
        labelled_array for labelled_array in labelled_coordinates if len(labelled_array.dims) > 1
    ]


def _find_padding(results: Outputs, axes: tuple[Axis, ...]) -> dict[str, Labelled]:
    """Return masks of padded elements in integer and boolean outputs, by output name.

    In floats, nan marks padding.
    """
    padding_masks = {}
    for labelled_array in outputs(results):
        row_lengths = results.lengths.get(labelled_array.name)
        if row_lengths is not None and labelled_array.array.dtype.kind in "biu":
            axis_count = len(results.axes_of(labelled_array.name))
            padding_mask_of_output = padding_mask(
                np.asarray(row_lengths), labelled_array.array.shape, axis_count
            )
            if padding_mask_of_output.any():
                padding_masks[labelled_array.name] = replace(
                    labelled_array, array=padding_mask_of_output
                )
    return padding_masks


def _frame_columns(
    labelled_array: Labelled, axes: tuple[Axis, ...], mask: Labelled | None
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the values of a data frame column for each element of an output.

    Padding is missing (`pandas.NA`).
    """
    element_columns = _flatten(labelled_array, axes).T
    element_shape = labelled_array.array.shape[
        len([axis for axis in axes if axis.name in labelled_array.dims]) :
    ]
    named_columns = zip(
        element_names(labelled_array.name, element_shape), element_columns, strict=True
    )
    if mask is None:
        return named_columns
    from pandas.arrays import BooleanArray, IntegerArray

    nullable_type = BooleanArray if labelled_array.array.dtype.kind == "b" else IntegerArray
    missing_masks = _flatten(mask, axes).T
    return (
        (name, nullable_type(column.copy(), is_missing.copy()))
        for (name, column), is_missing in zip(named_columns, missing_masks, strict=True)
    )


def _flatten(labelled_array: Labelled, axes: tuple[Axis, ...]) -> Array:
    """Return an output as a matrix with the rows of the data frame and one column per element."""
    rows, axis_count = _broadcast_rows(labelled_array, axes), len(axes)
    return rows.reshape(math.prod(rows.shape[:axis_count]), math.prod(rows.shape[axis_count:]))


def _broadcast_rows(labelled_array: Labelled, axes: tuple[Axis, ...]) -> Array:
    """Return an array broadcast over all axes of the results, with these axes first."""
    array = np.asarray(labelled_array.array)
    axis_presence = [axis.name in labelled_array.dims for axis in axes]
    element_shape = array.shape[sum(axis_presence) :]
    axis_lengths = iter(array.shape)
    broadcastable_shape = tuple(
        next(axis_lengths) if is_present else 1 for is_present in axis_presence
    )
    return np.broadcast_to(
        array.reshape((*broadcastable_shape, *element_shape)),
        (*(axis.length for axis in axes), *element_shape),
    )
