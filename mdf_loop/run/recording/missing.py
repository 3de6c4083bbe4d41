"""What was not computed is nan, as pandas has it for missing values.

That are the rows of outputs whose node has not run yet, and what rows lack that are shorter than
others. Whole numbers and truth values become floats where something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import RecordShapeError, RunError
from mdf_loop.ir import Array, Data
from mdf_loop.ir.types import dtype_name, kind_of


def with_missing(made: Mapping[str, Data], has_run: Mapping[str, str]) -> dict[str, Data]:
    """The outputs, with nan where the flags beside them say that nothing was computed.

    `has_run` is which output says of another whether its node has run.
    """
    if not has_run:
        return dict(made)
    outputs = {name: data for name, data in made.items() if name not in has_run.values()}
    for name in outputs:
        flags = made.get(has_run.get(name, ""))
        if flags is not None and not np.all(flags):
            outputs[name] = _blanked(name, outputs[name], np.asarray(flags))
    return outputs


def _blanked(name: str, array: Data, flags: Array) -> Array:
    if not isinstance(array, np.ndarray):
        raise RunError(f"'{name}' is no array, and its node has not run")
    if array.dtype.kind in "OU":
        raise RunError(f"'{name}' is text, and its node has not run in every step")
    wide: Array = array.astype(dtype_with_nan(array.dtype))
    wide[~flags] = np.nan
    return wide


def dtype_with_nan(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype for the same numbers that has nan, too."""
    has_nan = kind_of(dtype_name(np.empty(0, dtype))) in "fc"
    return dtype if has_nan else np.dtype(np.float64)


# --- rows of different lengths ------------------------------------------------------------------


def common_shape(name: str, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The least shape in which arrays of both shapes have room.

    Raises:
        RecordShapeError: one has more axes than the other.
    """
    if len(one) != len(other):
        raise RecordShapeError(
            f"'{name}' has rows of {len(one)} axes and of {len(other)} axes",
            hint="a recorded value must have the same number of axes in all steps",
        )
    return tuple(map(max, one, other))


def padded(name: str, rows: Array, shape: tuple[int, ...]) -> Array:
    """The rows in the beginning of a shape that has room for them; all else is nan.

    Raises:
        RecordShapeError: they are texts, which cannot be missing.
    """
    if rows.shape == shape:
        return rows
    if rows.dtype.kind in "OU":
        raise RecordShapeError(
            f"'{name}' is text, and has not the same shape in every step",
            hint="a recorded text must have one shape in all steps",
        )
    wide = np.full(shape, np.nan, dtype_with_nan(rows.dtype))
    wide[tuple(map(slice, rows.shape))] = rows
    return wide


def padded_members(name: str, rows: Array, counts: Array) -> tuple[Array, Array]:
    """Rows `[members, rows, ...]` of which each member has so many, the others nan; and their lengths.

    Raises:
        RecordShapeError: they are texts, which cannot be missing.
    """
    own = np.broadcast_to(np.array(rows.shape[1:], np.int64), (len(rows), rows.ndim - 1)).copy()
    own[:, 0] = counts
    lengths = own if rows.ndim > 2 else counts
    missing = np.arange(rows.shape[1]) >= counts[:, None]
    if not missing.any():
        return rows, lengths
    if rows.dtype.kind in "OU":
        raise RecordShapeError(
            f"'{name}' is text, and members have different numbers of rows of it",
            hint="record a number that stands for it, or run the members one by one",
        )
    wide = rows.astype(dtype_with_nan(rows.dtype))
    wide[missing] = np.nan
    return wide, lengths
