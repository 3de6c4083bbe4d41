"""Fill values for steps in which a node has not run, and padding of shorter rows.

A row of a node that has not run is nan, like missing values in pandas. Integers and booleans become
float64 for this. Rows that are shorter than others are padded: with nan, or with 0 and False for integers
and booleans, whose dtype is unchanged. The lengths of the rows, which results contain, distinguish
padding from values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import RecordShapeError, RunError
from mdf_loop.ir import Array, Data
from mdf_loop.ir.types import dtype_name, kind_of


def fill_missing_rows(
    rows: Mapping[str, Data], has_run: Mapping[str, str], open_rows: Collection[str] = ()
) -> dict[str, Data]:
    """Fill with nan (or 0, False) the rows of steps in which an output's node did not run.

    Args:
        rows: Outputs by name, including the flags of their nodes.
        has_run: Name of the flags of each output's node, which are True in rows in which the node ran.
        open_rows: Outputs with lengths, which mark missing rows. These outputs keep their dtype, while
            other integers and booleans become float64 for nan.

    Raises:
        RunError: A missing row is text or not an array, or float64 cannot represent an integer exactly.
    """
    if not has_run:
        return dict(rows)
    outputs = {name: data for name, data in rows.items() if name not in has_run.values()}
    for name in outputs:
        flags = rows.get(has_run.get(name, ""))
        if flags is not None and not np.all(flags):
            outputs[name] = _fill_unrun_rows(
                name, outputs[name], np.asarray(flags), name in open_rows
            )
    return outputs


def _fill_unrun_rows(name: str, array: Data, flags: Array, keeps_dtype: bool) -> Array:
    if not isinstance(array, np.ndarray):
        raise RunError(f"'{name}' is no array, and its node has not run")
    if array.dtype.kind in "OU":
        raise RunError(f"'{name}' is text, and its node has not run in every step")
    filled_rows = array.copy() if keeps_dtype else cast_for_nan(name, array)
    filled_rows[~flags] = padding_element(filled_rows.dtype)
    return filled_rows


def cast_for_nan(name: str, array: Array) -> Array:
    """Copy an array, with integers and booleans as float64, so that the copy can have nan.

    Raises:
        RunError: float64 cannot represent one of the integers exactly.
    """
    if _has_nan(array.dtype):
        return array.copy()
    float_array: Array = array.astype(np.float64)
    if array.dtype.itemsize > 4 and not np.array_equal(float_array.astype(array.dtype), array):
        raise RunError(
            f"'{name}' has integers beyond 2**53, and float64 with nan for missing rows cannot hold them",
            hint="let its node run in every step, or compute the output in float64",
        )
    return float_array


def padding_element(dtype: np.dtype[Any]) -> Any:
    """Return the padding element of a dtype: nan, or 0 or False for dtypes without nan."""
    return np.nan if _has_nan(dtype) else dtype.type()


def _has_nan(dtype: np.dtype[Any]) -> bool:
    return kind_of(dtype_name(np.empty(0, dtype))) in "fc"


# --- rows of different lengths ------------------------------------------------------------------


def common_shape(name: str, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the smallest shape that can contain two shapes: the maximum along each axis.

    Raises:
        RecordShapeError: The shapes have different numbers of axes.
    """
    if len(one) != len(other):
        raise RecordShapeError(
            f"'{name}' has rows of {len(one)} axes and of {len(other)} axes",
            hint="a recorded value must have the same number of axes in all steps",
        )
    return tuple(map(max, one, other))


def pad_rows(name: str, rows: Array, shape: tuple[int, ...]) -> Array:
    """Pad an array at its ends to a larger shape.

    Raises:
        RecordShapeError: The rows are texts, for which there is no padding.
    """
    if rows.shape == shape:
        return rows
    if rows.dtype.kind in "OU":
        raise RecordShapeError(
            f"'{name}' is text, and has not the same shape in every step",
            hint="a recorded text must have one shape in all steps",
        )
    padded_rows = np.full(shape, padding_element(rows.dtype), rows.dtype)
    padded_rows[tuple(map(slice, rows.shape))] = rows
    return padded_rows


def pad_members(name: str, rows: Array, counts: Array) -> tuple[Array, Array]:
    """Fill the array `[members, rows, ...]` after each member's last row with nan (or 0, False).

    Return the array, and the lengths of the members' rows.

    Args:
        name: Name of the output.
        rows: Rows of all members, as many as the longest member has.
        counts: int64[members], the number of rows of each member.

    Raises:
        RecordShapeError: The rows are texts, for which there is no padding.
    """
    row_extents = np.broadcast_to(
        np.array(rows.shape[1:], np.int64), (len(rows), rows.ndim - 1)
    ).copy()
    row_extents[:, 0] = counts
    lengths = row_extents if rows.ndim > 2 else counts
    is_missing = np.arange(rows.shape[1]) >= counts[:, None]
    if not is_missing.any():
        return rows, lengths
    if rows.dtype.kind in "OU":
        raise RecordShapeError(
            f"'{name}' is text, and members have different numbers of rows of it",
            hint="record a number that stands for it, or run the members one by one",
        )
    padded_rows = rows.copy()
    padded_rows[is_missing] = padding_element(rows.dtype)
    return padded_rows, lengths
