"""Conversion to narrower dtypes that rounds, but never overflows to infinity."""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import InputError, LoopError
from mdf_loop.ir import Array
from mdf_loop.ir.types import kind_of, numpy_dtype


def cast_checked(
    array: Array, dtype: str, what: str, where: str = "", error: type[LoopError] = InputError
) -> Array:
    """Cast an array to a dtype, and raise an error if a finite number would overflow to infinity.

    Args:
        array: The array.
        dtype: The target dtype.
        what: Name of the array in the error.
        where: Place of the array in the model.
        error: Class of the error.

    Raises:
        error: A finite number would become infinite.
    """
    with np.errstate(all="ignore"):
        narrow_array: Array = array.astype(numpy_dtype(dtype), copy=False)
    if kind_of(dtype) != "f" or array.dtype == narrow_array.dtype or array.dtype.kind not in "iuf":
        return narrow_array
    overflow_mask = np.isinf(narrow_array) & np.isfinite(array)
    if overflow_mask.any():
        first_overflow = array[overflow_mask].flat[0]
        raise error(
            f"{what} is too large for {dtype}: {first_overflow:g} would be infinite",
            where,
            "give it in another unit, or compute in float64",
        )
    return narrow_array
