"""Results as a `pandas.DataFrame`: a row for each time, member and trial, a column for each number.

results of a sweep of A.gain over time       index A.gain, time      columns A.v, A.w[0], A.w[1]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Array
from mdf_loop.run.outputs import Axis, Outputs
from mdf_loop.run.recording.labels import Labelled, coordinates, element_names, variables

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
    columns = [column for item in (*beside, *variables(results)) for column in _columns(item, axes)]
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


def _columns(item: Labelled, axes: tuple[Axis, ...]) -> Iterator[tuple[str, Array]]:
    """A column for each element."""
    rows = _broadcast(item, axes)
    front = len(axes)
    own = rows.shape[front:]
    flat = rows.reshape(math.prod(rows.shape[:front]), math.prod(own))
    return zip(element_names(item.name, own), flat.T, strict=True)


def _broadcast(item: Labelled, axes: tuple[Axis, ...]) -> Array:
    """The array with all axes in front, also with those that it does not depend on."""
    array = np.asarray(item.array)
    has = [axis.name in item.dims for axis in axes]
    own = array.shape[sum(has) :]
    extents = iter(array.shape)
    shape = tuple(next(extents) if there else 1 for there in has)
    return np.broadcast_to(array.reshape((*shape, *own)), (*(axis.length for axis in axes), *own))
