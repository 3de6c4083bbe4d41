"""Rows of outputs whose node has not run yet: nan, as pandas has it for missing values.

Whole numbers and truth values become floats where a row is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array, Data
from mdf_loop.onnx_types import dtype_name, kind_of
from mdf_loop.reading.program import HAS_RUN


def with_missing(made: Mapping[str, Data]) -> dict[str, Data]:
    """The outputs, with nan where the flags beside them say that nothing was computed."""
    outputs = {name: array for name, array in made.items() if not name.startswith(HAS_RUN)}
    for name in outputs:
        flags = made.get(HAS_RUN + name)
        if flags is not None and not np.all(flags):
            outputs[name] = _blanked(name, outputs[name], np.asarray(flags))
    return outputs


def _blanked(name: str, array: Data, flags: Array) -> Array:
    if not isinstance(array, np.ndarray):
        raise RunError(f"'{name}' is no array, and its node has not run")
    if array.dtype.kind in "OU":
        raise RunError(f"'{name}' is text, and its node has not run in every step")
    is_float = kind_of(dtype_name(array)) == "f"
    wide: Array = array.copy() if is_float else array.astype(np.float64)
    wide[~flags] = np.nan
    return wide
