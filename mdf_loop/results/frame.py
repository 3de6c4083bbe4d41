"""Results as a `pandas.DataFrame`: a row for each time, member and trial, a column for each number.

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
from mdf_loop.run.recording.lengths import is_padding

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(results: Outputs) -> DataFrame:
    """The frame of some results.

    Raises:
        InputError: an output is no array.
    """
    from pandas import DataFrame, Index, MultiIndex

    axes = results.axes
    levels, beside = _along(results, axes)
    masks = _masks(results, axes)
    items = (*beside, *variables(results))
    columns = [column for item in items for column in _columns(item, axes, masks.get(item.name))]
    made = DataFrame(dict(columns), index=None)
    if len(levels) == 1:
        ((name, values),) = levels.items()
        made.index = Index(values, name=name)
    elif levels:
        made.index = MultiIndex.from_arrays(list(levels.values()), names=list(levels))
    made.attrs["units"] = dict(results.units)
    return made


def _along(results: Outputs, axes: tuple[Axis, ...]) -> tuple[dict[str, Array], list[Labelled]]:
    """What stands along the axes, a level each; swept arrays, which are columns."""
    found = coordinates(results)
    levels = {item.name: _broadcast(item, axes).ravel() for item in found if len(item.dims) == 1}
    return levels, [item for item in found if len(item.dims) > 1]


def _masks(results: Outputs, axes: tuple[Axis, ...]) -> dict[str, Labelled]:
    """Return where integers and truth values are padding, by output; floats are nan there."""
    masks = {}
    for item in outputs(results):
        lengths = results.lengths.get(item.name)
        if lengths is not None and item.array.dtype.kind in "biu":
            front = len(results.axes_of(item.name))
            mask = is_padding(np.asarray(lengths), item.array.shape, front)
            if mask.any():
                masks[item.name] = replace(item, array=mask)
    return masks


def _columns(
    item: Labelled, axes: tuple[Axis, ...], mask: Labelled | None
) -> Iterator[tuple[str, Any]]:
    """Yield a column for each element; padding is missing (`pandas.NA`)."""
    columns = _flat(item, axes).T
    own = item.array.shape[len([axis for axis in axes if axis.name in item.dims]) :]
    named = zip(element_names(item.name, own), columns, strict=True)
    if mask is None:
        return named
    from pandas.arrays import BooleanArray, IntegerArray

    nullable = BooleanArray if item.array.dtype.kind == "b" else IntegerArray
    missing = _flat(mask, axes).T
    return (
        (name, nullable(column.copy(), where.copy()))
        for (name, column), where in zip(named, missing, strict=True)
    )


def _flat(item: Labelled, axes: tuple[Axis, ...]) -> Array:
    """Return the array with one axis of rows, and one of elements."""
    rows, front = _broadcast(item, axes), len(axes)
    return rows.reshape(math.prod(rows.shape[:front]), math.prod(rows.shape[front:]))


def _broadcast(item: Labelled, axes: tuple[Axis, ...]) -> Array:
    """The array with all axes in front, also with those that it does not depend on."""
    array = np.asarray(item.array)
    has = [axis.name in item.dims for axis in axes]
    own = array.shape[sum(has) :]
    extents = iter(array.shape)
    shape = tuple(next(extents) if there else 1 for there in has)
    return np.broadcast_to(array.reshape((*shape, *own)), (*(axis.length for axis in axes), *own))
